// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic --split-input-file | filecheck %s

// A linear layer is the product that `matmul(transpose_b=true)` and `add` are, written below for comparison.
// CHECK-LABEL: func.func @step
// CHECK: %[[P:.*]] = nn.matmul(%x, %w) {transpose_b} : (tensor<?x7x8xf32, #nn.dims<B, 7, 8>>, tensor<6x8xf32>) -> tensor<?x7x6xf32, #nn.dims<B, 7, 6>>
// CHECK-NEXT: %y = nn.elementwise(%[[P]], %b) {kind = "add"} : (tensor<?x7x6xf32, #nn.dims<B, 7, 6>>, tensor<6xf32>) -> tensor<?x7x6xf32, #nn.dims<B, 7, 6>>
// CHECK-NEXT: func.return
graph.variable x dynamic f32 [B, 7, 8]
graph.variable w dynamic f32 [6, 8]
graph.variable b dynamic f32 [6]
graph.variable y volatile f32 [B, 7, 6]
graph.block entry {
  graph.op linear(x, w, b) -> (y)
  graph.return
}
// -----
// CHECK-LABEL: func.func @step
// CHECK: %[[P:.*]] = nn.matmul(%x, %w) {transpose_b} : (tensor<?x7x8xf32, #nn.dims<B, 7, 8>>, tensor<6x8xf32>) -> tensor<?x7x6xf32, #nn.dims<B, 7, 6>>
// CHECK-NEXT: %y = nn.elementwise(%[[P]], %b) {kind = "add"} : (tensor<?x7x6xf32, #nn.dims<B, 7, 6>>, tensor<6xf32>) -> tensor<?x7x6xf32, #nn.dims<B, 7, 6>>
// CHECK-NEXT: func.return
graph.variable x dynamic f32 [B, 7, 8]
graph.variable w dynamic f32 [6, 8]
graph.variable b dynamic f32 [6]
graph.variable y volatile f32 [B, 7, 6]
graph.block entry {
  graph.assign t f32 [B, 7, 6]
  graph.op matmul(x, w) -> (t) settings {transpose_b = true}
  graph.op add(t, b) -> (y)
  graph.return
}
// -----
// Without a bias it is the product alone.
// CHECK-LABEL: func.func @step
// CHECK: %y = nn.matmul(%x, %w) {transpose_b} : (tensor<4x8xf16>, tensor<6x8xf16>) -> tensor<4x6xf16>
// CHECK-NEXT: func.return
graph.variable x dynamic f16 [4, 8]
graph.variable w dynamic f16 [6, 8]
graph.variable y volatile f16 [4, 6]
graph.block entry {
  graph.op linear(x, w) -> (y)
  graph.return
}
// -----
// Narrow floats are rounded once, behind the bias.
// CHECK-LABEL: func.func @step
// CHECK: %[[P:.*]] = nn.matmul(%x, %w) {transpose_b} : (tensor<4x8xf16>, tensor<6x8xf16>) -> tensor<4x6xf32>
// CHECK: %[[B:.*]] = nn.elementwise(%b) {kind = "cast", settings = {to = "f32"}}
// CHECK: %[[S:.*]] = nn.elementwise(%[[P]], %[[B]]) {kind = "add"} : {{.*}} -> tensor<4x6xf32>
// CHECK: %y = nn.elementwise(%[[S]]) {kind = "cast", settings = {to = "f16"}}
graph.variable x dynamic f16 [4, 8]
graph.variable w dynamic f16 [6, 8]
graph.variable b dynamic f16 [6]
graph.variable y volatile f16 [4, 6]
graph.block entry {
  graph.op linear(x, w, b) -> (y)
  graph.return
}
// -----
// A vector is a matrix of one row.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = nn.reshape(%x) : (tensor<8xi8>) -> tensor<1x8xi8>
// CHECK: %[[P:.*]] = nn.matmul(%[[X]], %w) {transpose_b} : (tensor<1x8xi8>, tensor<6x8xi8>) -> tensor<1x6xi32>
// CHECK: %[[S:.*]] = nn.elementwise(%[[P]], %b) {kind = "add"} : (tensor<1x6xi32>, tensor<6xi32>) -> tensor<1x6xi32>
// CHECK: %y = nn.reshape(%[[S]]) : (tensor<1x6xi32>) -> tensor<6xi32>
graph.variable x dynamic i8 [8]
graph.variable w dynamic i8 [6, 8]
graph.variable b dynamic i32 [6]
graph.variable y volatile i32 [6]
graph.block entry {
  graph.op linear(x, w, b) -> (y) settings {acc = "i32"}
  graph.return
}
