// RUN: OI_ROUNDTRIP

// CHECK: func.func @windows
func.func @windows(%x: tensor<?x4x?x8xf32, #nn.dims<N, 4, H, 8>>, %c: tensor<2x3x3x2x5x6xf32>) {
  // CHECK: %u = nn.unfold(%x) {stride = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 2>, dilation = array<i64: 1, 2>} : (tensor<?x4x?x8xf32, #nn.dims<N, 4, H, 8>>) -> tensor<?x4x3x2x?x8xf32, #nn.dims<N, 4, 3, 2, "(H + 1)/2", 8>>
  %u = nn.unfold(%x) {stride = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 2>, dilation = array<i64: 1, 2>} : (tensor<?x4x?x8xf32, #nn.dims<N, 4, H, 8>>) -> tensor<?x4x3x2x?x8xf32, #nn.dims<N, 4, 3, 2, "floordiv(H + 1, 2)", 8>>
  // CHECK: %f = nn.fold(%c) {stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<2x3x3x2x5x6xf32>) -> tensor<2x3x9x11xf32>
  %f = nn.fold(%c) {stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<2x3x3x2x5x6xf32>) -> tensor<2x3x9x11xf32>
  // CHECK: %m = nn.pool(%f) {kind = "max", kernel = array<i64: 2, 3>, stride = array<i64: 2, 3>, padding = array<i64: 0, 0, 1, 1>, dilation = array<i64: 1, 1>, ceil} : (tensor<2x3x9x11xf32>) -> tensor<2x3x5x4xf32>
  %m = nn.pool(%f) {kind = "max", kernel = array<i64: 2, 3>, stride = array<i64: 2, 3>, padding = array<i64: 0, 0, 1, 1>, dilation = array<i64: 1, 1>, ceil} : (tensor<2x3x9x11xf32>) -> tensor<2x3x5x4xf32>
  // CHECK: %a = nn.pool(%f) {kind = "average", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, count_padding, divisor = 3 : i64} : (tensor<2x3x9x11xf32>) -> tensor<2x3x5x6xf16>
  %a = nn.pool(%f) {kind = "average", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, count_padding, divisor = 3 : i64} : (tensor<2x3x9x11xf32>) -> tensor<2x3x5x6xf16>
  // CHECK: %r = nn.resample(%f) {kind = "nearest", scales = array<i64: 3, 2, 2, 1>} : (tensor<2x3x9x11xf32>) -> tensor<2x3x13x22xf32>
  %r = nn.resample(%f) {kind = "nearest", scales = array<i64: 3, 2, 2, 1>} : (tensor<2x3x9x11xf32>) -> tensor<2x3x13x22xf32>
  // CHECK: %b = nn.resample(%f) {kind = "bilinear", corners} : (tensor<2x3x9x11xf32>) -> tensor<2x3x4x5xf16>
  %b = nn.resample(%f) {kind = "bilinear", corners} : (tensor<2x3x9x11xf32>) -> tensor<2x3x4x5xf16>
  // CHECK: %s = nn.pool(%f) {kind = "max", kernel = [#graph.size<k.0>, #graph.size<2>], stride = [#graph.size<1>, #graph.size<s.1>], padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<2x3x9x11xf32>) -> tensor<2x3x?x?xf32, #nn.dims<2, 3, h.2, w.3>>
  %s = nn.pool(%f) {kind = "max", kernel = [#graph.size<k.0>, #graph.size<2>], stride = [#graph.size<1>, #graph.size<s.1>], padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<2x3x9x11xf32>) -> tensor<2x3x?x?xf32, #nn.dims<2, 3, h.2, w.3>>
  func.return
}

// CHECK: func.func @on_buffers
func.func @on_buffers(%x: memref<2x4x?x8xf32>, %y: memref<2x4x3x2x?x7xf32>) {
  // CHECK: nn.unfold(%x) outs(%y) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x?x8xf32>, memref<2x4x3x2x?x7xf32>) -> ()
  nn.unfold(%x) outs(%y) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x?x8xf32>, memref<2x4x3x2x?x7xf32>) -> ()
  func.return
}

// CHECK: func.func @convolution
func.func @convolution(%x: tensor<?x4x8x8xf32, #nn.dims<N, 4, 8, 8>>, %w: tensor<1x2x36x4xf32>, %b: tensor<6x1x1xf32>) {
  // CHECK: %k = nn.conv(%x, %w) extras(%b) {kernel = array<i64: 3, 3>, groups = 1 : i64, {{.*}}layout = #nn.panels<{{[0-9]+}}>{{.*}}
  %k = nn.conv(%x, %w) extras(%b) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, maps = [affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>], layout = #nn.panels<4>, pool = 2 : i64} {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    nn.yield %r : f32
  } : (tensor<?x4x8x8xf32, #nn.dims<N, 4, 8, 8>>, tensor<1x2x36x4xf32>, tensor<6x1x1xf32>) -> tensor<?x6x4x4xf32, #nn.dims<N, 6, 4, 4>>
  func.return
}
