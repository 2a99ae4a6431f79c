// RUN: openinfer-opt %s -p choose-layouts --split-input-file | filecheck %s
// RUN: sed -e 's/, openinfer.matrices//' %s | openinfer-opt - -p choose-layouts --split-input-file | filecheck %s --check-prefix LESS

// LESS-NOT: #nn.tiles

// A weight as the package has it turned, and a member that stands as it is multiplied: matrices of 16 x 16.
// CHECK: {variable = "W", sources = ["W"], layout = #nn.tiles<16>, prepare = "prepare_0"},
// CHECK-NEXT: {variable = "D", sources = ["0.d", "1.d"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_1"}
// CHECK-LABEL: func.func @step(%h: tensor<128x384xf16>, %W_packed_t: tensor<16x24x256xf16>, %D_packed: tensor<2x8x16x256xf16>)
// CHECK-NEXT: nn.matmul(%h, %W_packed_t) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<16x24x256xf16>) -> tensor<128x256xf16>
// CHECK: nn.member %D_packed[%i] : tensor<2x8x16x256xf16> -> tensor<8x16x256xf16>
// CHECK-NEXT: nn.matmul(%a, %d) {layout = #nn.tiles<16>}
// CHECK: func.func @prepare_0(%source: tensor<256x384xf16>) -> tensor<16x24x256xf16>
// CHECK-NEXT: nn.pack(%source) {layout = #nn.tiles<16>, transposed = "transposed"}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  nn.interface {inputs = ["h"], weights = [{variable = "W", sources = ["W"]}, {variable = "D", sources = ["0.d", "1.d"], members = [2 : i64]}]}
  func.func @step(%h: tensor<128x384xf16>, %W: tensor<256x384xf16>, %D: tensor<2x256x128xf16>) -> tensor<128x128xf16> {
    %a = nn.matmul(%h, %W) {transpose_b} : (tensor<128x384xf16>, tensor<256x384xf16>) -> tensor<128x256xf16>
    %i = arith.constant 1 : index
    %d = nn.member %D[%i] : tensor<2x256x128xf16> -> tensor<256x128xf16>
    %b = nn.matmul(%a, %d) : (tensor<128x256xf16>, tensor<256x128xf16>) -> tensor<128x128xf16>
    func.return %b : tensor<128x128xf16>
  }
}
// -----
// So many rows that larger tiles read less, few rows, rows that only the step counts, a short sum, f32.
// CHECK-LABEL: func.func @step(%m:
// CHECK-NOT: #nn.tiles
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  nn.interface {inputs = ["m", "f", "t", "k", "s"], weights = [{variable = "W", sources = ["W"]}, {variable = "K", sources = ["K"]}, {variable = "S", sources = ["S"]}]}
  func.func @step(%m: tensor<8192x384xf16>, %f: tensor<8x384xf16>, %t: tensor<?x384xf16, #nn.dims<T, 384>>, %k: tensor<128x96xf16>, %s: tensor<128x384xf32>, %W: tensor<256x384xf16>, %K: tensor<256x96xf16>, %S: tensor<256x384xf32>) -> (tensor<8192x256xf16>, tensor<8x256xf16>, tensor<?x256xf16, #nn.dims<T, 256>>, tensor<128x256xf16>, tensor<128x256xf32>) {
    %0 = nn.matmul(%m, %W) {transpose_b} : (tensor<8192x384xf16>, tensor<256x384xf16>) -> tensor<8192x256xf16>
    %1 = nn.matmul(%f, %W) {transpose_b} : (tensor<8x384xf16>, tensor<256x384xf16>) -> tensor<8x256xf16>
    %2 = nn.matmul(%t, %W) {transpose_b} : (tensor<?x384xf16, #nn.dims<T, 384>>, tensor<256x384xf16>) -> tensor<?x256xf16, #nn.dims<T, 256>>
    %3 = nn.matmul(%k, %K) {transpose_b} : (tensor<128x96xf16>, tensor<256x96xf16>) -> tensor<128x256xf16>
    %4 = nn.matmul(%s, %S) {transpose_b} : (tensor<128x384xf32>, tensor<256x384xf32>) -> tensor<128x256xf32>
    func.return %0, %1, %2, %3, %4 : tensor<8192x256xf16>, tensor<8x256xf16>, tensor<?x256xf16, #nn.dims<T, 256>>, tensor<128x256xf16>, tensor<128x256xf32>
  }
}
// -----
// Strict mathematics have an order for each sum.
// CHECK-LABEL: func.func @step(%h: tensor<128x384xf16>, %W: tensor<256x384xf16>)
// CHECK-NOT: #nn.tiles
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices, openinfer.strict_math} {
  nn.interface {inputs = ["h"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%h: tensor<128x384xf16>, %W: tensor<256x384xf16>) -> tensor<128x256xf16> {
    %a = nn.matmul(%h, %W) {transpose_b} : (tensor<128x384xf16>, tensor<256x384xf16>) -> tensor<128x256xf16>
    func.return %a : tensor<128x256xf16>
  }
}
