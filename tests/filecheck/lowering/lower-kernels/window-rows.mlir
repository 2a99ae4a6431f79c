// RUN: openinfer-opt %s -p 'lower-kernels,verify-dominance,canonicalize,cse' --split-input-file | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Two lines of seven windows are fourteen rows of a tile, then the last line alone; channels go in two blocks, each
// of which asks for the weights of the next one.

// CHECK-LABEL: func.func @rows
// CHECK-DAG:   %[[SUMS:.*]] = memref.alloca() {{.*}}memref<64x32xf32>
// CHECK-DAG:   %[[TURNED:.*]] = memref.alloca() {{.*}}memref<32x64xf32>
// CHECK:       vector.maskedstore %planes
// CHECK:       } {openinfer.parallel}
// CHECK:       scf.for %{{.*}} = %c0 to %c8
// CHECK:         scf.for %{{.*}} = %c0 to %c6 step %c2
// CHECK:           scf.for %{{c.*}} = %c0 to %c128 step %c1 iter_args(
// CHECK:             memref.prefetch %w
// CHECK:             vector.load %w
// CHECK:             memref.load %planes
// CHECK-COUNT-252:   vector.fma
// CHECK-NOT:         vector.fma
// CHECK:             } {openinfer.sums = "products", openinfer.rounds = 128 : index}
// CHECK:           vector.store %{{.*}}, %[[SUMS]]
// CHECK:         scf.for %{{c.*}} = %c0 to %c128 step %c1 iter_args(
// CHECK:           vector.load %[[SUMS]]
// CHECK:         vector.shuffle
// CHECK:         vector.store %{{.*}}, %[[TURNED]]
// CHECK:         vector.load %[[TURNED]]
// CHECK:         vector.store %{{.*}} : memref<1x256x49xf32>
// CHECK:       } {openinfer.parallel}
func.func @rows(%x: memref<1x256x14x14xf32>, %w: memref<1x8x2304x32xf32>, %y: memref<1x256x7x7xf32>, %planes: memref<65536xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<32>}
    : (memref<1x256x14x14xf32>, memref<1x8x2304x32xf32>, memref<1x256x7x7xf32>, memref<65536xf32>) -> ()
  func.return
}

// A sum of more than 8192 products says so, for each of its blocks is shorter: `block-sums` joins 128 at a time.

// CHECK-LABEL: func.func @long
// CHECK-COUNT-252: vector.fma
// CHECK:         } {openinfer.sums = "long products", openinfer.rounds = 128 : index}
// CHECK:       scf.for %{{.*}} = %c128 to %c1024 step %c128
// CHECK-COUNT-252: vector.fma
// CHECK:         } {openinfer.sums = "long products", openinfer.rounds = 128 : index}
// CHECK-NOT:   openinfer.sums = "products"
func.func @long(%x: memref<1x1024x14x14xf32>, %w: memref<1x8x9216x32xf32>, %y: memref<1x256x7x7xf32>, %planes: memref<262144xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<32>}
    : (memref<1x1024x14x14xf32>, memref<1x8x9216x32xf32>, memref<1x256x7x7xf32>, memref<262144xf32>) -> ()
  func.return
}

// Of few output channels pixels stay the lanes.

// CHECK-LABEL: func.func @lanes
// CHECK:       vector.load %planes
// CHECK:       memref.load %w
// CHECK:       vector.fma
func.func @lanes(%x: memref<1x256x14x14xf32>, %w: memref<1x10x2304x4xf32>, %y: memref<1x40x7x7xf32>, %planes: memref<65664xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 1 : i64, layout = #nn.panels<4>}
    : (memref<1x256x14x14xf32>, memref<1x10x2304x4xf32>, memref<1x40x7x7xf32>, memref<65664xf32>) -> ()
  func.return
}
}
