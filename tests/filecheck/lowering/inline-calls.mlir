// RUN: openinfer-opt %s -p inline-calls --split-input-file | filecheck %s

// Temporaries and constants are anew for each call; the last statement gives the result.
// CHECK: graph.variable g dynamic f32 [B, 4]
// CHECK: graph.variable fc1_w constant f32 [_, 4] {ref = "fc1.weight"}
// CHECK-NEXT: graph.variable fc2_w constant f32 [_, 4] {ref = "fc2.weight"}
// CHECK-NEXT: graph.block entry {
// CHECK-NEXT: graph.assign h _
// CHECK-NEXT: graph.assign h_a _
// CHECK-NEXT: graph.op linear(g, fc1_w) -> (h_a)
// CHECK-NEXT: graph.op relu(h_a) -> (h) settings {clamp_max = 6 : i64}
// CHECK-NEXT: graph.assign h_a_2 _
// CHECK-NEXT: graph.op linear(h, fc2_w) -> (h_a_2)
// CHECK-NEXT: graph.op relu(h_a_2) -> (h) settings {clamp_max = 4 : i64}
// CHECK-NEXT: graph.return (h)
// CHECK-NOT: graph.block dense
graph.variable g dynamic f32 [B, 4]
graph.block entry {
  graph.assign h _
  graph.call dense(g, "fc1") -> (h)
  graph.call dense(h, "fc2") -> (h) settings {limit = 4 : i64}
  graph.return (h)
}
graph.block dense(x, path, limit) defaults {limit = 6 : i64} {
  graph.variable w constant f32 [_, 4] {ref = "{path}.weight"}
  graph.op linear(x, w) -> (a)
  graph.op relu(a) -> (y) settings {clamp_max = #graph.name<limit>}
  graph.return (y)
}

// -----

// In a loop, a text with its index names a family.
// CHECK: graph.variable layer_l_1_w(l) constant f32 [4, 4] {pattern = "layer.{l + 1}.w"}
// CHECK: graph.loop layers l in 0 to 3 {
// CHECK-NEXT: graph.op linear(g, layer_l_1_w[l]) -> (g)
graph.variable g volatile f32 [B, 4]
graph.block entry {
  graph.loop layers l in 0 to 3 {
    graph.call dense(g, "layer.{l + 1}") -> (g)
  }
  graph.return (g)
}
graph.block dense(x, path) {
  graph.variable w constant f32 [4, 4] {ref = "{path}.w"}
  graph.op linear(x, w) -> (y)
  graph.return (y)
}

// -----

// A size takes the place of its parameter in expressions; what several statements end in is transferred.
// CHECK: graph.assign a_h _
// CHECK-NEXT: graph.op slice(g) -> (a_h) settings {start = #graph.size<"2*n + 2">, stop = #graph.size<"2*n + 4">}
// CHECK-NEXT: graph.assign a_k _
// CHECK-NEXT: graph.op neg(a_h) -> (a_k)
// CHECK-NEXT: graph.transfer a_h -> a
// CHECK-NEXT: graph.transfer a_k -> b
graph.variable g dynamic f32 [B, 4]
graph.block entry {
  graph.assign a _
  graph.assign b _
  graph.call pair(g, <"n + 1">) -> (a, b)
  graph.return (a, b)
}
graph.block pair(x, at) {
  graph.op slice(x) -> (h) settings {start = #graph.size<"2*at">, stop = #graph.size<"2*at + 2">}
  graph.op neg(h) -> (k)
  graph.return (h, k)
}

// -----

// A size is an operand: it is computed in front of the op. A plain number is a literal.
// CHECK: graph.loop layers l in 0 to 3 {
// CHECK-NEXT: graph.assign number _
// CHECK-NEXT: graph.op iota() -> (number) settings {shape = [], start = #graph.name<l>, dtype = #graph.name<i64>}
// CHECK-NEXT: graph.assign number_2 _
// CHECK-NEXT: graph.op mul(number, 2) -> (number_2)
// CHECK-NEXT: graph.assign number_3 _
// CHECK-NEXT: graph.op add(number_2, 1) -> (number_3)
// CHECK-NEXT: graph.op add(g, number_3) -> (g)
// CHECK-NEXT: graph.assign number_4 _
// CHECK-NEXT: graph.op iota() -> (number_4) settings {shape = [], start = #graph.name<B>, dtype = #graph.name<i64>}
// CHECK-NEXT: graph.op add(g, number_4) -> (g)
// CHECK-NEXT: graph.op add(g, 3) -> (g)
graph.variable u dynamic i64 [B]
graph.variable g volatile i64 [4]
graph.block entry {
  graph.loop layers l in 0 to 3 {
    graph.call more(g, <"2*l + 1">) -> (g)
    graph.call more(g, B) -> (g)
    graph.call more(g, 3) -> (g)
  }
  graph.return (g)
}
graph.block more(x, n) {
  graph.op add(x, n) -> (y)
  graph.return (y)
}

// -----

// A block without parameters stays, and so does its call.
// CHECK: graph.branch plain
// CHECK: graph.block plain {
graph.variable g volatile f32 [B, 4]
graph.block entry {
  graph.branch plain
  graph.return (g)
}
graph.block plain {
  graph.op relu(g) -> (g)
  graph.return
}
