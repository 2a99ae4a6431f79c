// RUN: openinfer-opt %s -p 'lower-kernels{only=recurrence},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// A thread walks a whole sequence: nobody waits between two steps. States stay unrounded in scratch:
// row 4 is h, row 5 is c.

// CHECK-LABEL: func.func @lstm
// CHECK:       %[[T:.*]] = nn.thread
// CHECK:       scf.for %b =
// CHECK:         arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK:         vector.store %{{.*}}, %s[%[[T]], %c4,
// CHECK:         vector.store %{{.*}}, %s[%[[T]], %c5,
// CHECK:         scf.for %t =
// CHECK:           scf.for %j{{.*}} =
// CHECK:             %[[H:.*]] = vector.load %s[%[[T]], %c4,
// CHECK:             vector.fma %{{.*}}, %[[H]],
// CHECK-COUNT-4:     vector.reduction <add>
// CHECK:           math.exp
// CHECK:           math.tanh
// CHECK:           vector.store %{{.*}}, %y[%t, %b,
// CHECK:         vector.load %s[%[[T]], %c4,
// CHECK:         vector.store %{{.*}}, %h[%b,
// CHECK:         vector.store %{{.*}}, %c[%b,
// CHECK:       } {openinfer.parallel}
func.func @lstm(%fed: memref<?x?x128xf32>, %h0: memref<?x32xf16>, %c0: memref<?x32xf16>, %w: memref<128x32xf16>,
    %y: memref<?x?x32xf16>, %h: memref<?x32xf16>, %c: memref<?x32xf16>, %s: memref<?x6x32xf32>) {
  nn.lstm(%fed, %h0, %c0, %w) outs(%y, %h, %c) scratch(states = %s)
    : (memref<?x?x128xf32>, memref<?x32xf16>, memref<?x32xf16>, memref<128x32xf16>,
       memref<?x?x32xf16>, memref<?x32xf16>, memref<?x32xf16>, memref<?x6x32xf32>) -> ()
  func.return
}

// Backwards: the last step first. The hidden bias of a GRU is added to what scratch holds.

// CHECK-LABEL: func.func @gru
// CHECK:       scf.for %[[N:.*]] = %c0 to %c5
// CHECK-NEXT:    %[[T:.*]] = arith.subi %{{.*}}, %[[N]] : index
// CHECK-COUNT-3: memref.load %bias
// CHECK:         vector.load %fed[%[[T]], %b,
// CHECK:         arith.subf
// CHECK:         vector.store %{{.*}}, %y[%[[T]], %b,
func.func @gru(%fed: memref<5x2x48xf32>, %h0: memref<2x16xf32>, %w: memref<48x16xf32>, %bias: memref<48xf32>,
    %y: memref<5x2x16xf32>, %h: memref<2x16xf32>, %s: memref<?x4x16xf32>) {
  nn.gru(%fed, %h0, %w, %bias) outs(%y, %h) scratch(states = %s) {reverse}
    : (memref<5x2x48xf32>, memref<2x16xf32>, memref<48x16xf32>, memref<48xf32>,
       memref<5x2x16xf32>, memref<2x16xf32>, memref<?x4x16xf32>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.gru
func.func @on_tensors(%fed: tensor<5x2x48xf32>, %h0: tensor<2x16xf32>, %w: tensor<48x16xf32>) -> tensor<5x2x16xf32> {
  %y, %h = nn.gru(%fed, %h0, %w) : (tensor<5x2x48xf32>, tensor<2x16xf32>, tensor<48x16xf32>) -> (tensor<5x2x16xf32>, tensor<2x16xf32>)
  func.return %y : tensor<5x2x16xf32>
}

}
