// RUN: openinfer-opt %s -p mark-byte-products --split-input-file | filecheck %s

// A weight on the right, and enough rows for another right operand to be packed.
// CHECK: nn.matmul(%x, %W) {transpose_b, precision = "i8"} : (tensor<1x64xi8>, tensor<32x64xi8>) -> tensor<1x32xi32>
// CHECK: nn.matmul(%W, %z) {precision = "i8"} : (tensor<32x64xi8>, tensor<64x9xi8>) -> tensor<32x9xi32>
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x", "z"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%x: tensor<1x64xi8>, %z: tensor<64x9xi8>, %W: tensor<32x64xi8>) -> (tensor<1x32xi32>, tensor<32x9xi32>) {
    %a = nn.matmul(%x, %W) {transpose_b} : (tensor<1x64xi8>, tensor<32x64xi8>) -> tensor<1x32xi32>
    %b = nn.matmul(%W, %z) : (tensor<32x64xi8>, tensor<64x9xi8>) -> tensor<32x9xi32>
    func.return %a, %b : tensor<1x32xi32>, tensor<32x9xi32>
  }
}

// -----

// Bytes without a sign, sums of a byte, a short contraction, few rows beside no weight.
// CHECK-NOT: precision
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x", "y", "z"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%x: tensor<1x64xi8>, %y: tensor<4x8xi8>, %z: tensor<64x9xi8>, %W: tensor<32x64xi8>, %V: tensor<32x8xi8>) -> tensor<1x32xi32> {
    %a = nn.matmul(%x, %W) {transpose_b, unsigned} : (tensor<1x64xi8>, tensor<32x64xi8>) -> tensor<1x32xi32>
    %b = nn.matmul(%x, %W) {transpose_b} : (tensor<1x64xi8>, tensor<32x64xi8>) -> tensor<1x32xi8>
    %c = nn.matmul(%y, %V) {transpose_b} : (tensor<4x8xi8>, tensor<32x8xi8>) -> tensor<4x32xi32>
    %d = nn.matmul(%x, %z) : (tensor<1x64xi8>, tensor<64x9xi8>) -> tensor<1x9xi32>
    func.return %a : tensor<1x32xi32>
  }
}
