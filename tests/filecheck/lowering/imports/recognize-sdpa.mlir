// RUN: openinfer-opt %s -p recognize-sdpa --split-input-file | filecheck %s

// The scale of the formula is the op's default; half of it stood at the queries, half at the keys.
// CHECK: graph.op attention(q, k, v, m) -> (y)
// CHECK-NEXT: graph.return
graph.variable q dynamic f32 [B, 2, L, 16]
graph.variable k dynamic f32 [B, 2, L, 16]
graph.variable v dynamic f32 [B, 2, L, 16]
graph.variable m dynamic f32 [B, 1, 1, L]
graph.block entry {
  graph.assign q2 f32 [B, 2, L, 16]
  graph.assign t f32 [B, 2, 16, L]
  graph.assign k2 f32 [B, 2, 16, L]
  graph.assign s f32 [B, 2, L, L]
  graph.assign u f32 [B, 2, L, L]
  graph.assign p f32 [B, 2, L, L]
  graph.assign y f32 [B, 2, L, 16]
  graph.op mul(q, 0.5) -> (q2)
  graph.op transpose(k) -> (t)
  graph.op mul(t, 0.5) -> (k2)
  graph.op matmul(q2, k2) -> (s)
  graph.op add(s, m) -> (u)
  graph.op softmax(u) -> (p)
  graph.op matmul(p, v) -> (y)
  graph.return (y)
}
// -----
// Keys that are transposed once, from [B, L, H, D]; another scale; scores that a causal mask replaces.
// CHECK: graph.op transpose(k) -> ([[K:[a-z0-9_]+]]) settings {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK-NEXT: graph.op attention(q, [[K]], v, m) -> (y) settings {scale = 3.000000e-01 : f64}
// CHECK-NEXT: graph.return
graph.variable q dynamic f32 [B, 2, L, 16]
graph.variable k dynamic f32 [B, L, 2, 16]
graph.variable v dynamic f32 [B, 2, L, 16]
graph.block entry {
  graph.assign r i64 [L, 1]
  graph.assign c i64 [L]
  graph.assign m bool [L, L]
  graph.assign t f32 [B, 2, 16, L]
  graph.assign s f32 [B, 2, L, L]
  graph.assign u f32 [B, 2, L, L]
  graph.assign w f32 [B, 2, L, L]
  graph.assign p f32 [B, 2, L, L]
  graph.assign y f32 [B, 2, L, 16]
  graph.op iota() -> (r) settings {shape = [#graph.size<L>, 1], axis = 0}
  graph.op iota() -> (c) settings {shape = [#graph.size<L>]}
  graph.op ge(r, c) -> (m)
  graph.op transpose(k) -> (t) settings {perm = [0, 2, 3, 1]}
  graph.op matmul(q, t) -> (s)
  graph.op mul(s, 0.3) -> (u)
  graph.op where(m, u, -3.4028e+38) -> (w)
  graph.op softmax(w) -> (p)
  graph.op matmul(p, v) -> (y)
  graph.return (y)
}
// -----
// Heads that are repeated in front of it.
// CHECK: graph.op attention(q, k, v) -> (y)
// CHECK-NEXT: graph.return
graph.variable q dynamic f32 [B, 4, L, 16]
graph.variable k dynamic f32 [B, 2, L, 16]
graph.variable v dynamic f32 [B, 2, L, 16]
graph.block entry {
  graph.assign k1 f32 [B, 2, 1, L, 16]
  graph.assign v1 f32 [B, 2, 1, L, 16]
  graph.assign k2 f32 [B, 2, 2, L, 16]
  graph.assign v2 f32 [B, 2, 2, L, 16]
  graph.assign k3 f32 [B, 4, L, 16]
  graph.assign v3 f32 [B, 4, L, 16]
  graph.assign y f32 [B, 4, L, 16]
  graph.op unsqueeze(k) -> (k1) settings {axes = [2]}
  graph.op unsqueeze(v) -> (v1) settings {axes = [2]}
  graph.op expand(k1) -> (k2) settings {shape = [#graph.size<B>, 2, 2, #graph.size<L>, 16]}
  graph.op expand(v1) -> (v2) settings {shape = [#graph.size<B>, 2, 2, #graph.size<L>, 16]}
  graph.op reshape(k2) -> (k3) settings {shape = [#graph.size<B>, 4, #graph.size<L>, 16]}
  graph.op reshape(v2) -> (v3) settings {shape = [#graph.size<B>, 4, #graph.size<L>, 16]}
  graph.op attention(q, k3, v3) -> (y) settings {scale = 0.25}
  graph.return (y)
}
// -----
// Almost: weights that others read, a finite number that may hide a whole row, heads in turns.
// CHECK: graph.op softmax(s) -> (p)
// CHECK: graph.op softmax(w) -> (p2)
// CHECK: graph.op attention(q, k3, k3) -> (z)
graph.variable q dynamic f32 [4, L, 16]
graph.variable k dynamic f32 [2, L, 16]
graph.variable m dynamic bool [1, L]
graph.block entry {
  graph.assign k1 f32 [1, 2, L, 16]
  graph.assign k2 f32 [2, 2, L, 16]
  graph.assign k3 f32 [4, L, 16]
  graph.assign s f32 [4, L, L]
  graph.assign s2 f32 [4, L, L]
  graph.assign w f32 [4, L, L]
  graph.assign p f32 [4, L, L]
  graph.assign p2 f32 [4, L, L]
  graph.assign y f32 [4, L, 16]
  graph.assign u f32 [4, L, 16]
  graph.assign z f32 [4, L, 16]
  graph.op unsqueeze(k) -> (k1) settings {axes = [0]}
  graph.op expand(k1) -> (k2) settings {shape = [2, 2, #graph.size<L>, 16]}
  graph.op reshape(k2) -> (k3) settings {shape = [4, #graph.size<L>, 16]}
  graph.op matmul(q, k3) -> (s) settings {transpose_b = true}
  graph.op softmax(s) -> (p)
  graph.op matmul(p, k3) -> (y)
  graph.op matmul(q, k3) -> (s2) settings {transpose_b = true}
  graph.op where(m, s2, -3.4028e+38) -> (w)
  graph.op softmax(w) -> (p2)
  graph.op matmul(p2, k3) -> (u)
  graph.op attention(q, k3, k3) -> (z)
  graph.return (y, u, z, p)
}
