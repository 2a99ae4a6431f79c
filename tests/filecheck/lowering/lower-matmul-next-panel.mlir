// RUN: openinfer-opt %s -p 'lower-matmul,cse' --split-input-file | filecheck %s

// Two tiles of rows: in each step each of them asks for a line of the next panel, the second one for
// what lies behind the first one's.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @next_panel(%x: memref<16x64xf32>, %w: memref<2x64x32xf32>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<16x64xf32>, memref<2x64x32xf32>, memref<16x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @next_panel
// CHECK:           scf.for %i = %c0 to %c16 step %c8
// CHECK:             [[TILE:%\S+]] = arith.divui %i, %c8 : index
// CHECK:             [[NEXT:%\S+]] = arith.addi %p, %c1 : index
// CHECK:             [[PART:%\S+]] = arith.minsi [[TILE]], %c1 : index
// CHECK:             [[FIRST:%\S+]] = arith.muli [[PART]], %c32 : index
// CHECK:             scf.for %k = %c0 to %c64 step %c1 iter_args(
// CHECK:               [[COLUMN:%\S+]] = arith.muli %k, %c16 : index
// CHECK-NEXT:          memref.prefetch %w{{\[}}[[NEXT]], [[FIRST]], [[COLUMN]]], read, locality<3>, data : memref<2x64x32xf32>
// CHECK-NOT:           memref.prefetch
// CHECK:               scf.yield
// -----
// What is not packed has no next panel.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @no_panels(%x: memref<16x64xf32>, %w: memref<64x64xf32>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<16x64xf32>, memref<64x64xf32>, memref<16x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @no_panels
// CHECK-NOT:   memref.prefetch
// CHECK:       func.return
// -----
// Six tiles share rows of 16 elements: three each, so that nothing is left out.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @uneven_shares(%x: memref<36x60xf32>, %w: memref<2x60x16xf32>, %y: memref<36x32xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<36x60xf32>, memref<2x60x16xf32>, memref<36x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @uneven_shares
// CHECK:             [[TILE:%\S+]] = arith.divui %i, %c6 : index
// CHECK:             [[PART:%\S+]] = arith.minsi [[TILE]], %c5 : index
// CHECK:             [[FIRST:%\S+]] = arith.muli [[PART]], %c10 : index
// CHECK:               [[COLUMN:%\S+]] = arith.muli %k, %c3 : index
// CHECK-NEXT:          memref.prefetch %w{{\[}}%{{.*}}, [[FIRST]], [[COLUMN]]]
// CHECK-NOT:           memref.prefetch
// CHECK:               scf.yield
