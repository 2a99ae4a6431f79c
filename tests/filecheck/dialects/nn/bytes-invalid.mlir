// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: operands are vector<4xi8>, found vector<8xi8>
func.func @long(%s: i32, %a: vector<8xi8>) {
  %0 = nn.dot_bytes %s, %a, %a : vector<8xi8>
  func.return
}
// -----
// CHECK: operands are vector<4xi8>, found vector<4xi16>
func.func @wide(%s: i32, %a: vector<4xi16>) {
  %0 = nn.dot_bytes %s, %a, %a : vector<4xi16>
  func.return
}
// -----
// CHECK: only unsigned bytes are said to be small
func.func @small(%s: vector<4xi32>) {
  %0 = nn.dot_words small %s, %s, %s : vector<4xi32>
  func.return
}
// -----
// CHECK: a table has 16 bytes, found 2
func.func @table(%s: vector<4xi32>) {
  %0 = nn.look_up_bytes %s in [0, 1] : vector<4xi32>
  func.return
}
// -----
// CHECK: rows are whole blocks of 32 elements, found [2, 40]
func.func @rows(%x: tensor<2x40xf32>) {
  %0 = nn.quantize_rows(%x) : (tensor<2x40xf32>) -> tensor<2x60xi8>
  func.return
}
// -----
// CHECK: operands have elements i8 and f32
func.func @q8(%x: tensor<2x96xi8>, %w: tensor<8x64xf32>) {
  %0 = nn.matmul(%x, %w) {transpose_b, precision = "q8"} : (tensor<2x96xi8>, tensor<8x64xf32>) -> tensor<2x8xf32>
  func.return
}
