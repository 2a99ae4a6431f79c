// RUN: openinfer-opt %s -p lower-precision --split-input-file | filecheck %s

// One value, two products with weights in blocks: it is rounded once. A product of floats stays.
// CHECK: precision = "q8",
// CHECK-NEXT: rounded_products = 2 : i64
// CHECK: [[B:%\S+]] = nn.quantize_rows(%x) : (tensor<2x64xf32>) -> tensor<2x96xi8>
// CHECK-NEXT: nn.matmul([[B]], %V) {transpose_b, precision = "q8"} : (tensor<2x96xi8>, tensor<8x64x!nn.block<q8_0>>) -> tensor<2x8xf32>
// CHECK-NEXT: nn.matmul([[B]], %W) {transpose_b, precision = "q8"}
// CHECK-NEXT: nn.matmul(%x, %U) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.precision = "q8"} {
  nn.interface {inputs = ["x"], weights = [{variable = "V", sources = ["v"], block = "q8_0"}, {variable = "W", sources = ["w"], block = "q4_0"}, {variable = "U", sources = ["u"]}]}
  func.func @step(%x: tensor<2x64xf32>, %V: tensor<8x64x!nn.block<q8_0>>, %W: tensor<8x64x!nn.block<q4_0>>, %U: tensor<8x64xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
    %a = nn.matmul(%x, %V) {transpose_b} : (tensor<2x64xf32>, tensor<8x64x!nn.block<q8_0>>) -> tensor<2x8xf32>
    %b = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64x!nn.block<q4_0>>) -> tensor<2x8xf32>
    %c = nn.matmul(%x, %U) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %a, %b, %c : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
  }
}

// -----

// Rows that meet the matrices of experts; those of f32 take rows as they are.
// CHECK: rounded_products = 1 : i64
// CHECK: [[B:%\S+]] = nn.quantize_rows(%x) : (tensor<2x1x64xf32>) -> tensor<2x1x96xi8>
// CHECK-NEXT: nn.expert_matmul([[B]], %W, %c) {precision = "q8"} : (tensor<2x1x96xi8>, tensor<3x8x64x!nn.block<q8_0>>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
// CHECK-NEXT: nn.expert_matmul(%x, %U, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf32>
builtin.module attributes {openinfer.target = "avx2", openinfer.precision = "q8"} {
  nn.interface {inputs = ["x", "c"], weights = [{variable = "W", sources = ["w"], block = "q8_0"}, {variable = "U", sources = ["u"]}]}
  func.func @step(%x: tensor<2x1x64xf32>, %c: tensor<2x2xi32>, %W: tensor<3x8x64x!nn.block<q8_0>>, %U: tensor<3x8x64xf32>) -> (tensor<2x2x8xf32>, tensor<2x2x8xf32>) {
    %y = nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x8x64x!nn.block<q8_0>>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
    %z = nn.expert_matmul(%x, %U, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf32>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
    func.return %y, %z : tensor<2x2x8xf32>, tensor<2x2x8xf32>
  }
}
// -----
// A device that multiplies matrices of f16: rows beside weights of f16 are rounded to that, within its numbers, once. Few
// rows, and weights of f32, are computed as they are.
// CHECK: rounded_products = 2 : i64
// CHECK: [[L:%\S+]] = nn.elementwise(%x) {kind = "clamp", settings = {min = -6.550400e+04 : f64, max = 6.550400e+04 : f64}} : (tensor<?x64xf32, #nn.dims<N, 64>>)
// CHECK-NEXT: [[H:%\S+]] = nn.elementwise([[L]]) {kind = "cast"} : {{.*}} -> tensor<?x64xf16, #nn.dims<N, 64>>
// CHECK-NEXT: nn.matmul([[H]], %V) {transpose_b} : (tensor<?x64xf16, #nn.dims<N, 64>>, tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>>
// CHECK-NEXT: nn.matmul([[H]], %V)
// CHECK-NEXT: nn.matmul(%x, %W) {transpose_b} : (tensor<?x64xf32
// CHECK-NEXT: nn.matmul(%y, %V) {transpose_b} : (tensor<4x64xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.matrices, openinfer.precision = "q8"} {
  nn.interface {inputs = ["x", "y"], weights = [{variable = "V", sources = ["v"], dtype = "f16"}, {variable = "W", sources = ["w"]}]}
  func.func @step(%x: tensor<?x64xf32, #nn.dims<N, 64>>, %y: tensor<4x64xf32>, %V: tensor<32x64xf16>, %W: tensor<32x64xf32>) -> tensor<4x32xf32> {
    %a = nn.matmul(%x, %V) {transpose_b} : (tensor<?x64xf32, #nn.dims<N, 64>>, tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>>
    %b = nn.matmul(%x, %V) {transpose_b} : (tensor<?x64xf32, #nn.dims<N, 64>>, tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>>
    %c = nn.matmul(%x, %W) {transpose_b} : (tensor<?x64xf32, #nn.dims<N, 64>>, tensor<32x64xf32>) -> tensor<?x32xf32, #nn.dims<N, 32>>
    %d = nn.matmul(%y, %V) {transpose_b} : (tensor<4x64xf32>, tensor<32x64xf16>) -> tensor<4x32xf32>
    func.return %d : tensor<4x32xf32>
  }
}
// -----
// One without such matrices gains nothing by it.
// CHECK: rounded_products = 0 : i64
// CHECK: nn.matmul(%x, %V)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 8 : i64, openinfer.precision = "q8"} {
  nn.interface {inputs = ["x"], weights = [{variable = "V", sources = ["v"], dtype = "f16"}]}
  func.func @step(%x: tensor<?x64xf32, #nn.dims<N, 64>>, %V: tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>> {
    %a = nn.matmul(%x, %V) {transpose_b} : (tensor<?x64xf32, #nn.dims<N, 64>>, tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>>
    func.return %a : tensor<?x32xf32, #nn.dims<N, 32>>
  }
}
// -----
// Queries beside keys and values of f16 are rounded, too; what attention gives is f16, and read as f32. One query stays.
// CHECK: rounded_products = 1 : i64
// CHECK: [[L:%\S+]] = nn.elementwise(%q) {kind = "clamp"
// CHECK-NEXT: [[H:%\S+]] = nn.elementwise([[L]]) {kind = "cast"}
// CHECK: [[A:%\S+]] = nn.attention([[H]], %k, %k) {{.*}} -> tensor<1x?x4x32xf16, #nn.dims<1, N, 4, 32>>
// CHECK-NEXT: [[W:%\S+]] = nn.elementwise([[A]]) {kind = "cast"} : {{.*}} -> tensor<1x?x4x32xf32, #nn.dims<1, N, 4, 32>>
// CHECK-NEXT: nn.attention(%o, %k, %k) {{.*}} -> tensor<1x1x4x32xf32>
// CHECK-NEXT: func.return [[W]]
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.matrices, openinfer.precision = "q8"} {
  nn.interface {inputs = ["q", "o", "k"], weights = []}
  func.func @step(%q: tensor<1x?x4x32xf32, #nn.dims<1, N, 4, 32>>, %o: tensor<1x1x4x32xf32>, %k: tensor<1x?x4x32xf16, #nn.dims<1, M, 4, 32>>) -> tensor<1x?x4x32xf32, #nn.dims<1, N, 4, 32>> {
    %a = nn.attention(%q, %k, %k) {scale = 0.125 : f64, causal, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (tensor<1x?x4x32xf32, #nn.dims<1, N, 4, 32>>, tensor<1x?x4x32xf16, #nn.dims<1, M, 4, 32>>, tensor<1x?x4x32xf16, #nn.dims<1, M, 4, 32>>) -> tensor<1x?x4x32xf32, #nn.dims<1, N, 4, 32>>
    %b = nn.attention(%o, %k, %k) {scale = 0.125 : f64, causal, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (tensor<1x1x4x32xf32>, tensor<1x?x4x32xf16, #nn.dims<1, M, 4, 32>>, tensor<1x?x4x32xf16, #nn.dims<1, M, 4, 32>>) -> tensor<1x1x4x32xf32>
    func.return %a : tensor<1x?x4x32xf32, #nn.dims<1, N, 4, 32>>
  }
}
