// RUN: openinfer-opt %s -p 'lower-kernels,verify-dominance,canonicalize,cse' --split-input-file | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// x is read where it lies: the lane left of the image and those behind it by masks, tiles of seven lines.

// CHECK-LABEL: func.func @each
// CHECK-NOT:   memref.alloca
// CHECK-DAG:   %[[RIGHT:.*]] = vector.create_mask %c14
// CHECK-DAG:   %[[LEFT:.*]] = arith.xori
// CHECK:       scf.for %{{.*}} = %c0 to %c24
// CHECK:         memref.load %w
// CHECK:         vector.maskedload %x[%{{.*}}], %[[LEFT]]
// CHECK:         vector.maskedload %x[%{{.*}}], %[[RIGHT]]
// CHECK-NOT:     scf.for
// CHECK:         vector.fma
// CHECK:         vector.maskedstore %y[%{{.*}}], %[[RIGHT]]
// CHECK:       } {openinfer.parallel}
func.func @each(%x: memref<1x24x14x14xf32>, %w: memref<24x1x9x1xf32>, %y: memref<1x24x14x14xf32>) {
  nn.conv(%x, %w) outs(%y) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 24 : i64, layout = #nn.panels<1>}
    : (memref<1x24x14x14xf32>, memref<24x1x9x1xf32>, memref<1x24x14x14xf32>) -> ()
  func.return
}

// 49 weights have no room in registers: a column of seven at a time, with the mask of that column.

// CHECK-LABEL: func.func @columns
// CHECK-NOT:   memref.alloca
// CHECK:       scf.for %{{.*}} = %c0 to %c24
// CHECK:         scf.for %[[J:.*]] = %c0 to %c7 step %c1 iter_args(
// CHECK-COUNT-7:   memref.load %w
// CHECK-NOT:       memref.load
// CHECK:           %[[FIRST:.*]] = arith.subi %c3, %[[J]]
// CHECK:           %[[LEFT:.*]] = vector.create_mask %[[FIRST]]
// CHECK:           %[[MASK:.*]] = arith.xori %{{.*}}, %[[LEFT]]
// CHECK:           vector.maskedload %x[%{{.*}}], %[[MASK]]
// CHECK:           scf.yield
// CHECK-NEXT:    } {{.*}}
// CHECK-COUNT-7: vector.maskedstore %y
func.func @columns(%x: memref<1x24x14x14xf32>, %w: memref<24x1x49x1xf32>, %y: memref<1x24x14x14xf32>) {
  nn.conv(%x, %w) outs(%y) {kernel = array<i64: 7, 7>, stride = array<i64: 1, 1>, padding = array<i64: 3, 3, 3, 3>, dilation = array<i64: 1, 1>, groups = 24 : i64, layout = #nn.panels<1>}
    : (memref<1x24x14x14xf32>, memref<24x1x49x1xf32>, memref<1x24x14x14xf32>) -> ()
  func.return
}

// Two channels of each group are added up: x is copied with its padding.

// CHECK-LABEL: func.func @pairs
// CHECK:       vector.store %{{.*}}, %planes
// CHECK:       vector.load %planes
func.func @pairs(%x: memref<1x24x14x14xf32>, %w: memref<12x1x18x2xf32>, %y: memref<1x24x14x14xf32>, %planes: memref<?xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 12 : i64, layout = #nn.panels<2>}
    : (memref<1x24x14x14xf32>, memref<12x1x18x2xf32>, memref<1x24x14x14xf32>, memref<?xf32>) -> ()
  func.return
}
}

// -----

builtin.module attributes {openinfer.target = "avx512", openinfer.strict_math} {

// Sums that have to go in order have no columns of weights.

// CHECK-LABEL: func.func @ordered
// CHECK:       vector.store %{{.*}}, %planes
func.func @ordered(%x: memref<1x24x14x14xf32>, %w: memref<24x1x49x1xf32>, %y: memref<1x24x14x14xf32>, %planes: memref<?xf32>) {
  nn.conv(%x, %w) outs(%y) scratch(planes = %planes) {kernel = array<i64: 7, 7>, stride = array<i64: 1, 1>, padding = array<i64: 3, 3, 3, 3>, dilation = array<i64: 1, 1>, groups = 24 : i64, layout = #nn.panels<1>}
    : (memref<1x24x14x14xf32>, memref<24x1x49x1xf32>, memref<1x24x14x14xf32>, memref<?xf32>) -> ()
  func.return
}
}
