// RUN: openinfer-opt %s -p outline-blocks --split-input-file | filecheck %s

// What differs is given: values, the path of tensors, settings, those that most have as defaults.
// Dimensions that differ are open; a block stands in front of what calls it.
// CHECK: graph.variable x dynamic f32 [B, 4]
// CHECK-NOT: graph.variable w0
// CHECK: graph.block linear_relu_tanh(x2, path, clamp_max) defaults {clamp_max = 6.000000e+00 : f64} {
// CHECK-NEXT: graph.variable [[W:\S+]] constant f32 [_, _] {ref = "{path}.weight"}
// CHECK-NEXT: graph.variable [[B:\S+]] constant f32 [_] {ref = "{path}.bias"}
// CHECK-NEXT: graph.op linear(x2, [[W]], [[B]]) -> (a0)
// CHECK-NEXT: graph.op relu(a0) -> (a0) settings {clamp_max = #graph.name<clamp_max>}
// CHECK-NEXT: graph.op tanh(a0) -> (a0)
// CHECK-NEXT: graph.return (a0)
// CHECK: graph.block entry {
// CHECK-NEXT: graph.assign b0 f32 [B, 8]
// CHECK-NEXT: graph.call linear_relu_tanh(x, "enc.0") -> (b0)
// CHECK-NEXT: graph.assign b1 f32 [B, 8]
// CHECK-NEXT: graph.call linear_relu_tanh(b0, "enc.1") -> (b1) settings {clamp_max = 3.000000e+00 : f64}
// CHECK: graph.call linear_relu_tanh(b1, "enc.2") -> (b2)
// CHECK: graph.call linear_relu_tanh(b2, "head") -> (y)
// CHECK-NEXT: graph.return (y)
graph.variable x dynamic f32 [B, 4]
graph.variable w0 constant f32 [8, 4] {ref = "enc.0.weight"}
graph.variable v0 constant f32 [8] {ref = "enc.0.bias"}
graph.variable w1 constant f32 [8, 8] {ref = "enc.1.weight"}
graph.variable v1 constant f32 [8] {ref = "enc.1.bias"}
graph.variable w2 constant f32 [8, 8] {ref = "enc.2.weight"}
graph.variable v2 constant f32 [8] {ref = "enc.2.bias"}
graph.variable w3 constant f32 [3, 8] {ref = "head.weight"}
graph.variable v3 constant f32 [3] {ref = "head.bias"}
graph.block entry {
  graph.assign a0 f32 [B, 8]
  graph.op linear(x, w0, v0) -> (a0)
  graph.assign m0 f32 [B, 8]
  graph.assign b0 f32 [B, 8]
  graph.op relu(a0) -> (m0) settings {clamp_max = 6.0 : f64}
  graph.op tanh(m0) -> (b0)
  graph.assign a1 f32 [B, 8]
  graph.op linear(b0, w1, v1) -> (a1)
  graph.assign m1 f32 [B, 8]
  graph.assign b1 f32 [B, 8]
  graph.op relu(a1) -> (m1) settings {clamp_max = 3.0 : f64}
  graph.op tanh(m1) -> (b1)
  graph.assign a2 f32 [B, 8]
  graph.op linear(b1, w2, v2) -> (a2)
  graph.assign m2 f32 [B, 8]
  graph.assign b2 f32 [B, 8]
  graph.op relu(a2) -> (m2) settings {clamp_max = 6.0 : f64}
  graph.op tanh(m2) -> (b2)
  graph.assign a3 f32 [B, 3]
  graph.op linear(b2, w3, v3) -> (a3)
  graph.assign m3 f32 [B, 3]
  graph.assign y f32 [B, 3]
  graph.op relu(a3) -> (m3) settings {clamp_max = 6.0 : f64}
  graph.op tanh(m3) -> (y)
  graph.return (y)
}

// -----

// In a loop the path has its index: the block's tensors are families there. What is all of a module has the
// name of its class.
// CHECK: graph.block mlp([[X:\S+]], path) {
// CHECK-NEXT: graph.variable [[U:\S+]] constant f32 [4, 4] {ref = "{path}.up.weight"}
// CHECK-NEXT: graph.variable [[D:\S+]] constant f32 [4, 4] {ref = "{path}.down.weight"}
// CHECK-NEXT: graph.op linear([[X]], [[U]]) -> ([[A:\S+]])
// CHECK-NEXT: graph.op tanh([[A]]) -> ([[A]])
// CHECK-NEXT: graph.op linear([[A]], [[D]]) -> ([[C:\S+]])
// CHECK-NEXT: graph.op tanh([[C]]) -> ([[C]])
// CHECK-NEXT: graph.op add([[C]], [[X]]) -> ([[C]])
// CHECK-NEXT: graph.return ([[C]])
// CHECK: graph.block entry {
// CHECK: graph.call mlp(x, "first") -> (s0)
// CHECK: graph.call mlp(s0, "second") -> (s1)
// CHECK: graph.loop layers l in 0 to 3 {
// CHECK-NEXT: graph.call mlp(h, "layers.{l + 1}") -> (s2)
// CHECK-NEXT: graph.transfer s2 -> h
// CHECK: graph.call mlp(h, "third") -> (y)
graph.variable x dynamic f32 [B, 4]
graph.variable a0 constant f32 [4, 4] {ref = "first.up.weight"}
graph.variable b0 constant f32 [4, 4] {ref = "first.down.weight"}
graph.variable a1 constant f32 [4, 4] {ref = "second.up.weight"}
graph.variable b1 constant f32 [4, 4] {ref = "second.down.weight"}
graph.variable a2(l) constant f32 [4, 4] {pattern = "layers.{l + 1}.up.weight"}
graph.variable b2(l) constant f32 [4, 4] {pattern = "layers.{l + 1}.down.weight"}
graph.variable a3 constant f32 [4, 4] {ref = "third.up.weight"}
graph.variable b3 constant f32 [4, 4] {ref = "third.down.weight"}
graph.block entry {
  graph.assign p0 f32 [B, 4]
  graph.assign q0 f32 [B, 4]
  graph.assign r0 f32 [B, 4]
  graph.assign t0 f32 [B, 4]
  graph.assign s0 f32 [B, 4]
  graph.assign p1 f32 [B, 4]
  graph.assign q1 f32 [B, 4]
  graph.assign r1 f32 [B, 4]
  graph.assign t1 f32 [B, 4]
  graph.assign s1 f32 [B, 4]
  graph.assign p2 f32 [B, 4]
  graph.assign q2 f32 [B, 4]
  graph.assign r2 f32 [B, 4]
  graph.assign t2 f32 [B, 4]
  graph.assign s2 f32 [B, 4]
  graph.assign p3 f32 [B, 4]
  graph.assign q3 f32 [B, 4]
  graph.assign r3 f32 [B, 4]
  graph.assign t3 f32 [B, 4]
  graph.assign y f32 [B, 4]
  graph.assign h f32 [B, 4]
  graph.op linear(x, a0) -> (p0) loc("first.up|Linear||")
  graph.op tanh(p0) -> (q0) loc("first.up|Linear||")
  graph.op linear(q0, b0) -> (r0) loc("first.down|Linear||")
  graph.op tanh(r0) -> (t0) loc("first.down|Linear||")
  graph.op add(t0, x) -> (s0) loc("first|Mlp||")
  graph.op linear(s0, a1) -> (p1) loc("second.up|Linear||")
  graph.op tanh(p1) -> (q1) loc("second.up|Linear||")
  graph.op linear(q1, b1) -> (r1) loc("second.down|Linear||")
  graph.op tanh(r1) -> (t1) loc("second.down|Linear||")
  graph.op add(t1, s0) -> (s1) loc("second|Mlp||")
  graph.transfer s1 -> h
  graph.loop layers l in 0 to 3 {
    graph.op linear(h, a2[l]) -> (p2) loc("layers.{l}.up|Linear||")
    graph.op tanh(p2) -> (q2) loc("layers.{l}.up|Linear||")
    graph.op linear(q2, b2[l]) -> (r2) loc("layers.{l}.down|Linear||")
    graph.op tanh(r2) -> (t2) loc("layers.{l}.down|Linear||")
    graph.op add(t2, h) -> (s2) loc("layers.{l}|Mlp||")
    graph.transfer s2 -> h loc("layers.{l}|Mlp||")
  }
  graph.op linear(h, a3) -> (p3) loc("third.up|Linear||")
  graph.op tanh(p3) -> (q3) loc("third.up|Linear||")
  graph.op linear(q3, b3) -> (r3) loc("third.down|Linear||")
  graph.op tanh(r3) -> (t3) loc("third.down|Linear||")
  graph.op add(t3, h) -> (y) loc("third|Mlp||")
  graph.return (y) loc(unknown)
}

// -----

// No block: the places differ in an op, in what is read, in a dtype; they give three values, or share a tensor
// with what no block holds.
// CHECK-NOT: graph.call
// CHECK: graph.block entry {
// CHECK-NOT: graph.call
graph.variable x dynamic f32 [B, 4]
graph.variable z dynamic f16 [B, 4]
graph.variable w0 constant f32 [4, 4] {ref = "a.0.weight"}
graph.variable w1 constant f32 [4, 4] {ref = "a.1.weight"}
graph.variable w2 constant f32 [4, 4] {ref = "a.2.weight"}
graph.variable w3 constant f16 [4, 4] {ref = "a.3.weight"}
graph.block entry {
  graph.assign a0 f32 [B, 4]
  graph.assign b0 f32 [B, 4]
  graph.assign c0 f32 [B, 4]
  graph.assign a1 f32 [B, 4]
  graph.assign b1 f32 [B, 4]
  graph.assign c1 f32 [B, 4]
  graph.assign a2 f32 [B, 4]
  graph.assign b2 f32 [B, 4]
  graph.assign c2 f32 [B, 4]
  graph.assign a3 f16 [B, 4]
  graph.assign b3 f16 [B, 4]
  graph.assign c3 f16 [B, 4]
  graph.assign d f32 [B, 4]
  graph.assign e f32 [B, 16]
  graph.op linear(x, w0) -> (a0)
  graph.op tanh(a0) -> (b0)
  graph.op mul(b0, a0) -> (c0)
  graph.op linear(c0, w1) -> (a1)
  graph.op exp(a1) -> (b1)
  graph.op mul(b1, a1) -> (c1)
  graph.op linear(c1, w2) -> (a2)
  graph.op tanh(a2) -> (b2)
  graph.op mul(b2, x) -> (c2)
  graph.op linear(z, w3) -> (a3)
  graph.op tanh(a3) -> (b3)
  graph.op mul(b3, a3) -> (c3)
  graph.op linear(c2, w0) -> (d)
  graph.op concat(a0, b0, c0, d) -> (e) settings {axis = 1 : i64}
  graph.return (e, c3)
}

// -----

// A state that is read and written between is no part of a block.
// CHECK-NOT: graph.call
// CHECK: graph.block entry {
// CHECK-NOT: graph.call
graph.variable x dynamic f32 [4]
graph.variable s persistent f32 [4] {init = 0 : i64}
graph.block entry {
  graph.assign a f32 [4]
  graph.assign b f32 [4]
  graph.assign c f32 [4]
  graph.assign d f32 [4]
  graph.assign e f32 [4]
  graph.assign y f32 [4]
  graph.op add(x, s) -> (a)
  graph.cache_write a -> s
  graph.op exp(a) -> (b)
  graph.op add(b, s) -> (c)
  graph.cache_write c -> s
  graph.op exp(c) -> (d)
  graph.op add(d, s) -> (e)
  graph.cache_write e -> s
  graph.op exp(e) -> (y)
  graph.return (y)
}
