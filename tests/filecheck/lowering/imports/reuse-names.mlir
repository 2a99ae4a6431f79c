// RUN: openinfer-opt %s -p reuse-names --split-input-file | filecheck %s

// The value that goes round in the loop is written in place, and where it begins; the sum takes its name and
// not that of the other operand.
// CHECK: graph.op relu(x) -> (h)
// CHECK-NEXT: graph.loop layers l in 0 to 3 {
// CHECK-NEXT: graph.assign a f32 [B, 4]
// CHECK-NEXT: graph.op matmul(h, w) -> (a)
// CHECK-NEXT: graph.op gelu(a) -> (a)
// CHECK-NEXT: graph.op add(a, h) -> (h)
// CHECK-NEXT: }
// CHECK-NEXT: graph.assign y f32 [B, 4]
// CHECK-NEXT: graph.op exp(h) -> (y)
// CHECK-NEXT: graph.return (y)
graph.variable x dynamic f32 [B, 4]
graph.variable w constant f32 [4, 4] {ref = "w"}
graph.block entry {
  graph.assign r f32 [B, 4]
  graph.op relu(x) -> (r)
  graph.assign h f32 [B, 4]
  graph.transfer r -> h
  graph.loop layers l in 0 to 3 {
    graph.assign a f32 [B, 4]
    graph.op matmul(h, w) -> (a)
    graph.assign g f32 [B, 4]
    graph.op gelu(a) -> (g)
    graph.assign s f32 [B, 4]
    graph.op add(g, h) -> (s)
    graph.transfer s -> h
  }
  graph.assign e f32 [B, 4]
  graph.op exp(h) -> (e)
  graph.assign y f32 [B, 4]
  graph.transfer e -> y
  graph.return (y)
}
// -----
// Not in place: a is needed again, an input is not written, the type is another one, the name of a result
// stays its, and what a loop reads of before lives until it ends.
// CHECK: graph.op relu(x) -> (a)
// CHECK: graph.op exp(a) -> (b)
// CHECK: graph.op add(a, b) -> (a)
// CHECK: graph.op sum_axis(a) -> (d)
// CHECK: graph.op relu(d) -> (e)
// CHECK: graph.op relu(a) -> (t)
// CHECK: graph.op exp(t) -> (t)
graph.variable x dynamic f32 [B, 4]
graph.block entry {
  graph.assign a f32 [B, 4]
  graph.op relu(x) -> (a)
  graph.assign b f32 [B, 4]
  graph.op exp(a) -> (b)
  graph.assign c f32 [B, 4]
  graph.op add(a, b) -> (c)
  graph.assign d f32 [B]
  graph.op sum_axis(c) -> (d) settings {axes = [1]}
  graph.assign e f32 [B]
  graph.op relu(d) -> (e)
  graph.assign s f32 [B, 4]
  graph.op log(x) -> (s)
  graph.loop rounds i in 0 to 2 {
    graph.assign t f32 [B, 4]
    graph.op relu(c) -> (t)
    graph.assign u f32 [B, 4]
    graph.op exp(t) -> (u)
    graph.op add(u, s) -> (s)
  }
  graph.assign f f32 [B, 4]
  graph.op exp(c) -> (f)
  graph.return (s, e, f)
}
