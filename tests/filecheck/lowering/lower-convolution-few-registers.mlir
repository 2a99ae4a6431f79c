// RUN: openinfer-opt %s -p lower-convolution,canonicalize,cse --split-input-file | filecheck %s

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
  nn.conv(%x, %w) outs(%y, %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, packed, pool = 2 : i64}
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
  nn.conv(%x, %w) outs(%y, %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, packed}
    : (memref<1x32x32x32xf32>, memref<1x11x288x6xf32>, memref<1x64x32x32xf32>, memref<37056xf32>) -> ()
  func.return
}
}
