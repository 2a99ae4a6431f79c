// RUN: python %S/Inputs/make_package.py %t.oinf
// RUN: openinfer-opt %s --to graph --model %t.oinf --target-cpu avx2 --split-input-file | filecheck %s
// RUN: openinfer-opt %s --to graph --model %t.oinf --target-cpu avx2 --strict-math --trace --split-input-file | filecheck %s --check-prefix FACTS

// What the options ask for stands in the module; what they leave at the default does not.
// FACTS: builtin.module attributes {openinfer.target = "avx2", openinfer.strict_math, openinfer.traced} {
// What the program names stands in the module: sizes, also those that a shape gives, the members of
// a family, metadata. What it does not name does not.
// CHECK: builtin.module attributes {openinfer.target = "avx2"} {
// CHECK-NEXT: graph.package_size "D" = 4
// CHECK-NEXT: graph.package_size "depth" = 2
// CHECK-NEXT: graph.package_tensor "W.0" f32 [4, 4]
// CHECK-NEXT: graph.package_tensor "W.1" f32 [4, 4]
// CHECK-NEXT: graph.package_tensor "b" f32 [4]
// CHECK-NEXT: graph.package_value "eps" = 5.000000e-01 : f64
// CHECK-NEXT: graph.variable x dynamic f32 [N, D]
graph.variable x dynamic f32 [N, D]
graph.variable W(l) constant f32 [D, D] {pattern = "W.{l}"}
graph.variable bias constant f32 [D] {ref = "b"}
graph.variable y volatile f32 [N, D]
graph.block entry {
  graph.loop a l in 0 to depth {
    graph.op matmul(x, W[l]) -> (y)
  }
  graph.op layer_norm(y, bias) -> (y) settings {eps = #graph.name<eps>}
  graph.return
}
// -----
// A module that is bound already, a dump that is resumed, stays as it is; and a dynamic variable
// takes nothing from the package.
// FACTS: builtin.module attributes {openinfer.target = "avx2", openinfer.strict_math, openinfer.traced} {
// FACTS-NEXT: graph.package_size "depth" = 7
// CHECK: builtin.module
// CHECK-NEXT: graph.package_size "depth" = 7
// CHECK-NEXT: graph.variable b dynamic f32 [depth]
graph.package_size "depth" = 7
graph.variable b dynamic f32 [depth]
graph.block entry {
  graph.return
}
// -----
// CHECK: builtin.module
// CHECK-NEXT: graph.variable b dynamic f32 [N]
graph.variable b dynamic f32 [N]
graph.block entry {
  graph.return
}
