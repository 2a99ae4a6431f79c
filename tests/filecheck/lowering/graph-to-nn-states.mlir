// RUN: openinfer-opt %s -p graph-to-nn --split-input-file | filecheck %s

// An entry is written where its index says, growing first; a slice is read with its length as a
// size of its own, compared with the declared one. Plain values are carried and committed at the end.
// CHECK: held = ["step", "s"],
// CHECK-NEXT: late = ["step.0", "K.1"],
// CHECK: func.func @step(%x: tensor<4xf32>, %step: tensor<i32>, %s: tensor<4xf32>)
// CHECK: nn.define_size "step.0" =
// CHECK: %[[G:.*]] = nn.grow "K"[] axis 0 : i64 to
// CHECK: %[[O:.*]] = arith.subi %[[G]]
// CHECK: nn.state_write "K"[%[[O]]] kept [] node 1 : i64 = %x : tensor<4xf32>
// CHECK: %[[END:.*]] = nn.grow "K"[] axis 0 : i64 to
// CHECK: nn.define_size "K.1" =
// CHECK-NEXT: %[[V:.*]] = nn.state_read "K"[%{{.*}}] kept [0] : tensor<?x4xf32, #nn.dims<K.1, 4>>
// CHECK: nn.require %{{.*}} else "shape"
// CHECK: %ks = nn.cast_dims %[[V]] : tensor<?x4xf32, #nn.dims<K.1, 4>> to tensor<?x4xf32, #nn.dims<"step.0 + 1", 4>>
// CHECK: nn.commit %{{.*}} "step" : tensor<i32>
// CHECK-NEXT: nn.commit %{{.*}} "s" : tensor<4xf32>
graph.variable x dynamic f32 [4]
graph.variable step persistent i32
graph.variable s persistent f32 [4]
graph.variable K(t) persistent f32 [4] {table}
graph.block entry {
  graph.assign ks f32 ["step + 1", 4]
  graph.cache_write x -> K[step]
  graph.cache_read K[slice(0, "step + 1")] -> ks
  graph.op sum_axis(ks) -> (s2) settings {axes = [0 : i64]}
  graph.cache_write s2 -> s
  graph.cache_step step by 1
  graph.return
}
graph.variable s2 volatile f32 [4]
// -----
// Consumers of a yielded value are sections; each starts from the value as it was yielded.
// CHECK: %[[H:.*]] = nn.elementwise(%x) {kind = "neg"}
// CHECK: %{{.*}}, %{{.*}} = nn.sections -> (tensor<4xf32>, tensor<4xf32>) "a" {
// CHECK-NEXT: nn.elementwise(%[[H]]) {kind = "exp"}
// CHECK-NEXT: nn.end_section
// CHECK-NEXT: } "b" {
// CHECK-NEXT: nn.elementwise(%[[H]]) {kind = "abs"}
graph.variable x dynamic f32 [4]
graph.variable h volatile f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op neg(x) -> (h)
  graph.yield h
  graph.await h
  graph.return
}
graph.block a {
  graph.await h
  graph.op exp(h) -> (h)
  graph.yield h
}
graph.block b {
  graph.await h
  graph.op abs(h) -> (y)
  graph.yield h
}
// -----
// Where nothing survives a step and no size is late, nothing of it shows.
// CHECK: held = [],
// CHECK-NEXT: late = [],
// CHECK-NOT: nn.commit
// CHECK-NOT: nn.define_size
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.assign t f32 [4]
  graph.op neg(x) -> (t)
  graph.op abs(t) -> (y)
  graph.return
}
