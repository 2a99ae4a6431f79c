// RUN: openinfer-opt %s -p fuse-norms --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.device = "vulkan"/openinfer.device = "cpu"/' %s | openinfer-opt - -p fuse-norms --split-input-file | filecheck %s --check-prefix CPU

// CPU-NOT: : f64, layout

// The rows of a layer norm are multiplied, and added to what comes of them: the product gives them, too.
// CHECK-LABEL: func.func @step(%h: tensor<128x384xf16>
// CHECK-NOT: nn.layer_norm
// CHECK: %f, %n = nn.row_matmul(%h, %up, %w, %c) extras(%b) {centred, gives_rows, has_bias, has_weight, eps = 1.000000e-12 : f64, layout = #nn.tiles<16>, maps = [affine_map<(d0, d1) -> (d1)>]} {
// CHECK-NEXT: ^bb0(%[[S:.*]]: f32, %[[B:.*]]: f16):
// CHECK: (tensor<128x384xf16>, tensor<32x24x256xf16>, tensor<384xf16>, tensor<384xf16>, tensor<512xf16>) -> (tensor<128x512xf16>, tensor<128x384xf16>)
// CHECK: nn.matmul(%f, %down) extras(%n) {layout = #nn.tiles<16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%h: tensor<128x384xf16>, %w: tensor<384xf16>, %c: tensor<384xf16>, %b: tensor<512xf16>, %up: tensor<32x24x256xf16>, %down: tensor<24x32x256xf16>) -> tensor<128x384xf16> {
    %n = nn.layer_norm(%h, %w, %c) {eps = 1.0e-12 : f64, has_weight, has_bias} : (tensor<128x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<128x384xf16>
    %f = nn.matmul(%n, %up) extras(%b) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1) -> (d1)>]} {
    ^bb0(%0: f32, %1: f16):
      %2 = arith.extf %1 : f16 to f32
      %3 = arith.addf %0, %2 : f32
      %4 = arith.truncf %3 : f32 to f16
      nn.yield %4 : f16
    } : (tensor<128x384xf16>, tensor<32x24x256xf16>, tensor<512xf16>) -> tensor<128x512xf16>
    %d = nn.matmul(%f, %down) extras(%n) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1) -> (d0, d1)>]} {
    ^bb0(%0: f32, %1: f16):
      %2 = arith.extf %1 : f16 to f32
      %3 = arith.addf %0, %2 : f32
      %4 = arith.truncf %3 : f32 to f16
      nn.yield %4 : f16
    } : (tensor<128x512xf16>, tensor<24x32x256xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    func.return %d : tensor<128x384xf16>
  }
}
// -----
// Several products of one norm: each computes it, the first gives it to the result; so do products of two
// weights, which give the rows last.
// CHECK-LABEL: func.func @step(%h: tensor<2x64x384xf16>
// CHECK-NOT: nn.rms_norm
// CHECK: %q, %n = nn.row_matmul(%h, %a, %w) {gives_rows, has_weight, eps = 1.000000e-05 : f64, layout = #nn.tiles<16>}
// CHECK-NEXT: %k = nn.row_matmul(%h, %b, %w) {has_weight, eps = 1.000000e-05 : f64, layout = #nn.tiles<16>}
// CHECK-NEXT: %r, %s = nn.row_matmul(%h, %d, %w) {has_weight, eps = 1.000000e-05 : f64, layout = #nn.tiles<16>, parts = 2 : i64}
// CHECK-NEXT: %u, %v, %m = nn.row_matmul(%h, %d) {centred, gives_rows, eps = 1.000000e-05 : f64, layout = #nn.tiles<16>, parts = 2 : i64}
// CHECK-NEXT: func.return %q, %k, %n, %r, %s, %u, %v, %m
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%h: tensor<2x64x384xf16>, %w: tensor<384xf16>, %a: tensor<24x24x256xf16>, %b: tensor<8x24x256xf16>, %d: tensor<2x8x24x256xf16>) -> (tensor<2x64x384xf16>, tensor<2x64x128xf16>, tensor<2x64x384xf16>, tensor<2x64x128xf16>, tensor<2x64x128xf16>, tensor<2x64x128xf16>, tensor<2x64x128xf16>, tensor<2x64x384xf16>) {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<2x64x384xf16>, tensor<384xf16>) -> tensor<2x64x384xf16>
    %q = nn.matmul(%n, %a) {layout = #nn.tiles<16>} : (tensor<2x64x384xf16>, tensor<24x24x256xf16>) -> tensor<2x64x384xf16>
    %k = nn.matmul(%n, %b) {layout = #nn.tiles<16>} : (tensor<2x64x384xf16>, tensor<8x24x256xf16>) -> tensor<2x64x128xf16>
    %r, %s = nn.row_matmul(%n, %d) {layout = #nn.tiles<16>, parts = 2 : i64} : (tensor<2x64x384xf16>, tensor<2x8x24x256xf16>) -> (tensor<2x64x128xf16>, tensor<2x64x128xf16>)
    %m = nn.layer_norm(%h) {eps = 1.0e-05 : f64} : (tensor<2x64x384xf16>) -> tensor<2x64x384xf16>
    %u, %v = nn.row_matmul(%m, %d) {layout = #nn.tiles<16>, parts = 2 : i64} : (tensor<2x64x384xf16>, tensor<2x8x24x256xf16>) -> (tensor<2x64x128xf16>, tensor<2x64x128xf16>)
    func.return %q, %k, %n, %r, %s, %u, %v, %m : tensor<2x64x384xf16>, tensor<2x64x128xf16>, tensor<2x64x384xf16>, tensor<2x64x128xf16>, tensor<2x64x128xf16>, tensor<2x64x128xf16>, tensor<2x64x128xf16>, tensor<2x64x384xf16>
  }
}
// -----
// Somebody reads the norm in front of the product; the product adds it to itself; a barrier stands between; sums
// are so long that workgroups do not hold whole rows; the weight does not lie as tiles: norms stay.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.row_matmul
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%h: tensor<128x384xf16>, %l: tensor<128x1536xf16>, %a: tensor<24x24x256xf16>, %b: tensor<24x96x256xf16>, %c: tensor<384x384xf16>) -> (tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>) {
    %0 = nn.layer_norm(%h) {eps = 1.0e-05 : f64} : (tensor<128x384xf16>) -> tensor<128x384xf16>
    %1 = nn.softmax(%0) {axis = 1 : i64} : (tensor<128x384xf16>) -> tensor<128x384xf16>
    %2 = nn.matmul(%0, %a) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %3 = nn.layer_norm(%h) {eps = 1.0e-05 : f64} : (tensor<128x384xf16>) -> tensor<128x384xf16>
    %4 = nn.matmul(%3, %a) extras(%3) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1) -> (d0, d1)>]} {
    ^bb0(%5: f32, %6: f16):
      nn.yield %6 : f16
    } : (tensor<128x384xf16>, tensor<24x24x256xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    %7 = nn.layer_norm(%h) {eps = 1.0e-05 : f64} : (tensor<128x384xf16>) -> tensor<128x384xf16>
    nn.barrier
    %8 = nn.matmul(%7, %a) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %9 = nn.layer_norm(%l) {eps = 1.0e-05 : f64} : (tensor<128x1536xf16>) -> tensor<128x1536xf16>
    %10 = nn.matmul(%9, %b) {layout = #nn.tiles<16>} : (tensor<128x1536xf16>, tensor<24x96x256xf16>) -> tensor<128x384xf16>
    %11 = nn.layer_norm(%h) {eps = 1.0e-05 : f64} : (tensor<128x384xf16>) -> tensor<128x384xf16>
    %12 = nn.matmul(%11, %c) : (tensor<128x384xf16>, tensor<384x384xf16>) -> tensor<128x384xf16>
    func.return %1, %2, %4, %8, %10, %12 : tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>
  }
}
