// RUN: not openinfer-opt %s 2>&1 | filecheck %s

graph.variable y volatile f23 [B]
// CHECK: invalid-dtype.mlir:3
// CHECK-SAME: unknown dtype 'f23'
