// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic --split-input-file | filecheck %s

// Each window along the depth is an image with more channels: one convolution over two axes adds up all.
// CHECK: %[[D:.*]] = nn.unfold(%{{.*}}) {stride = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 0>, dilation = array<i64: 1, 1>} : {{.*}} -> tensor<2x4x3x1x3x56xf32>
// CHECK: %[[P:.*]] = nn.reshape(%[[D]]) : {{.*}} -> tensor<2x4x3x3x8x7xf32>
// CHECK: %[[T:.*]] = nn.transpose(%[[P]]) {permutation = array<i64: 0, 3, 1, 2, 4, 5>}
// CHECK: %[[I:.*]] = nn.reshape(%[[T]]) : {{.*}} -> tensor<6x12x8x7xf32>
// CHECK: %[[W:.*]] = nn.reshape(%w) : (tensor<6x4x3x3x3xf32>) -> tensor<6x12x3x3xf32>
// CHECK: nn.conv(%[[I]], %[[W]]) {{.*}} -> tensor<6x6x6x5xf32>
// CHECK: nn.transpose(%{{.*}}) {permutation = array<i64: 0, 2, 1, 3, 4>}
graph.variable x dynamic f32 [2, 4, 5, 8, 7]
graph.variable w dynamic f32 [6, 4, 3, 3, 3]
graph.variable y volatile f32 [2, 6, 3, 6, 5]
graph.block entry {
  graph.op conv3d(x, w) -> (y) settings {stride = [2 : i64, 1 : i64, 1 : i64], padding = [1 : i64, 0 : i64, 0 : i64]}
  graph.return
}
// -----
// A single image along the depth is not unfolded.
// CHECK-NOT: nn.unfold
// CHECK: nn.conv
graph.variable x dynamic f32 [2, 4, 5, 8, 7]
graph.variable w dynamic f32 [6, 4, 1, 3, 3]
graph.variable y volatile f32 [2, 6, 5, 6, 5]
graph.block entry {
  graph.op conv3d(x, w) -> (y)
  graph.return
}
// -----
// A mean over planes, kept in f32, then over the depth.
// CHECK: %[[P:.*]] = nn.pool(%{{.*}}) {{.*}}kernel = array<i64: 2, 2>{{.*}} : (tensor<2x20x8x6xf16>) -> tensor<2x20x4x3xf32>
// CHECK: nn.pool(%{{.*}}) {{.*}}kernel = array<i64: 3, 1>{{.*}} : (tensor<2x4x5x12xf32>) -> tensor<2x4x1x12xf16>
graph.variable x dynamic f16 [2, 4, 5, 8, 6]
graph.variable y volatile f16 [2, 4, 1, 4, 3]
graph.block entry {
  graph.op avg_pool3d(x) -> (y) settings {kernel_size = [3 : i64, 2 : i64, 2 : i64]}
  graph.return
}
// -----
// Adaptive windows of one length are plain ones.
// CHECK: nn.pool(%x) {kind = "max", kernel = array<i64: 2, 3>, {{.*}}} : (tensor<2x4x8x6xf32>) -> tensor<2x4x4x2xf32>
// CHECK-NOT: nn.gather
// CHECK: func.return
graph.variable x dynamic f32 [2, 4, 8, 6]
graph.variable y volatile f32 [2, 4, 4, 2]
graph.block entry {
  graph.op adaptive_max_pool2d(x) -> (y) settings {output_size = [4 : i64, 2 : i64]}
  graph.return
}
// -----
// Others are gathered, here 3 elements at most for each of 4 windows of 9.
// CHECK: %[[G:.*]] = nn.gather(%{{.*}}, %{{.*}}) {axis = 1 : i64, node = 0 : i64} : (tensor<8x9x1xf32>, tensor<4x3xi64>) -> tensor<8x4x3x1xf32>
// CHECK: nn.pool(%[[G]]) {kind = "max", kernel = array<i64: 3, 1>
graph.variable x dynamic f32 [2, 4, 9]
graph.variable y volatile f32 [2, 4, 4]
graph.block entry {
  graph.op adaptive_max_pool1d(x) -> (y) settings {output_size = 4 : i64}
  graph.return
}
