// RUN: openinfer-opt %s -p 'lower-kernels{only=experts},cse' --split-input-file | filecheck %s

// Pairs of a position and a choice are sorted by expert in one piece of work; then threads share rows of the matrices.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @experts(%x: memref<?x1x64xf32>, %w: memref<8x96x64xf16>, %chosen: memref<?x2xi32>,
      %y: memref<?x2x96xf32>, %pairs: memref<?xi32>, %ends: memref<10xi32>) {
    nn.expert_matmul(%x, %w, %chosen) outs(%y) scratch(pairs = %pairs, ends = %ends)
      : (memref<?x1x64xf32>, memref<8x96x64xf16>, memref<?x2xi32>, memref<?x2x96xf32>,
         memref<?xi32>, memref<10xi32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @experts
// CHECK:         scf.for %once = %c0 to %c1 step %c1 {
// CHECK:           memref.store {{%\S+}}, %pairs[{{%\S+}}] : memref<?xi32>
// CHECK:         } {openinfer.parallel}
// CHECK:         scf.for %n = %c0 to %c96 step %c32{{\S*}} {
// CHECK:           scf.for %e{{\S*}} = %c0 to %c8{{\S*}} step %c1 {
// CHECK:             [[BEGIN:%\S+]] = memref.load %ends[%e{{\S*}}] : memref<10xi32>
// Four rows of the matrix of an expert.
// CHECK:             scf.for %row = {{%\S+}} to {{%\S+}} step %c4{{\S*}} {
// CHECK:               scf.for %at = {{%\S+}} to {{%\S+}} step %c4{{\S*}} {
// CHECK:                 memref.load %pairs[%at] : memref<?xi32>
// The two choices of a position read one row.
// CHECK:                 arith.divui
// CHECK:                 scf.for %k = %c0 to %c64{{\S*}} step %c16{{\S*}} iter_args(
// CHECK:                   vector.load %w[%e{{\S*}}, %row, %k] : memref<8x96x64xf16>, vector<16xf16>
// CHECK:                 vector.reduction <add>
// CHECK:         } {openinfer.parallel}
// CHECK-NOT:     nn.expert_matmul

// -----

// Each choice has a row of its own: no division.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @own(%x: memref<3x2x8xf32>, %w: memref<4x8x8xf32>, %chosen: memref<3x2xi32>,
      %y: memref<3x2x8xf32>, %pairs: memref<6xi32>, %ends: memref<6xi32>) {
    nn.expert_matmul(%x, %w, %chosen) outs(%y) scratch(pairs = %pairs, ends = %ends)
      : (memref<3x2x8xf32>, memref<4x8x8xf32>, memref<3x2xi32>, memref<3x2x8xf32>,
         memref<6xi32>, memref<6xi32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @own
// CHECK-NOT:     arith.divui
// CHECK-NOT:     nn.expert_matmul

// -----

// Matrices in blocks: threads share panels, and rows that chose an expert meet its panel.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @panels(%x: memref<?x1x96xi8>, %w: memref<8x6x2x544xi8>, %chosen: memref<?x2xi32>,
      %y: memref<?x2x96xf32>, %pairs: memref<?xi32>, %ends: memref<10xi32>) {
    nn.expert_matmul(%x, %w, %chosen) outs(%y) scratch(pairs = %pairs, ends = %ends)
      {layout = #nn.blocks<q8_0, 16>, precision = "q8"}
      : (memref<?x1x96xi8>, memref<8x6x2x544xi8>, memref<?x2xi32>, memref<?x2x96xf32>,
         memref<?xi32>, memref<10xi32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @panels
// CHECK:         scf.for %n = %c0 to %c6 step %c1{{\S*}} {
// CHECK:           scf.for %e{{\S*}} = %c0 to %c8{{\S*}} step %c1 {
// CHECK:             memref.load %ends[%e{{\S*}}] : memref<10xi32>
// Nothing of an expert that nobody chose.
// CHECK:             scf.if
// CHECK:               memref.load %pairs[
// The two choices of a position read one row.
// CHECK:               arith.divui
// CHECK:               vector.load %w[%e{{\S*}}, %n, {{%\S+}}, {{%\S+}}] : memref<8x6x2x544xi8>
// CHECK:               nn.dot_words
// CHECK:               vector.store {{%\S+}}, {{%\S+}}[{{.*}}] : memref<?x96xf32>, vector<16xf32>
// CHECK:         } {openinfer.parallel}
// CHECK-NOT:     nn.expert_matmul
