// RUN: not openinfer-opt %s 2>&1 | filecheck %s

graph.size_bound B
// CHECK: invalid-bound.mlir:3
// CHECK-SAME: needs `at_least`, `at_most` or both
