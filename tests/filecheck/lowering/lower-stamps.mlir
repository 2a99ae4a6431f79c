// RUN: openinfer-opt %s -p lower-stamps --split-input-file | filecheck %s

// Equal stamps have one number; the record is written by the first thread only.
// CHECK: stamps = [
// CHECK-NEXT: {phase = "pass", what = "", nodes = [1 : i64]},
// CHECK-NEXT: {phase = "begin", what = "matmul_0", nodes = [2 : i64, 3 : i64]}
// CHECK-NEXT: ]
// CHECK-LABEL: func.func @step
// CHECK: arith.constant 0 : i64
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %thread
// CHECK-NEXT: scf.if %[[FIRST]] {
// CHECK-NEXT: func.call @openinfer_stamp(%trace, %{{.*}}, %{{.*}}) : (memref<8xi64>, i64, i64) -> ()
// CHECK: arith.constant 1 : i64
// CHECK: func.call @openinfer_stamp(%trace
// CHECK: arith.constant 0 : i64
// CHECK: func.call @openinfer_stamp(%trace
// CHECK-NOT: nn.stamp
// CHECK: func.func private @openinfer_stamp(memref<8xi64>, i64, i64)
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%trace: memref<8xi64> {openinfer.arg = #nn.slot<trace>}, %thread: index {openinfer.arg = #nn.slot<thread>}) {
  nn.stamp "pass" "" [1] thread %thread
  nn.stamp "begin" "matmul_0" [2, 3] thread %thread
  nn.stamp "pass" "" [1] thread %thread
  func.return
}
}
// -----
// One thread asks nothing; the index of a loop is the value.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.if
// CHECK: %[[I:.*]] = arith.index_cast %i : index to i64
// CHECK: func.call @openinfer_stamp(%trace, %{{.*}}, %[[I]])
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%trace: memref<8xi64> {openinfer.arg = #nn.slot<trace>}, %i: index {openinfer.arg = #nn.slot<size "i">}) {
  nn.stamp "turn" "l" [1] value %i
  func.return
}
}
// -----
// A watched build has no record: the host is told at once.
// CHECK-LABEL: func.func @step
// CHECK: %[[NONE:.*]] = arith.constant -1 : index
// CHECK: func.call @openinfer_observe(%{{.*}}, %[[NONE]], %{{.*}}) : (index, index, index) -> ()
// CHECK: func.func private @openinfer_observe(index, index, index)
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<input "x">}) {
  nn.stamp "enter" "entry" []
  func.return
}
}
// -----
// Without stamps nothing changes.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: func.return
// CHECK-NOT: openinfer_stamp
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%trace: memref<8xi64> {openinfer.arg = #nn.slot<trace>}) {
  func.return
}
}
