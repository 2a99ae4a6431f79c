// RUN: openinfer-opt %s -p add-poll --split-input-file | filecheck %s

// The declared functions get their bodies: the host is asked when it is due, on the thread of the step.

// CHECK: llvm.func @step
// CHECK: llvm.func @openinfer_interrupted() -> i32
// CHECK: llvm.func internal @openinfer_poll_begin
// CHECK: llvm.store %own, %thread_at atomic monotonic
// CHECK: llvm.func internal @openinfer_poll(%{{.*}}: !llvm.ptr) -> i1 {
// CHECK: llvm.readcyclecounter
// CHECK: llvm.icmp "ugt" %left, %span
// CHECK: llvm.call @openinfer_interrupted() : () -> i32
// CHECK-NOT: llvm.func @openinfer_poll
llvm.func @openinfer_poll(!llvm.ptr) -> i1
llvm.func @openinfer_poll_begin(!llvm.ptr)
llvm.func @step(%poll: !llvm.ptr) {
  llvm.call @openinfer_poll_begin(%poll) : (!llvm.ptr) -> ()
  %0 = llvm.call @openinfer_poll(%poll) : (!llvm.ptr) -> i1
  llvm.return
}

// -----

// A module that does not ask stays as it is.

// CHECK: llvm.func @step
// CHECK-NOT: openinfer_
llvm.func @step(%frame: !llvm.ptr) {
  llvm.return
}
