// RUN: openinfer-opt %s -p 'lower-kernels{only=movement},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// CHECK-LABEL: func.func @fill
// CHECK:       %[[V:.*]] = arith.constant 2.500000e+00 : f32
// CHECK:       %[[FLAT:.*]] = memref.collapse_shape %y
// CHECK:       vector.broadcast %[[V]] : f32 to vector<16xf32>
// CHECK:       vector.store %{{.*}}, %[[FLAT]]
// CHECK:       } {openinfer.parallel}
func.func @fill(%y: memref<?x32xf32>) {
  nn.fill() outs(%y) {value = 2.5 : f32} : (memref<?x32xf32>) -> ()
  func.return
}

// CHECK-LABEL: func.func @iota
// CHECK:       vector.step : vector<8xindex>
// CHECK:       arith.index_cast %{{.*}} : vector<8xindex> to vector<8xi64>
func.func @iota(%y: memref<64xi64>) {
  nn.iota() outs(%y) {axis = 0 : i64} : (memref<64xi64>) -> ()
  func.return
}

// Rows stay rows: whole vectors move.

// CHECK-LABEL: func.func @heads
// CHECK:       vector.load %x[%[[B:.*]], %[[L:.*]], %[[H:.*]], %{{.*}}] : memref<2x?x12x32xf32>, vector<16xf32>
// CHECK-NEXT:  vector.store %{{.*}}, %y[%[[B]], %[[H]], %[[L]], %{{.*}}] : memref<2x12x?x32xf32>, vector<16xf32>
func.func @heads(%x: memref<2x?x12x32xf32>, %y: memref<2x12x?x32xf32>) {
  nn.transpose(%x) outs(%y) {permutation = array<i64: 0, 2, 1, 3>} : (memref<2x?x12x32xf32>, memref<2x12x?x32xf32>) -> ()
  func.return
}

// CHECK-LABEL: func.func @broadcast
// CHECK:       memref.load %{{.*}}[%[[I:.*]]]
// CHECK-NEXT:  vector.broadcast
// CHECK:       vector.store %{{.*}}, %y[%[[I]],
func.func @broadcast(%x: memref<?x1xf32>, %y: memref<?x64xf32>) {
  nn.broadcast(%x) outs(%y) : (memref<?x1xf32>, memref<?x64xf32>) -> ()
  func.return
}

// The whole rows of a slice are one run; its start is known when the step begins.

// CHECK-LABEL: func.func @slice
// CHECK:       %[[N:.*]] = nn.size "N"
// CHECK:       %[[START:.*]] = arith.muli %[[N]], %c384 : index
// CHECK:       %[[FLAT:.*]] = memref.collapse_shape %x
// CHECK:       %[[AT:.*]] = arith.addi %{{.*}}, %[[START]] : index
// CHECK-NEXT:  vector.load %[[FLAT]][%[[AT]]]
func.func @slice(%x: memref<?x384xf32>, %y: memref<?x384xf32>) {
  nn.slice(%x) outs(%y) {starts = [#graph.size<"N">, #graph.size<0>], steps = array<i64: 1, 1>}
    : (memref<?x384xf32>, memref<?x384xf32>) -> ()
  func.return
}

// Every other element: no vectors.

// CHECK-LABEL: func.func @strided_slice
// CHECK-NOT:   vector
// CHECK:       arith.muli %{{.*}}, %c2 : index
// CHECK:       memref.load
func.func @strided_slice(%x: memref<64xf32>, %y: memref<32xf32>) {
  nn.slice(%x) outs(%y) {starts = [#graph.size<1>], steps = array<i64: 2>} : (memref<64xf32>, memref<32xf32>) -> ()
  func.return
}

// CHECK-LABEL: func.func @concat
// CHECK:       scf.for %[[I:.*]] =
// CHECK:         vector.load %a[%[[I]], %c0]
// CHECK-NEXT:    vector.store %{{.*}}, %y[%[[I]], %c0]
// CHECK:         scf.for %[[J:.*]] = %c0 to %c32 step %c16
// CHECK-NEXT:      vector.load %b[%[[I]], %[[J]]]
// CHECK-NEXT:      %[[AT:.*]] = arith.addi %[[J]], %c16 : index
// CHECK-NEXT:      vector.store %{{.*}}, %y[%[[I]], %[[AT]]]
func.func @concat(%a: memref<?x16xf32>, %b: memref<?x32xf32>, %y: memref<?x48xf32>) {
  nn.concat(%a, %b) outs(%y) {axis = 1 : i64} : (memref<?x16xf32>, memref<?x32xf32>, memref<?x48xf32>) -> ()
  func.return
}

// A wrong index reads row 0. Whoever comes to one looks for the first one, and records it with the node (plus 1).

// CHECK-LABEL: func.func @gather
// CHECK:       scf.for %[[J:.*]] =
// CHECK:         %[[ID:.*]] = memref.load %ids[%[[J]]] : memref<?xi64>
// CHECK:         %[[INDEX:.*]] = arith.index_cast %[[ID]] : i64 to index
// CHECK:         %[[BAD:.*]] = arith.cmpi uge, %[[INDEX]], %c100 : index
// CHECK:         scf.if %[[BAD]]
// CHECK:           %[[NOTED:.*]] = memref.load %errors[%c0]
// CHECK:           %[[NONE:.*]] = arith.cmpi eq, %[[NOTED]]
// CHECK-NEXT:      scf.if %[[NONE]]
// CHECK:             scf.for
// CHECK:               arith.cmpi uge
// CHECK:               memref.store %{{.*}}, %errors[%c1]
// CHECK:               %[[NODE:.*]] = arith.constant 8 : i64
// CHECK-NEXT:          memref.store %[[NODE]], %errors[%c0]
// CHECK:         %[[ROW:.*]] = arith.select %[[BAD]], %c0, %[[INDEX]] : index
// CHECK:         vector.load %table[%[[ROW]],
// CHECK:       } {openinfer.parallel}
func.func @gather(%table: memref<100x384xf32>, %ids: memref<?xi64>, %y: memref<?x384xf32>, %errors: memref<4xi64>) {
  nn.gather(%table, %ids) outs(%y) scratch(errors = %errors) {axis = 0 : i64, node = 7 : i64}
    : (memref<100x384xf32>, memref<?xi64>, memref<?x384xf32>, memref<4xi64>) -> ()
  func.return
}

// Indices that another machine uses are looked at one after the other.
// CHECK-LABEL: func.func @check_indices
// CHECK:         %[[BOUND:.*]] = nn.size
// CHECK:         scf.for
// CHECK:           %[[WRONG:.*]] = arith.cmpi uge, %{{.*}}, %[[BOUND]] : index
// CHECK-NEXT:      scf.if %[[WRONG]]
// CHECK:             %[[NODE:.*]] = arith.constant 8 : i64
// CHECK-NEXT:        memref.store %[[NODE]], %errors[%c0]
// CHECK-NOT:     openinfer.parallel
func.func @check_indices(%ids: memref<?x2xi64>, %errors: memref<4xi64>) {
  nn.check_indices(%ids) outs(%errors) {bound = #graph.size<N>, node = 7 : i64}
    : (memref<?x2xi64>, memref<4xi64>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.transpose
func.func @on_tensors(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  %y = nn.transpose(%x) {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  func.return %y : tensor<8x4xf32>
}

}
