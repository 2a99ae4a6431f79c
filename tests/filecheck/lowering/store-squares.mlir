// RUN: openinfer-opt %s -p store-squares --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.device = "vulkan"/openinfer.device = "cpu"/' %s | openinfer-opt - -p store-squares --split-input-file | filecheck %s --check-prefix SAME
// RUN: sed -e 's/openinfer.matrices/openinfer.matrices, openinfer.observed/' %s | openinfer-opt - -p store-squares --split-input-file | filecheck %s --check-prefix SAME

// SAME-NOT: tiled_

// A product that gives rows of its norm, too, and a longer one that alone reads what it gives: matrices of 16 x 16.
// CHECK-LABEL: func.func @step(%h: tensor<1x128x384xf16>
// CHECK: %f, %n = nn.row_matmul(%h, %up) extras(%b) {gives_rows, eps = 1.000000e-05 : f64, layout = #nn.tiles<16>, maps = [affine_map<(d0, d1, d2) -> (d2)>], tiled_result} {
// CHECK: (tensor<1x128x384xf16>, tensor<96x24x256xf16>, tensor<1536xf16>) -> (tensor<1x8x96x256xf16>, tensor<1x128x384xf16>)
// CHECK: %d = nn.row_matmul(%f, %down) extras(%n) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>], tiled_left} {
// CHECK: (tensor<1x8x96x256xf16>, tensor<24x96x256xf16>, tensor<1x128x384xf16>) -> tensor<1x128x384xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%h: tensor<1x128x384xf16>, %b: tensor<1536xf16>, %up: tensor<96x24x256xf16>, %down: tensor<24x96x256xf16>) -> tensor<1x128x384xf16> {
    %f, %n = nn.row_matmul(%h, %up) extras(%b) {gives_rows, eps = 1.0e-05 : f64, layout = #nn.tiles<16>, maps = [affine_map<(d0, d1, d2) -> (d2)>]} {
    ^bb0(%0: f32, %1: f16):
      nn.yield %1 : f16
    } : (tensor<1x128x384xf16>, tensor<96x24x256xf16>, tensor<1536xf16>) -> (tensor<1x128x1536xf16>, tensor<1x128x384xf16>)
    %d = nn.matmul(%f, %down) extras(%n) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>]} {
    ^bb0(%0: f32, %1: f16):
      nn.yield %1 : f16
    } : (tensor<1x128x1536xf16>, tensor<24x96x256xf16>, tensor<1x128x384xf16>) -> tensor<1x128x384xf16>
    func.return %d : tensor<1x128x384xf16>
  }
}
// -----
// Three products in a row.
// CHECK-LABEL: func.func @step(%h: tensor<32x640xf16>, %w: tensor<40x40x256xf16>)
// CHECK-NEXT: %0 = nn.row_matmul(%h, %w) {layout = #nn.tiles<16>, tiled_result}
// CHECK-NEXT: %1 = nn.row_matmul(%0, %w) {layout = #nn.tiles<16>, {{(tiled_left, tiled_result|tiled_result, tiled_left)}}} : (tensor<2x40x256xf16>, tensor<40x40x256xf16>) -> tensor<2x40x256xf16>
// CHECK-NEXT: %2 = nn.row_matmul(%1, %w) {layout = #nn.tiles<16>, tiled_left}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%h: tensor<32x640xf16>, %w: tensor<40x40x256xf16>) -> tensor<32x640xf16> {
    %0 = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<32x640xf16>, tensor<40x40x256xf16>) -> tensor<32x640xf16>
    %1 = nn.matmul(%0, %w) {layout = #nn.tiles<16>} : (tensor<32x640xf16>, tensor<40x40x256xf16>) -> tensor<32x640xf16>
    %2 = nn.matmul(%1, %w) {layout = #nn.tiles<16>} : (tensor<32x640xf16>, tensor<40x40x256xf16>) -> tensor<32x640xf16>
    func.return %2 : tensor<32x640xf16>
  }
}
// -----
// Rows that fit shared memory; rows of no whole squares; what somebody else reads, the product itself among them;
// one of several products; a weight that does not lie so: rows stay.
// CHECK-LABEL: func.func @step(%h: tensor<128x384xf16>, %o
// CHECK-NOT: tiled_
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%h: tensor<128x384xf16>, %o: tensor<100x384xf16>, %s: tensor<24x24x256xf16>, %w: tensor<40x24x256xf16>, %v: tensor<2x40x24x256xf16>, %d: tensor<24x40x256xf16>, %e: tensor<40x40x256xf16>, %p: tensor<384x640xf16>) -> (tensor<128x384xf16>, tensor<100x384xf16>, tensor<128x640xf16>, tensor<128x384xf16>, tensor<128x640xf16>, tensor<128x384xf16>, tensor<128x640xf16>, tensor<128x384xf16>) {
    %0 = nn.matmul(%h, %s) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %1 = nn.matmul(%0, %s) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %2 = nn.matmul(%o, %w) {layout = #nn.tiles<16>} : (tensor<100x384xf16>, tensor<40x24x256xf16>) -> tensor<100x640xf16>
    %3 = nn.matmul(%2, %d) {layout = #nn.tiles<16>} : (tensor<100x640xf16>, tensor<24x40x256xf16>) -> tensor<100x384xf16>
    %4 = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<40x24x256xf16>) -> tensor<128x640xf16>
    %5 = nn.matmul(%4, %d) {layout = #nn.tiles<16>} : (tensor<128x640xf16>, tensor<24x40x256xf16>) -> tensor<128x384xf16>
    %6 = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<40x24x256xf16>) -> tensor<128x640xf16>
    %7 = nn.matmul(%6, %e) extras(%6) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1) -> (d0, d1)>]} {
    ^bb0(%a: f32, %b: f16):
      nn.yield %b : f16
    } : (tensor<128x640xf16>, tensor<40x40x256xf16>, tensor<128x640xf16>) -> tensor<128x640xf16>
    %8, %9 = nn.row_matmul(%h, %v) {layout = #nn.tiles<16>, parts = 2 : i64} : (tensor<128x384xf16>, tensor<2x40x24x256xf16>) -> (tensor<128x640xf16>, tensor<128x640xf16>)
    %10 = nn.matmul(%8, %d) {layout = #nn.tiles<16>} : (tensor<128x640xf16>, tensor<24x40x256xf16>) -> tensor<128x384xf16>
    %11 = nn.matmul(%h, %p) : (tensor<128x384xf16>, tensor<384x640xf16>) -> tensor<128x640xf16>
    %12 = nn.matmul(%11, %d) {layout = #nn.tiles<16>} : (tensor<128x640xf16>, tensor<24x40x256xf16>) -> tensor<128x384xf16>
    func.return %1, %3, %4, %5, %7, %10, %9, %12 : tensor<128x384xf16>, tensor<100x384xf16>, tensor<128x640xf16>, tensor<128x384xf16>, tensor<128x640xf16>, tensor<128x384xf16>, tensor<128x640xf16>, tensor<128x384xf16>
  }
}
