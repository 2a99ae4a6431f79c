// RUN: openinfer-opt %s -p 'lower-kernels{only=element_indices},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Each index is looked at where it stands; the first one outside is noted.

// CHECK-LABEL: func.func @gather
// CHECK:       scf.for %[[A:.*]] = %c0 to %c8 step %c1
// CHECK:       scf.for %[[B:.*]] = %c0 to %c5 step %c1
// CHECK-NEXT:    %[[RAW:.*]] = memref.load %i[%[[A]], %[[B]]]
// CHECK-NEXT:    %[[AT:.*]] = arith.index_cast %[[RAW]]
// CHECK-NEXT:    %[[INSIDE:.*]] = arith.cmpi ult, %[[AT]], %c9
// CHECK-NEXT:    scf.if %[[INSIDE]] {
// CHECK-NEXT:      %[[V:.*]] = memref.load %x[%[[A]], %[[AT]]]
// CHECK-NEXT:      memref.store %[[V]], %y[%[[A]], %[[B]]]
// CHECK-NEXT:    } else {
// CHECK:           memref.store %{{.*}}, %e
// CHECK:       {openinfer.parallel}
func.func @gather(%x: memref<8x9xf32>, %i: memref<8x5xi64>, %y: memref<8x5xf32>, %e: memref<4xi64>) {
  nn.gather_elements(%x, %i) outs(%y) scratch(errors = %e) {axis = 1 : i64, node = 3 : i64}
    : (memref<8x9xf32>, memref<8x5xi64>, memref<8x5xf32>, memref<4xi64>) -> ()
  func.return
}

// Everything is copied, then each thread goes along the lines that it has, here up to 64 columns together.

// CHECK-LABEL: func.func @scatter
// CHECK:       vector.store
// CHECK:       scf.for %[[BLOCK:.*]] = %c0 to %c200 step %c64
// CHECK:       scf.for %[[N:.*]] = %c0 to %c3 step %c1
// CHECK-NEXT:  scf.for %[[COLUMN:.*]] = %[[BLOCK]] to %{{.*}} step %c1
// CHECK:         %[[RAW:.*]] = memref.load %i[%[[N]], %[[COLUMN]]]
// CHECK:         %[[AT:.*]] = arith.index_castui %[[RAW]]
// CHECK:         %[[U:.*]] = memref.load %u[%[[N]], %[[COLUMN]]]
// CHECK:         %[[OLD:.*]] = memref.load %y[%[[AT]], %[[COLUMN]]]
// CHECK:         %[[NEW:.*]] = arith.maxui %[[OLD]], %[[U]]
// CHECK:         memref.store %[[NEW]], %y[%[[AT]], %[[COLUMN]]]
// CHECK:       {openinfer.parallel}
func.func @scatter(%x: memref<8x200xi8>, %i: memref<3x200xi8>, %u: memref<3x200xi8>, %y: memref<8x200xi8>) {
  nn.scatter_elements(%x, %i, %u) outs(%y) {axis = 0 : i64, mode = "max", unsigned, unsigned_indices}
    : (memref<8x200xi8>, memref<3x200xi8>, memref<3x200xi8>, memref<8x200xi8>) -> ()
  func.return
}

// One line is one thread's: its updates have an order.

// CHECK-LABEL: func.func @line
// CHECK:       memref.load %i
// CHECK-NOT:   openinfer.parallel
// CHECK:       func.return
func.func @line(%x: memref<4xf32>, %i: memref<?xi64>, %u: memref<?xf32>, %y: memref<4xf32>) {
  nn.scatter_elements(%x, %i, %u) outs(%y) {axis = 0 : i64, mode = "set"}
    : (memref<4xf32>, memref<?xi64>, memref<?xf32>, memref<4xf32>) -> ()
  func.return
}
}
