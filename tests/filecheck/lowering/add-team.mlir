// RUN: openinfer-opt %s -p add-team --split-input-file | filecheck %s

// Declared team functions get their bodies; the lead and the worker call the entry.

// CHECK: llvm.func @openinfer_step
// What a thread finished is reported before it waits for others, or looks at their shares.
// CHECK: llvm.func @openinfer_team_wait({{.*}}) attributes {no_inline} {
// CHECK: llvm.call @openinfer_team_report
// CHECK: llvm.func @openinfer_team_take({{.*}}) -> i1 attributes {no_inline} {
// CHECK: %[[RECORD:\S+]] = llvm.call @openinfer_team_record(%team{{\S*}}, %share)
// CHECK: llvm.icmp "eq" %share, %thread
// CHECK: llvm.call @openinfer_team_report
// CHECK: llvm.cmpxchg %[[RECORD]]
// The lead runs the step alone or with the workers, and learns what both take.
// CHECK: llvm.func @openinfer_lead
// CHECK: %[[SOLO:solo\S*]] = llvm.getelementptr
// CHECK: %[[BOTH:both\S*]] = llvm.getelementptr
// CHECK: llvm.call @openinfer_step
// CHECK: llvm.call @openinfer_team_learn(%[[SOLO]]
// CHECK: llvm.call @openinfer_step
// CHECK: llvm.call @openinfer_team_learn(%[[BOTH]]
// CHECK: llvm.func @openinfer_worker
// CHECK: llvm.call @openinfer_step
llvm.func @openinfer_team_wait(!llvm.ptr, i64, i64)
llvm.func @openinfer_team_take(!llvm.ptr, i64, i64, i64, i64) -> i1
llvm.func @openinfer_team_done(!llvm.ptr, i64)
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

// -----

// Jobs: a fork stores its kernel's number and arguments and calls the lead, which opens the job.

// CHECK: llvm.func internal @openinfer_fork_k(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %[[JOB:job\S*]]: !llvm.ptr, %[[TEAM:team\S*]]: !llvm.ptr)
// CHECK: llvm.call @openinfer_lead(%[[JOB]], %[[TEAM]])
// CHECK: llvm.func internal @openinfer_job(%frame{{\S*}}: !llvm.ptr)
// CHECK: llvm.call @k_shared
// CHECK: llvm.func @openinfer_lead
// CHECK: llvm.call @openinfer_job
// CHECK: llvm.func @openinfer_worker
// CHECK: llvm.call @openinfer_job
llvm.func @openinfer_team_wait(!llvm.ptr, i64, i64)
llvm.func @openinfer_fork_k(!llvm.ptr, i64, !llvm.ptr, !llvm.ptr)
llvm.func internal @k_shared(%x: !llvm.ptr, %n: i64, %team: !llvm.ptr, %ticket: i64, %thread: i64) -> i64 {
  llvm.return %ticket : i64
}
llvm.func @openinfer_step(%frame: !llvm.ptr) {
  llvm.return
}
