// RUN: openinfer-opt %s -p outline-modules --split-input-file | filecheck %s

// One module for three inputs: what it takes and gives are variables; the last result is read where it is.
// CHECK: graph.block entry {
// CHECK: graph.assign x f32 [B, 4]
// CHECK-NEXT: graph.assign y2 f32 [B, 4]
// CHECK: graph.transfer left -> x
// CHECK-NEXT: graph.branch shared
// CHECK: graph.transfer y2 -> i0
// CHECK: graph.transfer middle -> x
// CHECK-NEXT: graph.branch shared
// CHECK: graph.transfer y2 -> i1
// CHECK: graph.transfer right -> x
// CHECK-NEXT: graph.branch shared
// CHECK: graph.op sub(i0, i1) -> (s)
// CHECK-NEXT: graph.op mul(s, y2) -> (y)
// CHECK: graph.block shared {
// CHECK-NOT: graph.assign i0
// CHECK: graph.op linear(x, w) -> (a0)
// CHECK: graph.op neg(h0) -> (y2)
// CHECK-NEXT: graph.return
graph.variable left dynamic f32 [B, 4]
graph.variable middle dynamic f32 [B, 4]
graph.variable right dynamic f32 [B, 4]
graph.variable w constant f32 [4, 4] {ref = "w"}
graph.variable v constant f32 [4, 4] {ref = "v"}
graph.block entry {
  graph.assign a0 f32 [B, 4]
  graph.assign b0 f32 [B, 4]
  graph.assign c0 f32 [B, 4]
  graph.assign d0 f32 [B, 4]
  graph.assign e0 f32 [B, 4]
  graph.assign f0 f32 [B, 4]
  graph.assign g0 f32 [B, 4]
  graph.assign h0 f32 [B, 4]
  graph.assign i0 f32 [B, 4]
  graph.assign a1 f32 [B, 4]
  graph.assign b1 f32 [B, 4]
  graph.assign c1 f32 [B, 4]
  graph.assign d1 f32 [B, 4]
  graph.assign e1 f32 [B, 4]
  graph.assign f1 f32 [B, 4]
  graph.assign g1 f32 [B, 4]
  graph.assign h1 f32 [B, 4]
  graph.assign i1 f32 [B, 4]
  graph.assign a2 f32 [B, 4]
  graph.assign b2 f32 [B, 4]
  graph.assign c2 f32 [B, 4]
  graph.assign d2 f32 [B, 4]
  graph.assign e2 f32 [B, 4]
  graph.assign f2 f32 [B, 4]
  graph.assign g2 f32 [B, 4]
  graph.assign h2 f32 [B, 4]
  graph.assign i2 f32 [B, 4]
  graph.assign s f32 [B, 4]
  graph.assign y f32 [B, 4]
  graph.op linear(left, w) -> (a0)
  graph.op relu(a0) -> (b0)
  graph.op linear(b0, v) -> (c0)
  graph.op gelu(c0) -> (d0)
  graph.op tanh(d0) -> (e0)
  graph.op linear(e0, w) -> (f0)
  graph.op sigmoid(f0) -> (g0)
  graph.op exp(g0) -> (h0)
  graph.op neg(h0) -> (i0)
  graph.op linear(middle, w) -> (a1)
  graph.op relu(a1) -> (b1)
  graph.op linear(b1, v) -> (c1)
  graph.op gelu(c1) -> (d1)
  graph.op tanh(d1) -> (e1)
  graph.op linear(e1, w) -> (f1)
  graph.op sigmoid(f1) -> (g1)
  graph.op exp(g1) -> (h1)
  graph.op neg(h1) -> (i1)
  graph.op linear(right, w) -> (a2)
  graph.op relu(a2) -> (b2)
  graph.op linear(b2, v) -> (c2)
  graph.op gelu(c2) -> (d2)
  graph.op tanh(d2) -> (e2)
  graph.op linear(e2, w) -> (f2)
  graph.op sigmoid(f2) -> (g2)
  graph.op exp(g2) -> (h2)
  graph.op neg(h2) -> (i2)
  graph.op sub(i0, i1) -> (s)
  graph.op mul(s, i2) -> (y)
  graph.return (y)
}
// -----
// Other weights, and two calls that would save nothing.
// CHECK: graph.block entry {
// CHECK-NOT: graph.branch
// CHECK: graph.return (y)
graph.variable left dynamic f32 [B, 4]
graph.variable middle dynamic f32 [B, 4]
graph.variable right dynamic f32 [B, 4]
graph.variable w constant f32 [4, 4] {ref = "w"}
graph.variable v constant f32 [4, 4] {ref = "v"}
graph.block entry {
  graph.assign a0 f32 [B, 4]
  graph.assign b0 f32 [B, 4]
  graph.assign c0 f32 [B, 4]
  graph.assign d0 f32 [B, 4]
  graph.assign e0 f32 [B, 4]
  graph.assign f0 f32 [B, 4]
  graph.assign g0 f32 [B, 4]
  graph.assign h0 f32 [B, 4]
  graph.assign i0 f32 [B, 4]
  graph.assign a1 f32 [B, 4]
  graph.assign b1 f32 [B, 4]
  graph.assign c1 f32 [B, 4]
  graph.assign d1 f32 [B, 4]
  graph.assign e1 f32 [B, 4]
  graph.assign f1 f32 [B, 4]
  graph.assign g1 f32 [B, 4]
  graph.assign h1 f32 [B, 4]
  graph.assign i1 f32 [B, 4]
  graph.assign a2 f32 [B, 4]
  graph.assign b2 f32 [B, 4]
  graph.assign c2 f32 [B, 4]
  graph.assign d2 f32 [B, 4]
  graph.assign e2 f32 [B, 4]
  graph.assign f2 f32 [B, 4]
  graph.assign g2 f32 [B, 4]
  graph.assign h2 f32 [B, 4]
  graph.assign i2 f32 [B, 4]
  graph.assign s f32 [B, 4]
  graph.assign y f32 [B, 4]
  graph.op linear(left, w) -> (a0)
  graph.op relu(a0) -> (b0)
  graph.op linear(b0, v) -> (c0)
  graph.op gelu(c0) -> (d0)
  graph.op tanh(d0) -> (e0)
  graph.op linear(e0, w) -> (f0)
  graph.op sigmoid(f0) -> (g0)
  graph.op exp(g0) -> (h0)
  graph.op neg(h0) -> (i0)
  graph.op linear(middle, w) -> (a1)
  graph.op relu(a1) -> (b1)
  graph.op linear(b1, v) -> (c1)
  graph.op gelu(c1) -> (d1)
  graph.op tanh(d1) -> (e1)
  graph.op linear(e1, w) -> (f1)
  graph.op sigmoid(f1) -> (g1)
  graph.op exp(g1) -> (h1)
  graph.op neg(h1) -> (i1)
  graph.op linear(right, v) -> (a2)
  graph.op relu(a2) -> (b2)
  graph.op linear(b2, w) -> (c2)
  graph.op gelu(c2) -> (d2)
  graph.op tanh(d2) -> (e2)
  graph.op linear(e2, v) -> (f2)
  graph.op sigmoid(f2) -> (g2)
  graph.op exp(g2) -> (h2)
  graph.op neg(h2) -> (i2)
  graph.op sub(i0, i1) -> (s)
  graph.op mul(s, i2) -> (y)
  graph.return (y)
}
