// RUN: openinfer-opt %s -p 'lower-matmul,cse' --split-input-file | filecheck %s

// One row: weights of 12 MiB in all still lie in the caches when the next step comes, and the panel is
// asked for ahead.
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x"], outputs = ["y"], weights = [{variable = "W", sources = ["W"]}, {variable = "V", sources = ["V"]}]}
  func.func @step(%x: memref<1x64xf32>, %w: memref<8192xi8>, %v: memref<12574720xi8>, %y: memref<1x64xf32>) {
    func.return
  }
  func.func @near(%x: memref<1x64xf32>, %w: memref<2x64x32xf32>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<1x64xf32>, memref<2x64x32xf32>, memref<1x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @near
// CHECK:         scf.for %k = %c0 to %c64 step %c4 iter_args(
// CHECK:           memref.prefetch %w[%p
// CHECK:           scf.yield
// -----
// A byte more: some come from memory, and the processor fetches them best by itself. Narrow elements
// leave time to ask.
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x"], outputs = ["y"], weights = [{variable = "W", sources = ["W"]}, {variable = "V", sources = ["V"]}]}
  func.func @step(%x: memref<1x64xf32>, %w: memref<8192xi8>, %v: memref<12574721xi8>, %y: memref<1x64xf32>) {
    func.return
  }
  func.func @far(%x: memref<1x64xf32>, %w: memref<2x64x32xf32>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<1x64xf32>, memref<2x64x32xf32>, memref<1x64xf32>) -> ()
    func.return
  }
  func.func @far_narrow(%x: memref<1x64xf32>, %w: memref<2x64x32xf16>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<1x64xf32>, memref<2x64x32xf16>, memref<1x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @far(
// CHECK-NOT:     memref.prefetch
// CHECK:         func.return
// CHECK-LABEL: func.func @far_narrow
// CHECK:         memref.prefetch %w[%p
// CHECK:         func.return
