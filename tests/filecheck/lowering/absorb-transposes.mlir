// RUN: openinfer-opt %s -p absorb-transposes --split-input-file | filecheck %s

// CHECK-LABEL: func.func @right
// CHECK-NEXT: nn.matmul(%a, %w) {transpose_b}
func.func @right(%a: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %t = nn.transpose(%w) {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %y = nn.matmul(%a, %t) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// A flag that is set already goes away again.
// CHECK-LABEL: func.func @twice
// CHECK-NEXT: nn.matmul(%a, %w) : (tensor<5x2x3xf32>, tensor<5x3x4xf32>)
func.func @twice(%a: tensor<5x2x3xf32>, %w: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %t = nn.transpose(%w) {permutation = array<i64: 0, 2, 1>} : (tensor<5x3x4xf32>) -> tensor<5x4x3xf32>
  %y = nn.matmul(%a, %t) {transpose_b} : (tensor<5x2x3xf32>, tensor<5x4x3xf32>) -> tensor<5x2x4xf32>
  func.return %y : tensor<5x2x4xf32>
}
// -----
// CHECK-LABEL: func.func @left
// CHECK-NEXT: nn.matmul(%a, %w) {transpose_a}
func.func @left(%a: tensor<3x2xi32>, %w: tensor<3x4xi32>) -> tensor<2x4xi32> {
  %t = nn.transpose(%a) {permutation = array<i64: 1, 0>} : (tensor<3x2xi32>) -> tensor<2x3xi32>
  %y = nn.matmul(%t, %w) : (tensor<2x3xi32>, tensor<3x4xi32>) -> tensor<2x4xi32>
  func.return %y : tensor<2x4xi32>
}
// -----
// The right operand and an addend: the sum keeps its transpose, the product reads the weight.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT: %t = nn.transpose(%w)
// CHECK-NEXT: %p = nn.matmul(%a, %w) {transpose_b}
// CHECK-NEXT: nn.elementwise(%p, %t)
func.func @shared(%a: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %t = nn.transpose(%w) {permutation = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %p = nn.matmul(%a, %t) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = nn.elementwise(%p, %t) {kind = "add"} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  func.return %y : tensor<3x3xf32>
}
// -----
// CHECK-LABEL: func.func @attention
// CHECK-NEXT: nn.attention(%q, %k, %v) {scale = 2.500000e-01 : f64, layouts = ["blhd", "bhld", "bhld", "blhd"]}
func.func @attention(%q: tensor<1x5x2x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x2x5x8xf32>) -> tensor<1x5x2x8xf32> {
  %t = nn.transpose(%q) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x8xf32>) -> tensor<1x2x5x8xf32>
  %o = nn.attention(%t, %k, %v) {scale = 0.25 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x5x8xf32>
  %y = nn.transpose(%o) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x5x8xf32>) -> tensor<1x5x2x8xf32>
  func.return %y : tensor<1x5x2x8xf32>
}
// -----
// CHECK-LABEL: func.func @merged
// CHECK-NEXT: nn.transpose(%x) {permutation = array<i64: 1, 0, 2>}
// CHECK-NEXT: func.return %y, %x
func.func @merged(%x: tensor<2x3x4xf32>) -> (tensor<3x2x4xf32>, tensor<2x3x4xf32>) {
  %t = nn.transpose(%x) {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %y = nn.transpose(%t) {permutation = array<i64: 2, 1, 0>} : (tensor<4x2x3xf32>) -> tensor<3x2x4xf32>
  %z = nn.transpose(%t) {permutation = array<i64: 1, 2, 0>} : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  func.return %y, %z : tensor<3x2x4xf32>, tensor<2x3x4xf32>
}
// -----
// Other dimensions than the last two stay.
// CHECK-LABEL: func.func @batch
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: nn.matmul(%a, %t) : (
func.func @batch(%a: tensor<5x2x3xf32>, %w: tensor<3x5x4xf32>) -> tensor<5x2x4xf32> {
  %t = nn.transpose(%w) {permutation = array<i64: 1, 0, 2>} : (tensor<3x5x4xf32>) -> tensor<5x3x4xf32>
  %y = nn.matmul(%a, %t) : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
  func.return %y : tensor<5x2x4xf32>
}
// -----
// CHECK-LABEL: func.func @barrier
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: nn.barrier
// CHECK-NEXT: nn.matmul(%a, %t) : (
func.func @barrier(%a: tensor<2x3xf32>, %w: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %t = nn.transpose(%w) {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  nn.barrier
  %y = nn.matmul(%a, %t) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// A barrier in a loop stands between each round and what was computed before the loop.
// CHECK-LABEL: func.func @barrier_in_the_loop
// CHECK-NEXT: nn.transpose
// CHECK: nn.matmul(%h, %t) : (
func.func @barrier_in_the_loop(%a: tensor<3x3xf32>, %w: tensor<3x3xf32>, %n: index) -> tensor<3x3xf32> {
  %t = nn.transpose(%w) {permutation = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%h = %a) -> (tensor<3x3xf32>) {
    %p = nn.matmul(%h, %t) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    nn.barrier
    scf.yield %p : tensor<3x3xf32>
  }
  func.return %y : tensor<3x3xf32>
}
