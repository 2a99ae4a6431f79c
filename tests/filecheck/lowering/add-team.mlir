// RUN: openinfer-opt %s -p add-team --split-input-file | filecheck %s

// Jobs: a fork stores its kernel's number and arguments and calls the lead, which opens the job.

// CHECK: llvm.func @openinfer_team_wait(!llvm.ptr, i64, i64)
// CHECK: llvm.func internal @openinfer_fork_k(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %[[JOB:job\S*]]: !llvm.ptr, %[[TEAM:team\S*]]: !llvm.ptr)
// CHECK: llvm.call @openinfer_lead(%[[JOB]], %[[TEAM]])
// CHECK: llvm.func internal @openinfer_job(%frame{{\S*}}: !llvm.ptr)
// CHECK: llvm.call @k_shared
// CHECK: llvm.func @openinfer_lead(!llvm.ptr, !llvm.ptr)
llvm.func @openinfer_team_wait(!llvm.ptr, i64, i64)
llvm.func @openinfer_fork_k(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr)
llvm.func internal @k_shared(%x: !llvm.ptr, %n: i64, %team: !llvm.ptr, %ticket: i64, %thread: i64) -> i64 {
  llvm.return %ticket : i64
}
llvm.func @openinfer_step(%frame: !llvm.ptr) {
  llvm.return
}

// -----

// A step that all threads run together has no jobs: the team's functions come with the text.

// CHECK: llvm.func @openinfer_team_wait(!llvm.ptr, i64, i64)
// CHECK: llvm.func @openinfer_step
// CHECK-NOT: llvm.func
llvm.func @openinfer_team_wait(!llvm.ptr, i64, i64)
llvm.func @openinfer_step(%frame: !llvm.ptr) {
  llvm.return
}
