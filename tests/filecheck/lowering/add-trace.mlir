// RUN: openinfer-opt %s -p add-trace --split-input-file | filecheck %s

// The declared function gets its body: an entry when there is room, a count when there is none.

// CHECK: llvm.func @step
// CHECK: llvm.func @clock_gettime(i32, !llvm.ptr) -> i32
// CHECK: llvm.func @openinfer_stamp(%{{.*}}: !llvm.ptr, %stamp: i64, %value: i64) {
// CHECK: llvm.icmp "slt" %count, %capacity
// CHECK: llvm.call @clock_gettime
// CHECK-NOT: llvm.func @openinfer_stamp
llvm.func @openinfer_stamp(!llvm.ptr, i64, i64)
llvm.func @step(%trace: !llvm.ptr, %one: i64) {
  llvm.call @openinfer_stamp(%trace, %one, %one) : (!llvm.ptr, i64, i64) -> ()
  llvm.return
}

// -----

// A module without stamps stays as it is.

// CHECK: llvm.func @step
// CHECK-NOT: openinfer_stamp
llvm.func @step(%frame: !llvm.ptr) {
  llvm.return
}
