// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: nn.matmul: unsigned says what signless integers are, found elements f32 and f32
func.func @f(%x: tensor<4x4xf32>) {
  %y = nn.matmul(%x, %x) {unsigned} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return
}
// -----
// CHECK: nn.matmul: unsigned and boolean exclude each other
func.func @f(%x: tensor<4x4xi8>) {
  %y = nn.matmul(%x, %x) {unsigned, boolean} : (tensor<4x4xi8>, tensor<4x4xi8>) -> tensor<4x4xi8>
  func.return
}
// -----
// CHECK: nn.matmul: boolean operands and results are bytes, found i8 and i32
func.func @f(%x: tensor<4x4xi8>) {
  %y = nn.matmul(%x, %x) {boolean} : (tensor<4x4xi8>, tensor<4x4xi8>) -> tensor<4x4xi32>
  func.return
}
// -----
// CHECK: nn.reduce: unsigned belongs to argmax and argmin, not to max
func.func @f(%x: tensor<4x4xi8>) {
  %y = nn.reduce(%x) {kind = "max", axes = array<i64: 0>, unsigned} : (tensor<4x4xi8>) -> tensor<4xi8>
  func.return
}
// -----
// CHECK: nn.reduce: unsigned says what signless integers are, found elements ui8
func.func @f(%x: tensor<4x4xui8>) {
  %y = nn.reduce(%x) {kind = "argmin", axes = array<i64: 0>, unsigned} : (tensor<4x4xui8>) -> tensor<4xi64>
  func.return
}
// -----
// CHECK: nn.sort: unsigned says what signless integers are, found elements f32
func.func @f(%x: tensor<4xf32>) {
  %v, %p = nn.sort(%x) {axis = 0 : i64, unsigned} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi64>)
  func.return
}
// -----
// CHECK: nn.gather: unsigned_indices says what signless integers are, found elements ui8
func.func @f(%x: tensor<4xf32>, %i: tensor<4xui8>) {
  %y = nn.gather(%x, %i) {axis = 0 : i64, unsigned_indices} : (tensor<4xf32>, tensor<4xui8>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.scatter: unsigned says what signless integers are, found elements f32
func.func @f(%x: tensor<4xf32>, %i: tensor<4xi8>) {
  %y = nn.scatter(%x, %i, %x) {axis = 0 : i64, mode = "min", unsigned} : (tensor<4xf32>, tensor<4xi8>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.scatter: unsigned_indices says what signless integers are, found elements ui8
func.func @f(%x: tensor<4xf32>, %i: tensor<4xui8>) {
  %y = nn.scatter(%x, %i, %x) {axis = 0 : i64, mode = "min", unsigned_indices} : (tensor<4xf32>, tensor<4xui8>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.sections: serial sections give no values, they fill buffers
func.func @f(%x: tensor<4xf32>) {
  %y = nn.sections serial -> (tensor<4xf32>) "one" {
    nn.end_section %x : tensor<4xf32>
  }
  func.return
}
