// RUN: openinfer-opt %s -p 'lower-attention,cse' --split-input-file | filecheck %s

// Results are added up; where that is NaN, columns that have become NaN are made once more, of the keys
// that the query sees.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @causal(%q: memref<1x2x9x16xf32>, %k: memref<1x2x9x16xf32>, %v: memref<1x2x9x16xf32>,
      %o: memref<1x2x9x16xf32>, %queries: memref<1x16x16xf32>, %scores: memref<1x9x16xf32>) {
    nn.attention(%q, %k, %v) outs(%o, %queries, %scores)
      {scale = 0.25 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]}
      : (memref<1x2x9x16xf32>, memref<1x2x9x16xf32>, memref<1x2x9x16xf32>,
         memref<1x2x9x16xf32>, memref<1x16x16xf32>, memref<1x9x16xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @causal
// CHECK:         vector.store {{%\S+}}, %o[
// CHECK:         [[SUM:%\S+]] = scf.for %r{{\S*}} = %c0 to %c9 step %c1 iter_args(
// CHECK:         [[TOTAL:%\S+]] = vector.reduction <add>, [[SUM]]
// CHECK:         [[NAN:%\S+]] = arith.cmpf uno, [[TOTAL]], [[TOTAL]] : f32
// CHECK-NEXT:    scf.if [[NAN]] {
// CHECK-NEXT:      scf.for %r{{\S*}} = %c0 to %c9 step %c1 {
// CHECK:             arith.cmpf uno
// CHECK:             scf.if
// CHECK:               scf.for %j
// CHECK:                 [[SEEN:%\S+]] = arith.cmpi sle, %j{{\S*}}, {{%\S+}} : index
// CHECK-NEXT:            scf.if [[SEEN]] -> (vector<16xf32>) {
// CHECK-NEXT:              vector.load %v
// -----
// Where no key is hidden, nothing is asked: a mask of floats is arithmetic.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @added(%q: memref<1x2x9x16xf32>, %k: memref<1x2x9x16xf32>, %v: memref<1x2x9x16xf32>,
      %mask: memref<1x1x9x9xf32>,
      %o: memref<1x2x9x16xf32>, %queries: memref<1x16x16xf32>, %scores: memref<1x9x16xf32>) {
    nn.attention(%q, %k, %v, %mask) outs(%o, %queries, %scores)
      {scale = 0.25 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]}
      : (memref<1x2x9x16xf32>, memref<1x2x9x16xf32>, memref<1x2x9x16xf32>, memref<1x1x9x9xf32>,
         memref<1x2x9x16xf32>, memref<1x16x16xf32>, memref<1x9x16xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @added
// CHECK-NOT:     arith.cmpf uno, {{%\S+}}, {{%\S+}} : f32
// CHECK-NOT:     vector.load %o
// CHECK:         func.return
