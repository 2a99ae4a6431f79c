// RUN: openinfer-opt %s -p fuse-pooling --split-input-file | filecheck %s

// Bias and relu never fall: they may follow the maximum.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:  %p = nn.conv(%x, %w) extras(%b) {{{.*}}pool = 2 : i64} {
// CHECK:         nn.yield
// CHECK-NEXT:  } : {{.*}} -> tensor<1x8x8x16xf32>
// CHECK-NEXT:  func.return %p
builtin.module attributes {openinfer.target = "avx512"} {
func.func @step(%x: tensor<1x3x16x32xf32>, %w: tensor<8x3x3x3xf32>, %b: tensor<8x1x1xf32>) -> tensor<1x8x8x16xf32> {
  %y = nn.conv(%x, %w) extras(%b) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, maps = [affine_map<(n, c, h, w) -> (c, 0, 0)>]} {
  ^bb0(%p: f32, %q: f32):
    %zero = arith.constant 0.000000e+00 : f32
    %v = arith.addf %p, %q : f32
    %t = arith.cmpf olt, %v, %zero : f32
    %r = arith.select %t, %zero, %v : f32
    nn.yield %r : f32
  } : (tensor<1x3x16x32xf32>, tensor<8x3x3x3xf32>, tensor<8x1x1xf32>) -> tensor<1x8x16x32xf32>
  %p = nn.pool(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8x16x32xf32>) -> tensor<1x8x8x16xf32>
  func.return %p : tensor<1x8x8x16xf32>
}
}

// -----

// A product with what may be negative may fall.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:  nn.conv
// CHECK:       nn.pool
builtin.module attributes {openinfer.target = "avx512"} {
func.func @step(%x: tensor<1x3x16x32xf32>, %w: tensor<8x3x3x3xf32>, %b: tensor<8x1x1xf32>) -> tensor<1x8x8x16xf32> {
  %y = nn.conv(%x, %w) extras(%b) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, maps = [affine_map<(n, c, h, w) -> (c, 0, 0)>]} {
  ^bb0(%p: f32, %q: f32):
    %r = arith.mulf %p, %q : f32
    nn.yield %r : f32
  } : (tensor<1x3x16x32xf32>, tensor<8x3x3x3xf32>, tensor<8x1x1xf32>) -> tensor<1x8x16x32xf32>
  %p = nn.pool(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8x16x32xf32>) -> tensor<1x8x8x16xf32>
  func.return %p : tensor<1x8x8x16xf32>
}
}

// -----

// What is added differs from pixel to pixel.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:  nn.conv
// CHECK:       nn.pool
builtin.module attributes {openinfer.target = "avx512"} {
func.func @step(%x: tensor<1x3x16x32xf32>, %w: tensor<8x3x3x3xf32>, %b: tensor<1x8x16x32xf32>) -> tensor<1x8x8x16xf32> {
  %y = nn.conv(%x, %w) extras(%b) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>]} {
  ^bb0(%p: f32, %q: f32):
    %zero = arith.constant 0.000000e+00 : f32
    %v = arith.addf %p, %q : f32
    %t = arith.cmpf olt, %v, %zero : f32
    %r = arith.select %t, %zero, %v : f32
    nn.yield %r : f32
  } : (tensor<1x3x16x32xf32>, tensor<8x3x3x3xf32>, tensor<1x8x16x32xf32>) -> tensor<1x8x16x32xf32>
  %p = nn.pool(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8x16x32xf32>) -> tensor<1x8x8x16xf32>
  func.return %p : tensor<1x8x8x16xf32>
}
}

// -----

// Windows that overlap, means, and sums that are wanted elsewhere.

// CHECK-LABEL: func.func @step
// CHECK-NEXT:  nn.conv
// CHECK-NEXT:  nn.pool
// CHECK-NEXT:  nn.conv
// CHECK-NEXT:  nn.pool
// CHECK-NEXT:  nn.conv
// CHECK-NEXT:  nn.pool
builtin.module attributes {openinfer.target = "avx512"} {
func.func @step(%x: tensor<1x3x16x32xf32>, %w: tensor<8x3x3x3xf32>) -> (tensor<1x8x15x31xf32>, tensor<1x8x8x16xf32>, tensor<1x8x16x32xf32>, tensor<1x8x8x16xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x3x16x32xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x16x32xf32>
  %p = nn.pool(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8x16x32xf32>) -> tensor<1x8x15x31xf32>
  %z = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x3x16x32xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x16x32xf32>
  %q = nn.pool(%z) {kind = "average", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8x16x32xf32>) -> tensor<1x8x8x16xf32>
  %u = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x3x16x32xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x16x32xf32>
  %r = nn.pool(%u) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8x16x32xf32>) -> tensor<1x8x8x16xf32>
  func.return %p, %q, %u, %r : tensor<1x8x15x31xf32>, tensor<1x8x8x16xf32>, tensor<1x8x16x32xf32>, tensor<1x8x8x16xf32>
}
}
