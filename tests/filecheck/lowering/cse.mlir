// RUN: openinfer-opt %s -p cse | filecheck %s

// Equal ops are computed once, in the block and in blocks inside of it; names of attributes have no order.
// CHECK-LABEL: func.func @equal
// CHECK-NEXT: %a = arith.addi %x, %y : index
// CHECK-NEXT: scf.for
// CHECK-NEXT: "test.op"(%a, %a) {first, second}
// CHECK-NEXT: }
// CHECK-NEXT: func.return
func.func @equal(%x: index, %y: index) {
  %a = arith.addi %x, %y : index
  scf.for %i = %x to %y step %x {
    %b = arith.addi %x, %y : index
    "test.op"(%a, %b) {first, second} : (index, index) -> ()
  }
  func.return
}

// Other operands, another type, another property: other ops. Siblings do not see each other.
// CHECK-LABEL: func.func @different
// CHECK-NEXT: arith.addi %x, %y : index
// CHECK-NEXT: arith.addi %y, %x : index
// CHECK-NEXT: arith.addi %x, %y overflow<nsw> : index
// CHECK-NEXT: arith.constant 1 : index
// CHECK-NEXT: arith.constant 1 : i64
// CHECK: scf.if
// CHECK-NEXT: arith.muli %x, %y : index
// CHECK: } else {
// CHECK-NEXT: arith.muli %x, %y : index
func.func @different(%x: index, %y: index, %c: i1) {
  %a = arith.addi %x, %y : index
  %b = arith.addi %y, %x : index
  %d = arith.addi %x, %y overflow<nsw> : index
  %e = arith.constant 1 : index
  %f = arith.constant 1 : i64
  "test.op"(%a, %b, %d, %e, %f) : (index, index, index, index, i64) -> ()
  scf.if %c {
    %g = arith.muli %x, %y : index
    "test.op"(%g) : (index) -> ()
  } else {
    %h = arith.muli %x, %y : index
    "test.op"(%h) : (index) -> ()
  }
  func.return
}

// A read is shared until something may write, and not with blocks inside.
// CHECK-LABEL: func.func @reads
// CHECK: %a = memref.load %m
// CHECK-NEXT: memref.store %a, %m
// CHECK-NEXT: %c = memref.load %m
// CHECK-NEXT: "test.op"(%a, %c)
// CHECK-NEXT: scf.for
// CHECK-NEXT: %e = memref.load %m
// CHECK-NEXT: memref.store %e, %m
func.func @reads(%m: memref<4xf32>, %x: index, %y: index) {
  %a = memref.load %m[%x] : memref<4xf32>
  %b = memref.load %m[%x] : memref<4xf32>
  memref.store %b, %m[%x] : memref<4xf32>
  %c = memref.load %m[%x] : memref<4xf32>
  "test.op"(%a, %c) : (f32, f32) -> ()
  scf.for %i = %x to %y step %x {
    %e = memref.load %m[%x] : memref<4xf32>
    memref.store %e, %m[%i] : memref<4xf32>
  }
  func.return
}

// Loops are equal when what they hold is; one that writes stands for itself.
// CHECK-LABEL: func.func @loops
// CHECK: %a = scf.for
// CHECK: %c = scf.for
// CHECK: "test.op"(%a, %a, %c)
// CHECK: scf.for
// CHECK: scf.for
// CHECK: func.return
func.func @loops(%m: memref<4xf32>, %x: index, %y: index, %f: f32) {
  %a = scf.for %i = %x to %y step %x iter_args(%s = %f) -> (f32) {
    %n = arith.addf %s, %f : f32
    scf.yield %n : f32
  }
  %b = scf.for %i = %x to %y step %x iter_args(%s = %f) -> (f32) {
    %n = arith.addf %s, %f : f32
    scf.yield %n : f32
  }
  %c = scf.for %i = %x to %y step %x iter_args(%s = %f) -> (f32) {
    %n = arith.mulf %s, %f : f32
    scf.yield %n : f32
  }
  "test.op"(%a, %b, %c) : (f32, f32, f32) -> ()
  scf.for %i = %x to %y step %x {
    memref.store %f, %m[%i] : memref<4xf32>
  }
  scf.for %i = %x to %y step %x {
    memref.store %f, %m[%i] : memref<4xf32>
  }
  func.return
}
