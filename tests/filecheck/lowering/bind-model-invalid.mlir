// RUN: python %S/Inputs/make_package.py %t.oinf
// RUN: not openinfer-opt %s --to graph --model %t.oinf 2>&1 | filecheck %s

// Every declaration that does not fit is reported, with both sides.
// CHECK: W is declared [D, 3] with D = 4, but tensor 'W.0' of the model has shape [4, 4]
// CHECK: b is declared f16, but tensor 'b' of the model is f32
graph.variable W(l) constant f32 [D, 3] {pattern = "W.{l}"}
graph.variable b constant f16 [4]
graph.block entry {
  graph.return
}
