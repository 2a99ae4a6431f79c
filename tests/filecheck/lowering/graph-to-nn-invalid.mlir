// RUN: not openinfer-opt %s -p graph-to-nn --split-input-file 2>&1 | filecheck %s

// CHECK: W[l]: l = 1 but the model has W for l in 0..1
graph.package_tensor "W.0" f32 [4]
graph.variable W(l) constant f32 [4] {pattern = "W.{l}"}
graph.variable y volatile f32 [4]
graph.block entry {
  graph.loop a l in 0 to 2 {
  graph.op exp(W[l]) -> (y)
  }
  graph.return
}
// -----
// An index of the caller is not seen in a block that is called.
// CHECK: i is not declared
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.loop a i in 0 to 2 {
    graph.branch called
  }
  graph.return
}
graph.block called {
  graph.loop b j in 0 to i {
    graph.op add(y, x) -> (y)
  }
  graph.return
}
// -----
// CHECK: size N of y has no value: neither the model, nor the given sizes, nor the shape of an input fixes it
graph.variable y volatile f32 [N]
graph.block entry {
  graph.return
}
// -----
// CHECK: add gives f32[4], but its output is declared f32[5]
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [5]
graph.block entry {
  graph.op add(x, x) -> (y)
  graph.return
}
// -----
// What every step comes to has a shape on some way, or the program is refused.
// CHECK: h has an open dimension and was not written yet
graph.variable y volatile f32 [2]
graph.block entry {
  graph.assign h f32 ["_"]
  graph.op neg(h) -> (y)
  graph.return
}
// -----
// CHECK: a dimension of t names the index of a loop that does not run here
graph.variable P persistent f32 ["_", "_"]
graph.block entry {
  graph.assign o f32 ["_", "_"]
  graph.cache_read P -> o
  graph.loop l i in 0 to 3 {
    graph.assign t f32 ["i + 1", "_"]
  }
  graph.op neg(o) -> (t)
  graph.return
}
// -----
// CHECK: dimension n + 1 of x names the scalar variable n, but an input has its shape before a step runs
graph.variable n dynamic i32
graph.variable x dynamic f32 ["n + 1"]
graph.block entry {
  graph.return
}
// -----
// CHECK: error[OI0327]: the model has 2 of the 1000000000 members of W for l in 0..1000000000, where at most 65536 may be; 'W.999999999' reaches farthest
graph.package_tensor "W.0" f32 [4]
graph.package_tensor "W.999999999" f32 [4]
graph.variable W(l) constant f32 [4] {pattern = "W.{l}"}
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op exp(W[0]) -> (y)
  graph.return
}
