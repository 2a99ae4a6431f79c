// RUN: openinfer-opt %s -p recognize-norms --split-input-file | filecheck %s

// CHECK: graph.op rms_norm(x, w) -> (y) settings {eps = 1.000000e-06 : f64}
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, 8]
graph.variable w constant f32 [8] {ref = "w"}
graph.block entry {
  graph.assign s f32 [B, 8]
  graph.assign m f32 [B, 1]
  graph.assign e f32 [B, 1]
  graph.assign r f32 [B, 1]
  graph.assign n f32 [B, 8]
  graph.assign y f32 [B, 8]
  graph.op pow(x, 2.0) -> (s)
  graph.op mean_axis(s) -> (m) settings {axes = [-1], keepdims = true}
  graph.op add(m, 9.999999974752427e-07) -> (e)
  graph.op rsqrt(e) -> (r)
  graph.op mul(x, r) -> (n)
  graph.op mul(w, n) -> (y)
  graph.return (y)
}
// -----
// The same of x less its mean, over two axes, divided by a root.
// CHECK: graph.op layer_norm(x, w, b) -> (y) settings {eps = 1.000000e-05 : f64, axis = -2 : i64}
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [B, 3, 4]
graph.variable w constant f32 [3, 4] {ref = "w"}
graph.variable b constant f32 [3, 4] {ref = "b"}
graph.block entry {
  graph.assign m f32 [B, 1, 1]
  graph.assign d f32 [B, 3, 4]
  graph.assign s f32 [B, 3, 4]
  graph.assign v f32 [B, 1, 1]
  graph.assign e f32 [B, 1, 1]
  graph.assign r f32 [B, 1, 1]
  graph.assign n f32 [B, 3, 4]
  graph.assign t f32 [B, 3, 4]
  graph.assign y f32 [B, 3, 4]
  graph.op mean_axis(x) -> (m) settings {axes = [1, 2], keepdims = true}
  graph.op sub(x, m) -> (d)
  graph.op mul(d, d) -> (s)
  graph.op mean_axis(s) -> (v) settings {axes = [1, 2], keepdims = true}
  graph.op add(v, 1.0e-05) -> (e)
  graph.op sqrt(e) -> (r)
  graph.op div(d, r) -> (n)
  graph.op mul(n, w) -> (t)
  graph.op add(t, b) -> (y)
  graph.return (y)
}
// -----
// Almost: the mean of other squares, of the first axis, and a weight for each row.
// CHECK: graph.op mul(x, r) -> (n)
// CHECK: graph.op rms_norm(x) -> (n3)
// CHECK: graph.op mul(n3, w) -> (y)
graph.variable x dynamic f32 [4, 4]
graph.variable z dynamic f32 [4, 4]
graph.variable w constant f32 [4, 1] {ref = "w"}
graph.block entry {
  graph.assign s f32 [4, 4]
  graph.assign m f32 [4, 1]
  graph.assign e f32 [4, 1]
  graph.assign r f32 [4, 1]
  graph.assign n f32 [4, 4]
  graph.assign m2 f32 [1, 4]
  graph.assign e2 f32 [1, 4]
  graph.assign r2 f32 [1, 4]
  graph.assign s2 f32 [4, 4]
  graph.assign n2 f32 [4, 4]
  graph.assign m3 f32 [4, 1]
  graph.assign e3 f32 [4, 1]
  graph.assign r3 f32 [4, 1]
  graph.assign n3 f32 [4, 4]
  graph.assign y f32 [4, 4]
  graph.op mul(z, z) -> (s)
  graph.op mean_axis(s) -> (m) settings {axes = [1], keepdims = true}
  graph.op add(m, 1.0e-05) -> (e)
  graph.op rsqrt(e) -> (r)
  graph.op mul(x, r) -> (n)
  graph.op mul(x, x) -> (s2)
  graph.op mean_axis(s2) -> (m2) settings {axes = [0], keepdims = true}
  graph.op add(m2, 1.0e-05) -> (e2)
  graph.op rsqrt(e2) -> (r2)
  graph.op mul(x, r2) -> (n2)
  graph.op mean_axis(s2) -> (m3) settings {axes = [1], keepdims = true}
  graph.op add(m3, 1.0e-05) -> (e3)
  graph.op rsqrt(e3) -> (r3)
  graph.op mul(x, r3) -> (n3)
  graph.op mul(n3, w) -> (y)
  graph.return (y, n, n2)
}
// -----
// Groups of channels as instances of their own, with weight and bias of the channels behind them.
// CHECK: graph.variable w_2 constant f32 [8] {ref = "w_2"}
// CHECK: graph.variable b_2 constant f32 [8] {ref = "b_2"}
// CHECK: graph.op group_norm(x, w_2, b_2) -> (y) settings {groups = 4 : i64, eps = 1.000000e-05 : f64}
// CHECK-NEXT: graph.return
graph.variable x dynamic f32 [2, 8, 5, 5]
graph.variable one constant f32 [4] {init = 1.0}
graph.variable zero constant f32 [4] {init = 0.0}
graph.variable w constant f32 [8, 1, 1] {init = 2.0}
graph.variable b constant f32 [8, 1, 1] {init = 3.0}
graph.block entry {
  graph.assign g f32 [2, 4, 50]
  graph.assign n f32 [2, 4, 50]
  graph.assign t f32 [2, 8, 5, 5]
  graph.assign s f32 [2, 8, 5, 5]
  graph.assign y f32 [2, 8, 5, 5]
  graph.op reshape(x) -> (g) settings {shape = [2, 4, 50]}
  graph.op instance_norm(g, one, zero) -> (n)
  graph.op reshape(n) -> (t) settings {shape = [2, 8, 5, 5]}
  graph.op mul(t, w) -> (s)
  graph.op add(s, b) -> (y)
  graph.return (y)
}
// -----
// Weights that differ from group to group, and groups across instances, stay.
// CHECK: graph.op instance_norm(g, w, zero) -> (n)
// CHECK: graph.op instance_norm(k, one, zero) -> (m)
graph.variable x dynamic f32 [2, 8, 5, 5]
graph.variable one constant f32 [4] {init = 1.0}
graph.variable zero constant f32 [4] {init = 0.0}
graph.variable w constant f32 [4] {ref = "w"}
graph.block entry {
  graph.assign g f32 [2, 4, 50]
  graph.assign n f32 [2, 4, 50]
  graph.assign y f32 [2, 8, 5, 5]
  graph.assign k f32 [1, 4, 100]
  graph.assign m f32 [1, 4, 100]
  graph.assign z f32 [2, 8, 5, 5]
  graph.op reshape(x) -> (g) settings {shape = [2, 4, 50]}
  graph.op instance_norm(g, w, zero) -> (n)
  graph.op reshape(n) -> (y) settings {shape = [2, 8, 5, 5]}
  graph.op reshape(x) -> (k) settings {shape = [1, 4, 100]}
  graph.op instance_norm(k, one, zero) -> (m)
  graph.op reshape(m) -> (z) settings {shape = [2, 8, 5, 5]}
  graph.return (y, z)
}
