// RUN: openinfer-opt %s --to graph --target-cpu avx2 --size D=12 | filecheck %s
// RUN: openinfer-opt %s --to nn --target-cpu avx2 --size D=12 | filecheck %s --check-prefix NN
// RUN: not openinfer-opt %s --to graph --target-cpu avx2 --size D=10 2>&1 | filecheck %s --check-prefix REST
// RUN: not openinfer-opt %s --to graph --target-cpu avx2 --size D=12 --size heads=3 2>&1 | filecheck %s --check-prefix TWO

// What a size stands for is put in where it is named; in a setting it is a number as soon as it is one.
// What only a step knows stays an expression, whose division the step checks.
// CHECK: graph.size heads = 4
// CHECK-NEXT: graph.size head = "D/4"
// CHECK-NEXT: graph.size half = "N/2"
// CHECK-NEXT: graph.variable x dynamic f32 [N, D]
// CHECK-NEXT: graph.variable K(t) persistent f32 ["D/4"] {table, fixed = {t = 4 : i64}}
// CHECK-NEXT: graph.variable y volatile f32 ["N/2", 2, 4, "D/4"]
// CHECK: graph.loop a l in 0 to 4 {
// CHECK: graph.op reshape(x) -> (y) settings {shape = [#graph.size<"N/2">, 2 : i64, 4 : i64, 3 : i64]}

// NN: requires = [
// NN-NEXT: {low = "N", high = "2*(N/2)", node = -1 : i64, kind = "remainder"}

// REST: error[OI0288]: size `head`: D/4 = 10 / 4 leaves a remainder
// TWO: error[OI0287]: size `heads` is 4 in the program, but 3 was given
graph.size heads = 4
graph.size head = "D/heads"
graph.size half = "N/2"
graph.variable x dynamic f32 [N, D]
graph.variable K(t) persistent f32 [head] {table, fixed = {t = #graph.name<heads>}}
graph.variable y volatile f32 [half, 2, heads, head]
graph.block entry {
  graph.loop a l in 0 to heads {
    graph.assign k f32 [head]
    graph.cache_write k -> K[l]
  }
  graph.op reshape(x) -> (y) settings {shape = [#graph.name<half>, 2 : i64, #graph.name<heads>, #graph.name<head>]}
  graph.return
}
