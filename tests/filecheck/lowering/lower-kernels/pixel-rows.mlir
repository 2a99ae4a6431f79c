// RUN: openinfer-opt %s -p 'lower-kernels,verify-dominance,canonicalize,cse' --split-input-file | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// 49 pixels are seven tiles of seven rows; squares of their sums are turned, then stored by channel.

// CHECK-LABEL: func.func @rows
// CHECK-DAG:   %[[SUMS:.*]] = memref.alloca() {{.*}}memref<64x16xf32>
// CHECK-DAG:   %[[TURNED:.*]] = memref.alloca() {{.*}}memref<16x64xf32>
// CHECK:       scf.for %{{.*}} = %c0 to %c5
// CHECK:         scf.for %{{.*}} = %c0 to %c49 step %c7
// CHECK:           memref.prefetch %w
// CHECK:           vector.load %w
// CHECK:           memref.load %{{.*}} : memref<1x64x49xf32>
// CHECK:           vector.fma
// CHECK:           vector.store %{{.*}}, %[[SUMS]]
// CHECK:         vector.shuffle
// CHECK:         vector.store %{{.*}}, %[[TURNED]]
// CHECK:         vector.load %[[TURNED]]
// CHECK:         vector.store %{{.*}} : memref<1x80x49xf32>
// CHECK:       } {openinfer.parallel}
func.func @rows(%x: memref<1x64x7x7xf32>, %w: memref<1x5x64x16xf32>, %y: memref<1x80x7x7xf32>) {
  nn.conv(%x, %w) outs(%y) {kernel = array<i64: 1, 1>, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<16>}
    : (memref<1x64x7x7xf32>, memref<1x5x64x16xf32>, memref<1x80x7x7xf32>) -> ()
  func.return
}

// 64 pixels fill four vectors: they are the lanes, and x is read where it lies.

// CHECK-LABEL: func.func @lanes
// CHECK-NOT:   memref.alloca
// CHECK:       vector.load %{{.*}} : memref<4096xf32>
// CHECK:       memref.load %w
// CHECK:       vector.fma
func.func @lanes(%x: memref<1x64x8x8xf32>, %w: memref<1x20x64x4xf32>, %y: memref<1x80x8x8xf32>) {
  nn.conv(%x, %w) outs(%y) {kernel = array<i64: 1, 1>, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<4>}
    : (memref<1x64x8x8xf32>, memref<1x20x64x4xf32>, memref<1x80x8x8xf32>) -> ()
  func.return
}
}
