// RUN: openinfer-opt %s -p stamp-kernels --trace --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p stamp-kernels --split-input-file | filecheck %s --check-prefix PLAIN

// A kernel is stamped with the nodes of its location; their own stamps go, others stay.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %trace: memref<8xi64> {openinfer.arg = #nn.slot<trace>}
// CHECK-NEXT: nn.stamp "enter" "entry" []
// CHECK-NEXT: nn.stamp "pass" "" [1]
// CHECK-NEXT: nn.stamp "begin" "matmul_0" [2, 3]
// CHECK-NEXT: func.call @matmul_0(%x)
// CHECK-NEXT: nn.stamp "end" "matmul_0" [2, 3]
// CHECK-NEXT: nn.stamp "node" "" [4]
// CHECK-NEXT: func.return

// A plain build keeps what it has, and gets no argument.
// PLAIN-LABEL: func.func @step
// PLAIN-NOT: %trace
// PLAIN-NOT: nn.stamp "begin"
// PLAIN: nn.stamp "node" "" [2]
func.func @step(%x: memref<4xf32>) {
  nn.stamp "enter" "entry" []
  nn.stamp "pass" "" [1]
  nn.stamp "node" "" [2]
  nn.stamp "node" "" [3]
  func.call @matmul_0(%x) : (memref<4xf32>) -> () loc(fused["node 2"("p.oi":2:1), "node 3"("p.oi":3:1)])
  nn.stamp "node" "" [4]
  func.return
}
func.func private @matmul_0(%x: memref<4xf32>) {
  func.return
}
// -----
// Copies and writes of state take time too; kernels in a loop are stamped there, an op without a
// node is stamped without one.
// CHECK-LABEL: func.func @step
// CHECK: scf.for %i
// CHECK-NEXT: nn.stamp "turn" "l" [0] value %i
// CHECK-NEXT: nn.stamp "begin" "copy" [1]
// CHECK-NEXT: memref.copy
// CHECK-NEXT: nn.stamp "end" "copy" [1]
// CHECK: nn.stamp "begin" "commit" []
// CHECK-NEXT: nn.commit
// CHECK-NEXT: nn.stamp "end" "commit" []
func.func @step(%x: memref<4xf32>, %y: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    nn.stamp "turn" "l" [0] value %i
    memref.copy %x, %y : memref<4xf32> to memref<4xf32> loc("node 1"("p.oi":1:1))
  }
  nn.commit %y "s" : memref<4xf32>
  func.return
}
// -----
// Functions that prepare weights are no part of the step.
// CHECK-LABEL: func.func @prepare_0
// CHECK-NOT: nn.stamp
func.func @prepare_0(%x: memref<4xf32>, %y: memref<4xf32>) {
  memref.copy %x, %y : memref<4xf32> to memref<4xf32>
  func.return
}
