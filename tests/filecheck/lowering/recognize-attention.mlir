// RUN: openinfer-opt %s -p recognize-attention --split-input-file | filecheck %s

// CHECK-LABEL: func.func @plain
// CHECK: nn.attention({{.*}}) {scale = 5.000000e-02 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x5x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
// CHECK-NEXT: nn.reshape({{.*}}) : (tensor<1x2x5x4xf32>) -> tensor<2x5x4xf32>
func.func @plain(%q: tensor<2x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x4xf32>) -> tensor<2x5x4xf32> {
  %s = nn.matmul(%q, %k) {transpose_b} : (tensor<2x5x8xf32>, tensor<2x6x8xf32>) -> tensor<2x5x6xf32>
  %f = nn.fill() {value = 0.05 : f64} : () -> tensor<f32>
  %c = nn.elementwise(%f, %s) {kind = "mul"} : (tensor<f32>, tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  %p = nn.softmax(%c) {axis = 2 : i64} : (tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
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
// kᵀ as one transpose of [batch, length, heads, size], as exported models write it: k is what is left
// of it without turning rows and columns.
// CHECK-LABEL: func.func @turned_keys
// CHECK-NEXT: %[[K:.*]] = nn.transpose(%k) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x6x2x8xf32>) -> tensor<1x2x6x8xf32>
// CHECK-NEXT: nn.attention(%q, %[[K]], %v) {scale = 5.000000e-01 : f64, layouts
func.func @turned_keys(%q: tensor<1x2x5x8xf32>, %k: tensor<1x6x2x8xf32>, %v: tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32> {
  %t = nn.transpose(%k) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x6x2x8xf32>) -> tensor<1x2x8x6xf32>
  %s = nn.matmul(%q, %t) : (tensor<1x2x5x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x5x6xf32>
  %f = nn.fill() {value = 2.0 : f64} : () -> tensor<f32>
  %c = nn.elementwise(%s, %f) {kind = "div"} : (tensor<1x2x5x6xf32>, tensor<f32>) -> tensor<1x2x5x6xf32>
  %p = nn.softmax(%c) {axis = 3 : i64} : (tensor<1x2x5x6xf32>) -> tensor<1x2x5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<1x2x5x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
  func.return %o : tensor<1x2x5x4xf32>
}
// -----
// A scale and a mask; the scale is a constant of every element.
// CHECK-LABEL: func.func @scaled_and_masked
// CHECK: nn.attention({{.*}}) {scale = 2.500000e-01 : f64, masked, nan_rows,
func.func @scaled_and_masked(%q: tensor<5x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>, %m: tensor<1x6xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %k) {transpose_b} : (tensor<5x8xf32>, tensor<6x8xf32>) -> tensor<5x6xf32>
  %f = nn.fill() {value = 0.25 : f64} : () -> tensor<f32>
  %b = nn.broadcast(%f) : (tensor<f32>) -> tensor<5x6xf32>
  %c = nn.elementwise(%s, %b) {kind = "mul"} : (tensor<5x6xf32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  %a = nn.elementwise(%c, %m) {kind = "add"} : (tensor<5x6xf32>, tensor<1x6xf32>) -> tensor<5x6xf32>
  %p = nn.softmax(%a) {axis = 1 : i64} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x6xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
// -----
// A factor that makes infinities of sums, and unscaled scores that something else reads.
// CHECK-LABEL: func.func @huge_scale
// CHECK-NOT: nn.attention
func.func @huge_scale(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %f = nn.fill() {value = 1.0e30 : f64} : () -> tensor<f32>
  %c = nn.elementwise(%s, %f) {kind = "mul"} : (tensor<5x5xf32>, tensor<f32>) -> tensor<5x5xf32>
  %p = nn.softmax(%c) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
// -----
// CHECK-LABEL: func.func @scores_are_read
// CHECK-NOT: nn.attention
func.func @scores_are_read(%q: tensor<5x8xf32>, %v: tensor<5x4xf32>) -> (tensor<5x4xf32>, tensor<5x5xf32>) {
  %s = nn.matmul(%q, %q) {transpose_b} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x5xf32>
  %f = nn.fill() {value = 0.25 : f64} : () -> tensor<f32>
  %c = nn.elementwise(%s, %f) {kind = "mul"} : (tensor<5x5xf32>, tensor<f32>) -> tensor<5x5xf32>
  %p = nn.softmax(%c) {axis = 1 : i64} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x5xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  func.return %o, %s : tensor<5x4xf32>, tensor<5x5xf32>
}
// -----
// A transpose that may not be fused stays, and so does its product.
// CHECK-LABEL: func.func @kept_apart
// CHECK-NOT: nn.attention
func.func @kept_apart(%q: tensor<1x2x5x8xf32>, %k: tensor<1x6x2x8xf32>, %v: tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32> {
  %t = nn.transpose(%k) {permutation = array<i64: 0, 2, 3, 1>} attrs {openinfer.no_fuse} : (tensor<1x6x2x8xf32>) -> tensor<1x2x8x6xf32>
  %s = nn.matmul(%q, %t) : (tensor<1x2x5x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x5x6xf32>
  %p = nn.softmax(%s) {axis = 3 : i64} : (tensor<1x2x5x6xf32>) -> tensor<1x2x5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<1x2x5x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
  func.return %o : tensor<1x2x5x4xf32>
}
// -----
// Keys that already lie as columns: attention would have to turn them first.
// CHECK-LABEL: func.func @columns
// CHECK-NOT: nn.attention
func.func @columns(%q: tensor<1x2x5x8xf32>, %k: tensor<1x8x2x6xf32>, %v: tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32> {
  %t = nn.transpose(%k) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x6xf32>) -> tensor<1x2x8x6xf32>
  %s = nn.matmul(%q, %t) : (tensor<1x2x5x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x5x6xf32>
  %p = nn.softmax(%s) {axis = 3 : i64} : (tensor<1x2x5x6xf32>) -> tensor<1x2x5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<1x2x5x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
  func.return %o : tensor<1x2x5x4xf32>
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
// -----
// Arithmetic of constants is a constant: 1 / sqrt(16).
// CHECK-LABEL: func.func @computed_scale
// CHECK: nn.attention({{.*}}) {scale = 2.500000e-01 : f64,
func.func @computed_scale(%q: tensor<5x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x4xf32>) -> tensor<5x4xf32> {
  %s = nn.matmul(%q, %k) {transpose_b} : (tensor<5x8xf32>, tensor<6x8xf32>) -> tensor<5x6xf32>
  %d = nn.fill() {value = 16.0 : f64} : () -> tensor<f32>
  %r = nn.elementwise(%d) {kind = "sqrt"} : (tensor<f32>) -> tensor<f32>
  %c = nn.elementwise(%s, %r) {kind = "div"} : (tensor<5x6xf32>, tensor<f32>) -> tensor<5x6xf32>
  %p = nn.softmax(%c) {axis = 1 : i64} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  %o = nn.matmul(%p, %v) : (tensor<5x6xf32>, tensor<6x4xf32>) -> tensor<5x4xf32>
  func.return %o : tensor<5x4xf32>
}
