// RUN: openinfer-opt %s -p compose-views --split-input-file | filecheck %s

// A packed projection: the product leaves the rows where they are, and each part is a range of its result.
// CHECK: graph.op linear(x, w) -> ([[P:[a-z0-9_]+]])
// CHECK: graph.op slice([[P]]) -> ([[A:[a-z0-9_]+]]) settings {axis = 2 : i64, start = 0 : i64, stop = 64 : i64}
// CHECK: graph.op reshape([[A]]) -> ([[B:[a-z0-9_]+]]) settings {shape = [#graph.size<B>, #graph.size<L>, 4 : i64, 16 : i64]}
// CHECK: graph.op transpose([[B]]) -> (q) settings {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK: graph.op slice([[P]]) -> ([[C:[a-z0-9_]+]]) settings {axis = 2 : i64, start = 64 : i64, stop = 128 : i64}
// CHECK: graph.op reshape([[C]]) -> ([[D:[a-z0-9_]+]]) settings {shape = [#graph.size<B>, #graph.size<L>, 4 : i64, 16 : i64]}
// CHECK: graph.op transpose([[D]]) -> (k) settings {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK: graph.return (q, k)
graph.variable x dynamic f32 [B, L, 64]
graph.variable w constant f32 [128, 64] {ref = "w"}
graph.block entry {
  graph.assign t f32 [L, B, 64]
  graph.assign p f32 [L, B, 128]
  graph.assign r f32 [L, B, 2, 64]
  graph.assign s f32 [2, L, B, 64]
  graph.assign q1 f32 [1, L, B, 64]
  graph.assign q2 f32 [L, "4*B", 16]
  graph.assign q3 f32 ["4*B", L, 16]
  graph.assign q f32 [B, 4, L, 16]
  graph.assign k1 f32 [1, L, B, 64]
  graph.assign k2 f32 [L, "4*B", 16]
  graph.assign k3 f32 ["4*B", L, 16]
  graph.assign k f32 [B, 4, L, 16]
  graph.op transpose(x) -> (t) settings {perm = [1, 0, 2]}
  graph.op linear(t, w) -> (p)
  graph.op reshape(p) -> (r) settings {shape = [#graph.size<L>, #graph.size<B>, 2, 64]}
  graph.op transpose(r) -> (s) settings {perm = [2, 0, 1, 3]}
  graph.op slice(s) -> (q1) settings {axis = 0 : i64, start = 0 : i64, stop = 1 : i64}
  graph.op reshape(q1) -> (q2) settings {shape = [#graph.size<L>, #graph.size<"4*B">, 16]}
  graph.op transpose(q2) -> (q3) settings {perm = [1, 0, 2]}
  graph.op reshape(q3) -> (q) settings {shape = [#graph.size<B>, 4, #graph.size<L>, 16]}
  graph.op slice(s) -> (k1) settings {axis = 0 : i64, start = 1 : i64, stop = 2 : i64}
  graph.op reshape(k1) -> (k2) settings {shape = [#graph.size<L>, #graph.size<"4*B">, 16]}
  graph.op transpose(k2) -> (k3) settings {perm = [1, 0, 2]}
  graph.op reshape(k3) -> (k) settings {shape = [#graph.size<B>, 4, #graph.size<L>, 16]}
  graph.return (q, k)
}
// -----
// The product takes its rows in the order in which they are needed.
// CHECK: graph.op transpose(x) -> ([[T:[a-z0-9_]+]]) settings {perm = [0 : i64, 2 : i64, 1 : i64, 3 : i64]}
// CHECK: graph.op reshape([[T]]) -> ([[R:[a-z0-9_]+]]) settings {shape = [#graph.size<B>, #graph.size<L>, 64 : i64]}
// CHECK: graph.op linear([[R]], w) -> ([[P:[a-z0-9_]+]])
// CHECK-NEXT: graph.op neg([[P]]) -> (y)
graph.variable x dynamic f32 [B, 4, L, 16]
graph.variable w constant f32 [32, 64] {ref = "w"}
graph.block entry {
  graph.assign t f32 [L, B, 4, 16]
  graph.assign r f32 ["B*L", 64]
  graph.assign p f32 ["B*L", 32]
  graph.assign s f32 [L, B, 32]
  graph.assign u f32 [B, L, 32]
  graph.assign y f32 [B, L, 32]
  graph.op transpose(x) -> (t) settings {perm = [2, 0, 1, 3]}
  graph.op reshape(t) -> (r) settings {shape = [#graph.size<"B*L">, 64]}
  graph.op linear(r, w) -> (p)
  graph.op reshape(p) -> (s) settings {shape = [#graph.size<L>, #graph.size<B>, 32]}
  graph.op transpose(s) -> (u) settings {perm = [1, 0, 2]}
  graph.op neg(u) -> (y)
  graph.return (y)
}
// -----
// Almost: chains that are as short as they can be, parts that lie behind heads, every second row, and a product
// whose rows are read in both orders.
// CHECK: graph.op reshape(x) -> (r)
// CHECK-NEXT: graph.op transpose(r) -> (t)
// CHECK-NEXT: graph.op slice(t) -> (q)
// CHECK-NEXT: graph.op reshape(q) -> (a)
// CHECK-NEXT: graph.op slice(x) -> (s)
// CHECK-NEXT: graph.op reshape(s) -> (b)
// CHECK-NEXT: graph.op transpose(x) -> (u)
// CHECK-NEXT: graph.op linear(u, w) -> (p)
// CHECK-NEXT: graph.op transpose(p) -> (c)
// CHECK-NEXT: graph.op neg(p) -> (d)
graph.variable x dynamic f32 [8, 6, 96]
graph.variable w constant f32 [32, 96] {ref = "w"}
graph.block entry {
  graph.assign r f32 [8, 6, 4, 3, 8]
  graph.assign t f32 [8, 4, 6, 3, 8]
  graph.assign q f32 [8, 4, 6, 1, 8]
  graph.assign a f32 [8, 4, 6, 8]
  graph.assign s f32 [4, 6, 96]
  graph.assign b f32 [24, 96]
  graph.assign u f32 [6, 8, 96]
  graph.assign p f32 [6, 8, 32]
  graph.assign c f32 [8, 6, 32]
  graph.assign d f32 [6, 8, 32]
  graph.op reshape(x) -> (r) settings {shape = [8, 6, 4, 3, 8]}
  graph.op transpose(r) -> (t) settings {perm = [0, 2, 1, 3, 4]}
  graph.op slice(t) -> (q) settings {axis = 3 : i64, start = 1 : i64, stop = 2 : i64}
  graph.op reshape(q) -> (a) settings {shape = [8, 4, 6, 8]}
  graph.op slice(x) -> (s) settings {axis = 0 : i64, start = 0 : i64, stop = 8 : i64, step = 2 : i64}
  graph.op reshape(s) -> (b) settings {shape = [24, 96]}
  graph.op transpose(x) -> (u) settings {perm = [1, 0, 2]}
  graph.op linear(u, w) -> (p)
  graph.op transpose(p) -> (c) settings {perm = [1, 0, 2]}
  graph.op neg(p) -> (d)
  graph.return (a, b, c, d)
}
