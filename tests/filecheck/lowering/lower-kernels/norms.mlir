// RUN: openinfer-opt %s -p 'lower-kernels{only=norms},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// The mean, then the mean of the squared differences. In a row that is far from 0 the mean of the differences,
// which is what the mean was rounded by, is taken out. Then scale and shift in one instruction each.

// CHECK-LABEL: func.func @layer_norm
// CHECK:       scf.for %[[I:.*]] =
// CHECK:         %[[SUM:.*]] = vector.reduction <add>
// CHECK-NEXT:    %[[MEAN:.*]] = arith.divf %[[SUM]], %{{.*}} : f32
// CHECK:         vector.fma
// CHECK:         %[[SQ:.*]] = vector.reduction <add>
// CHECK-NEXT:    %[[SQUARES:.*]] = arith.divf %[[SQ]], %{{.*}} : f32
// CHECK-NEXT:    %[[LIMIT:.*]] = arith.mulf %[[SQUARES]], %{{.*}} : f32
// CHECK-NEXT:    %[[OF_MEAN:.*]] = arith.mulf %[[MEAN]], %[[MEAN]] : f32
// CHECK-NEXT:    %[[FAR:.*]] = arith.cmpf ogt, %[[OF_MEAN]], %[[LIMIT]] : f32
// CHECK-NEXT:    %[[OFF:.*]], %[[VAR:.*]] = scf.if %[[FAR]] -> (f32, f32) {
// CHECK:           %[[OFFS:.*]] = vector.reduction <add>
// CHECK-NEXT:      %[[OWN:.*]] = arith.divf %[[OFFS]], %{{.*}} : f32
// CHECK-NEXT:      %[[TOO_MUCH:.*]] = arith.mulf %[[OWN]], %[[OWN]] : f32
// CHECK-NEXT:      arith.subf %[[SQUARES]], %[[TOO_MUCH]] : f32
// CHECK:         } else {
// CHECK-NEXT:      scf.yield %{{.*}}, %[[SQUARES]] : f32, f32
// CHECK:         %[[SHIFTED:.*]] = arith.addf %[[VAR]], %{{.*}} : f32
// CHECK-NEXT:    %[[ROOT:.*]] = math.sqrt %[[SHIFTED]] : f32
// CHECK:         arith.mulf %[[OFF]], %{{.*}} : f32
// CHECK:         scf.for %[[K:.*]] = {{.*}} step %c16
// CHECK:           %[[W:.*]] = vector.load %w[%[[K]]]
// CHECK-NEXT:      %[[C:.*]] = vector.load %c[%[[K]]]
// CHECK-NEXT:      %[[R:.*]] = vector.fma %{{.*}}, %[[W]], %[[C]] : vector<16xf32>
// CHECK-NEXT:      vector.store %[[R]], %y[%[[I]], %[[K]]]
// CHECK:       } {openinfer.parallel}
func.func @layer_norm(%x: memref<?x384xf32>, %w: memref<384xf32>, %c: memref<384xf32>, %y: memref<?x384xf32>) {
  nn.layer_norm(%x, %w, %c) outs(%y) {eps = 1.0e-12 : f64, has_weight, has_bias}
    : (memref<?x384xf32>, memref<384xf32>, memref<384xf32>, memref<?x384xf32>) -> ()
  func.return
}

// One sum less: rms_norm subtracts no mean.

// CHECK-LABEL: func.func @rms_norm
// CHECK-NOT:   arith.subf
// CHECK:       vector.reduction <add>
// CHECK-NOT:   vector.reduction
// CHECK:       func.return
func.func @rms_norm(%x: memref<?x384xf32>, %w: memref<384xf32>, %y: memref<?x384xf32>) {
  nn.rms_norm(%x, %w) outs(%y) {eps = 1.0e-5 : f64} : (memref<?x384xf32>, memref<384xf32>, memref<?x384xf32>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.rms_norm
func.func @on_tensors(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.rms_norm(%x) {eps = 1.0e-5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

}
