// RUN: openinfer-opt %s -p graph-to-nn | filecheck %s

// A module without blocks is at this level already.
// CHECK: func.func @step(%x: tensor<4xf32>)
// CHECK-NEXT: func.return
func.func @step(%x: tensor<4xf32>) {
  func.return
}
