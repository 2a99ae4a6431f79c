// RUN: openinfer-opt %s -p share-loops --split-input-file | filecheck %s

// Each round writes eight elements of four bits, from a whole byte on: the loop may be cut.
// CHECK-LABEL: func.func private @apart_0
// CHECK: scf.for %turn
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<640xi4>, %v: vector<8xi4>) {
  func.call @apart_0(%x, %v) : (memref<640xi4>, vector<8xi4>) -> ()
  func.return
}
func.func private @apart_0(%x: memref<640xi4>, %v: vector<8xi4>) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c640 = arith.constant 640 : index
  scf.for %i = %c0 to %c640 step %c8 {
    vector.store %v, %x[%i] : memref<640xi4>, vector<8xi4>
  } {openinfer.parallel}
  func.return
}
}

// -----

// Rows of three bytes, whatever the inner loop does in them.
// CHECK-LABEL: func.func private @rows_0
// CHECK: scf.for %turn
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<?x6xi4>, %v: i4, %n: index) {
  func.call @rows_0(%x, %v, %n) : (memref<?x6xi4>, i4, index) -> ()
  func.return
}
func.func private @rows_0(%x: memref<?x6xi4>, %v: i4, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c4 step %c1 {
      %k = arith.addi %j, %c2 : index
      memref.store %v, %x[%i, %k] : memref<?x6xi4>
    }
  } {openinfer.parallel}
  func.return
}
}

// -----

// Rows of five elements begin within bytes: two threads would write the same one.
// CHECK-LABEL: func.func private @odd_0
// CHECK-NOT: %chunk
// CHECK: func.call @openinfer_team_take
// CHECK-NEXT: scf.if
// CHECK-NEXT: scf.for %i
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<?x5xi4>, %v: i4, %n: index) {
  func.call @odd_0(%x, %v, %n) : (memref<?x5xi4>, i4, index) -> ()
  func.return
}
func.func private @odd_0(%x: memref<?x5xi4>, %v: i4, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c5 step %c1 {
      memref.store %v, %x[%i, %j] : memref<?x5xi4>
    }
  } {openinfer.parallel}
  func.return
}
}

// -----

// Neighbouring elements; and a loop whose inner one runs as long as only the run knows.
// CHECK-LABEL: func.func private @single_0
// CHECK-NOT: %chunk
// CHECK-LABEL: func.func private @long_0
// CHECK-NOT: %chunk
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<64xi1>, %y: memref<64x16xi1>, %v: i1, %n: index) {
  func.call @single_0(%x, %v) : (memref<64xi1>, i1) -> ()
  func.call @long_0(%y, %v, %n) : (memref<64x16xi1>, i1, index) -> ()
  func.return
}
func.func private @single_0(%x: memref<64xi1>, %v: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    memref.store %v, %x[%i] : memref<64xi1>
  } {openinfer.parallel}
  func.return
}
func.func private @long_0(%y: memref<64x16xi1>, %v: i1, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      memref.store %v, %y[%i, %j] : memref<64x16xi1>
    }
  } {openinfer.parallel}
  func.return
}
}
