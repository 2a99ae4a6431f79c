// RUN: OI_ROUNDTRIP

// What integers without a sign are is a property of the op that asks.
// CHECK: func.func @signs
func.func @signs(%x: tensor<4x4xi8>, %i: tensor<4xi8>) {
  // CHECK: %m = nn.matmul(%x, %x) {unsigned} :
  %m = nn.matmul(%x, %x) {unsigned} : (tensor<4x4xi8>, tensor<4x4xi8>) -> tensor<4x4xi8>
  // CHECK: %o = nn.matmul(%x, %x) {boolean} :
  %o = nn.matmul(%x, %x) {boolean} : (tensor<4x4xi8>, tensor<4x4xi8>) -> tensor<4x4xi8>
  // CHECK: %a = nn.reduce(%x) {kind = "argmax", axes = array<i64: 0>, unsigned} :
  %a = nn.reduce(%x) {kind = "argmax", axes = array<i64: 0>, unsigned} : (tensor<4x4xi8>) -> tensor<4xi64>
  // CHECK: %v, %p = nn.sort(%x) {axis = 0 : i64, unsigned} :
  %v, %p = nn.sort(%x) {axis = 0 : i64, unsigned} : (tensor<4x4xi8>) -> (tensor<4x4xi8>, tensor<4x4xi64>)
  // CHECK: %g = nn.gather(%x, %i) {axis = 0 : i64, unsigned_indices} :
  %g = nn.gather(%x, %i) {axis = 0 : i64, unsigned_indices} : (tensor<4x4xi8>, tensor<4xi8>) -> tensor<4x4xi8>
  // CHECK: %s = nn.scatter(%x, %i, %g) {axis = 0 : i64, mode = "min", unsigned, unsigned_indices} :
  %s = nn.scatter(%x, %i, %g) {axis = 0 : i64, mode = "min", unsigned, unsigned_indices} : (tensor<4x4xi8>, tensor<4xi8>, tensor<4x4xi8>) -> tensor<4x4xi8>
  // CHECK: nn.sections serial "one" {
  nn.sections serial "one" {
    nn.end_section
  } "two" {
    nn.end_section
  }
  func.return
}
