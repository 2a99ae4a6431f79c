// RUN: openinfer-opt %s -p 'lower-matmul{rows=2},lower-pack,cse' --split-input-file | filecheck %s

// Two elements of a row are one word that is repeated in all lanes; a row of a panel holds the two
// elements of each column side by side.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @packed(%x: memref<16x64xbf16>, %w: memref<2x32x64xbf16>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed, precision = "bf16"} : (memref<16x64xbf16>, memref<2x32x64xbf16>, memref<16x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @packed
// CHECK:         {{.*}} = scf.for %k = %c0 to %c32 step %c4 iter_args(
// CHECK:           [[B0:%\S+]] = vector.load %w[%p, %k, %c0] : memref<2x32x64xbf16>, vector<32xbf16>
// CHECK-NEXT:      [[B1:%\S+]] = vector.load %w[%p, %k, %c32] : memref<2x32x64xbf16>, vector<32xbf16>
// CHECK:           [[PLACE:%\S+]] = arith.muli %k, %c2
// CHECK-NEXT:      [[PAIR:%\S+]] = vector.load %x[%i, [[PLACE]]] : memref<16x64xbf16>, vector<2xbf16>
// CHECK-NEXT:      [[WORD:%\S+]] = vector.bitcast [[PAIR]] : vector<2xbf16> to vector<1xi32>
// CHECK-NEXT:      [[A:%\S+]] = vector.extract [[WORD]][0] : i32 from vector<1xi32>
// CHECK:           [[ALL:%\S+]] = vector.broadcast [[A]] : i32 to vector<16xi32>
// CHECK-NEXT:      [[S:%\S+]] = vector.bitcast [[ALL]] : vector<16xi32> to vector<32xbf16>
// CHECK-NEXT:      {{%\S+}} = nn.dot_pairs {{%\S+}}, [[S]], [[B0]] : vector<32xbf16>, vector<16xf32>
// CHECK-NEXT:      {{%\S+}} = nn.dot_pairs {{%\S+}}, [[S]], [[B1]] : vector<32xbf16>, vector<16xf32>
// CHECK-NOT:     vector.fma

// -----

// The last element of an odd row meets zero.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @odd(%x: memref<1x5xbf16>, %w: memref<1x3x32xbf16>, %y: memref<1x16xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed, precision = "bf16"} : (memref<1x5xbf16>, memref<1x3x32xbf16>, memref<1x16xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @odd
// CHECK:         scf.for
// CHECK:         [[LAST:%\S+]] = memref.load %x[%i, %c4{{\S*}}] : memref<1x5xbf16>
// CHECK-NEXT:    [[BITS:%\S+]] = arith.bitcast [[LAST]] : bf16 to i16
// CHECK-NEXT:    [[WORD:%\S+]] = arith.extui [[BITS]] : i16 to i32
// CHECK:         vector.broadcast [[WORD]] : i32 to vector<16xi32>
// CHECK:         nn.dot_pairs

// -----

// A weight is rounded when it is packed; rows 2p and 2p + 1 are woven.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @pack(%w: memref<4x16xf32>, %p: memref<1x2x32xbf16>) {
    nn.pack(%w) outs(%p) {tile = 16 : i64, pairs} : (memref<4x16xf32>, memref<1x2x32xbf16>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @pack
// CHECK:         [[A:%\S+]] = vector.load %w[{{%\S+}}, {{%\S+}}] : memref<4x16xf32>, vector<8xf32>
// CHECK-NEXT:    [[A16:%\S+]] = arith.truncf [[A]] : vector<8xf32> to vector<8xbf16>
// CHECK:         [[B16:%\S+]] = arith.truncf {{%\S+}} : vector<8xf32> to vector<8xbf16>
// CHECK-NEXT:    [[AB:%\S+]] = vector.shuffle [[A16]], [[B16]] [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15] : vector<8xbf16>, vector<8xbf16>
// CHECK-NEXT:    vector.store [[AB]], %p[{{%\S+}}, {{%\S+}}, %c0] : memref<1x2x32xbf16>, vector<16xbf16>

// -----

// Without `precision` bf16 operands are widened, one by one.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @declared(%x: memref<2x8xbf16>, %w: memref<1x8x32xbf16>, %y: memref<2x32xf32>) {
    nn.matmul(%x, %w) outs(%y) {packed} : (memref<2x8xbf16>, memref<1x8x32xbf16>, memref<2x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @declared
// CHECK-NOT:     nn.dot_pairs
// CHECK:         vector.fma
