// RUN: openinfer-opt %s -p recognize-activations --split-input-file | filecheck %s

// Both formulas of gelu, however their products are grouped.
// CHECK: graph.op gelu(x) -> (y)
// CHECK-NEXT: graph.op gelu(x) -> (u) settings {approximate = "tanh"}
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, 8]
graph.block entry {
  graph.assign d f32 [B, 8]
  graph.assign e f32 [B, 8]
  graph.assign f f32 [B, 8]
  graph.assign g f32 [B, 8]
  graph.assign y f32 [B, 8]
  graph.assign c f32 [B, 8]
  graph.assign c1 f32 [B, 8]
  graph.assign c2 f32 [B, 8]
  graph.assign c3 f32 [B, 8]
  graph.assign c4 f32 [B, 8]
  graph.assign c5 f32 [B, 8]
  graph.assign h f32 [B, 8]
  graph.assign u f32 [B, 8]
  graph.op div(x, 1.4142135381698608) -> (d)
  graph.op erf(d) -> (e)
  graph.op add(e, 1.0) -> (f)
  graph.op mul(x, f) -> (g)
  graph.op mul(g, 0.5) -> (y)
  graph.op pow(x, 3.0) -> (c)
  graph.op mul(c, 0.044715) -> (c1)
  graph.op add(x, c1) -> (c2)
  graph.op mul(c2, 0.7978845608) -> (c3)
  graph.op tanh(c3) -> (c4)
  graph.op add(1.0, c4) -> (c5)
  graph.op mul(0.5, x) -> (h)
  graph.op mul(h, c5) -> (u)
  graph.return (y, u)
}
// -----
// CHECK: graph.op silu(x) -> (a)
// CHECK-NEXT: graph.op hard_swish(x) -> (b)
// CHECK-NEXT: graph.op mish(x) -> (c)
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, 8]
graph.block entry {
  graph.assign n f32 [B, 8]
  graph.assign e f32 [B, 8]
  graph.assign t f32 [B, 8]
  graph.assign s f32 [B, 8]
  graph.assign a f32 [B, 8]
  graph.assign x3 f32 [B, 8]
  graph.assign k f32 [B, 8]
  graph.assign g f32 [B, 8]
  graph.assign b f32 [B, 8]
  graph.assign p f32 [B, 8]
  graph.assign l f32 [B, 8]
  graph.assign h f32 [B, 8]
  graph.assign c f32 [B, 8]
  graph.op neg(x) -> (n)
  graph.op exp(n) -> (e)
  graph.op add(e, 1.0) -> (t)
  graph.op div(1.0, t) -> (s)
  graph.op mul(x, s) -> (a)
  graph.op add(x, 3.0) -> (x3)
  graph.op clamp(x3) -> (k) settings {min = 0, max = 6}
  graph.op div(k, 6.0) -> (g)
  graph.op mul(x, g) -> (b)
  graph.op exp(x) -> (p)
  graph.op log1p(p) -> (l)
  graph.op tanh(l) -> (h)
  graph.op mul(h, x) -> (c)
  graph.return (a, b, c)
}
// -----
// Almost: another factor, another gate, a half that is missing.
// CHECK: graph.op sigmoid(q) -> (s)
// CHECK-NEXT: graph.op mul(x, s) -> (a)
// CHECK: graph.op mul(z, s2) -> (b)
// CHECK: graph.op erf(d) -> (e)
graph.variable x dynamic f32 [B, 8]
graph.variable z dynamic f32 [B, 8]
graph.block entry {
  graph.assign q f32 [B, 8]
  graph.assign s f32 [B, 8]
  graph.assign a f32 [B, 8]
  graph.assign s2 f32 [B, 8]
  graph.assign b f32 [B, 8]
  graph.assign d f32 [B, 8]
  graph.assign e f32 [B, 8]
  graph.assign f f32 [B, 8]
  graph.assign y f32 [B, 8]
  graph.op mul(x, 1.702) -> (q)
  graph.op sigmoid(q) -> (s)
  graph.op mul(x, s) -> (a)
  graph.op sigmoid(x) -> (s2)
  graph.op mul(z, s2) -> (b)
  graph.op div(x, 1.4142135381698608) -> (d)
  graph.op erf(d) -> (e)
  graph.op add(e, 1.0) -> (f)
  graph.op mul(x, f) -> (y)
  graph.return (a, b, y)
}
