// RUN: openinfer-opt %s -p lower-matmul --split-input-file | filecheck %s

// One loop over the panels of all three; k and v differ in their buffers only, which are chosen.
// CHECK-LABEL: func.func @three
// CHECK: %[[N:.*]] = arith.constant 5 : index
// CHECK: scf.for %p = %{{.*}} to %[[N]] step
// CHECK: scf.if
// CHECK: vector.store {{.*}} : memref<4x48xf32>, vector<8xf32>
// CHECK: } else {
// CHECK: arith.select %{{.*}}, %v, %k : memref<4x16xf32>
// CHECK: vector.store {{.*}} : memref<4x16xf32>, vector<8xf32>
// CHECK: {openinfer.parallel}
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @three(%x: memref<4x8xf32>, %Wq: memref<3x8x16xf32>, %Wk: memref<1x8x16xf32>, %Wv: memref<1x8x16xf32>, %q: memref<4x48xf32>, %k: memref<4x16xf32>, %v: memref<4x16xf32>) {
    nn.products(%x, %Wq, %Wk, %Wv) outs(%q, %k, %v) {parts = [{packed}, {packed}, {packed}]} : (memref<4x8xf32>, memref<3x8x16xf32>, memref<1x8x16xf32>, memref<1x8x16xf32>, memref<4x48xf32>, memref<4x16xf32>, memref<4x16xf32>) -> ()
    func.return
  }
}
// -----
// On tensors it stays.
// CHECK-LABEL: func.func @tensors
// CHECK: nn.products
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @tensors(%x: tensor<4x8xf32>, %W: tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
    %a, %b = nn.products(%x, %W, %W) {parts = [{packed}, {packed}]} : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
    func.return %a, %b : tensor<4x16xf32>, tensor<4x16xf32>
  }
}
