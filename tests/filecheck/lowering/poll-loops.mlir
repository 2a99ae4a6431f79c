// RUN: openinfer-opt %s -p poll-loops --split-input-file | filecheck %s

// A loop whose rounds only the run knows looks in each of them, before anything else; the short one
// inside of it does not. The step says first which thread runs it.

// CHECK: func.func @step(%n: index, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %poll: memref<2xi64> {openinfer.arg = #nn.slot<poll>})
// CHECK-NEXT: func.call @openinfer_poll_begin(%poll) : (memref<2xi64>) -> ()
// CHECK: scf.for %i = %c0 to %n
// CHECK-NEXT: %interrupted = func.call @openinfer_poll(%poll) : (memref<2xi64>) -> i1
// CHECK-NEXT: scf.if %interrupted {
// CHECK: memref.store %{{.*}}, %errors[%{{.*}}] : memref<4xi64>
// CHECK: memref.store %{{.*}}, %errors[%{{.*}}] : memref<4xi64>
// CHECK: nn.leave_if %interrupted
// CHECK-NEXT: scf.for %j = %c0 to %c6
// CHECK-NEXT: "test.op"(%i, %j)
// CHECK-NOT: openinfer_poll(%poll)
// CHECK: func.func private @openinfer_poll(memref<2xi64>) -> i1
// CHECK: func.func private @openinfer_poll_begin(memref<2xi64>)
func.func @step(%n: index, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      "test.op"(%i, %j) : (index, index) -> ()
    }
  }
  func.return
}

// -----

// Of loops whose rounds are known together, the one looks that makes them many.

// CHECK: scf.for %i = %c0 to %c20
// CHECK-NEXT: scf.for %j = %c0 to %c6
// CHECK-NEXT: func.call @openinfer_poll(%poll)
// CHECK: scf.for %k = %c0 to %c20
// CHECK-NEXT: "test.op"(%k)
func.func @step(%errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %c20 = arith.constant 20 : index
  scf.for %i = %c0 to %c20 step %c1 {
    scf.for %j = %c0 to %c6 step %c1 {
      scf.for %k = %c0 to %c20 step %c1 {
        "test.op"(%k) : (index) -> ()
      }
    }
  }
  func.return
}

// -----

// Loops of few rounds, and those of kernels, stay as they are.

// CHECK: func.func @step
// CHECK-NOT: poll
func.func @step(%errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  scf.for %i = %c0 to %c6 step %c1 {
    "test.op"(%i) : (index) -> ()
  }
  func.return
}
func.func @kernel(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    "test.op"(%i) : (index) -> ()
  }
  func.return
}

// -----

// A watched step looks once after each node that it has shown.

// CHECK: func.func @step(%x: memref<4xf32>
// CHECK-NEXT: func.call @openinfer_poll_begin(%poll)
// CHECK-NEXT: nn.observe %x 2
// CHECK-NEXT: nn.observe %x 2
// CHECK-NEXT: %{{.*}} = func.call @openinfer_poll(%poll)
// CHECK: nn.leave_if
// CHECK-NEXT: "test.op"
// CHECK-NEXT: nn.observe %x 3
// CHECK-NEXT: %{{.*}} = func.call @openinfer_poll(%poll)
func.func @step(%x: memref<4xf32>, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  nn.observe %x 2 : i64 "h" : memref<4xf32>
  nn.observe %x 2 : i64 "g" : memref<4xf32>
  "test.op"() : () -> ()
  nn.observe %x 3 : i64 "y" : memref<4xf32>
  func.return
}

// -----

// Nor does a loop over a batch look, which a kernel goes through without one; a long loop inside of it does.

// CHECK: scf.for %image = %c0 to %n
// CHECK-NEXT: scf.for %i = %c0 to %n
// CHECK-NEXT: func.call @openinfer_poll(%poll)
// CHECK-NOT: openinfer_poll(%poll)
func.func @step(%n: index, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %image = %c0 to %n step %c1 {
    scf.for %i = %c0 to %n step %c1 {
      "test.op"(%i) : (index) -> ()
    }
  } {openinfer.tiled}
  scf.for %image = %c0 to %n step %c1 {
    "test.op"(%image) : (index) -> ()
  } {openinfer.tiled}
  func.return
}
