// RUN: openinfer-opt %s | openinfer-opt | filecheck %s
// RUN: openinfer-opt %s --print-op-generic | openinfer-opt | filecheck %s

// Weights of quantised models: products read them as the package has them, and laid out.
func.func @products(%x: tensor<4x512xf32>, %h: tensor<2x4x64xf16>) {
  // CHECK: %w, %k, %p, %e = "test.op"() : () -> (tensor<8x512x!nn.block<q8_0>>, tensor<24x512x!nn.block<q4_k>>, tensor<2x16x288xi8>, tensor<3x6x2x544xi8>)
  %w, %k, %p, %e = "test.op"() : () -> (tensor<8x512x!nn.block<q8_0>>, tensor<24x512x!nn.block<q4_k>>, tensor<2x16x288xi8>, tensor<3x6x2x544xi8>)
  // CHECK: %a = nn.matmul(%x, %w) {transpose_b} : (tensor<4x512xf32>, tensor<8x512x!nn.block<q8_0>>) -> tensor<4x8xf32>
  %a = nn.matmul(%x, %w) {transpose_b} : (tensor<4x512xf32>, tensor<8x512x!nn.block<q8_0>>) -> tensor<4x8xf32>
  // CHECK: %b = nn.matmul(%x, %k) {transpose_b} : (tensor<4x512xf32>, tensor<24x512x!nn.block<q4_k>>) -> tensor<4x24xf32>
  %b = nn.matmul(%x, %k) {transpose_b} : (tensor<4x512xf32>, tensor<24x512x!nn.block<q4_k>>) -> tensor<4x24xf32>
  // CHECK: %c = nn.matmul(%x, %p) {layout = #nn.blocks<q4_0, 16>} : (tensor<4x512xf32>, tensor<2x16x288xi8>) -> tensor<4x24xf32>
  %c = nn.matmul(%x, %p) {layout = #nn.blocks<q4_0, 16>} : (tensor<4x512xf32>, tensor<2x16x288xi8>) -> tensor<4x24xf32>
  // CHECK: %m = nn.member %e[%i] : tensor<3x6x2x544xi8> -> tensor<6x2x544xi8>
  // CHECK: %d = nn.matmul(%h, %m) {layout = #nn.blocks<q8_0, 16>} : (tensor<2x4x64xf16>, tensor<6x2x544xi8>) -> tensor<2x4x96xf16>
  %i = arith.constant 1 : index
  %m = nn.member %e[%i] : tensor<3x6x2x544xi8> -> tensor<6x2x544xi8>
  %d = nn.matmul(%h, %m) {layout = #nn.blocks<q8_0, 16>} : (tensor<2x4x64xf16>, tensor<6x2x544xi8>) -> tensor<2x4x96xf16>
  func.return
}
