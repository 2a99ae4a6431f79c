// RUN: openinfer-opt %s -p fold-constants --split-input-file | filecheck %s

// What is computed of numbers and small constants is a constant, also what reads that.
// CHECK: graph.variable [[C:c_[0-9]]] constant i64 [2] {ref = "[[C]]"}
// CHECK-NEXT: graph.block entry
// CHECK-NEXT: graph.assign y
// CHECK-NEXT: graph.op add(x, [[C]]) -> (y)
graph.variable x dynamic i64 [2]
graph.variable c constant i64 [2] {init = 3 : i64}
graph.block entry {
  graph.assign u i64 [2]
  graph.assign v i64 [2]
  graph.assign y i64 [2]
  graph.op iota() -> (u) settings {shape = [2]}
  graph.op mul(u, c) -> (v)
  graph.op add(x, v) -> (y)
  graph.return (y)
}
// -----
// Weights keep their names, a size is known to the step, 2 MiB are too much.
// CHECK: graph.op transpose(w) -> (t)
// CHECK: graph.op iota() -> (p)
// CHECK: graph.op iota() -> (q)
graph.variable w constant f32 [2, 2] {init = 1.0}
graph.variable x dynamic f32 [B, 2]
graph.block entry {
  graph.assign t f32 [2, 2]
  graph.assign p i64 [B]
  graph.assign q i64 [262144]
  graph.assign y f32 [B, 2]
  graph.op transpose(w) -> (t)
  graph.op iota() -> (p) settings {shape = [#graph.size<B>]}
  graph.op iota() -> (q) settings {shape = [262144]}
  graph.op matmul(x, t) -> (y)
  graph.return (y, p, q)
}
