// RUN: openinfer-opt %s -p clear-tails | filecheck %s

// Five elements of four bits end in the middle of the third byte: its other half becomes zero.
// CHECK-LABEL: func.func @known
// CHECK: memref.store %v, %y[%i]
// CHECK: %[[FLAT:\S+]] = memref.reinterpret_cast %y to offset: [0], sizes: [6], strides: [1] : memref<5xi4> to memref<6xi4>
// CHECK: %[[ZERO:\S+]] = arith.constant 0 : i4
// CHECK: %[[FROM:\S+]] = arith.constant 5 : index
// CHECK: %[[TO:\S+]] = arith.constant 6 : index
// CHECK: scf.for %[[I:\S+]] = %[[FROM]] to %[[TO]]
// CHECK-NEXT: memref.store %[[ZERO]], %[[FLAT]][%[[I]]] : memref<6xi4>
// CHECK: func.return
func.func @known(%x: memref<5xi4>, %y: memref<5xi4>, %i: index) {
  %v = memref.load %x[%i] : memref<5xi4>
  memref.store %v, %y[%i] : memref<5xi4>
  func.return
}

// A run-time size is rounded up; a store through a view is a store into the argument.
// CHECK-LABEL: func.func @unknown
// CHECK: vector.store
// CHECK: %[[N:\S+]] = memref.dim %y
// CHECK: arith.muli
// CHECK: %[[UP:\S+]] = arith.divui
// CHECK: %[[WHOLE:\S+]] = arith.muli %[[UP]]
// CHECK: memref.reinterpret_cast %y to offset: [0], sizes: [%[[WHOLE]]], strides: [1] : memref<?x3xi1> to memref<?xi1>
func.func @unknown(%y: memref<?x3xi1>, %v: vector<8xi1>, %i: index) {
  %f = memref.collapse_shape %y [[0 : i64, 1 : i64]] : memref<?x3xi1> into memref<?xi1>
  vector.store %v, %f[%i] : memref<?xi1>, vector<8xi1>
  func.return
}

// Whole bytes, other types and buffers that are only read have no tail.
// CHECK-LABEL: func.func @whole
// CHECK-NOT: reinterpret_cast
func.func @whole(%x: memref<5xi4>, %y: memref<?x6xi4>, %z: memref<5xi8>, %i: index) {
  %v = memref.load %x[%i] : memref<5xi4>
  %w = memref.load %z[%i] : memref<5xi8>
  memref.store %v, %y[%i, %i] : memref<?x6xi4>
  memref.store %w, %z[%i] : memref<5xi8>
  func.return
}

// Nor do kernels of a device, of which every invocation would clear it.
// CHECK-LABEL: func.func private @device_0
// CHECK-NOT: reinterpret_cast
func.func private @device_0(%y: memref<5xi4>, %v: i4) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  memref.store %v, %y[%c0] : memref<5xi4>
  func.return
}
