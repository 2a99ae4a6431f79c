// RUN: openinfer-opt %s -p lower-attention,cse | filecheck %s

// Values become pairs for all heads; then each block of queries: scores against keys where they lie, two
// weights rounded into one word in place of their scores, and the product with the pairs of values.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @pairs(%q: memref<1x2x32x16xbf16>, %k: memref<1x2x8x16xbf16>, %v: memref<1x2x8x32xbf16>, %o: memref<1x2x32x32xbf16>, %queries: memref<?x8x64xbf16>, %scores: memref<?x9x32xf32>, %values: memref<2x1x4x64xbf16>) {
    nn.attention(%q, %k, %v) outs(%o, %queries, %scores, %values) {scale = 0.25 : f64, precision = "bf16", layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x32x16xbf16>, memref<1x2x8x16xbf16>, memref<1x2x8x32xbf16>, memref<1x2x32x32xbf16>, memref<?x8x64xbf16>, memref<?x9x32xf32>, memref<2x1x4x64xbf16>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @pairs
// CHECK:         scf.for %bh = %c0 to %c2 step %c1 {
// CHECK:           vector.shuffle {{.*}} [0, 16, 1, 17,
// CHECK:           vector.store {{%\S+}}, %values[%bh,
// CHECK:         } {openinfer.parallel}
// CHECK:         scf.for %task = %c0 to %c2 step %c1 {
// CHECK:           vector.store {{%\S+}}, %queries[
// CHECK:           nn.dot_pairs
// CHECK:           arith.mulf
// CHECK:           math.exp
// CHECK:           math.exp
// CHECK:           [[BOTH:%\S+]] = nn.round_pairs {{%\S+}}, {{%\S+}} : vector<16xf32>, vector<32xbf16>
// CHECK-NEXT:      [[WORDS:%\S+]] = vector.bitcast [[BOTH]] : vector<32xbf16> to vector<16xf32>
// CHECK-NEXT:      vector.store [[WORDS]], %scores[
// CHECK:           arith.divf
// CHECK:           vector.load %values[
// CHECK:           nn.dot_pairs
// CHECK:           arith.truncf {{%\S+}} : vector<16xf32> to vector<16xbf16>
// CHECK:         } {openinfer.parallel}
