// RUN: openinfer-opt %s -p choose-layouts --split-input-file | filecheck %s

// Kernels of 3x3 over enough channels, with their neighbours: sixteen places for each channel.
// CHECK: {variable = "K", sources = ["K"], layout = #nn.winograd<4>, prepare = "prepare_0"}
// CHECK: func.func @step(%x: tensor<1x32x12x32xf16>, %K_packed_t: tensor<1x8x512x4xf32>)
// CHECK-NEXT: nn.conv(%x, %K_packed_t) {{{.*}}layout = #nn.winograd<4>}
// CHECK: func.func @prepare_0(%source: tensor<30x32x3x3xf16>) -> tensor<1x8x512x4xf32>
// CHECK-NEXT: %[[M:.*]] = nn.reshape(%source) : (tensor<30x32x3x3xf16>) -> tensor<1x30x288xf16>
// CHECK-NEXT: nn.pack(%[[M]]) {layout = #nn.winograd<4>, transposed = "transposed"} : (tensor<1x30x288xf16>) -> tensor<1x8x512x4xf32>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "K", sources = ["K"]}]}
  func.func @step(%x: tensor<1x32x12x32xf16>, %K: tensor<30x32x3x3xf16>) -> tensor<1x30x12x32xf16> {
    %y = nn.conv(%x, %K) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x32x12x32xf16>, tensor<30x32x3x3xf16>) -> tensor<1x30x12x32xf16>
    func.return %y : tensor<1x30x12x32xf16>
  }
}
// -----
// A stride, a dilation, groups, few channels, f64.
// CHECK-LABEL: func.func @step(%strided
// CHECK-NOT: #nn.winograd
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["strided", "d", "f"], weights = [{variable = "K", sources = ["K"]}, {variable = "G", sources = ["G"]}, {variable = "D", sources = ["D"]}, {variable = "F", sources = ["F"]}]}
  func.func @step(%strided: tensor<1x32x12x32xf32>, %d: tensor<1x32x12x32xf64>, %f: tensor<1x16x12x32xf32>, %K: tensor<32x32x3x3xf32>, %G: tensor<32x16x3x3xf32>, %D: tensor<32x32x3x3xf64>, %F: tensor<32x16x3x3xf32>) -> (tensor<1x32x6x16xf32>, tensor<1x32x12x32xf32>, tensor<1x32x12x32xf32>, tensor<1x32x12x32xf64>, tensor<1x32x12x32xf32>) {
    %0 = nn.conv(%strided, %K) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x32x12x32xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x6x16xf32>
    %1 = nn.conv(%strided, %K) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 2, 2, 2, 2>, dilation = array<i64: 2, 2>} : (tensor<1x32x12x32xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x12x32xf32>
    %2 = nn.conv(%strided, %G) {kernel = array<i64: 3, 3>, groups = 2 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x32x12x32xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x12x32xf32>
    %3 = nn.conv(%d, %D) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x32x12x32xf64>, tensor<32x32x3x3xf64>) -> tensor<1x32x12x32xf64>
    %4 = nn.conv(%f, %F) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x16x12x32xf32>, tensor<32x16x3x3xf32>) -> tensor<1x32x12x32xf32>
    func.return %0, %1, %2, %3, %4 : tensor<1x32x6x16xf32>, tensor<1x32x12x32xf32>, tensor<1x32x12x32xf32>, tensor<1x32x12x32xf64>, tensor<1x32x12x32xf32>
  }
}
// -----
// A small image of few channels.
// CHECK-LABEL: func.func @step(%small
// CHECK-NOT: #nn.winograd
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["small"], weights = [{variable = "K", sources = ["K"]}]}
  func.func @step(%small: tensor<1x32x8x32xf32>, %K: tensor<32x32x3x3xf32>) -> tensor<1x32x8x32xf32> {
    %y = nn.conv(%small, %K) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x32x8x32xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x32xf32>
    func.return %y : tensor<1x32x8x32xf32>
  }
}
// -----
// Strict mathematics have an order for each sum.
// CHECK-LABEL: func.func @step(%strict
// CHECK-NOT: #nn.winograd
builtin.module attributes {openinfer.target = "avx2", openinfer.strict_math} {
  nn.interface {inputs = ["strict"], weights = [{variable = "K", sources = ["K"]}]}
  func.func @step(%strict: tensor<1x32x12x32xf32>, %K: tensor<32x32x3x3xf32>) -> tensor<1x32x12x32xf32> {
    %y = nn.conv(%strict, %K) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x32x12x32xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x12x32xf32>
    func.return %y : tensor<1x32x12x32xf32>
  }
}
