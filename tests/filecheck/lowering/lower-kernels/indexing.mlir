// RUN: openinfer-opt %s -p 'lower-kernels{only=indexing},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Lines side by side: each lane has a sum of its own, in f64.

// CHECK-LABEL: func.func @columns
// CHECK:       scf.for %[[J:.*]] = %c0 to %c64 step %c16
// CHECK:       scf.for %[[K:.*]] = %c0 to %{{.*}} step %c1 iter_args(%[[TOTAL:.*]] = %{{.*}}) -> (vector<16xf64>)
// CHECK-NEXT:    %[[V:.*]] = vector.load %x[%[[K]], %[[J]]]
// CHECK-NEXT:    %[[WIDE:.*]] = arith.extf %[[V]]
// CHECK-NEXT:    %[[NEW:.*]] = arith.addf %[[TOTAL]], %[[WIDE]] : vector<16xf64>
// CHECK-NEXT:    %[[ROUNDED:.*]] = arith.truncf %[[NEW]]
// CHECK-NEXT:    vector.store %[[ROUNDED]], %y[%[[K]], %[[J]]]
// CHECK-NEXT:    scf.yield %[[NEW]]
// CHECK:       {openinfer.parallel}
func.func @columns(%x: memref<?x64xf32>, %y: memref<?x64xf32>) {
  nn.cumsum(%x) outs(%y) {axis = 0 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()
  func.return
}

// A line that lies in memory is walked element by element, here backwards; what is stored is the
// sum without the element.

// CHECK-LABEL: func.func @rows
// CHECK:       iter_args(%[[TOTAL:.*]] = %{{.*}}) -> (i32)
// CHECK:       %[[LAST:.*]] = arith.subi %{{.*}}, %c1
// CHECK-NEXT:  %[[AT:.*]] = arith.subi %[[LAST]],
// CHECK:       memref.load %x[%{{.*}}, %[[AT]]]
// CHECK:       memref.store %[[TOTAL]], %y[%{{.*}}, %[[AT]]]
func.func @rows(%x: memref<4x?xi32>, %y: memref<4x?xi32>) {
  nn.cumsum(%x) outs(%y) {axis = 1 : i64, exclusive, reverse} : (memref<4x?xi32>, memref<4x?xi32>) -> ()
  func.return
}

// A running product begins with 1 and is kept as it is: of f32 in f32.

// CHECK-LABEL: func.func @products
// CHECK-NOT:   f64
// CHECK-DAG:   %[[ONE:.*]] = arith.constant dense<1.000000e+00> : vector<16xf32>
// CHECK:       iter_args(%[[TOTAL:.*]] = %[[ONE]]) -> (vector<16xf32>)
// CHECK:       arith.mulf %[[TOTAL]], %{{.*}} : vector<16xf32>
func.func @products(%x: memref<?x64xf32>, %y: memref<?x64xf32>) {
  nn.cumsum(%x) outs(%y) {axis = 0 : i64, product} : (memref<?x64xf32>, memref<?x64xf32>) -> ()
  func.return
}

// Everything is copied, then slices come one after the other; what lies outside is reported.

// CHECK-LABEL: func.func @scatter
// CHECK:       vector.store
// CHECK:       {openinfer.parallel}
// CHECK:       scf.for %[[N:.*]] = %c0 to %c5 step %c1
// CHECK:       %[[RAW:.*]] = memref.load %i[%[[N]]]
// CHECK:       %[[ROW:.*]] = arith.index_cast %[[RAW]]
// CHECK:       %[[INSIDE:.*]] = arith.cmpi ult, %[[ROW]], %c8
// CHECK:       scf.if %[[INSIDE]]
// CHECK:         %[[OLD:.*]] = vector.load %y[%[[ROW]],
// CHECK:         %[[U:.*]] = vector.load %u[%[[N]],
// CHECK:         arith.addf %[[OLD]], %[[U]]
// CHECK:       } else {
// CHECK:         memref.store %{{.*}}, %e
func.func @scatter(%x: memref<8x32xf32>, %i: memref<5xi64>, %u: memref<5x32xf32>, %y: memref<8x32xf32>, %e: memref<4xi64>) {
  nn.scatter(%x, %i, %u) outs(%y) scratch(errors = %e) {axis = 0 : i64, mode = "add", node = 3 : i64}
    : (memref<8x32xf32>, memref<5xi64>, memref<5x32xf32>, memref<8x32xf32>, memref<4xi64>) -> ()
  func.return
}

// 9 positions: two rounds make runs of 16. Both buffers hold positions, the values stay where they
// are until the end.

// CHECK-LABEL: func.func @sort
// CHECK:       scf.for %{{.*}} = %c0 to %c2 step %c1 iter_args(%[[WIDTH:.*]] = %c1) -> (index)
// CHECK:         arith.cmpi slt, %{{.*}}, %{{.*}} : i16
// CHECK:         memref.store %{{.*}}, %b[
// CHECK:         memref.store %{{.*}}, %a[
// CHECK:       %[[PLACE:.*]] = arith.index_cast
// CHECK:       %[[VALUE:.*]] = memref.load %x[%{{.*}}, %[[PLACE]]]
// CHECK:       memref.store %[[VALUE]], %v
func.func @sort(%x: memref<3x9xi16>, %v: memref<3x4xi16>, %p: memref<3x4xi64>, %a: memref<3x9xi64>, %b: memref<3x9xi64>) {
  nn.sort(%x) outs(%v, %p) scratch(home = %a, away = %b) {axis = 1 : i64}
    : (memref<3x9xi16>, memref<3x4xi16>, memref<3x4xi64>, memref<3x9xi64>, memref<3x9xi64>) -> ()
  func.return
}

// Without scratch the first ones are chosen: an element is kept when it comes before the last one.

// CHECK-LABEL: func.func @choose
// CHECK-NOT:   %round
// CHECK:       scf.for %[[J:.*]] = %c2 to %{{.*}} step %c1
// CHECK:         memref.load %p[%c1]
// CHECK:         %[[BETTER:.*]] = arith.cmpi sgt
// CHECK-NEXT:    scf.if %[[BETTER]]
func.func @choose(%x: memref<?xi32>, %v: memref<2xi32>, %p: memref<2xi64>) {
  nn.sort(%x) outs(%v, %p) {axis = 0 : i64, descending} : (memref<?xi32>, memref<2xi32>, memref<2xi64>) -> ()
  func.return
}

// Unsigned integers, largest first.

// CHECK-LABEL: func.func @unsigned
// CHECK:       arith.cmpi ugt, %{{.*}}, %{{.*}} : i8
func.func @unsigned(%x: memref<9xi8>, %v: memref<9xi8>, %p: memref<9xi64>, %a: memref<9xi64>, %b: memref<9xi64>) {
  nn.sort(%x) outs(%v, %p) scratch(home = %a, away = %b) {axis = 0 : i64, descending, unsigned}
    : (memref<9xi8>, memref<9xi8>, memref<9xi64>, memref<9xi64>, memref<9xi64>) -> ()
  func.return
}

// Tensors are none of its business.

// CHECK-LABEL: func.func @tensors
// CHECK:       nn.cumsum(%x)
func.func @tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.cumsum(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
}
