// RUN: openinfer-opt %s -p 'lower-kernels{only=pack},cse' --split-input-file | filecheck %s

// Blocks of 16 source rows; each row of a panel is a few neighbours of a source row.
func.func @rows(%w: memref<64x12xf32>, %p: memref<2x64x8xf32>) {
  nn.pack(%w) outs(%p) {layout = #nn.panels<8>} : (memref<64x12xf32>, memref<2x64x8xf32>) -> ()
  func.return
}
// CHECK-LABEL: func.func @rows
// CHECK:         scf.for %kb = %c0 to %c64 step %c16 {
// CHECK:           scf.for %p{{\S*}} = %c0 to %c1 step %c1 {
// CHECK-NEXT:        scf.for %k = %kb to {{%\S+}} step %c1 {
// CHECK:               [[V:%\S+]] = vector.load %w[%k, {{%\S+}}] : memref<64x12xf32>, vector<4xf32>
// CHECK-NEXT:          vector.store [[V]], %p[%p{{\S*}}, %k, %c0] : memref<2x64x8xf32>, vector<4xf32>
// The second panel has four columns; the other four are zeros.
// CHECK:           [[NONE:%\S+]] = vector.create_mask %c0 : vector<4xi1>
// CHECK:           [[V:%\S+]] = vector.maskedload %w[{{%\S+}}, {{%\S+}}], [[NONE]], {{%\S+}}
// CHECK-NEXT:      vector.store [[V]], %p[%c1, {{%\S+}}, %c4] : memref<2x64x8xf32>, vector<4xf32>
// CHECK:         } {openinfer.parallel}

// -----

// Transposed: four rows of the source are turned in registers by two rounds of interleaving.
func.func @columns(%w: memref<8x64xf32>, %p: memref<1x64x8xf32>) {
  nn.pack(%w) outs(%p) {layout = #nn.panels<8>, transposed = ""} : (memref<8x64xf32>, memref<1x64x8xf32>) -> ()
  func.return
}
// CHECK-LABEL: func.func @columns
// CHECK:         scf.for %k = %c0 to %c64 step %c4 {
// CHECK-COUNT-4:   vector.load %w[
// CHECK-NEXT:      {{%\S+}} = vector.shuffle {{%\S+}}, {{%\S+}} [0, 4, 1, 5] : vector<4xf32>, vector<4xf32>
// CHECK-NEXT:      {{%\S+}} = vector.shuffle {{%\S+}}, {{%\S+}} [2, 6, 3, 7] : vector<4xf32>, vector<4xf32>
// CHECK:           vector.store {{%\S+}}, %p[%p{{\S*}}, %k, %c0] : memref<1x64x8xf32>, vector<4xf32>

// -----

// Matrices of 16 x 16: steps of a column are neighbours in the source, too; those of columns beyond are zeros.
func.func @tiles(%w: memref<40x64xf16>, %p: memref<3x4x256xf16>) {
  nn.pack(%w) outs(%p) {layout = #nn.tiles<16>, transposed = ""} : (memref<40x64xf16>, memref<3x4x256xf16>) -> ()
  func.return
}
// CHECK-LABEL: func.func @tiles
// CHECK:         scf.for %c{{\S*}} = %c0 to %c3 step %c1 {
// CHECK:           scf.for %k = %c0 to {{%\S+}} step %c1 {
// CHECK:             scf.for %n = %c0 to {{%\S+}} step %c1 {
// CHECK:               scf.if
// CHECK:                 [[V:%\S+]] = vector.load %w[{{%\S+}}, {{%\S+}}] : memref<40x64xf16>, vector<16xf16>
// CHECK-NEXT:            vector.store [[V]], %p[%c{{\S*}}, %k, {{%\S+}}] : memref<3x4x256xf16>, vector<16xf16>
// CHECK-NEXT:          } else {
// CHECK-NEXT:            vector.store {{%\S+}}, %p
// CHECK:         } {openinfer.parallel}

// -----

// Not on tensors.
func.func @tensors(%w: tensor<64x12xf32>) -> tensor<2x64x8xf32> {
  %p = nn.pack(%w) {layout = #nn.panels<8>} : (tensor<64x12xf32>) -> tensor<2x64x8xf32>
  func.return %p : tensor<2x64x8xf32>
}
// CHECK-LABEL: func.func @tensors
// CHECK-NEXT:    nn.pack(%w) {layout = #nn.panels<8>} : (tensor<64x12xf32>) -> tensor<2x64x8xf32>
