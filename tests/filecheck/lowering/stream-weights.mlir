// RUN: openinfer-opt %s -p 'stream-weights{cache=8000}' --split-input-file | filecheck %s

// Four layers of 16 x 16 numbers and another matrix are 5120 bytes: more than half of the cache. A
// matrix that two products read counts once.
// CHECK-LABEL: func.func @step
// CHECK: nn.matmul(%{{.*}}, %{{.*}}) {layout = #nn.panels<16>, streamed}
// CHECK: nn.matmul(%{{.*}}, %V) {layout = #nn.panels<16>, streamed}
// CHECK: nn.matmul(%{{.*}}, %V) {layout = #nn.panels<16>, streamed}
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<1x16xf32>, %W: tensor<4x1x16x16xf32>, %V: tensor<1x16x16xf32>) -> tensor<1x16xf32> {
    %c0 = arith.constant 0 : index
    %w = nn.member %W[%c0] : tensor<4x1x16x16xf32> -> tensor<1x16x16xf32>
    %h = nn.matmul(%x, %w) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16xf32>
    %k = nn.matmul(%h, %V) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16xf32>
    %y = nn.matmul(%k, %V) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16xf32>
    func.return %y : tensor<1x16xf32>
  }
}
// -----
// Not: weights that the cache holds, for the matrix counts once; a table of which no product reads all.
// CHECK-LABEL: func.func @step
// CHECK-NOT: streamed
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<1x16xf32>, %V: tensor<3x16x16xf32>, %T: tensor<100x16xf32>) -> tensor<1x48xf32> {
    %k = nn.matmul(%x, %V) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<3x16x16xf32>) -> tensor<1x48xf32>
    %y = nn.matmul(%x, %V) extras(%k) {maps = [affine_map<(d0, d1) -> (d0, d1)>], layout = #nn.panels<16>} {
    ^bb0(%in: f32, %in_1: f32):
      %0 = arith.addf %in, %in_1 : f32
      nn.yield %0 : f32
    } : (tensor<1x16xf32>, tensor<3x16x16xf32>, tensor<1x48xf32>) -> tensor<1x48xf32>
    func.return %y : tensor<1x48xf32>
  }
}
// -----
// Not: a right operand of the step beside streams; another function.
// CHECK-LABEL: func.func @step
// CHECK: nn.matmul(%x, %W) {layout = #nn.panels<16>, streamed}
// CHECK: nn.matmul(%{{.*}}, %z) :
// CHECK-LABEL: func.func @other
// CHECK-NOT: streamed
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<1x16xf32>, %z: tensor<128x4xf32>, %W: tensor<8x16x16xf16>) -> tensor<1x4xf32> {
    %h = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<8x16x16xf16>) -> tensor<1x128xf32>
    %y = nn.matmul(%h, %z) : (tensor<1x128xf32>, tensor<128x4xf32>) -> tensor<1x4xf32>
    func.return %y : tensor<1x4xf32>
  }
  func.func @other(%x: tensor<1x16xf32>, %W: tensor<8x16x16xf32>) -> tensor<1x128xf32> {
    %h = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<8x16x16xf32>) -> tensor<1x128xf32>
    func.return %h : tensor<1x128xf32>
  }
}
