// RUN: openinfer-opt %s -p recognize-rotary --split-input-file | filecheck %s

// Positions 0, 1, … and a base are the op's defaults.
// CHECK: graph.op rope(x) -> (y)
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, 2, L, 2]
graph.variable frequencies constant f32 [1] {init = 1.0}
graph.block entry {
  graph.assign p i64 [1, L]
  graph.assign f f32 [1, L]
  graph.assign g f32 [1, 1, L]
  graph.assign w f32 [1, 1, 1]
  graph.assign m f32 [1, 1, L]
  graph.assign t f32 [1, L, 1]
  graph.assign e f32 [1, L, 2]
  graph.assign c f32 [1, L, 2]
  graph.assign s f32 [1, L, 2]
  graph.assign c4 f32 [1, 1, L, 2]
  graph.assign s4 f32 [1, 1, L, 2]
  graph.assign x1 f32 [B, 2, L, 1]
  graph.assign x2 f32 [B, 2, L, 1]
  graph.assign n f32 [B, 2, L, 1]
  graph.assign r f32 [B, 2, L, 2]
  graph.assign a f32 [B, 2, L, 2]
  graph.assign b f32 [B, 2, L, 2]
  graph.assign y f32 [B, 2, L, 2]
  graph.op iota() -> (p) settings {shape = [1, #graph.size<L>]}
  graph.op cast(p) -> (f) settings {to = #graph.name<f32>}
  graph.op unsqueeze(f) -> (g) settings {axes = [1]}
  graph.op reshape(frequencies) -> (w) settings {shape = [1, 1, 1]}
  graph.op matmul(w, g) -> (m)
  graph.op transpose(m) -> (t)
  graph.op concat(t, t) -> (e) settings {axis = -1}
  graph.op cos(e) -> (c)
  graph.op sin(e) -> (s)
  graph.op unsqueeze(c) -> (c4) settings {axes = [1]}
  graph.op unsqueeze(s) -> (s4) settings {axes = [1]}
  graph.op slice(x) -> (x1) settings {axis = -1, start = 0, stop = 1}
  graph.op slice(x) -> (x2) settings {axis = 3, start = 1, stop = 2}
  graph.op neg(x2) -> (n)
  graph.op concat(n, x1) -> (r) settings {axis = -1}
  graph.op mul(x, c4) -> (a)
  graph.op mul(r, s4) -> (b)
  graph.op add(a, b) -> (y)
  graph.return (y)
}
// -----
// Frequencies that follow no rule are tables; of heads of 6 elements 4 are turned, and heads stand last.
// CHECK: graph.op cos(f) -> ([[C:[a-z0-9_]+]])
// CHECK: graph.op sin(f) -> ([[S:[a-z0-9_]+]])
// CHECK: graph.op rope(x, [[C]], [[S]]) -> (y) settings {layout = "blhd"}
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, L, 2, 6]
graph.variable positions dynamic i64 [B, L, 1]
graph.variable frequencies constant f32 [2] {ref = "frequencies"}
graph.block entry {
  graph.assign p f32 [B, L, 1]
  graph.assign f f32 [B, L, 2]
  graph.assign e f32 [B, L, 4]
  graph.assign c f32 [B, L, 4]
  graph.assign s f32 [B, L, 4]
  graph.assign c4 f32 [B, L, 1, 4]
  graph.assign s4 f32 [B, L, 1, 4]
  graph.assign z f32 [B, L, 2, 4]
  graph.assign rest f32 [B, L, 2, 2]
  graph.assign x1 f32 [B, L, 2, 2]
  graph.assign x2 f32 [B, L, 2, 2]
  graph.assign n f32 [B, L, 2, 2]
  graph.assign r f32 [B, L, 2, 4]
  graph.assign a f32 [B, L, 2, 4]
  graph.assign b f32 [B, L, 2, 4]
  graph.assign t f32 [B, L, 2, 4]
  graph.assign y f32 [B, L, 2, 6]
  graph.op cast(positions) -> (p) settings {to = #graph.name<f32>}
  graph.op mul(p, frequencies) -> (f)
  graph.op concat(f, f) -> (e) settings {axis = -1}
  graph.op cos(e) -> (c)
  graph.op sin(e) -> (s)
  graph.op unsqueeze(c) -> (c4) settings {axes = [2]}
  graph.op unsqueeze(s) -> (s4) settings {axes = [2]}
  graph.op slice(x) -> (z) settings {axis = -1, stop = 4}
  graph.op slice(x) -> (rest) settings {axis = -1, start = 4}
  graph.op split(z) -> (x1, x2) settings {axis = -1}
  graph.op neg(x2) -> (n)
  graph.op concat(n, x1) -> (r) settings {axis = -1}
  graph.op mul(c4, z) -> (a)
  graph.op mul(s4, r) -> (b)
  graph.op add(b, a) -> (t)
  graph.op concat(t, rest) -> (y) settings {axis = -1}
  graph.return (y)
}
// -----
// Almost: the halves change places without a sign, and sine and cosine are of different angles.
// CHECK-NOT: rope
// CHECK: graph.return
graph.variable x dynamic f32 [L, 1, 2]
graph.variable f dynamic f32 [L, 1, 1]
graph.variable g dynamic f32 [L, 1, 1]
graph.block entry {
  graph.assign e f32 [L, 1, 2]
  graph.assign e2 f32 [L, 1, 2]
  graph.assign c f32 [L, 1, 2]
  graph.assign s f32 [L, 1, 2]
  graph.assign s2 f32 [L, 1, 2]
  graph.assign x1 f32 [L, 1, 1]
  graph.assign x2 f32 [L, 1, 1]
  graph.assign n f32 [L, 1, 1]
  graph.assign r f32 [L, 1, 2]
  graph.assign q f32 [L, 1, 2]
  graph.assign a f32 [L, 1, 2]
  graph.assign b f32 [L, 1, 2]
  graph.assign b2 f32 [L, 1, 2]
  graph.assign y f32 [L, 1, 2]
  graph.assign z f32 [L, 1, 2]
  graph.op concat(f, f) -> (e) settings {axis = -1}
  graph.op concat(g, g) -> (e2) settings {axis = -1}
  graph.op cos(e) -> (c)
  graph.op sin(e) -> (s)
  graph.op sin(e2) -> (s2)
  graph.op split(x) -> (x1, x2) settings {axis = -1}
  graph.op neg(x2) -> (n)
  graph.op concat(x2, x1) -> (q) settings {axis = -1}
  graph.op concat(n, x1) -> (r) settings {axis = -1}
  graph.op mul(x, c) -> (a)
  graph.op mul(q, s) -> (b)
  graph.op add(a, b) -> (y)
  graph.op mul(r, s2) -> (b2)
  graph.op add(a, b2) -> (z)
  graph.return (y, z)
}
