// RUN: not openinfer-opt %s 2>&1 | filecheck %s

// A package may hold blocks; no variable does.
graph.package_tensor "W" q8_0 [8, 64]
graph.variable W constant q8_0 [8, 64]
// CHECK: invalid-block-dtype.mlir:5
// CHECK-SAME: unknown dtype 'q8_0'
