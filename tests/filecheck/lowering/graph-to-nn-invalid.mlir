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
