// RUN: openinfer-opt %s -p name-sizes --split-input-file | filecheck %s

// Dimensions, shapes, heads and bounds of loops; of two names with one number the first. A size that names
// nothing goes.
// CHECK: graph.package_size "hidden_size" = 64
// CHECK-NEXT: graph.package_size "num_attention_heads" = 4
// CHECK-NEXT: graph.package_size "num_hidden_layers" = 3
// CHECK-NEXT: graph.variable x dynamic f32 [B, 5, 64]
// CHECK-NEXT: graph.variable w(l) constant f32 [hidden_size, hidden_size]
// CHECK: graph.loop layers l in 0 to num_hidden_layers
// CHECK: graph.op attention(h, h, h) -> (h) settings {heads = #graph.name<num_attention_heads>}
// CHECK: settings {shape = [#graph.name<B>, 5 : i64, 4 : i64, 16 : i64]}
graph.package_size "hidden_size" = 64
graph.package_size "intermediate_size" = 64
graph.package_size "num_attention_heads" = 4
graph.package_size "num_hidden_layers" = 3
graph.package_size "type_vocab_size" = 5
graph.package_size "vocab_size" = 900
graph.variable x dynamic f32 [B, 5, 64]
graph.variable w(l) constant f32 [64, 64] {pattern = "w.{l}"}
graph.block entry {
  graph.assign h f32 [B, 5, 64]
  graph.op relu(x) -> (h)
  graph.loop layers l in 0 to 3 {
    graph.op linear(h, w[l]) -> (h)
    graph.op attention(h, h, h) -> (h) settings {heads = 4}
  }
  graph.assign y f32 [B, 5, 4, 16]
  graph.op reshape(h) -> (y) settings {shape = [#graph.name<B>, 5, 4, 16]}
  graph.return (y)
}
// -----
// A small number may be anything, and an order of axes has no sizes; a name that the program has stays its.
// CHECK-NOT: graph.package_size
// CHECK: graph.variable w constant f32 [3, 2]
// CHECK: graph.op transpose(w) -> (vocab_size) settings {perm = [1 : i64, 0 : i64]}
graph.package_size "hidden_size" = 3
graph.package_size "vocab_size" = 64
graph.package_size "num_attention_heads" = 1
graph.variable w constant f32 [3, 2] {ref = "w"}
graph.block entry {
  graph.assign vocab_size f32 [2, 3]
  graph.op transpose(w) -> (vocab_size) settings {perm = [1, 0]}
  graph.return (vocab_size)
}
