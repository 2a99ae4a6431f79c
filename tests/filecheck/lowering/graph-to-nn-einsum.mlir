// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic --split-input-file | filecheck %s

// A weight `[out, in]` is multiplied as it lies: no axis moves.
// CHECK-NOT: nn.transpose
// CHECK: %[[A:.*]] = nn.reshape(%x) : {{.*}} -> tensor<?x4xf32, #nn.dims<"2*L", 4>>
// CHECK: %[[P:.*]] = nn.matmul(%[[A]], %w) {transpose_b}
// CHECK: nn.reshape(%[[P]]) : {{.*}} -> tensor<2x?x5xf32, #nn.dims<2, L, 5>>
graph.variable x dynamic f32 [2, L, 4]
graph.variable w dynamic f32 [5, 4]
graph.variable y volatile f32 [2, L, 5]
graph.block entry {
  graph.op einsum(x, w) -> (y) settings {equation = "bld,hd->blh"}
  graph.return
}
// -----
// What only one operand has, and nobody needs, is summed before; the rest of the axes are a batch and a sum.
// CHECK: %[[S:.*]] = nn.reduce(%x) {kind = "sum", axes = array<i64: 3>} : (tensor<2x3x4x6xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[T:.*]] = nn.transpose(%{{.*}}) {permutation = array<i64: 1, 2, 0>}
// CHECK: nn.matmul(%[[S]], %[[T]]) : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
graph.variable x dynamic f32 [2, 3, 4, 6]
graph.variable w dynamic f32 [5, 2, 4]
graph.variable y volatile f32 [2, 3, 5]
graph.block entry {
  graph.op einsum(x, w) -> (y) settings {equation = "bikz,jbk->bij"}
  graph.return
}
// -----
// Without a sum there is no product of matrices.
// CHECK-NOT: nn.matmul
// CHECK: nn.elementwise({{.*}}) {kind = "mul"} : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
// CHECK: func.return
graph.variable x dynamic f32 [3]
graph.variable w dynamic f32 [4]
graph.variable y volatile f32 [3, 4]
graph.block entry {
  graph.op einsum(x, w) -> (y) settings {equation = "i,j->ij"}
  graph.return
}
