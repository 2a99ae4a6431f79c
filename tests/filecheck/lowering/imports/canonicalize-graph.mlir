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
// -----
// Matrices that are transposed one by one, a part of what was joined, rows that a product keeps apart.
// CHECK: graph.op transpose(x) -> (t) settings {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]}
// CHECK: graph.op matmul(y, w) -> ([[M:[a-z0-9_]+]])
// CHECK-NEXT: graph.op neg([[M]]) -> (n)
// CHECK-NOT: concat
// CHECK: graph.return (t, n)
graph.variable x dynamic f32 [B, 2, L, 4]
graph.variable y dynamic f32 [B, L, 4]
graph.variable w constant f32 [4, 3] {ref = "w"}
graph.block entry {
  graph.assign f f32 ["2*B", L, 4]
  graph.assign g f32 ["2*B", 4, L]
  graph.assign t f32 [B, 2, 4, L]
  graph.assign j f32 [B, L, 8]
  graph.assign p f32 [B, L, 4]
  graph.assign r f32 ["B*L", 4]
  graph.assign m f32 ["B*L", 3]
  graph.assign b f32 [B, L, 3]
  graph.assign n f32 [B, L, 3]
  graph.op reshape(x) -> (f) settings {shape = [#graph.size<"2*B">, #graph.size<L>, 4]}
  graph.op transpose(f) -> (g) settings {perm = [0, 2, 1]}
  graph.op reshape(g) -> (t) settings {shape = [#graph.size<B>, 2, 4, #graph.size<L>]}
  graph.op concat(y, y) -> (j) settings {axis = 2}
  graph.op slice(j) -> (p) settings {axis = 2, start = 4, stop = 8}
  graph.op reshape(p) -> (r) settings {shape = [#graph.size<"B*L">, 4]}
  graph.op matmul(r, w) -> (m)
  graph.op reshape(m) -> (b) settings {shape = [#graph.size<B>, #graph.size<L>, 3]}
  graph.op neg(b) -> (n)
  graph.return (t, n)
}
// -----
// Matrices that are transposed one by one, whose axes in front are others afterwards; rows that change places stay.
// CHECK: graph.op reshape(x) -> ([[R:[a-z0-9_]+]]) settings {shape = [#graph.size<B>, 4 : i64, #graph.size<L>, 8 : i64]}
// CHECK: graph.op transpose([[R]]) -> (t) settings {perm = [0 : i64, 1 : i64, 3 : i64, 2 : i64]}
// CHECK: graph.op reshape(x) -> (h)
// CHECK: graph.op transpose(h) -> (i)
// CHECK: graph.op reshape(i) -> (u)
graph.variable x dynamic f32 [B, 2, 2, L, 8]
graph.block entry {
  graph.assign f f32 ["4*B", L, 8]
  graph.assign g f32 ["4*B", 8, L]
  graph.assign t f32 [B, 4, 8, L]
  graph.assign h f32 ["4*B", 8, L]
  graph.assign i f32 ["4*B", L, 8]
  graph.assign u f32 [B, 4, 8, L]
  graph.op reshape(x) -> (f) settings {shape = [#graph.size<"4*B">, #graph.size<L>, 8]}
  graph.op transpose(f) -> (g) settings {perm = [0, 2, 1]}
  graph.op reshape(g) -> (t) settings {shape = [#graph.size<B>, 4, 8, #graph.size<L>]}
  graph.op reshape(x) -> (h) settings {shape = [#graph.size<"4*B">, 8, #graph.size<L>]}
  graph.op transpose(h) -> (i) settings {perm = [0, 2, 1]}
  graph.op reshape(i) -> (u) settings {shape = [#graph.size<B>, 4, 8, #graph.size<L>]}
  graph.return (t, u)
}
// -----
// Settings that say what goes without saying; another axis, and windows that differ, stay.
// CHECK: graph.op softmax(x) -> (a){{$}}
// CHECK-NEXT: graph.op softmax(a) -> (b) settings {axis = 1 : i64}
// CHECK-NEXT: graph.op max_pool2d(b) -> (c) settings {kernel_size = 2 : i64, stride = [1 : i64, 2 : i64]}
graph.variable x dynamic f32 [B, 3, 8, 8]
graph.block entry {
  graph.assign a f32 [B, 3, 8, 8]
  graph.assign b f32 [B, 3, 8, 8]
  graph.assign c f32 [B, 3, 7, 4]
  graph.op softmax(x) -> (a) settings {axis = 3}
  graph.op softmax(a) -> (b) settings {axis = 1}
  graph.op max_pool2d(b) -> (c) settings {kernel_size = [2, 2], stride = [1, 2], padding = [0, 0]}
  graph.return (c)
}
