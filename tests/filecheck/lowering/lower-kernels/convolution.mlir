// RUN: openinfer-opt %s -p 'lower-kernels{only=convolution},verify-dominance,canonicalize,cse' --split-input-file | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// x is copied between zeros, line by line; then tiles of eight outputs and a vector of two lines each.

// CHECK-LABEL: func.func @kernels
// CHECK:       scf.for %[[H:.*]] = %c0 to %c34
// CHECK:         scf.for %c =
// CHECK:           arith.cmpi ult, %{{.*}}, %c32 : index
// CHECK:           vector.load %x[%c0, %c, %{{.*}}, %c0] : memref<1x16x32x32xf32>, vector<16xf32>
// CHECK:       } {openinfer.parallel}
// CHECK:       scf.for %{{.*}} = %c0 to %c16
// CHECK:         scf.for %[[W:.*]] = %c0 to %c32 step %c16
// CHECK:         scf.for %t = %c0 to %c4
// CHECK:           scf.for %{{.*}} = %c0 to %c16 step %c1 iter_args(
// CHECK:             %[[A:.*]] = vector.load %planes[%{{.*}}] : memref<18624xf32>, vector<16xf32>
// CHECK:             vector.load %planes[%{{.*}}] : memref<18624xf32>, vector<16xf32>
// CHECK:             %[[B:.*]] = memref.load %w[%c0, %t, %{{.*}}, %c0]
// CHECK-NEXT:        %[[S:.*]] = vector.broadcast %[[B]] : f32 to vector<16xf32>
// CHECK-NEXT:        vector.fma %[[S]], %[[A]],
// CHECK:           %[[Q:.*]] = memref.load %bias[%{{.*}}, %c0, %c0]
// CHECK:           vector.store %{{.*}}, %y[%c0, %{{.*}}, %{{.*}}, %[[W]]]
// CHECK:       } {openinfer.parallel}
func.func @kernels(%x: memref<1x16x32x32xf32>, %w: memref<1x4x144x8xf32>, %bias: memref<32x1x1xf32>, %y: memref<1x32x32x32xf32>, %planes: memref<18624xf32>) {
  nn.conv(%x, %w) extras(%bias) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<8>, maps = [affine_map<(n, c, h, w) -> (c, 0, 0)>]} {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    nn.yield %r : f32
  } : (memref<1x16x32x32xf32>, memref<1x4x144x8xf32>, memref<32x1x1xf32>, memref<1x32x32x32xf32>, memref<18624xf32>) -> ()
  func.return
}

// Lines of seven pixels: vectors run from line to line, sums go through a small buffer.

// CHECK-LABEL: func.func @short_lines
// CHECK:       %[[STAGE:.*]] = memref.alloca()
// CHECK:       vector.fma
// CHECK:       vector.store %{{.*}}, %[[STAGE]]
// CHECK:       %[[V:.*]] = vector.load %[[STAGE]]
// CHECK-NEXT:  vector.maskedstore %y[%c0, %{{.*}}, %{{.*}}, %c0], %{{.*}}, %[[V]]
func.func @short_lines(%x: memref<1x4x7x7xf32>, %w: memref<8x4x3x3xf32>, %y: memref<1x8x7x7xf32>, %planes: memref<452xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64}
    : (memref<1x4x7x7xf32>, memref<8x4x3x3xf32>, memref<1x8x7x7xf32>, memref<452xf32>) -> ()
  func.return
}

// A stride of two parts a line into its even and its odd columns.

// CHECK-LABEL: func.func @stride
// CHECK:       vector.shuffle %{{.*}}[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
// CHECK:       vector.fma
func.func @stride(%x: memref<1x4x32x32xf32>, %w: memref<8x4x3x3xf32>, %y: memref<1x8x16x16xf32>, %planes: memref<4616xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64}
    : (memref<1x4x32x32xf32>, memref<8x4x3x3xf32>, memref<1x8x16x16xf32>, memref<4616xf32>) -> ()
  func.return
}

// Squares of sums: the lines first, then neighbours.

// CHECK-LABEL: func.func @pooled
// CHECK:       vector.fma
// CHECK:       arith.cmpf ogt
// CHECK:       vector.shuffle %{{.*}}[0, 2, 4,
// CHECK-NEXT:  vector.shuffle %{{.*}}[1, 3, 5,
// CHECK:       vector.store %{{.*}}, %y[%c0,
func.func @pooled(%x: memref<1x4x16x32xf32>, %w: memref<8x4x3x3xf32>, %y: memref<1x8x8x16xf32>, %planes: memref<2576xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, pool = 2 : i64}
    : (memref<1x4x16x32xf32>, memref<8x4x3x3xf32>, memref<1x8x8x16xf32>, memref<2576xf32>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.conv
func.func @on_tensors(%x: tensor<1x1x4x4xf32>, %w: tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32> {
  %y = nn.conv(%x, %w) {kernel = array<i64: 1, 1>, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

}

// -----

// Tiles of three outputs and four vectors of pixels: three weights wait in registers, and each vector is
// multiplied by them as it comes. Twelve sums, three weights and a vector are sixteen registers.

// CHECK-LABEL: func.func @more_pixels
// CHECK:       memref.load %w[%c0, %t, %{{.*}}, %c0]
// CHECK-NEXT:  vector.broadcast
// CHECK-NEXT:  memref.load %w[%c0, %t, %{{.*}}, %c1]
// CHECK-NEXT:  vector.broadcast
// CHECK-NEXT:  memref.load %w[%c0, %t, %{{.*}}, %c2{{.*}}]
// CHECK-NEXT:  vector.broadcast
// CHECK-NEXT:  %[[P:.*]] = vector.load %planes
// CHECK-NEXT:  vector.fma %[[P]],
// CHECK-NEXT:  vector.fma %[[P]],
// CHECK-NEXT:  vector.fma %[[P]],
builtin.module attributes {openinfer.target = "avx2"} {
func.func @more_pixels(%x: memref<1x32x32x32xf32>, %w: memref<1x22x288x3xf32>, %y: memref<1x64x16x16xf32>, %planes: memref<37056xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<3>, pool = 2 : i64}
    : (memref<1x32x32x32xf32>, memref<1x22x288x3xf32>, memref<1x64x16x16xf32>, memref<37056xf32>) -> ()
  func.return
}
}

// -----

// Six outputs and two vectors: it is the pixels that wait.

// CHECK-LABEL: func.func @more_outputs
// CHECK:       %[[A:.*]] = vector.load %planes
// CHECK:       %[[B:.*]] = vector.load %planes
// CHECK:       memref.load %w
// CHECK-NEXT:  %[[S:.*]] = vector.broadcast
// CHECK-NEXT:  vector.fma %[[S]], %[[A]],
// CHECK-NEXT:  vector.fma %[[S]], %[[B]],
builtin.module attributes {openinfer.target = "avx2"} {
func.func @more_outputs(%x: memref<1x32x32x32xf32>, %w: memref<1x11x288x6xf32>, %y: memref<1x64x32x32xf32>, %planes: memref<37056xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<6>}
    : (memref<1x32x32x32xf32>, memref<1x11x288x6xf32>, memref<1x64x32x32xf32>, memref<37056xf32>) -> ()
  func.return
}
}

// -----

// A line of 196 pixels: six tiles of two vectors, and one of four pixels, which is a piece of the same loop.
// Output channels are cut into two parts, so that there are eight pieces and more.

// CHECK-LABEL: func.func @line
// CHECK:       %[[PIECES:.*]] = arith.constant 14 : index
// CHECK:       scf.for %i = %c0 to %[[PIECES]] step %c1
// CHECK:         %[[AT:.*]] = arith.remui %i, %c7 : index
// CHECK-NEXT:    %[[WHOLE:.*]] = arith.cmpi slt, %[[AT]], %c6 : index
// CHECK-NEXT:    scf.if %[[WHOLE]] {
// CHECK:           vector.load
// CHECK:         } else {
// CHECK:           vector.maskedload
// CHECK:       } {openinfer.parallel}
// CHECK-NOT:   openinfer.parallel
builtin.module attributes {openinfer.target = "avx512"} {
func.func @line(%x: memref<1x64x14x14xf32>, %w: memref<1x8x64x8xf32>, %y: memref<1x64x14x14xf32>) {
  nn.conv(%x, %w) outs(%y) {kernel = array<i64: 1, 1>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, layout = #nn.panels<8>}
    : (memref<1x64x14x14xf32>, memref<1x8x64x8xf32>, memref<1x64x14x14xf32>) -> ()
  func.return
}
}
