// RUN: openinfer-opt %s -p 'lower-kernels{only=matmul,pack rows=2},cse' --split-input-file | filecheck %s

// Sums start from -128 times the sum of their row; a word of the row meets the bytes of all columns.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @packed(%x: memref<16x66xi8>, %w: memref<2x17x128xi8>, %y: memref<16x64xi32>, %s: memref<1x16xi32>) {
    nn.matmul(%x, %w) outs(%y) scratch(starts = %s) {layout = #nn.quads<32>, precision = "i8"} : (memref<16x66xi8>, memref<2x17x128xi8>, memref<16x64xi32>, memref<1x16xi32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @packed
// CHECK:       [[LESS:%\S+]] = arith.constant -128 : i32
// CHECK:       [[START:%\S+]] = arith.muli {{%\S+}}, [[LESS]]
// CHECK-NEXT:  memref.store [[START]], %s[%c0, %r] : memref<1x16xi32>
// CHECK:       memref.load %s[%c0, %i] : memref<1x16xi32>
// CHECK:       scf.for [[K:%\S+]] = %c0 to %c16 step %c4
// CHECK:         [[B0:%\S+]] = vector.load %w[%p, [[K]], %c0] : memref<2x17x128xi8>, vector<64xi8>
// CHECK:         [[W0:%\S+]] = vector.bitcast [[B0]] : vector<64xi8> to vector<16xi32>
// CHECK:         [[A:%\S+]] = vector.broadcast {{%\S+}} : i32 to vector<16xi32>
// CHECK-NEXT:    nn.dot_words unsigned {{%\S+}}, [[W0]], [[A]] : vector<16xi32>
// The last two elements of a row are a word with zeros.
// CHECK:       memref.load %x[%i, %c64{{\S*}}] : memref<16x66xi8>
// CHECK:       memref.load %x[%i, %c65{{\S*}}] : memref<16x66xi8>
// CHECK:       arith.shli
// CHECK:       arith.ori

// -----

// Four rows are woven, and sign bits flipped.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @pack(%w: memref<8x16xi8>, %p: memref<1x2x64xi8>) {
    nn.pack(%w) outs(%p) {layout = #nn.quads<16>} : (memref<8x16xi8>, memref<1x2x64xi8>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @pack
// CHECK-COUNT-4: vector.load %w[{{%\S+}}, {{%\S+}}] : memref<8x16xi8>, vector<8xi8>
// CHECK:         [[LOW:%\S+]] = vector.shuffle {{.*}} [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15] : vector<8xi8>
// CHECK:         [[ALL:%\S+]] = vector.shuffle {{.*}} : vector<8xi16>, vector<8xi16>
// CHECK:         [[WORDS:%\S+]] = vector.bitcast [[ALL]] : vector<16xi16> to vector<8xi32>
// CHECK:         arith.constant dense<-2139062144> : vector<8xi32>
// CHECK-NEXT:    arith.xori [[WORDS]]
// CHECK:         vector.store {{%\S+}}, %p[{{%\S+}}, {{%\S+}}, %c0] : memref<1x2x64xi8>, vector<32xi8>
