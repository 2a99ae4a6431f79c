// RUN: openinfer-opt %s -p absorb-scalars --split-input-file | filecheck %s
// RUN: openinfer-opt %s --strict-math -p absorb-scalars --split-input-file | filecheck %s --check-prefix STRICT

// CHECK-LABEL: func.func @factor_of_an_operand
// CHECK-NEXT: nn.matmul(%a, %b) {alpha = 5.000000e-01 : f64}
// STRICT-LABEL: func.func @factor_of_an_operand
// STRICT: kind = "mul"
func.func @factor_of_an_operand(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %c = nn.fill() {value = 0.5 : f64} : () -> tensor<f32>
  %s = nn.elementwise(%a, %c) {kind = "mul"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %y = nn.matmul(%s, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// CHECK-LABEL: func.func @divisor_of_the_result
// CHECK-NEXT: nn.matmul(%a, %b) {transpose_b, alpha = 5.000000e-01 : f64}
func.func @divisor_of_the_result(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %c = nn.fill() {value = 4.0 : f64} : () -> tensor<f32>
  %p = nn.matmul(%a, %b) {transpose_b, alpha = 2.0 : f64} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %y = nn.elementwise(%p, %c) {kind = "div"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// A constant over a product is no factor of it.
// CHECK-LABEL: func.func @divided_by_the_product
// CHECK: nn.elementwise(%c, %p) {kind = "div"}
func.func @divided_by_the_product(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %c = nn.fill() {value = 4.0 : f64} : () -> tensor<f32>
  %p = nn.matmul(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %y = nn.elementwise(%c, %p) {kind = "div"} : (tensor<f32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// CHECK-LABEL: func.func @product_is_read_unscaled
// CHECK: %p = nn.matmul(%a, %b) : (
func.func @product_is_read_unscaled(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %c = nn.fill() {value = 0.5 : f64} : () -> tensor<f32>
  %p = nn.matmul(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %y = nn.elementwise(%p, %c) {kind = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  func.return %y, %p : tensor<2x4xf32>, tensor<2x4xf32>
}
// -----
// A scaled tensor that is both operands would lose one of its factors.
// CHECK-LABEL: func.func @both_operands
// CHECK: nn.matmul(%s, %s) {transpose_b} : (
func.func @both_operands(%a: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %c = nn.fill() {value = 0.5 : f64} : () -> tensor<f32>
  %s = nn.elementwise(%a, %c) {kind = "mul"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %y = nn.matmul(%s, %s) {transpose_b} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}
// -----
// f16 rounds what is scaled.
// CHECK-LABEL: func.func @rounded
// CHECK-NOT: alpha
func.func @rounded(%a: tensor<2x3xf16>, %b: tensor<3x4xf16>) -> tensor<2x4xf16> {
  %c = nn.fill() {value = 0.1 : f64} : () -> tensor<f16>
  %s = nn.elementwise(%a, %c) {kind = "mul"} : (tensor<2x3xf16>, tensor<f16>) -> tensor<2x3xf16>
  %y = nn.matmul(%s, %b) : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  func.return %y : tensor<2x4xf16>
}
// -----
// The program rounds c·a to f32 before it meets f64.
// CHECK-LABEL: func.func @two_dtypes
// CHECK-NOT: alpha
func.func @two_dtypes(%a: tensor<2x3xf32>, %b: tensor<3x4xf64>) -> tensor<2x4xf64> {
  %c = nn.fill() {value = 0.1 : f64} : () -> tensor<f32>
  %s = nn.elementwise(%a, %c) {kind = "mul"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %y = nn.matmul(%s, %b) : (tensor<2x3xf32>, tensor<3x4xf64>) -> tensor<2x4xf64>
  func.return %y : tensor<2x4xf64>
}
// -----
// inf·a·b is not a·b times inf: terms of opposite sign are NaN.
// CHECK-LABEL: func.func @infinite
// CHECK-NOT: alpha
func.func @infinite(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %c = nn.fill() {value = 0x7ff0000000000000 : f64} : () -> tensor<f32>
  %s = nn.elementwise(%a, %c) {kind = "mul"} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %y = nn.matmul(%s, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// CHECK-LABEL: func.func @barrier
// CHECK: nn.matmul(%a, %b) : (
// CHECK-NEXT: nn.barrier
// CHECK-NEXT: nn.elementwise
func.func @barrier(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %c = nn.fill() {value = 0.5 : f64} : () -> tensor<f32>
  %p = nn.matmul(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  nn.barrier
  %y = nn.elementwise(%p, %c) {kind = "mul"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
