// RUN: openinfer-opt %s --to graph --target-cpu avx2 --size D=12 --size most=64 | filecheck %s
// RUN: openinfer-opt %s --to nn --target-cpu avx2 --size D=12 --size most=64 | filecheck %s --check-prefix NN
// RUN: not openinfer-opt %s --to graph --target-cpu avx2 --size D=40 --size most=64 2>&1 | filecheck %s --check-prefix LARGE

// A bound stands as it is written, and what it asks for is bound. What a bound implies is not checked again.
// CHECK: graph.package_size "most" = 64
// CHECK: graph.size_bound half at_most 16
// CHECK-NEXT: graph.size_bound N at_least 2 at_most most

// One of sizes that are known is checked now, others before a step.
// NN: bounds = [
// NN-NEXT: {text = "2 <= N <= most", name = "N", size = "N", low = "2", high = "most"}
// NN-NEXT: ],
// NN-NEXT: requires = [
// NN-NEXT: {low = "M", high = "64", node = 3 : i64, kind = "bound"}
// NN-NEXT: ]

// LARGE: error[OI0612]: size `half` is 20, but `half <= 16` is declared (D = 40)
graph.size half = "D/2"
graph.size_bound half at_most 16
graph.size_bound N at_least 2 at_most most
graph.variable x dynamic f32 [N, D]
graph.variable m dynamic f32 [M, D]
graph.variable table constant f32 [most, D] {init = 1.0 : f64}
graph.block entry {
  graph.assign y f32 [N, D]
  graph.assign z f32 [M, D]
  graph.op slice(table) -> (y) settings {axis = 0 : i64, start = 0 : i64, stop = #graph.name<N>}
  graph.op slice(table) -> (z) settings {axis = 0 : i64, start = 0 : i64, stop = #graph.name<M>}
  graph.op add(x, y) -> (y)
  graph.op add(m, z) -> (z)
  graph.return (y, z)
}
