// RUN: openinfer-opt %s -p recognize-attention --split-input-file | filecheck %s

// CHECK-LABEL: func.func @plain
// CHECK: nn.attention({{.*}}) {scale = 5.000000e-02 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x5x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
// CHECK-NEXT: nn.reshape({{.*}}) : (tensor<1x2x5x4xf32>) -> tensor<2x5x4xf32>
func.func @plain(%q: tensor<2x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x4xf32>) -> tensor<2x5x4xf32> {
  %s = nn.matmul(%q, %k) {transpose_b, alpha = 0.05 : f64} : (tensor<2x5x8xf32>, tensor<2x6x8xf32>) -> tensor<2x5x6xf32>
  %p = nn.softmax(%s) {axis = 2 : i64} : (tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<2x5x6xf32>, tensor<2x6x4xf32>) -> tensor<2x5x4xf32>
  func.return %o : tensor<2x5x4xf32>
}
// -----
// No scale is scale 1, not 1/sqrt(d); a row of -inf stays the NaN that softmax makes of it.
// CHECK-LABEL: func.func @masked
// CHECK: nn.attention({{.*}}) {scale = 1.000000e+00 : f64, masked, nan_rows,
func.func @masked(%q: tensor<5x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>, %m: tensor<1x6xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %k) {transpose_b} : (tensor<5x8xf32>, tensor<6x8xf32>) -> tensor<5x6xf32>
  %a = nn.elementwise(%m, %s) {kind = "add"} : (tensor<1x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %p = nn.softmax(%a) {axis = 1 : i64} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x6xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
// -----
// One tensor as q, k and v.
// CHECK-LABEL: func.func @shared
// CHECK: nn.attention(%[[X:[a-z0-9_]+]], %{{.*}}, %{{.*}}) {scale = 1.000000e+00 : f64, layouts
func.func @shared(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %s = nn.matmul(%x, %x) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %p = nn.softmax(%s) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %x) : (tensor<5x5xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
  func.return %o : tensor<5x8xf32>
}
// -----
// The probabilities as the right operand are no attention.
// CHECK-LABEL: func.func @on_the_right
// CHECK-NOT: nn.attention
func.func @on_the_right(%q: tensor<5x8xf32>, %k: tensor<5x8xf32>, %v: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %s = nn.matmul(%q, %k) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %p = nn.softmax(%s) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%v, %p) : (tensor<4x5xf32>, tensor<5x5xf32>) -> tensor<4x5xf32>
  func.return %o : tensor<4x5xf32>
}
// -----
// CHECK-LABEL: func.func @probabilities_are_read
// CHECK-NOT: nn.attention
func.func @probabilities_are_read(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<5x5xf32>) {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %p = nn.softmax(%s) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o, %p : tensor<5x4xf32>, tensor<5x5xf32>
}
// -----
// CHECK-LABEL: func.func @other_axis
// CHECK-NOT: nn.attention
func.func @other_axis(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %p = nn.softmax(%s) {axis = 0 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
// -----
// The program rounds the probabilities to f16.
// CHECK-LABEL: func.func @rounded
// CHECK-NOT: nn.attention
func.func @rounded(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %p = nn.softmax(%s) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf16>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf16>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
// -----
// CHECK-LABEL: func.func @barrier
// CHECK-NOT: nn.attention
func.func @barrier(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  nn.barrier
  %p = nn.softmax(%s) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
// -----
// A hint on any part keeps all of it as written.
// CHECK-LABEL: func.func @hint
// CHECK-NOT: nn.attention
func.func @hint(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %p = nn.softmax(%s) {axis = 1 : i64} attrs {openinfer.no_fuse} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
