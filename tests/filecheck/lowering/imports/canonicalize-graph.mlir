// RUN: openinfer-opt %s -p canonicalize-graph --split-input-file | filecheck %s

// Reshapes join and vanish, x * 1 is x, and add stretches its operand itself.
// CHECK: graph.op add(h, x) -> (y)
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, 4]
graph.variable h dynamic f32 [3, B, 4]
graph.variable one constant f32 {init = 1.0}
graph.block entry {
  graph.assign u f32 [B, 1, 4]
  graph.assign v f32 [B, 4]
  graph.assign w f32 [B, 4]
  graph.assign e f32 [3, B, 4]
  graph.assign y f32 [3, B, 4]
  graph.op reshape(x) -> (u) settings {shape = [#graph.size<B>, 1, 4]}
  graph.op reshape(u) -> (v) settings {shape = [#graph.size<B>, 4]}
  graph.op mul(v, one) -> (w)
  graph.op expand(w) -> (e) settings {shape = [3, #graph.size<B>, 4]}
  graph.op add(h, e) -> (y)
  graph.return (y)
}
// -----
// Transposes join; a constant of one element is a number.
// CHECK: graph.op transpose(x) -> (v) settings {perm = [1 : i64, 2 : i64, 0 : i64]}
// CHECK: graph.op pow(v, 2.0) -> (y)
graph.variable x dynamic f32 [2, 3, 4]
graph.variable two constant f32 [1] {init = 2.0}
graph.block entry {
  graph.assign u f32 [2, 4, 3]
  graph.assign v f32 [3, 4, 2]
  graph.assign y f32 [3, 4, 2]
  graph.op transpose(x) -> (u) settings {perm = [0, 2, 1]}
  graph.op permute(u) -> (v) settings {perm = [2, 1, 0]}
  graph.op pow(v, two) -> (y)
  graph.return (y)
}
// -----
// The stretched shape is the result's, a transpose of equal sizes moves elements, a carried value changes.
// CHECK: graph.op expand(x) -> (e)
// CHECK: graph.op transpose(e)
// CHECK: graph.transfer u -> h
// CHECK: graph.op reshape(h) -> (r)
// CHECK: graph.op add(r, u) -> (t)
graph.variable x dynamic f32 [4]
graph.block entry {
  graph.assign e f32 [4, 4]
  graph.assign u f32 [4, 4]
  graph.assign v f32 [4, 4]
  graph.assign h f32 [4, 4]
  graph.assign r f32 [4, 4]
  graph.assign t f32 [4, 4]
  graph.assign y f32 [4, 4]
  graph.op expand(x) -> (e) settings {shape = [4, 4]}
  graph.op transpose(e) -> (u)
  graph.transfer u -> h
  graph.op reshape(h) -> (r) settings {shape = [4, 4]}
  graph.op add(r, u) -> (t)
  graph.transfer t -> h
  graph.op add(h, r) -> (y)
  graph.return (y)
}
