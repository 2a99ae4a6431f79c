// RUN: openinfer-opt %s -p 'lower-kernels{only=matmul},cse' --split-input-file | filecheck %s

// One row: bytes on top of zeros become floats, their products are added up, and a block counts with its scale.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @one(%x: memref<1x64xf32>, %w: memref<2x2x544xi8>, %y: memref<1x32xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.blocks<q8_0, 16>} : (memref<1x64xf32>, memref<2x2x544xi8>, memref<1x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @one
// CHECK:         scf.for %b = %c0 to %c2 step %c1 iter_args(
// CHECK-COUNT-32: vector.shuffle {{.*}} : vector<64xi8>, vector<64xi8>
// CHECK:           [[POWER:%\S+]] = arith.constant dense<{{5.9604.*e-08}}> : vector<16xf32>
// CHECK-NEXT:      [[PART:%\S+]] = arith.mulf {{%\S+}}, [[POWER]] : vector<16xf32>
// CHECK-NEXT:      vector.fma [[PART]],
// CHECK-NEXT:      scf.yield

// -----

// More rows: elements of the weight, scaled once for all of them.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @many(%x: memref<8x64xf32>, %w: memref<2x2x544xi8>, %y: memref<8x32xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.blocks<q8_0, 16>} : (memref<8x64xf32>, memref<2x2x544xi8>, memref<8x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @many
// CHECK-NOT:     vector.shuffle
// CHECK:         scf.for %b = %c0 to %c2 step %c1 iter_args(
// CHECK:           scf.for %w{{\S*}} = %c0 to %c8 step %c1 iter_args(
// CHECK:             arith.mulf
// CHECK-COUNT-8:     vector.fma
