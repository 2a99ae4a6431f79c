// RUN: openinfer-opt %s -p recognize-layer-norm --split-input-file | filecheck %s

// CHECK-LABEL: func.func @whole
// CHECK-NEXT: %y = nn.layer_norm(%x, %w, %b) {eps = 1.000000e-05 : f64, has_weight, has_bias}
// CHECK-NEXT: func.return
func.func @whole(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %e = nn.fill() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %m = nn.reduce(%x) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = nn.elementwise(%x, %m) {kind = "sub"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %s = nn.elementwise(%d, %d) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = nn.reduce(%s) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %g = nn.elementwise(%v, %e) {kind = "add"} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = nn.elementwise(%g) {kind = "rsqrt"} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = nn.elementwise(%d, %r) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %h = nn.elementwise(%n, %w) {kind = "mul"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %y = nn.elementwise(%h, %b) {kind = "add"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// -----
// Another way to write it: a power, a division, no weight. A bias without a weight stays a sum.
// CHECK-LABEL: func.func @divided
// CHECK: nn.layer_norm(%x) {eps = 1.000000e-05 : f64}
// CHECK-NEXT: nn.elementwise({{.*}}, %b) {kind = "add"}
func.func @divided(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %e = nn.fill() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %c = nn.fill() {value = 2.0 : f64} : () -> tensor<f32>
  %m = nn.reduce(%x) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = nn.elementwise(%x, %m) {kind = "sub"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %s = nn.elementwise(%d, %c) {kind = "pow"} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %v = nn.reduce(%s) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %g = nn.elementwise(%e, %v) {kind = "add"} : (tensor<f32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %r = nn.elementwise(%g) {kind = "sqrt"} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = nn.elementwise(%d, %r) {kind = "div"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = nn.elementwise(%n, %b) {kind = "add"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// -----
// The variance of something else.
// CHECK-LABEL: func.func @other_variance
// CHECK-NOT: nn.layer_norm
func.func @other_variance(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = nn.fill() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %m = nn.reduce(%x) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = nn.elementwise(%x, %m) {kind = "sub"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %s = nn.elementwise(%z, %z) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = nn.reduce(%s) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %g = nn.elementwise(%v, %e) {kind = "add"} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = nn.elementwise(%g) {kind = "rsqrt"} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = nn.elementwise(%d, %r) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  func.return %n : tensor<4x8xf32>
}
// -----
// Over the first axis; and once more with a barrier in the middle.
// CHECK-LABEL: func.func @other_axis
// CHECK-NOT: nn.layer_norm
func.func @other_axis(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = nn.fill() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %m = nn.reduce(%x) {kind = "mean", axes = array<i64: 0>, keepdims} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %d = nn.elementwise(%x, %m) {kind = "sub"} : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %s = nn.elementwise(%d, %d) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = nn.reduce(%s) {kind = "mean", axes = array<i64: 0>, keepdims} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %g = nn.elementwise(%v, %e) {kind = "add"} : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
  %r = nn.elementwise(%g) {kind = "rsqrt"} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %n = nn.elementwise(%d, %r) {kind = "mul"} : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  func.return %n : tensor<4x8xf32>
}
// -----
// CHECK-LABEL: func.func @barrier
// CHECK-NOT: nn.layer_norm
func.func @barrier(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = nn.fill() {value = 1.0e-05 : f64} : () -> tensor<f32>
  %m = nn.reduce(%x) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %d = nn.elementwise(%x, %m) {kind = "sub"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  nn.barrier
  %s = nn.elementwise(%d, %d) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = nn.reduce(%s) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %g = nn.elementwise(%v, %e) {kind = "add"} : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %r = nn.elementwise(%g) {kind = "rsqrt"} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = nn.elementwise(%d, %r) {kind = "mul"} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  func.return %n : tensor<4x8xf32>
}
