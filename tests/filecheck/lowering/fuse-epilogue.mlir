// RUN: openinfer-opt %s -p fuse-epilogue --split-input-file | filecheck %s

// CHECK-LABEL: func.func @bias
// CHECK-NOT: linalg.generic
// CHECK: nn.matmul(%x, %w) extras(%b) {transpose_b, maps = [affine_map<(d0, d1) -> (d1)>]} {
// CHECK-NEXT: ^bb0(%[[P:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[P]], %[[B]]
// CHECK-NEXT: nn.yield %[[S]]
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @bias(%x: tensor<4x8xf32>, %w: tensor<2x8xf32>, %b: tensor<2xf32>) -> tensor<4x2xf32> {
  %y = nn.matmul(%x, %w) {transpose_b} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %z = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d1)>, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %b : tensor<4x2xf32>, tensor<2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x2xf32>
  func.return %z : tensor<4x2xf32>
}
// -----
// The program rounds the product to f16 before the sum.
// CHECK-LABEL: func.func @rounded
// CHECK: ^bb0(%[[P:.*]]: f32, %[[B:.*]]: f16):
// CHECK-NEXT: %[[N:.*]] = arith.truncf %[[P]] : f32 to f16
// CHECK-NEXT: arith.addf %[[N]], %[[B]] : f16
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @rounded(%x: tensor<4x8xf16>, %w: tensor<8x2xf16>, %b: tensor<4x2xf16>) -> tensor<4x2xf16> {
  %y = nn.matmul(%x, %w) : (tensor<4x8xf16>, tensor<8x2xf16>) -> tensor<4x2xf16>
  %e = tensor.empty() : tensor<4x2xf16>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %b : tensor<4x2xf16>, tensor<4x2xf16>) outs(%e : tensor<4x2xf16>) {
  ^bb0(%p: f16, %q: f16, %o: f16):
    %r = arith.addf %p, %q : f16
    linalg.yield %r : f16
  } -> tensor<4x2xf16>
  func.return %z : tensor<4x2xf16>
}
// -----
// A second consumer joins the body; a product that is read twice at one place is one argument.
// CHECK-LABEL: func.func @two_steps
// CHECK: nn.matmul(%x, %w) extras(%z0)
// CHECK: arith.mulf %[[P:.*]], %[[P]]
// CHECK-NEXT: arith.subf
// CHECK-NOT: linalg.generic
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @two_steps(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>, %z0: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %y = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %y : tensor<4x2xf32>, tensor<4x2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x2xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%z0, %s : tensor<4x2xf32>, tensor<4x2xf32>) outs(%e : tensor<4x2xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.subf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x2xf32>
  func.return %z : tensor<4x2xf32>
}
// -----
// The sum is of another shape, the product is read elsewhere, transposed, or behind a barrier.
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-4: nn.matmul(%x, %w) : (
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @kept(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>, %big: tensor<3x4x4xf32>) -> (tensor<3x4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %e3 = tensor.empty() : tensor<3x4x4xf32>
  %e = tensor.empty() : tensor<4x4xf32>
  %y1 = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %z1 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y1, %big : tensor<4x4xf32>, tensor<3x4x4xf32>) outs(%e3 : tensor<3x4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<3x4x4xf32>
  %y2 = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %z2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y2 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %y3 = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %z3 = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d1, d0)>, #id], iterator_types = ["parallel", "parallel"]} ins(%y3, %y3 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  %y4 = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  nn.barrier
  %z4 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y4 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  } -> tensor<4x4xf32>
  func.return %z1, %z2, %y2, %z3, %z4 : tensor<3x4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
// -----
// A convolution's, too: the bias follows the channel, what is added the pixel.
// CHECK-LABEL: func.func @convolution
// CHECK-NOT: linalg.generic
// CHECK: nn.conv(%x, %w) extras(%b, %s) {{{.*}}maps = [affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>]} {
// CHECK-NEXT: ^bb0(%[[P:.*]]: f32, %[[B:.*]]: f32, %[[Q:.*]]: f32):
// CHECK-NEXT: %[[S:.*]] = arith.addf %[[P]], %[[B]]
// CHECK-NEXT: arith.addf %[[S]], %[[Q]]
#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
func.func @convolution(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x1x1xf32>, %b: tensor<6x1x1xf32>, %s: tensor<1x6x8x8xf32>) -> tensor<1x6x8x8xf32> {
  %y = nn.conv(%x, %w) {kernel = array<i64: 1, 1>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>, tensor<6x4x1x1xf32>) -> tensor<1x6x8x8xf32>
  %e = tensor.empty() : tensor<1x6x8x8xf32>
  %z = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1, d2, d3) -> (d1, 0, 0)>, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%y, %b, %s : tensor<1x6x8x8xf32>, tensor<6x1x1xf32>, tensor<1x6x8x8xf32>) outs(%e : tensor<1x6x8x8xf32>) {
  ^bb0(%p: f32, %q: f32, %u: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    %t = arith.addf %r, %u : f32
    linalg.yield %t : f32
  } -> tensor<1x6x8x8xf32>
  func.return %z : tensor<1x6x8x8xf32>
}

// -----

// A device that multiplies matrices of f16: a gate is a kernel of its own where rows are many, a function behind a bias is
// none.
// CHECK-LABEL: func.func @step(%x: tensor<?x64xf16
// CHECK: %g = nn.matmul(%x, %w) {transpose_b} :
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic
// CHECK: nn.matmul(%x, %w) extras(%b) {transpose_b
// CHECK-NOT: linalg.generic
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.matrices} {
  func.func @step(%x: tensor<?x64xf16, #nn.dims<N, 64>>, %w: tensor<32x64xf16>, %u: tensor<?x32xf32, #nn.dims<N, 32>>, %b: tensor<32xf32>) -> (tensor<?x32xf32, #nn.dims<N, 32>>, tensor<?x32xf32, #nn.dims<N, 32>>) {
    %n = nn.size "N"
    %g = nn.matmul(%x, %w) {transpose_b} : (tensor<?x64xf16, #nn.dims<N, 64>>, tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>>
    %e = tensor.empty(%n) : tensor<?x32xf32, #nn.dims<N, 32>>
    %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%g, %u : tensor<?x32xf32, #nn.dims<N, 32>>, tensor<?x32xf32, #nn.dims<N, 32>>) outs(%e : tensor<?x32xf32, #nn.dims<N, 32>>) {
    ^bb0(%0: f32, %1: f32, %2: f32):
      %3 = math.exp %0 : f32
      %4 = arith.mulf %3, %1 : f32
      linalg.yield %4 : f32
    } -> tensor<?x32xf32, #nn.dims<N, 32>>
    %h = nn.matmul(%x, %w) {transpose_b} : (tensor<?x64xf16, #nn.dims<N, 64>>, tensor<32x64xf16>) -> tensor<?x32xf32, #nn.dims<N, 32>>
    %f = tensor.empty(%n) : tensor<?x32xf32, #nn.dims<N, 32>>
    %z = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%h, %b : tensor<?x32xf32, #nn.dims<N, 32>>, tensor<32xf32>) outs(%f : tensor<?x32xf32, #nn.dims<N, 32>>) {
    ^bb0(%0: f32, %1: f32, %2: f32):
      %3 = arith.addf %0, %1 : f32
      %4 = math.exp %3 : f32
      linalg.yield %4 : f32
    } -> tensor<?x32xf32, #nn.dims<N, 32>>
    func.return %y, %z : tensor<?x32xf32, #nn.dims<N, 32>>, tensor<?x32xf32, #nn.dims<N, 32>>
  }
}
