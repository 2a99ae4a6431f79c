// RUN: OI_ROUNDTRIP

// CHECK: nn.dot_bytes %s, %a, %b : vector<4xi8>
// CHECK: nn.dot_bytes unsigned %{{.*}}, %a, %b : vector<4xi8>
func.func @bytes(%s: i32, %a: vector<4xi8>, %b: vector<4xi8>) -> i32 {
  %0 = nn.dot_bytes %s, %a, %b : vector<4xi8>
  %1 = nn.dot_bytes unsigned %0, %a, %b : vector<4xi8>
  func.return %1 : i32
}
