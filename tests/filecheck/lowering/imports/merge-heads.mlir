// RUN: openinfer-opt %s -p merge-heads --split-input-file | filecheck %s

// Heads are a setting, of the rotation of q too; k and v have fewer.
// CHECK: graph.op rope(x) -> ([[R:[a-z0-9_]+]]) settings {heads = 4 : i64}
// CHECK: graph.op attention([[R]], k, v) -> ([[A:[a-z0-9_]+]]) settings {causal = true, heads = 4 : i64, kv_heads = 2 : i64}
// CHECK-NEXT: graph.op neg([[A]]) -> (y)
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, L, 64]
graph.variable k dynamic f32 [B, L, 32]
graph.variable v dynamic f32 [B, L, 32]
graph.block entry {
  graph.assign q2 f32 [B, L, 4, 16]
  graph.assign k2 f32 [B, L, 2, 16]
  graph.assign v2 f32 [B, L, 2, 16]
  graph.assign q3 f32 [B, 4, L, 16]
  graph.assign q4 f32 [B, 4, L, 16]
  graph.assign k3 f32 [B, 2, L, 16]
  graph.assign v3 f32 [B, 2, L, 16]
  graph.assign a f32 [B, 4, L, 16]
  graph.assign t f32 [B, L, 4, 16]
  graph.assign u f32 [B, L, 64]
  graph.assign y f32 [B, L, 64]
  graph.op reshape(x) -> (q2) settings {shape = [#graph.size<B>, #graph.size<L>, 4, 16]}
  graph.op reshape(k) -> (k2) settings {shape = [#graph.size<B>, #graph.size<L>, 2, 16]}
  graph.op reshape(v) -> (v2) settings {shape = [#graph.size<B>, #graph.size<L>, 2, 16]}
  graph.op transpose(q2) -> (q3) settings {perm = [0, 2, 1, 3]}
  graph.op rope(q3) -> (q4)
  graph.op transpose(k2) -> (k3) settings {perm = [0, 2, 1, 3]}
  graph.op transpose(v2) -> (v3) settings {perm = [0, 2, 1, 3]}
  graph.op attention(q4, k3, v3) -> (a) settings {causal = true}
  graph.op transpose(a) -> (t) settings {perm = [0, 2, 1, 3]}
  graph.op reshape(t) -> (u) settings {shape = [#graph.size<B>, #graph.size<L>, 64]}
  graph.op neg(u) -> (y)
  graph.return (y)
}
// -----
// Almost: the result goes on head by head, and v comes so.
// CHECK: graph.op attention(q3, q3, v) -> (a)
// CHECK: graph.op attention(q3, q3, q3) -> (b)
graph.variable x dynamic f32 [B, L, 64]
graph.variable v dynamic f32 [B, 4, L, 16]
graph.block entry {
  graph.assign q2 f32 [B, L, 4, 16]
  graph.assign q3 f32 [B, 4, L, 16]
  graph.assign a f32 [B, 4, L, 16]
  graph.assign b f32 [B, 4, L, 16]
  graph.assign t f32 [B, L, 4, 16]
  graph.assign c f32 [B, 4, L, 16]
  graph.op reshape(x) -> (q2) settings {shape = [#graph.size<B>, #graph.size<L>, 4, 16]}
  graph.op transpose(q2) -> (q3) settings {perm = [0, 2, 1, 3]}
  graph.op attention(q3, q3, v) -> (a)
  graph.op transpose(a) -> (t) settings {perm = [0, 2, 1, 3]}
  graph.op attention(q3, q3, q3) -> (b)
  graph.op neg(b) -> (c)
  graph.return (t, c)
}
