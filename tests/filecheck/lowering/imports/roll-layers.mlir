// RUN: openinfer-opt %s -p roll-layers --split-input-file | filecheck %s

// Three layers, told apart by the number in the path of their modules: their weights become families, what
// goes from layer to layer is carried, and what stands behind the loop reads it.
// CHECK: graph.variable [[W:layer[_a-z]*]](l) constant f32 [4, 4] {pattern = "layer.{l}.w"}
// CHECK: graph.variable [[B:layer[_a-z]*]](l) constant f32 [4] {pattern = "layer.{l}.b"}
// CHECK-NOT: graph.variable w1
// CHECK: graph.transfer x -> h
// CHECK-NEXT: graph.loop layers l in 0 to 3 {
// CHECK: graph.op linear(h, [[W]][l], [[B]][l]) -> (a2)
// CHECK: graph.op gelu(a2) -> (g2)
// CHECK: graph.op mul(g2, s) -> (m2)
// CHECK: graph.op add(m2, h) -> (h2)
// CHECK-NEXT: graph.transfer h2 -> h
// CHECK-NEXT: }
// CHECK: graph.op relu(h) -> (y)
graph.variable x dynamic f32 [B, 4]
graph.variable s constant f32 {ref = "s"}
graph.variable w0 constant f32 [4, 4] {ref = "layer.0.w"}
graph.variable b0 constant f32 [4] {ref = "layer.0.b"}
graph.variable w1 constant f32 [4, 4] {ref = "layer.1.w"}
graph.variable b1 constant f32 [4] {ref = "layer.1.b"}
graph.variable w2 constant f32 [4, 4] {ref = "layer.2.w"}
graph.variable b2 constant f32 [4] {ref = "layer.2.b"}
graph.block entry {
  graph.assign a0 f32 [B, 4]
  graph.op linear(x, w0, b0) -> (a0) loc("layer.0.up|||")
  graph.assign g0 f32 [B, 4]
  graph.op gelu(a0) -> (g0) loc("layer.0|||")
  graph.assign m0 f32 [B, 4]
  graph.op mul(g0, s) -> (m0) loc("layer.0|||")
  graph.assign h0 f32 [B, 4]
  graph.op add(m0, x) -> (h0) loc("layer.0|||")
  graph.assign a1 f32 [B, 4]
  graph.op linear(h0, w1, b1) -> (a1) loc("layer.1.up|||")
  graph.assign g1 f32 [B, 4]
  graph.op gelu(a1) -> (g1) loc("layer.1|||")
  graph.assign m1 f32 [B, 4]
  graph.op mul(g1, s) -> (m1) loc("layer.1|||")
  graph.assign h1 f32 [B, 4]
  graph.op add(m1, h0) -> (h1) loc("layer.1|||")
  graph.assign a2 f32 [B, 4]
  graph.op linear(h1, w2, b2) -> (a2) loc("layer.2.up|||")
  graph.assign g2 f32 [B, 4]
  graph.op gelu(a2) -> (g2) loc("layer.2|||")
  graph.assign m2 f32 [B, 4]
  graph.op mul(g2, s) -> (m2) loc("layer.2|||")
  graph.assign h2 f32 [B, 4]
  graph.op add(m2, h1) -> (h2) loc("layer.2|||")
  graph.assign y f32 [B, 4]
  graph.op relu(h2) -> (y) loc("head|||")
  graph.return (y)
}
// -----
// The first layer is another one: it stays, its weight is a member of the family. The number is a part of a
// word here. Layers alternate: two of them are one turn of the loop.
// CHECK: graph.variable [[W:[_a-z]*]](l) constant f32 [4, 4] {pattern = "layer_{l}.w"}
// CHECK: graph.op matmul(x, [[W]][0]) -> (a0)
// CHECK: graph.loop layers l in 0 to 3 {
// CHECK: graph.op matmul(h, [[W]]["2*l + 1"])
// CHECK: graph.op gelu(
// CHECK: graph.op matmul({{.*}}, [[W]]["2*l + 2"])
// CHECK: graph.op silu(
// CHECK: graph.op add({{.*}}, a0) -> (h6)
// CHECK: graph.return (y)
graph.variable x dynamic f32 [B, 4]
graph.variable w0 constant f32 [4, 4] {ref = "layer_0.w"}
graph.variable w1 constant f32 [4, 4] {ref = "layer_1.w"}
graph.variable w2 constant f32 [4, 4] {ref = "layer_2.w"}
graph.variable w3 constant f32 [4, 4] {ref = "layer_3.w"}
graph.variable w4 constant f32 [4, 4] {ref = "layer_4.w"}
graph.variable w5 constant f32 [4, 4] {ref = "layer_5.w"}
graph.variable w6 constant f32 [4, 4] {ref = "layer_6.w"}
graph.block entry {
  graph.assign a0 f32 [B, 4]
  graph.op matmul(x, w0) -> (a0) loc("layer_0|||")
  graph.assign r0 f32 [B, 4]
  graph.op relu(a0) -> (r0) loc("layer_0|||")
  graph.assign a1 f32 [B, 4]
  graph.op matmul(r0, w1) -> (a1) loc("layer_1|||")
  graph.assign g1 f32 [B, 4]
  graph.op gelu(a1) -> (g1) loc("layer_1|||")
  graph.assign h1 f32 [B, 4]
  graph.op add(g1, a0) -> (h1) loc("layer_1|||")
  graph.assign a2 f32 [B, 4]
  graph.op matmul(h1, w2) -> (a2) loc("layer_2|||")
  graph.assign g2 f32 [B, 4]
  graph.op silu(a2) -> (g2) loc("layer_2|||")
  graph.assign h2 f32 [B, 4]
  graph.op add(g2, a0) -> (h2) loc("layer_2|||")
  graph.assign a3 f32 [B, 4]
  graph.op matmul(h2, w3) -> (a3) loc("layer_3|||")
  graph.assign g3 f32 [B, 4]
  graph.op gelu(a3) -> (g3) loc("layer_3|||")
  graph.assign h3 f32 [B, 4]
  graph.op add(g3, a0) -> (h3) loc("layer_3|||")
  graph.assign a4 f32 [B, 4]
  graph.op matmul(h3, w4) -> (a4) loc("layer_4|||")
  graph.assign g4 f32 [B, 4]
  graph.op silu(a4) -> (g4) loc("layer_4|||")
  graph.assign h4 f32 [B, 4]
  graph.op add(g4, a0) -> (h4) loc("layer_4|||")
  graph.assign a5 f32 [B, 4]
  graph.op matmul(h4, w5) -> (a5) loc("layer_5|||")
  graph.assign g5 f32 [B, 4]
  graph.op gelu(a5) -> (g5) loc("layer_5|||")
  graph.assign h5 f32 [B, 4]
  graph.op add(g5, a0) -> (h5) loc("layer_5|||")
  graph.assign a6 f32 [B, 4]
  graph.op matmul(h5, w6) -> (a6) loc("layer_6|||")
  graph.assign g6 f32 [B, 4]
  graph.op silu(a6) -> (g6) loc("layer_6|||")
  graph.assign h6 f32 [B, 4]
  graph.op add(g6, a0) -> (h6) loc("layer_6|||")
  graph.assign y f32 [B, 4]
  graph.op relu(h6) -> (y)
  graph.return (y)
}
// -----
// What each layer makes is read behind the last one: there is no loop. Layers without weights of their own
// would be one: their number is the same here, but inner values are results.
// CHECK-NOT: graph.loop
graph.variable x dynamic f32 [B, 4]
graph.block entry {
  graph.assign a0 f32 [B, 4]
  graph.op gelu(x) -> (a0) loc("layer.0|||")
  graph.assign b0 f32 [B, 4]
  graph.op tanh(a0) -> (b0) loc("layer.0|||")
  graph.assign c0 f32 [B, 4]
  graph.op exp(b0) -> (c0) loc("layer.0|||")
  graph.assign h0 f32 [B, 4]
  graph.op add(c0, x) -> (h0) loc("layer.0|||")
  graph.assign a1 f32 [B, 4]
  graph.op gelu(h0) -> (a1) loc("layer.1|||")
  graph.assign b1 f32 [B, 4]
  graph.op tanh(a1) -> (b1) loc("layer.1|||")
  graph.assign c1 f32 [B, 4]
  graph.op exp(b1) -> (c1) loc("layer.1|||")
  graph.assign h1 f32 [B, 4]
  graph.op add(c1, h0) -> (h1) loc("layer.1|||")
  graph.assign a2 f32 [B, 4]
  graph.op gelu(h1) -> (a2) loc("layer.2|||")
  graph.assign b2 f32 [B, 4]
  graph.op tanh(a2) -> (b2) loc("layer.2|||")
  graph.assign c2 f32 [B, 4]
  graph.op exp(b2) -> (c2) loc("layer.2|||")
  graph.assign h2 f32 [B, 4]
  graph.op add(c2, h1) -> (h2) loc("layer.2|||")
  graph.return (h0, h1, h2)
}
