// RUN: openinfer-opt %s -p share-loops --split-input-file | filecheck %s

// All threads go through the rounds; the parallel loop of each is shared, and the ticket goes from round to round.
// CHECK-LABEL: func.func private @together_0
// CHECK: %[[LAST:.*]] = scf.for %b = %c0 to %c640 step %c8 iter_args(%[[TICKET:.*]] = %ticket) -> (i64) {
// CHECK-NEXT: func.call @openinfer_team_wait(%team, %[[TICKET]], %thread)
// CHECK: func.call @openinfer_team_take
// CHECK: scf.for %i
// CHECK: func.call @openinfer_team_done
// CHECK: scf.yield %{{.*}} : i64
// CHECK: func.return %[[LAST]] : i64
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<640xf32>, %v: f32) {
  func.call @together_0(%x, %v) : (memref<640xf32>, f32) -> ()
  func.return
}
func.func private @together_0(%x: memref<640xf32>, %v: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c640 = arith.constant 640 : index
  scf.for %b = %c0 to %c640 step %c8 {
    scf.for %i = %c0 to %c8 step %c1 {
      %k = arith.addi %b, %i : index
      memref.store %v, %x[%k] : memref<640xf32>
    } {openinfer.parallel}
  } {openinfer.together}
  func.return
}
}
// -----
// Without the mark a loop is one piece of work, whatever stands in it.
// CHECK-LABEL: func.func private @alone_0
// CHECK: scf.if
// CHECK-NEXT: scf.for %b = %c0 to %c640 step %c8 {
// CHECK-NEXT: scf.for %i
// CHECK-NOT: openinfer_team_wait(%team, %{{.*}}, %{{.*}}){{.*}}scf.for
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<640xf32>, %v: f32) {
  func.call @alone_0(%x, %v) : (memref<640xf32>, f32) -> ()
  func.return
}
func.func private @alone_0(%x: memref<640xf32>, %v: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c640 = arith.constant 640 : index
  scf.for %b = %c0 to %c640 step %c8 {
    scf.for %i = %c0 to %c8 step %c1 {
      %k = arith.addi %b, %i : index
      memref.store %v, %x[%k] : memref<640xf32>
    } {openinfer.parallel}
  }
  func.return
}
}
