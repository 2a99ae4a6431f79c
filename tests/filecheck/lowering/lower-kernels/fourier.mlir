// RUN: openinfer-opt %s -p 'lower-kernels{only=fourier},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// A known length goes through stages: 8 = 4 * 2. The first has no neighbours to take together, the
// second one takes four; it needs no phases, for its groups are whole turns.

// CHECK-LABEL: func.func @stages
// CHECK:       scf.for %j = %c0 to %c8
// CHECK:         math.cos
// CHECK:         math.sin
// CHECK:       } {openinfer.parallel}
// CHECK:       scf.for %row =
// CHECK:         memref.load %x[%row,
// CHECK:         scf.for %k = %c0 to %c2
// CHECK:           memref.load %work[%{{.*}}, %c0,
// CHECK:           memref.load %table
// CHECK:           memref.store %{{.*}}, %work[%{{.*}}, %c2,
// CHECK:         vector.load %work[%{{.*}}, %c2, %{{.*}}] : memref<?x4x8xf32>, vector<4xf32>
// CHECK-NOT:     memref.load %table
// CHECK:         vector.store %{{.*}}, %work[%{{.*}}, %c0,
// CHECK:         scf.for %[[K:.*]] = %c0 to %c5
// CHECK:           memref.store %{{.*}}, %y[%row, %[[K]], %c0]
// CHECK:           memref.store %{{.*}}, %y[%row, %[[K]], %c1]
// CHECK:       } {openinfer.parallel}
func.func @stages(%x: memref<?x8xf32>, %y: memref<?x5x2xf32>, %table: memref<2x8xf32>, %work: memref<?x4x8xf32>) {
  nn.rfft(%x) outs(%y) scratch(table = %table, rows = %work) {n = #graph.size<8>, norm = "backward"}
    : (memref<?x8xf32>, memref<?x5x2xf32>, memref<2x8xf32>, memref<?x4x8xf32>) -> ()
  func.return
}

// A large prime factor is summed in a loop.

// CHECK-LABEL: func.func @prime
// CHECK:       scf.for %r = %c0 to %c11
// CHECK:         scf.for %u = %c1 to %c11
// CHECK:           arith.remui %{{.*}}, %c11 : index
func.func @prime(%x: memref<3x11xf32>, %y: memref<3x6x2xf32>, %table: memref<2x11xf32>, %work: memref<?x4x11xf32>) {
  nn.rfft(%x) outs(%y) scratch(table = %table, rows = %work) {n = #graph.size<11>, norm = "ortho"}
    : (memref<3x11xf32>, memref<3x6x2xf32>, memref<2x11xf32>, memref<?x4x11xf32>) -> ()
  func.return
}

// A length that only the run knows: each sample is a sum over all bins, in f64.

// CHECK-LABEL: func.func @sums
// CHECK:       %[[N:.*]] = nn.size "N"
// CHECK:       scf.for %row =
// CHECK:         arith.mulf
// CHECK:         scf.for %[[J:j.*]] = %c0 to %[[N]]
// CHECK-NEXT:      scf.for %{{.*}} = %c0 to %[[N]] step %c1 iter_args(%{{.*}}, %{{.*}}, %[[PHASE:.*]] = %c0) -> (f64, f64, index)
// CHECK:             arith.addi %[[PHASE]], %[[J]] : index
// CHECK:           arith.truncf %{{.*}} : f64 to f32
// CHECK-NEXT:      memref.store %{{.*}}, %y[%row, %[[J]]]
func.func @sums(%x: memref<3x?x2xf32>, %y: memref<3x?xf32>, %table: memref<2x?xf64>, %work: memref<?x4x?xf32>) {
  nn.irfft(%x) outs(%y) scratch(table = %table, rows = %work) {n = #graph.size<N>, norm = "backward"}
    : (memref<3x?x2xf32>, memref<3x?xf32>, memref<2x?xf64>, memref<?x4x?xf32>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.rfft
func.func @on_tensors(%x: tensor<3x8xf32>) -> tensor<3x5x2xf32> {
  %y = nn.rfft(%x) {n = #graph.size<8>, norm = "backward"} : (tensor<3x8xf32>) -> tensor<3x5x2xf32>
  func.return %y : tensor<3x5x2xf32>
}

}
