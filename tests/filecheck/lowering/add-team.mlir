// RUN: openinfer-opt %s -p add-team --split-input-file | filecheck %s

// Declared team functions get their bodies; the lead and the worker call the entry.

// CHECK: llvm.func @openinfer_step
// CHECK: llvm.func @openinfer_team_take({{.*}}) -> i1 {
// CHECK: llvm.cmpxchg
// CHECK: llvm.func @openinfer_lead
// CHECK: llvm.call @openinfer_step
// CHECK: llvm.func @openinfer_worker
// CHECK: llvm.call @openinfer_step
llvm.func @openinfer_team_wait(!llvm.ptr, i64)
llvm.func @openinfer_team_take(!llvm.ptr, i64) -> i1
llvm.func @openinfer_team_done(!llvm.ptr)
llvm.func @openinfer_step(%frame: !llvm.ptr) {
  llvm.return
}

// -----

// A program whose loops are not shared stays without a team.

// CHECK: llvm.func @openinfer_step
// CHECK-NOT: openinfer_lead
llvm.func @openinfer_step(%frame: !llvm.ptr) {
  llvm.return
}
