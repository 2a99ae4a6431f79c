// RUN: openinfer-opt %s -p 'lower-matmul,cse' --split-input-file | filecheck %s

// With room for a copy of rows and for sums: a block of the contraction is copied, all panels take it,
// and what is stored behind the last block are the sums that the others left.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @blocks(%x: memref<128x64xf32>, %w: memref<2x64x32xf32>, %y: memref<128x64xf32>, %copy: memref<?x64x48xf32>, %sums: memref<?x2x64x32xf32>) {
    nn.matmul(%x, %w) outs(%y, %copy, %sums) {packed} : (memref<128x64xf32>, memref<2x64x32xf32>, memref<128x64xf32>, memref<?x64x48xf32>, memref<?x2x64x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @blocks
// CHECK:         [[THREAD:%\S+]] = nn.thread
// CHECK:         scf.for %task = %c0 to %c4 step %c1
// CHECK:           scf.for %kb = %c0 to %c64 step %c32
// CHECK:             scf.for %r = %c0 to %c64 step %c1
// CHECK:               vector.load %x[
// CHECK-NEXT:          vector.store {{%\S+}}, %copy{{\[}}[[THREAD]], %r,
// CHECK:             [[LAST:%\S+]] = arith.cmpi sle,
// CHECK:             scf.for %p =
// CHECK:               scf.for %i = %c0 to %c64 step %c8
// CHECK:                 memref.prefetch %sums{{\[}}[[THREAD]], %p,
// CHECK:                 scf.if
// CHECK:                   vector.load %sums{{\[}}[[THREAD]], %p, %i, %c0]
// CHECK:                 scf.for %k = %c0 to %c32 step %c1 iter_args(
// CHECK:                   memref.prefetch %w[
// CHECK:                   vector.load %w[%p,
// CHECK:                   memref.load %copy{{\[}}[[THREAD]],
// CHECK-NOT:               memref.load %x
// CHECK:                 scf.if [[LAST]] {
// CHECK:                   vector.store {{%\S+}}, %y[
// CHECK:                 } else {
// CHECK:                   vector.store {{%\S+}}, %sums{{\[}}[[THREAD]], %p,
// -----
// Without that room the left operand is read where it lies.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @whole(%x: memref<128x64xf32>, %w: memref<2x64x32xf32>, %y: memref<128x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<128x64xf32>, memref<2x64x32xf32>, memref<128x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @whole
// CHECK:         scf.for %p = %c0 to %c2 step %c1
// CHECK-NOT:     nn.thread
// CHECK:           memref.load %x[
