// RUN: openinfer-opt %s -p 'lower-kernels{only=softmax},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Three walks over a row: maximum, exponentials with their sum, scaling.

// CHECK-LABEL: func.func @rows
// CHECK:       scf.for %[[I:.*]] =
// CHECK:         arith.cmpf ogt
// CHECK:         %[[M:.*]] = vector.reduction <maxnumf>
// CHECK:         %[[MV:.*]] = vector.broadcast %[[M]] : f32 to vector<16xf32>
// CHECK:         arith.subf %{{.*}}, %[[MV]]
// CHECK:         math.exp
// CHECK:         vector.store %{{.*}}, %y[%[[I]],
// CHECK:         %[[S:.*]] = vector.reduction <add>
// CHECK:         arith.divf %{{.*}}, %[[S]] : f32
// CHECK:         vector.load %y[%[[I]],
// CHECK:         arith.mulf
// CHECK:         vector.store %{{.*}}, %y[%[[I]],
// CHECK:       } {openinfer.parallel}
func.func @rows(%x: memref<?x128xf32>, %y: memref<?x128xf32>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x128xf32>, memref<?x128xf32>) -> ()
  func.return
}

// Along another axis every lane has a line of its own, and nothing is combined.

// CHECK-LABEL: func.func @columns
// CHECK-NOT:   vector.reduction
// CHECK:       math.exp
// CHECK-NOT:   vector.reduction
// CHECK:       } {openinfer.parallel}
func.func @columns(%x: memref<?x32xf32>, %y: memref<?x32xf32>) {
  nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<?x32xf32>, memref<?x32xf32>) -> ()
  func.return
}

// Halves are computed in f32; the exponentials are not rounded between two walks but made again.

// CHECK-LABEL: func.func @halves
// CHECK:       arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:       math.exp %{{.*}} : vector<16xf32>
// CHECK-NOT:   vector.store
// CHECK:       vector.reduction <add>
// CHECK-NOT:   vector.store
// CHECK:       math.exp %{{.*}} : vector<16xf32>
// CHECK:       arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
// CHECK-NEXT:  vector.store
func.func @halves(%x: memref<?x320xf16>, %y: memref<?x320xf16>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x320xf16>, memref<?x320xf16>) -> ()
  func.return
}

// CHECK-LABEL: func.func @logarithm
// CHECK:       math.log %{{.*}} : f32
func.func @logarithm(%x: memref<?x16xf32>, %y: memref<?x16xf32>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64, log} : (memref<?x16xf32>, memref<?x16xf32>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.softmax
func.func @on_tensors(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

}
