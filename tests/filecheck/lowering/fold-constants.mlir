// RUN: openinfer-opt %s -p fold-constants --split-input-file | filecheck %s

// The product of two f32 constants, rounded to f32.
// CHECK-LABEL: func.func @product
// CHECK-NEXT: %c = nn.fill() {value = 0.20000000298023224 : f64}
// CHECK-NEXT: nn.elementwise(%x, %c) {kind = "mul"}
func.func @product(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.fill() {value = 2.0 : f64} : () -> tensor<f32>
  %b = nn.fill() {value = 0.1 : f64} : () -> tensor<f32>
  %c = nn.elementwise(%a, %b) {kind = "mul"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %y = nn.elementwise(%x, %c) {kind = "mul"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
// -----
// CHECK-LABEL: func.func @moved
// CHECK-NEXT: %r = nn.fill() {value = 2.000000e+00 : f64} : () -> tensor<2x2xf32>
// CHECK-NEXT: func.return
func.func @moved() -> tensor<2x2xf32> {
  %a = nn.fill() {value = 2.0 : f64} : () -> tensor<f32>
  %r = nn.broadcast(%a) : (tensor<f32>) -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}
// -----
// CHECK-LABEL: func.func @neutral
// CHECK-NEXT: func.return %x
func.func @neutral(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = nn.fill() {value = 1.0 : f64} : () -> tensor<f32>
  %zero = nn.fill() {value = 0.0 : f64} : () -> tensor<f32>
  %a = nn.elementwise(%one, %x) {kind = "mul"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %b = nn.elementwise(%a, %one) {kind = "div"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c = nn.elementwise(%b, %zero) {kind = "sub"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}
// -----
// -0.0 + 0.0 is 0.0; 1 / x is no x; x - (-0.0) changes -0.0; and a product that grows its operand.
// CHECK-LABEL: func.func @not_neutral
// CHECK: kind = "add"
// CHECK: kind = "div"
// CHECK: kind = "sub"
// CHECK: kind = "mul"
func.func @not_neutral(%x: tensor<4xf32>) -> tensor<2x4xf32> {
  %one = nn.fill() {value = 1.0 : f64} : () -> tensor<2x1xf32>
  %i = nn.fill() {value = 1.0 : f64} : () -> tensor<f32>
  %zero = nn.fill() {value = 0.0 : f64} : () -> tensor<f32>
  %minus = nn.fill() {value = -0.0 : f64} : () -> tensor<f32>
  %a = nn.elementwise(%x, %zero) {kind = "add"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = nn.elementwise(%i, %a) {kind = "div"} : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %c = nn.elementwise(%b, %minus) {kind = "sub"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %y = nn.elementwise(%c, %one) {kind = "mul"} : (tensor<4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// f16 is rounded by its kernel.
// CHECK-LABEL: func.func @narrow
// CHECK: nn.elementwise
func.func @narrow() -> tensor<f16> {
  %a = nn.fill() {value = 2.0 : f64} : () -> tensor<f16>
  %c = nn.elementwise(%a, %a) {kind = "mul"} : (tensor<f16>, tensor<f16>) -> tensor<f16>
  func.return %c : tensor<f16>
}
// -----
// The root of a negative number is left to the kernel's NaN.
// CHECK-LABEL: func.func @root
// CHECK: nn.elementwise
func.func @root() -> tensor<f32> {
  %a = nn.fill() {value = -2.0 : f64} : () -> tensor<f32>
  %c = nn.elementwise(%a) {kind = "sqrt"} : (tensor<f32>) -> tensor<f32>
  func.return %c : tensor<f32>
}
