// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: nn.scatter: the indices are f32, expected integers
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xf32>, %u: tensor<2x3xf32>) {
  %y = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.scatter: updates has elements f16, expected f32
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf16>) {
  %y = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf16>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.scatter: unknown mode 'mul', expected one of set, add, min, max
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  %y = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "mul"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.scatter: axis 2 is out of range, expected 0 to 1
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  %y = nn.scatter(%x, %i, %u) {axis = 2 : i64, mode = "add"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.scatter: updates has shape [2, 3], expected [4, 2]
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  %y = nn.scatter(%x, %i, %u) {axis = 1 : i64, mode = "add"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.scatter: the result has shape [4, 4], expected [4, 3]
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  %y = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "add"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x4xf32>
  func.return
}
// -----
// CHECK: nn.scatter: node -1 is no row of the node table
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  %y = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "add", node = -1 : i64} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.scatter: the error record is memref<3xi64>, expected memref<4xi64>
func.func @f(%x: memref<4xf32>, %i: memref<2xi64>, %u: memref<2xf32>, %e: memref<3xi64>) {
  nn.scatter(%x, %i, %u) outs(%x) scratch(errors = %e) {axis = 0 : i64, mode = "add"} : (memref<4xf32>, memref<2xi64>, memref<2xf32>, memref<4xf32>, memref<3xi64>) -> ()
  func.return
}
// -----
// CHECK: nn.sort has 2 results, found 1
func.func @f(%x: tensor<4xf32>) {
  %y = nn.sort(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.sort: the first result has elements f16, expected f32
func.func @f(%x: tensor<4xf32>) {
  %y, %p = nn.sort(%x) {axis = 0 : i64} : (tensor<4xf32>) -> (tensor<4xf16>, tensor<4xi64>)
  func.return
}
// -----
// CHECK: nn.sort: the second result has elements i32, expected i64
func.func @f(%x: tensor<4xf32>) {
  %y, %p = nn.sort(%x) {axis = 0 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>)
  func.return
}
// -----
// CHECK: nn.sort: 5 values of axis 0, which has 4
func.func @f(%x: tensor<4xf32>) {
  %y, %p = nn.sort(%x) {axis = 0 : i64} : (tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi64>)
  func.return
}
// -----
// CHECK: nn.sort: the second result has shape [3], expected [2]
func.func @f(%x: tensor<4xf32>) {
  %y, %p = nn.sort(%x) {axis = 0 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<3xi64>)
  func.return
}
// -----
// CHECK: nn.sort: axis 1 is out of range, expected 0 to 0
func.func @f(%x: tensor<4xf32>) {
  %y, %p = nn.sort(%x) {axis = 1 : i64} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  func.return
}
// -----
// CHECK: nn.sort: the scratch buffer has shape [3], expected [4]
func.func @f(%x: memref<4xf32>, %p: memref<4xi64>, %s: memref<3xi64>) {
  nn.sort(%x) outs(%x, %p) scratch(home = %s) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>, memref<4xi64>, memref<3xi64>) -> ()
  func.return
}
// -----
// CHECK: nn.cumsum: axis -1 is out of range, expected 0 to 0
func.func @f(%x: tensor<4xf32>) {
  %y = nn.cumsum(%x) {axis = -1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.cumsum: the result has elements f16, expected f32
func.func @f(%x: tensor<4xf32>) {
  %y = nn.cumsum(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf16>
  func.return
}
// -----
// CHECK: nn.cumsum: the result has shape [3], expected [4]
func.func @f(%x: tensor<4xf32>) {
  %y = nn.cumsum(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<3xf32>
  func.return
}
// -----
// CHECK: nn.from_index: the result has elements i32, expected i64
func.func @f(%n: index) {
  %t = nn.from_index %n : tensor<i32>
  func.return
}
// -----
// CHECK: nn.from_index: the result has shape [1], expected []
func.func @f(%n: index) {
  %t = nn.from_index %n : tensor<1xi64>
  func.return
}
// -----
// CHECK: nn.gather_elements: the indices have shape [2], expected the rank of [4, 3]
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2xi64>) {
  %y = nn.gather_elements(%x, %i) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2xf32>
  func.return
}
// -----
// CHECK: nn.gather_elements: the indices [2, 5] have more lines than x [4, 3]
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2x5xi64>) {
  %y = nn.gather_elements(%x, %i) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2x5xi64>) -> tensor<2x5xf32>
  func.return
}
// -----
// CHECK: nn.scatter_elements: updates has shape [2, 2], expected [2, 3]
func.func @f(%x: tensor<4x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x2xf32>) {
  %y = nn.scatter_elements(%x, %i, %u) {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x2xf32>) -> tensor<4x3xf32>
  func.return
}
