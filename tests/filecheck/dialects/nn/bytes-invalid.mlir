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
