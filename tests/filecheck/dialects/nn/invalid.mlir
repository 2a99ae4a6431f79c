// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: nn.softmax takes 1 inputs, found 2
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.softmax(%x, %x) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: inner sizes differ, 8 and 4
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.matmul(%x, %x) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: operands have at least two dimensions
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.matmul(%x, %v) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.matmul: one map for each extra operand
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.matmul(%x, %x, %v) {transpose_b} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x4xf32>
  func.return
}
// -----
// CHECK: nn.reduce: unknown kind 'median'
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.reduce(%x) {kind = "median", axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.attention: layouts are four of bhld, blhd
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %q = "test.op"() : () -> tensor<1x2x5x4xf32>
  %y = nn.attention(%q, %q, %q) {scale = 1.0 : f64, layouts = ["bhld", "dlhb", "bhld", "bhld"]} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  func.return
}
// -----
// CHECK: nn.attention: q, k and v have four dimensions
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.attention(%x, %x, %x) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.reshape: 32 elements do not fill 30
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.reshape(%x) : (tensor<4x8xf32>) -> tensor<30xf32>
  func.return
}
// -----
// CHECK: nn.transpose: not a permutation of the dimensions
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.transpose(%x) {permutation = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  func.return
}
// -----
// CHECK: nn.slice: one start and one step for each dimension
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.slice(%x) {starts = [#graph.size<0>], steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.elementwise "add": an input outranks the result
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %y = nn.elementwise(%x, %v) {kind = "add"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return
}
// -----
// CHECK: nn.softmax mixes buffers with other values
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %b = memref.alloc() : memref<4x8xf32>
  nn.softmax(%x) outs(%b) {axis = 1 : i64} : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.softmax has 1 results, found 0
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  nn.softmax(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.member: the indices leave another shape than the member
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %i = arith.constant 0 : index
  %y = nn.member %x[%i] : tensor<4x8xf32> -> tensor<4xf32>
  func.return
}
