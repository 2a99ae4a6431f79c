// RUN: openinfer-opt %s -p 'lower-kernels{only=reduce},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Along the last axis: the largest value, in which NaN wins, then its first place.

// CHECK-LABEL: func.func @rows
// CHECK:       scf.for %[[I:.*]] =
// CHECK:         arith.maximumf
// CHECK:         vector.reduction <maximumf>
// CHECK:         arith.cmpf oeq
// CHECK:         arith.cmpf uno
// CHECK:         arith.minsi
// CHECK:         vector.reduction <minsi>
// CHECK:         memref.store %{{.*}}, %y[%[[I]]] : memref<?xi64>
// CHECK:       } {openinfer.parallel}
func.func @rows(%x: memref<?x64xf32>, %y: memref<?xi64>) {
  nn.reduce(%x) outs(%y) {axes = array<i64: 1>, kind = "argmax"} : (memref<?x64xf32>, memref<?xi64>) -> ()
  func.return
}

// Along another axis every lane searches for itself; the last of equal values replaces the others.

// CHECK-LABEL: func.func @columns
// CHECK-NOT:   vector.reduction
// CHECK:       arith.cmpi sle
// CHECK:       vector.store %{{.*}} : memref<32xi64>, vector<16xi64>
func.func @columns(%x: memref<?x32xi32>, %y: memref<32xi64>) {
  nn.reduce(%x) outs(%y) {axes = array<i64: 0>, kind = "argmin", select_last} : (memref<?x32xi32>, memref<32xi64>) -> ()
  func.return
}

// Sums come as linalg ops; a sum that is still here is not ours.

// CHECK-LABEL: func.func @sum
// CHECK-NEXT:  nn.reduce
func.func @sum(%x: memref<?x64xf32>, %y: memref<?xf32>) {
  nn.reduce(%x) outs(%y) {axes = array<i64: 1>, kind = "sum"} : (memref<?x64xf32>, memref<?xf32>) -> ()
  func.return
}

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.reduce
func.func @on_tensors(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  %y = nn.reduce(%x) {axes = array<i64: 1>, kind = "argmax"} : (tensor<4x8xf32>) -> tensor<4xi64>
  func.return %y : tensor<4xi64>
}

}
