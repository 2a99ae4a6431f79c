// RUN: openinfer-opt %s -p hoist-masks --split-input-file | filecheck %s

// The mask that both layers read comes first; what is made of an activation, or read once, stays.
// CHECK: graph.op cast(m) -> (n)
// CHECK-NEXT: graph.assign seen
// CHECK-NEXT: graph.op not(n) -> (seen)
// CHECK-NEXT: graph.op linear(x, w) -> (q)
// CHECK: graph.op cast(m) -> (once)
// CHECK: graph.op gt(a, 0.0) -> (late)
// CHECK: graph.op attention(b, b, b, late) -> (c)
graph.variable x dynamic f32 [L, 8]
graph.variable m dynamic i64 [1, L]
graph.variable w constant f32 [8, 8] {ref = "w"}
graph.block entry {
  graph.assign q f32 [L, 8]
  graph.assign n bool [1, L]
  graph.assign once bool [1, L]
  graph.assign seen bool [1, L]
  graph.assign a f32 [L]
  graph.assign y2 f32 [L, 8]
  graph.assign late bool [L]
  graph.assign b f32 [L, 8]
  graph.assign c f32 [L, 8]
  graph.assign d f32 [L, 8]
  graph.assign y f32 [L, 8]
  graph.op linear(x, w) -> (q)
  graph.op cast(m) -> (n) settings {to = #graph.name<bool>}
  graph.op not(n) -> (seen)
  graph.op attention(q, q, q, seen) -> (d)
  graph.op cast(m) -> (once) settings {to = #graph.name<bool>}
  graph.op attention(d, d, d, once) -> (b)
  graph.op attention(b, b, b, seen) -> (y)
  graph.op sum_axis(y) -> (a) settings {axes = [1]}
  graph.op gt(a, 0.0) -> (late)
  graph.op attention(b, b, b, late) -> (c)
  graph.op attention(c, b, b, late) -> (y2)
  graph.return (y2)
}
