// RUN: openinfer-opt %s -p expand-packed --split-input-file | filecheck %s

// An element is some bits of a byte; a store keeps its neighbours.
// CHECK-LABEL: func.func private @copy_0(%x: memref<3x?xi8>, %y: memref<?xi8>)
// CHECK: %[[FLAT:\S+]] = memref.collapse_shape %x
// CHECK: %[[BYTE:\S+]] = arith.divui %{{\S+}}, %{{\S+}} : index
// CHECK: %[[SHIFT:\S+]] = arith.index_cast %{{\S+}} : index to i8
// CHECK: %[[B:\S+]] = memref.load %[[FLAT]][%[[BYTE]]] : memref<?xi8>
// CHECK-NEXT: %[[M:\S+]] = arith.shrui %[[B]], %[[SHIFT]] : i8
// CHECK: %v = arith.andi %[[M]], %{{\S+}} : i8
// CHECK: arith.shli
// CHECK: arith.xori
// CHECK: %[[OLD:\S+]] = memref.load %y[%[[AT:\S+]]] : memref<?xi8>
// CHECK-NEXT: %[[KEPT:\S+]] = arith.andi %[[OLD]]
// CHECK-NEXT: %[[NEW:\S+]] = arith.shli %v
// CHECK-NEXT: %[[ALL:\S+]] = arith.ori %[[KEPT]], %[[NEW]] : i8
// CHECK-NEXT: memref.store %[[ALL]], %y[%[[AT]]] : memref<?xi8>
func.func private @copy_0(%x: memref<3x?xi4>, %y: memref<?xi4>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0, %i] : memref<3x?xi4>
  memref.store %v, %y[%i] : memref<?xi4>
  func.return
}
// -----
// Numbers are bytes without a sign; who looks at it gets it. Results are cut.
// CHECK-LABEL: func.func private @compute_0
// CHECK: %[[N:\S+]] = arith.constant 3 : i8
// CHECK: %[[L:\S+]] = arith.shli %{{\S+}}, %[[SIX:\S+]] : i8
// CHECK-NEXT: %[[S:\S+]] = arith.shrsi %[[L]], %[[SIX]] : i8
// CHECK-NEXT: %w = arith.extsi %[[S]] : i8 to i32
// CHECK: %[[T:\S+]] = arith.addi %{{\S+}}, %[[N]] : i8
// CHECK: %t = arith.andi %[[T]], %{{\S+}} : i8
// CHECK: %u = arith.cmpi ult, %t, %[[N]] : i8
// CHECK: arith.shrsi
// CHECK: arith.shrsi
// CHECK: arith.cmpi slt
// CHECK-NOT: i2
func.func private @compute_0(%x: memref<?xi2>, %y: memref<?xi32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %m = arith.constant -1 : i2
  %v = memref.load %x[%c0] : memref<?xi2>
  %w = arith.extsi %v : i2 to i32
  %t = arith.addi %v, %m : i2
  %u = arith.cmpi ult, %t, %m : i2
  %s = arith.cmpi slt, %t, %m : i2
  %b = arith.andi %u, %s : i1
  %e = arith.extui %b : i1 to i32
  %f = arith.addi %w, %e : i32
  memref.store %f, %y[%c0] : memref<?xi32>
  func.return
}
// -----
// A bit in memory becomes a truth value, as which it is computed with.
// CHECK-LABEL: func.func private @bits_0(%x: memref<?xi8>)
// CHECK: %v = arith.cmpi ne, %{{\S+}}, %{{\S+}} : i8
// CHECK-NEXT: %w = arith.xori %v, %{{\S+}} : i1
// CHECK: arith.extui %w : i1 to i8
// CHECK: memref.store %{{\S+}}, %x[%{{\S+}}] : memref<?xi8>
func.func private @bits_0(%x: memref<?xi1>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %yes = arith.constant true
  %v = memref.load %x[%c0] : memref<?xi1>
  %w = arith.xori %v, %yes : i1
  memref.store %w, %x[%c0] : memref<?xi1>
  func.return
}
// -----
// A buffer that nobody reads has bytes, too.
// CHECK-LABEL: func.func private @unread_0(%x: memref<?xi8>, %y: memref<?xi8>)
func.func private @unread_0(%x: memref<?xi4>, %y: memref<?xi8>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  func.return
}
// -----
// Functions of the host, and truth values that are in no memory, are not touched.
// CHECK-LABEL: func.func @host(%x: memref<?xi4>)
// CHECK: func.func private @truth_0(%x: memref<?xi8>)
// CHECK: %v = memref.load %x
// CHECK-NEXT: %t = arith.trunci %v : i8 to i1
// CHECK-NEXT: %w = arith.extui %t : i1 to i8
// CHECK-NEXT: memref.store %w, %x
func.func @host(%x: memref<?xi4>) {
  func.return
}
func.func private @truth_0(%x: memref<?xi8>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<?xi8>
  %t = arith.trunci %v : i8 to i1
  %w = arith.extui %t : i1 to i8
  memref.store %w, %x[%c0] : memref<?xi8>
  func.return
}
