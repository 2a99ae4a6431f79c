// RUN: OI_ROUNDTRIP

// CHECK: nn.dot_bytes %s, %a, %b : vector<4xi8>
// CHECK: nn.dot_bytes unsigned %{{.*}}, %a, %b : vector<4xi8>
func.func @bytes(%s: i32, %a: vector<4xi8>, %b: vector<4xi8>) -> i32 {
  %0 = nn.dot_bytes %s, %a, %b : vector<4xi8>
  %1 = nn.dot_bytes unsigned %0, %a, %b : vector<4xi8>
  func.return %1 : i32
}

// CHECK: nn.dot_words %s, %a, %b : vector<16xi32>
// CHECK: nn.dot_words unsigned small %{{.*}}, %a, %b : vector<16xi32>
// CHECK: nn.look_up_bytes %a in [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] : vector<16xi32>
func.func @words(%s: vector<16xi32>, %a: vector<16xi32>, %b: vector<16xi32>) -> vector<16xi32> {
  %0 = nn.dot_words %s, %a, %b : vector<16xi32>
  %1 = nn.dot_words unsigned small %0, %a, %b : vector<16xi32>
  %2 = nn.look_up_bytes %a in [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] : vector<16xi32>
  func.return %1 : vector<16xi32>
}
// CHECK: nn.quantize_rows(%x) : (tensor<2x64xf32>) -> tensor<2x96xi8>
func.func @rows(%x: tensor<2x64xf32>) -> tensor<2x96xi8> {
  %0 = nn.quantize_rows(%x) : (tensor<2x64xf32>) -> tensor<2x96xi8>
  func.return %0 : tensor<2x96xi8>
}
