// RUN: openinfer-opt %s -p dce | filecheck %s

// What reaches nothing goes, whole chains and loops of it; what writes stays, with all that it uses.
// CHECK-LABEL: func.func @chains
// CHECK-NEXT: %b = arith.addi %x, %y : index
// CHECK-NEXT: memref.store %f, %m[%b]
// CHECK-NEXT: func.return
func.func @chains(%m: memref<4xf32>, %x: index, %y: index, %f: f32) {
  %a = arith.muli %x, %y : index
  %b = arith.addi %x, %y : index
  %c = arith.addi %a, %b : index
  %d = memref.load %m[%c] : memref<4xf32>
  %s = scf.for %i = %x to %y step %x iter_args(%t = %d) -> (f32) {
    %n = arith.addf %t, %f : f32
    scf.yield %n : f32
  }
  memref.store %f, %m[%b] : memref<4xf32>
  func.return
}

// In loops that stay, too; what nobody knows, and what other modules call, stays.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: scf.for
// CHECK-NEXT: %p = arith.addi %i, %x : index
// CHECK-NEXT: memref.store %f, %m[%p]
// CHECK-NEXT: }
// CHECK-NEXT: "test.op"(%x)
// CHECK-NEXT: func.return
func.func @stays(%m: memref<4xf32>, %x: index, %y: index, %f: f32) {
  scf.for %i = %x to %y step %x {
    %p = arith.addi %i, %x : index
    %q = arith.muli %p, %x : index
    memref.store %f, %m[%p] : memref<4xf32>
  }
  %u = "test.op"(%x) : (index) -> index
  func.return
}

// A block that nobody comes to goes; one that is reached stays, also when nothing in it matters.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT: cf.br ^[[END:.*]]
// CHECK-NEXT: ^[[END]]:
// CHECK-NEXT: func.return
// CHECK-NEXT: }
func.func @blocks(%x: index) {
  cf.br ^end
^lost:
  cf.br ^end
^end:
  %a = arith.addi %x, %x : index
  func.return
}
