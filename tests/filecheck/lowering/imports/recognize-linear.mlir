// RUN: openinfer-opt %s -p recognize-linear --split-input-file | filecheck %s

// CHECK: graph.op linear(x, w, b) -> (y)
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, L, 4]
graph.variable w constant f32 [8, 4] {ref = "w"}
graph.variable b constant f32 [8] {ref = "b"}
graph.block entry {
  graph.assign t f32 [4, 8]
  graph.assign u f32 [B, L, 8]
  graph.assign y f32 [B, L, 8]
  graph.op transpose(w) -> (t) settings {perm = [1, 0]}
  graph.op matmul(x, t) -> (u)
  graph.op add(b, u) -> (y)
  graph.return (y)
}
// -----
// A weight that lies the other way, a product that others read, an activation on the right.
// CHECK: graph.op matmul(x, w) -> (u)
// CHECK: graph.op linear(x, v) -> (p)
// CHECK-NEXT: graph.op add(p, b) -> (q)
// CHECK: graph.op matmul(x, z) -> (r) settings {transpose_b = true}
graph.variable x dynamic f32 [B, 4]
graph.variable z dynamic f32 [B, 4]
graph.variable w constant f32 [4, 8] {ref = "w"}
graph.variable v constant f32 [8, 4] {ref = "v"}
graph.variable b constant f32 [8] {ref = "b"}
graph.block entry {
  graph.assign u f32 [B, 8]
  graph.assign y f32 [B, 8]
  graph.assign p f32 [B, 8]
  graph.assign q f32 [B, 8]
  graph.assign r f32 [B, B]
  graph.op matmul(x, w) -> (u)
  graph.op add(u, b) -> (y)
  graph.op matmul(x, v) -> (p) settings {transpose_b = true}
  graph.op add(p, b) -> (q)
  graph.op matmul(x, z) -> (r) settings {transpose_b = true}
  graph.return (y, p, q, r)
}
