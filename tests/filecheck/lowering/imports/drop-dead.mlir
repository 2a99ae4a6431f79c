// RUN: openinfer-opt %s -p drop-dead --split-input-file | filecheck %s

// What nobody reads goes, and what only that needed: ops, temporaries, constants, loops.
// CHECK: graph.variable x dynamic
// CHECK-NEXT: graph.variable n persistent
// CHECK-NEXT: graph.variable w constant
// CHECK-NEXT: graph.block entry
// CHECK-NEXT: graph.assign y
// CHECK-NEXT: graph.op mul(x, w) -> (y)
// CHECK-NEXT: graph.return (y)
graph.variable x dynamic f32 [B, 4]
graph.variable n persistent i64
graph.variable w constant f32 [4] {ref = "w"}
graph.variable c constant f32 [4] {ref = "c"}
graph.block entry {
  graph.assign u f32 [B, 4]
  graph.assign v f32 [B, 4]
  graph.assign y f32 [B, 4]
  graph.assign m i64
  graph.op add(x, c) -> (u)
  graph.op mul(u, 2) -> (v)
  graph.loop layers l in 0 to 3 {
    graph.cache_read n -> m
  }
  graph.op mul(x, w) -> (y)
  graph.return (y)
}
// -----
// Half of a split is read, a volatile is a result, a size names a scalar, and a state is written.
// CHECK: graph.variable steps constant
// CHECK: graph.op split(x) -> (a, b)
// CHECK-NEXT: graph.op neg(a) -> (y)
// CHECK-NEXT: graph.cache_write y -> K[steps]
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [2]
graph.variable steps constant i64 {init = 1 : i64}
graph.variable K(t) persistent f32 [2] {table}
graph.block entry {
  graph.assign a f32 [2]
  graph.assign b f32 [2]
  graph.op split(x) -> (a, b)
  graph.op neg(a) -> (y)
  graph.cache_write y -> K[steps]
  graph.return (y)
}
