// RUN: openinfer-opt %s -p lower-kernels | filecheck %s
// RUN: openinfer-opt %s -p 'lower-kernels{only=softmax}' | filecheck %s --check-prefix ONLY
// RUN: openinfer-opt %s -p 'lower-kernels{only=cumsum,norms}' | filecheck %s --check-prefix OTHERS
// RUN: not openinfer-opt %s -p 'lower-kernels{only=softmaxes}' 2>&1 | filecheck %s --check-prefix UNKNOWN

// Each group of kernels has its file in the folder `lower-kernels`; here is which ops the pass takes.
func.func @both(%x: memref<4x64xf32>, %y: memref<4x64xf32>, %z: memref<4x64xf32>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x64xf32>, memref<4x64xf32>) -> ()
  nn.cumsum(%y) outs(%z) {axis = 0 : i64} : (memref<4x64xf32>, memref<4x64xf32>) -> ()
  func.return
}

// On tensors an op waits for its buffers.
func.func @tensors(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  func.return %y : tensor<4x64xf32>
}

// CHECK-LABEL: func.func @both
// CHECK-NOT:     nn.
// CHECK:         math.exp
// CHECK-NOT:     nn.
// CHECK:         arith.addf
// CHECK-NOT:     nn.
// CHECK-LABEL: func.func @tensors
// CHECK:         nn.softmax

// ONLY-LABEL: func.func @both
// ONLY-NOT:     nn.softmax
// ONLY:         math.exp
// ONLY:         nn.cumsum

// OTHERS-LABEL: func.func @both
// OTHERS:         nn.softmax
// OTHERS-NOT:     nn.cumsum
// OTHERS:         arith.addf

// UNKNOWN: error[OI0590]: bad options for pass 'lower-kernels': no kernels are called 'softmaxes': groups are attention, blocks, convolution
