// RUN: openinfer-opt %s -p convert-to-llvm | filecheck %s

// An element is a field of a byte: read, shifted, cut; written back among its neighbours.
// CHECK-LABEL: llvm.func @element(
// CHECK: %[[BYTE:\S+]] = llvm.lshr %i{{\S*}}, %{{\S+}} : i64
// CHECK-NEXT: %[[P:\S+]] = llvm.getelementptr inbounds %x{{\S*}}[%[[BYTE]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: %[[SHIFT:\S+]] = llvm.trunc %{{\S+}} : i64 to i8
// CHECK: %[[OLD:\S+]] = llvm.load %[[P]] {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK-NEXT: %[[LOW:\S+]] = llvm.lshr %[[OLD]], %[[SHIFT]] : i8
// CHECK-NEXT: llvm.trunc %[[LOW]] : i8 to i4
// CHECK: llvm.and
// CHECK: llvm.or
// CHECK: llvm.store %{{\S+}}, %{{\S+}} {alignment = 1 : i64} : i8, !llvm.ptr
func.func @element(%x: memref<9xi4>, %y: memref<9xi4>, %i: index) {
  %v = memref.load %x[%i] : memref<9xi4>
  memref.store %v, %y[%i] : memref<9xi4>
  func.return
}

// The loop's steps are whole bytes, so a vector is: no shift by a number that only the run knows.
// CHECK-LABEL: llvm.func @aligned(
// CHECK: %[[BYTES:\S+]] = llvm.load %{{\S+}} {alignment = 1 : i64} : !llvm.ptr -> vector<4xi8>
// CHECK-NEXT: %[[SPREAD:\S+]] = llvm.shufflevector %[[BYTES]], %[[BYTES]] [0, 0, 1, 1, 2, 2, 3, 3] : vector<4xi8>
// CHECK-NEXT: %[[FIELDS:\S+]] = llvm.lshr %[[SPREAD]], %{{\S+}} : vector<8xi8>
// CHECK-NEXT: llvm.trunc %[[FIELDS]] : vector<8xi8> to vector<8xi4>
// CHECK: llvm.store %{{\S+}}, %{{\S+}} {alignment = 1 : i64} : vector<4xi8>, !llvm.ptr
// CHECK-NOT: llvm.store
func.func @aligned(%x: memref<?x6xi4>, %y: memref<?x6xi4>, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %a = memref.collapse_shape %x [[0 : i64, 1 : i64]] : memref<?x6xi4> into memref<?xi4>
  %b = memref.collapse_shape %y [[0 : i64, 1 : i64]] : memref<?x6xi4> into memref<?xi4>
  scf.for %i = %c0 to %n step %c8 {
    %v = vector.load %a[%i] : memref<?xi4>, vector<8xi4>
    vector.store %v, %b[%i] : memref<?xi4>, vector<8xi4>
  }
  func.return
}

// A vector that may begin within a byte is shifted; what runs over its bytes goes into the next one.
// CHECK-LABEL: llvm.func @anywhere(
// CHECK: llvm.load %{{\S+}} {alignment = 1 : i64} : !llvm.ptr -> i32
// CHECK: llvm.load %{{\S+}} {alignment = 1 : i64} : !llvm.ptr -> i8
// CHECK: llvm.bitcast %{{\S+}} : i32 to vector<4xi8>
// CHECK: llvm.store %{{\S+}}, %{{\S+}} {alignment = 1 : i64} : i32, !llvm.ptr
// CHECK: llvm.cond_br
// CHECK: llvm.store %{{\S+}}, %{{\S+}} {alignment = 1 : i64} : i8, !llvm.ptr
func.func @anywhere(%x: memref<99xi4>, %y: memref<99xi4>, %i: index) {
  %v = vector.load %x[%i] : memref<99xi4>, vector<8xi4>
  vector.store %v, %y[%i] : memref<99xi4>, vector<8xi4>
  func.return
}

// Whole buffers are copied as bytes, the last one included.
// CHECK-LABEL: llvm.func @copy(
// CHECK-DAG: %[[N:\S+]] = llvm.mlir.constant(3) : i64
// CHECK: "llvm.intr.memcpy"(%y{{\S*}}, %x{{\S*}}, %[[N]])
func.func @copy(%x: memref<5xi4>, %y: memref<5xi4>) {
  memref.copy %x, %y : memref<5xi4> to memref<5xi4>
  func.return
}

// A byte is no part of anything.
// CHECK-LABEL: llvm.func @bytes(
// CHECK-NOT: llvm.lshr
// CHECK: llvm.load %{{\S+}} {alignment = 1 : i64} : !llvm.ptr -> vector<8xi8>
func.func @bytes(%x: memref<99xi8>, %i: index) -> vector<8xi8> {
  %v = vector.load %x[%i] : memref<99xi8>, vector<8xi8>
  func.return %v : vector<8xi8>
}
