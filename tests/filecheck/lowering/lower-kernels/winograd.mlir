// RUN: openinfer-opt %s -p 'lower-kernels,verify-dominance,canonicalize,cse' --split-input-file | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Fourteen lines of 28 tiles, in blocks of four: sums of pixels, then products for each of 16 places, then squares.

// CHECK-LABEL: func.func @tiles
// CHECK-NOT:   memref.prefetch
// CHECK-DAG:   %[[LINES:.*]] = memref.alloca() {{.*}}memref<597xf32>
// CHECK-DAG:   %[[SUMS:.*]] = memref.alloca() {{.*}}memref<14352xf32>
// CHECK:       scf.for %b = %c0 to %c4
// CHECK:         scf.for %c = %c0 to %c32
// CHECK:           vector.load %[[LINES]]
// CHECK:           arith.subf
// CHECK:           vector.store %{{.*}}, %planes
// CHECK:         } {openinfer.parallel}
// CHECK:         scf.for %t = %c0 to %c4
// CHECK:           scf.for %place = %c0 to %c16
// CHECK:             scf.for %k = %c0 to %c32 step %c1 iter_args(
// CHECK:               vector.load %planes
// CHECK:               memref.load %w[%c0, %t, %{{.*}}, %c0]
// CHECK:               vector.fma
// CHECK:             vector.store %{{.*}}, %[[SUMS]]
// CHECK:           vector.load %[[SUMS]]
// CHECK:           vector.shuffle %{{.*}}[0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23]
// CHECK:           vector.store %{{.*}}, %y
// CHECK:         } {openinfer.parallel}
// CHECK:       } {openinfer.together}
func.func @tiles(%x: memref<1x32x28x56xf32>, %w: memref<1x4x512x8xf32>, %y: memref<1x32x28x56xf32>, %planes: memref<57344xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.winograd<8>}
    : (memref<1x32x28x56xf32>, memref<1x4x512x8xf32>, memref<1x32x28x56xf32>, memref<57344xf32>) -> ()
  func.return
}

// Weights of 256 KiB are asked for ahead, by the first tile of a place: three vectors, then two.

// CHECK-LABEL: func.func @ahead
// CHECK:       scf.for %place = %c0 to %c16
// CHECK:         scf.for %{{k.*}} = %c0 to %c64 step %c1 iter_args(
// CHECK:           %[[AHEAD:.*]] = arith.addi %{{.*}}, %c256
// CHECK:           memref.prefetch %w[%c0, %t, %[[AHEAD]], %c0]
// CHECK-COUNT-24:  vector.fma
// CHECK-NOT:       memref.prefetch
// CHECK:         scf.for %{{k.*}} = %c0 to %c64 step %c1 iter_args(
// CHECK-COUNT-16:  vector.fma
// CHECK-NOT:       vector.fma
func.func @ahead(%x: memref<1x64x20x16xf32>, %w: memref<1x8x1024x8xf32>, %y: memref<1x64x20x16xf32>, %planes: memref<82176xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.winograd<8>}
    : (memref<1x64x20x16xf32>, memref<1x8x1024x8xf32>, memref<1x64x20x16xf32>, memref<82176xf32>) -> ()
  func.return
}

// Nine weights become sixteen, in f64, rounded once; output channels that are not there are zeros.

// CHECK-LABEL: func.func @pack
// CHECK:       scf.for %{{p.*}} = %c0 to %c4
// CHECK:         scf.for %c = %c0 to %c32
// CHECK:           scf.for %{{r.*}} = %c0 to %c8
// CHECK:             arith.cmpi ult, %{{.*}}, %c30
// CHECK:             arith.extf %{{.*}} : f32 to f64
// CHECK:             arith.mulf %{{.*}} : f64
// CHECK-COUNT-16:    memref.store
// CHECK:           } else {
// CHECK-COUNT-16:    memref.store
func.func @pack(%w: memref<1x30x288xf32>, %p: memref<1x4x512x8xf32>) {
  nn.pack(%w) outs(%p) {layout = #nn.winograd<8>, transposed = "transposed"} : (memref<1x30x288xf32>, memref<1x4x512x8xf32>) -> ()
  func.return
}

}
