// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic | filecheck %s

// Of mixed float operands the narrower ones are cast to the dtype where all meet, f32 for f16 with bf16; a
// condition is not, operands of one dtype are left alone, and products take theirs as they are.
// CHECK: func.func @step(%x: tensor<4xf16>, %y: tensor<4xbf16>, %c: tensor<4xbf16>, %m: tensor<4x4xf32>, %n: tensor<4x4xf16>)
// CHECK: %[[X:.*]] = nn.elementwise(%x) {kind = "cast", settings = {to = "f32"}} : (tensor<4xf16>) -> tensor<4xf32>
// CHECK: %[[Y:.*]] = nn.elementwise(%y) {kind = "cast", settings = {to = "f32"}} : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK: nn.elementwise(%[[X]], %[[Y]]) {kind = "add"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf16>
// CHECK: nn.elementwise(%y, %c, %y) {kind = "where"
// CHECK: nn.matmul(%m, %n)
graph.variable x dynamic f16 [4]
graph.variable y dynamic bf16 [4]
graph.variable c dynamic bf16 [4]
graph.variable m dynamic f32 [4, 4]
graph.variable n dynamic f16 [4, 4]
graph.variable h volatile f16 [4]
graph.variable k volatile bf16 [4]
graph.variable p volatile f32 [4, 4]
graph.block entry {
  graph.op add(x, y) -> (h)
  graph.op where(y, c, y) -> (k)
  graph.op matmul(m, n) -> (p)
  graph.return
}
