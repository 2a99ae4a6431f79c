// RUN: openinfer-opt %s -p 'lower-kernels{only=matmul,pack rows=2},cse' --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p 'lower-kernels{only=matmul},cse' --split-input-file | filecheck %s --check-prefix FULL
// RUN: openinfer-opt %s -p 'lower-kernels{only=matmul}' --split-input-file | filecheck %s --check-prefix PRODUCTS

// Panels outside, tiles of rows inside; the panel's vectors are loaded once for all rows of a tile.
// The bias of a panel is loaded before its rows; the body works on the sums.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @packed(%x: memref<16x64xf32>, %w: memref<2x64x32xf32>, %bias: memref<64xf32>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) extras(%bias) outs(%y) {layout = #nn.panels<32>, maps = [affine_map<(i, j) -> (j)>]} {
    ^bb0(%product: f32, %b: f32):
      %two = arith.constant 2.0 : f32
      %twice = arith.mulf %product, %two : f32
      %sum = arith.addf %twice, %b : f32
      nn.yield %sum : f32
    } : (memref<16x64xf32>, memref<2x64x32xf32>, memref<64xf32>, memref<16x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @packed
// CHECK:         [[TWO:%\S+]] = arith.constant dense<2.000000e+00> : vector<16xf32>
// CHECK:         scf.for %p = %c0 to %c2 step %c1 {
// CHECK:           [[J0:%\S+]] = arith.muli %p, %c32 : index
// CHECK:           [[J1:%\S+]] = arith.addi [[J0]], %c16 : index
// CHECK-NEXT:      [[BIAS0:%\S+]] = vector.load %bias{{\[}}[[J0]]] : memref<64xf32>, vector<16xf32>
// CHECK-NEXT:      [[BIAS1:%\S+]] = vector.load %bias{{\[}}[[J1]]] : memref<64xf32>, vector<16xf32>
// CHECK-NEXT:      scf.for %i = %c0 to %c16 step %c2 {
// CHECK:             [[I1:%\S+]] = arith.addi %i, %c1 : index
// CHECK:             {{.*}} = scf.for %k = %c0 to %c64 step %c4 iter_args(
// CHECK:               [[B0:%\S+]] = vector.load %w[%p, %k, %c0] : memref<2x64x32xf32>, vector<16xf32>
// CHECK-NEXT:          [[B1:%\S+]] = vector.load %w[%p, %k, %c16] : memref<2x64x32xf32>, vector<16xf32>
// CHECK-NEXT:          [[A0:%\S+]] = memref.load %x[%i, %k] : memref<16x64xf32>
// CHECK-NEXT:          [[A1:%\S+]] = memref.load %x{{\[}}[[I1]], %k] : memref<16x64xf32>
// CHECK-NEXT:          [[S0:%\S+]] = vector.broadcast [[A0]] : f32 to vector<16xf32>
// CHECK-NEXT:          {{%\S+}} = vector.fma [[S0]], [[B0]], {{%\S+}} : vector<16xf32>
// CHECK-NEXT:          {{%\S+}} = vector.fma [[S0]], [[B1]], {{%\S+}} : vector<16xf32>
// CHECK-NEXT:          [[S1:%\S+]] = vector.broadcast [[A1]] : f32 to vector<16xf32>
// CHECK-NEXT:          {{%\S+}} = vector.fma [[S1]], [[B0]], {{%\S+}} : vector<16xf32>
// CHECK-NEXT:          {{%\S+}} = vector.fma [[S1]], [[B1]], {{%\S+}} : vector<16xf32>
// CHECK:               scf.yield
// CHECK:             [[P:%\S+]] = arith.mulf {{%\S+}}, [[TWO]] : vector<16xf32>
// CHECK-NEXT:        [[R:%\S+]] = arith.addf [[P]], [[BIAS0]] : vector<16xf32>
// CHECK-NEXT:        vector.store [[R]], %y[%i, [[J0]]] : memref<16x64xf32>, vector<16xf32>
// CHECK:             vector.store {{%\S+}}, %y{{\[}}[[I1]], [[J1]]] : memref<16x64xf32>, vector<16xf32>
// CHECK-NOT:         vector.store
// CHECK:         } {openinfer.parallel}
// CHECK-NOT:     nn.matmul

// -----

// 40 columns: one whole panel, then half of a vector of the next, loaded whole and stored masked.
// Rows that only the run knows: tiles of two, then one row if the number is odd.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @rest(%x: memref<?x8xf32>, %w: memref<2x8x32xf32>, %y: memref<?x40xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>} : (memref<?x8xf32>, memref<2x8x32xf32>, memref<?x40xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @rest
// CHECK:         [[M:%\S+]] = memref.dim %y, %c0 : memref<?x40xf32>
// CHECK:         [[ODD:%\S+]] = arith.remui [[M]], %c2 : index
// CHECK-NEXT:    [[WHOLE:%\S+]] = arith.subi [[M]], [[ODD]] : index
// CHECK:         scf.for %i = %c0 to [[WHOLE]] step %c2 {
// CHECK:         [[REST:%\S+]] = arith.subi [[M]], [[WHOLE]] : index
// CHECK:         [[BIT:%\S+]] = arith.andi [[REST]], %c1{{\S*}} : index
// CHECK-NEXT:    [[ONE:%\S+]] = arith.cmpi ne, [[BIT]], %c0 : index
// CHECK-NEXT:    scf.if [[ONE]] {
// CHECK:           {{%\S+}} = memref.load %x{{\[}}[[WHOLE]], %k{{\S*}}] : memref<?x8xf32>
// CHECK:         [[MASK:%\S+]] = vector.create_mask %c8{{\S*}} : vector<16xi1>
// CHECK:         vector.load %w[%c1{{\S*}}, %k{{\S*}}, %c0] : memref<2x8x32xf32>, vector<16xf32>
// CHECK-NOT:     vector.load %w[%c1{{\S*}}, %k{{\S*}}, %c16]
// CHECK:         vector.maskedstore %y[%i{{\S*}}, %c32{{\S*}}], [[MASK]], {{%\S+}} : memref<?x40xf32>, vector<16xi1>, vector<16xf32>

// -----

// Read where it lies; a target without fused multiply-add rounds the product.
builtin.module attributes {openinfer.target = "generic"} {
  func.func @in_place(%x: memref<2x8xf16>, %w: memref<8x?xf16>, %y: memref<2x?xf16>) {
    nn.matmul(%x, %w) outs(%y) {} : (memref<2x8xf16>, memref<8x?xf16>, memref<2x?xf16>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @in_place
// CHECK:         [[HALF:%\S+]] = vector.load %w[%k, {{%\S+}}] : memref<8x?xf16>, vector<4xf16>
// CHECK:         [[WIDE:%\S+]] = arith.extf [[HALF]] : vector<4xf16> to vector<4xf32>
// CHECK-NOT:     vector.fma
// CHECK:         [[PRODUCT:%\S+]] = arith.mulf {{%\S+}}, [[WIDE]] : vector<4xf32>
// CHECK-NEXT:    {{%\S+}} = arith.addf {{%\S+}}, [[PRODUCT]] : vector<4xf32>
// CHECK:         arith.truncf {{%\S+}} : vector<4xf32> to vector<4xf16>
// CHECK:         scf.if {{%\S+}} {
// CHECK:           vector.maskedload %w[%k{{\S*}}, {{%\S+}}], {{%\S+}}, {{%\S+}} : memref<8x?xf16>, vector<4xi1>, vector<4xf16> into vector<4xf16>

// -----

// A transposed operand without scratch: sums along the shared dimension, four columns at a time.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @dots(%x: memref<3x20xf32>, %w: memref<4x20xf32>, %y: memref<3x4xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<3x20xf32>, memref<4x20xf32>, memref<3x4xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @dots
// CHECK:         vector.load %x[%i, %k] : memref<3x20xf32>, vector<16xf32>
// CHECK-NEXT:    vector.load %w[%j, %k] : memref<4x20xf32>, vector<16xf32>
// CHECK:         vector.load %w[{{%\S+}}, %k] : memref<4x20xf32>, vector<16xf32>
// CHECK:         vector.maskedload %x[%i, %c16], {{%\S+}}
// CHECK:         [[SUM:%\S+]] = vector.reduction <add>, {{%\S+}} {{.*}}: vector<16xf32> into f32
// CHECK-NEXT:    memref.store [[SUM]], %y[%i, %j] : memref<3x4xf32>

// -----

// With scratch it is packed first. Threads work on different batches: each has panels of its own.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @batches(%x: memref<4x8x16xf32>, %w: memref<4x32x16xf32>, %y: memref<4x8x32xf32>, %s: memref<?x1x16x32xf32>) {
    nn.matmul(%x, %w) outs(%y) scratch(panels = %s) {transpose_b} : (memref<4x8x16xf32>, memref<4x32x16xf32>, memref<4x8x32xf32>, memref<?x1x16x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @batches
// CHECK:         [[SLOT:%\S+]] = nn.thread
// CHECK:         scf.for %b = %c0 to %c4 step %c1 {
// CHECK:           vector.store {{%\S+}}, %s{{\[}}[[SLOT]], {{%\S+}}, {{%\S+}}, {{%\S+}}]
// CHECK:           vector.load %s{{\[}}[[SLOT]], {{%\S+}}, %k{{\S*}}, {{%\S+}}]
// CHECK:           } {openinfer.parallel}
// CHECK-NEXT:    } {openinfer.parallel}
// CHECK-NEXT:    func.return

// -----

// Not on tensors.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @tensors(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
    %y = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    func.return %y : tensor<4x2xf32>
  }
}
// CHECK-LABEL: func.func @tensors
// CHECK-NEXT:    %y = nn.matmul(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:    func.return %y

// -----

// One row: the panel is asked for ahead of its use, a line of narrow elements once. Integers are
// converted as they are read.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @one_row(%x: memref<1x64xf32>, %w: memref<2x64x32xi8>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>} : (memref<1x64xf32>, memref<2x64x32xi8>, memref<1x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @one_row
// CHECK:           scf.for %k = %c0 to %c64 step %c4 iter_args(
// CHECK:             [[AHEAD:%\S+]] = arith.addi %k, %c256 : index
// CHECK:             memref.prefetch %w[%p, [[AHEAD]], %c0], read, locality<3>, data : memref<2x64x32xi8>
// CHECK-NEXT:        [[B0:%\S+]] = vector.load %w[%p, %k, %c0] : memref<2x64x32xi8>, vector<16xi8>
// CHECK-NEXT:        [[B1:%\S+]] = vector.load %w[%p, %k, %c16] : memref<2x64x32xi8>, vector<16xi8>
// CHECK-NEXT:        arith.sitofp [[B0]] : vector<16xi8> to vector<16xf32>
// Four steps of 32 bytes read two lines.
// CHECK:             memref.prefetch
// CHECK-NOT:         memref.prefetch
// CHECK:             scf.yield
// -----
// What is not packed is no stream.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @one_row_unpacked(%x: memref<1x64xf32>, %w: memref<64x64xf32>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<1x64xf32>, memref<64x64xf32>, memref<1x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @one_row_unpacked
// CHECK-NOT:   memref.prefetch
// CHECK:       func.return
// -----
// Streams from memory: narrow elements are asked for as what is used once, f32 not at all.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @streamed(%x: memref<1x64xf32>, %w: memref<2x64x32xbf16>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>, streamed} : (memref<1x64xf32>, memref<2x64x32xbf16>, memref<1x64xf32>) -> ()
    func.return
  }
  func.func @streamed_wide(%x: memref<1x64xf32>, %w: memref<2x64x32xf32>, %y: memref<1x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>, streamed} : (memref<1x64xf32>, memref<2x64x32xf32>, memref<1x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @streamed(
// CHECK:             [[AHEAD:%\S+]] = arith.addi %k, %c128 : index
// CHECK:             memref.prefetch %w[%p, [[AHEAD]], %c0], read, locality<0>, data : memref<2x64x32xbf16>
// CHECK-LABEL: func.func @streamed_wide(
// CHECK-NOT:         memref.prefetch

// -----

// Two elements of a row are one word that is repeated in all lanes; a row of a panel holds the two
// elements of each column side by side.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @packed(%x: memref<16x64xbf16>, %w: memref<2x32x64xbf16>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.pairs<32>, precision = "bf16"} : (memref<16x64xbf16>, memref<2x32x64xbf16>, memref<16x64xf32>) -> ()
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
    nn.matmul(%x, %w) outs(%y) {layout = #nn.pairs<16>, precision = "bf16"} : (memref<1x5xbf16>, memref<1x3x32xbf16>, memref<1x16xf32>) -> ()
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
    nn.pack(%w) outs(%p) {layout = #nn.pairs<16>} : (memref<4x16xf32>, memref<1x2x32xbf16>) -> ()
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
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>} : (memref<2x8xbf16>, memref<1x8x32xbf16>, memref<2x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @declared
// CHECK-NOT:     nn.dot_pairs
// CHECK:         vector.fma

// -----

// With room for a copy of rows and for sums: a block of the contraction is copied, all panels take it,
// and what is stored behind the last block are the sums that the others left.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @blocks(%x: memref<128x64xf32>, %w: memref<2x64x32xf32>, %y: memref<128x64xf32>, %copy: memref<?x64x48xf32>, %sums: memref<?x2x64x32xf32>) {
    nn.matmul(%x, %w) outs(%y) scratch(copy = %copy, sums = %sums) {layout = #nn.panels<32>} : (memref<128x64xf32>, memref<2x64x32xf32>, memref<128x64xf32>, memref<?x64x48xf32>, memref<?x2x64x32xf32>) -> ()
    func.return
  }
}
// FULL-LABEL: func.func @blocks
// FULL:         [[THREAD:%\S+]] = nn.thread
// FULL:         scf.for %task = %c0 to %c4 step %c1
// FULL:           scf.for %kb = %c0 to %c64 step %c32
// FULL:             scf.for %r = %c0 to %c64 step %c1
// FULL:               vector.load %x[
// FULL-NEXT:          vector.store {{%\S+}}, %copy{{\[}}[[THREAD]], %r,
// FULL:             [[LAST:%\S+]] = arith.cmpi sle,
// FULL:             scf.for %p =
// FULL:               scf.for %i = %c0 to %c64 step %c8
// FULL:                 memref.prefetch %sums{{\[}}[[THREAD]], %p,
// FULL:                 scf.if
// FULL:                   vector.load %sums{{\[}}[[THREAD]], %p, %i, %c0]
// FULL:                 scf.for %k = %c0 to %c32 step %c1 iter_args(
// FULL:                   memref.prefetch %w[
// FULL:                   vector.load %w[%p,
// FULL:                   memref.load %copy{{\[}}[[THREAD]],
// FULL-NOT:               memref.load %x
// FULL:                 scf.if [[LAST]] {
// FULL:                   vector.store {{%\S+}}, %y[
// FULL:                 } else {
// FULL:                   vector.store {{%\S+}}, %sums{{\[}}[[THREAD]], %p,
// -----
// Without that room the left operand is read where it lies.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @whole(%x: memref<128x64xf32>, %w: memref<2x64x32xf32>, %y: memref<128x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>} : (memref<128x64xf32>, memref<2x64x32xf32>, memref<128x64xf32>) -> ()
    func.return
  }
}
// FULL-LABEL: func.func @whole
// FULL:         scf.for %p = %c0 to %c2 step %c1
// FULL-NOT:     nn.thread
// FULL:           memref.load %x[

// -----

// Two tiles of rows: in each step each of them asks for a line of the next panel, the second one for
// what lies behind the first one's.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @next_panel(%x: memref<16x64xf32>, %w: memref<2x64x32xf32>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<32>} : (memref<16x64xf32>, memref<2x64x32xf32>, memref<16x64xf32>) -> ()
    func.return
  }
}
// FULL-LABEL: func.func @next_panel
// FULL:           scf.for %i = %c0 to %c16 step %c8
// FULL:             [[TILE:%\S+]] = arith.divui %i, %c8 : index
// FULL:             [[NEXT:%\S+]] = arith.addi %p, %c1 : index
// FULL:             [[PART:%\S+]] = arith.minsi [[TILE]], %c1 : index
// FULL:             [[FIRST:%\S+]] = arith.muli [[PART]], %c32 : index
// FULL:             scf.for %k = %c0 to %c64 step %c1 iter_args(
// FULL:               [[COLUMN:%\S+]] = arith.muli %k, %c16 : index
// FULL-NEXT:          memref.prefetch %w{{\[}}[[NEXT]], [[FIRST]], [[COLUMN]]], read, locality<3>, data : memref<2x64x32xf32>
// FULL-NOT:           memref.prefetch
// FULL:               scf.yield
// -----
// What is not packed has no next panel.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @no_panels(%x: memref<16x64xf32>, %w: memref<64x64xf32>, %y: memref<16x64xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<16x64xf32>, memref<64x64xf32>, memref<16x64xf32>) -> ()
    func.return
  }
}
// FULL-LABEL: func.func @no_panels
// FULL-NOT:   memref.prefetch
// FULL:       func.return
// -----
// Six tiles share rows of 16 elements: three each, so that nothing is left out.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @uneven_shares(%x: memref<36x60xf32>, %w: memref<2x60x16xf32>, %y: memref<36x32xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.panels<16>} : (memref<36x60xf32>, memref<2x60x16xf32>, memref<36x32xf32>) -> ()
    func.return
  }
}
// FULL-LABEL: func.func @uneven_shares
// FULL:             [[TILE:%\S+]] = arith.divui %i, %c6 : index
// FULL:             [[PART:%\S+]] = arith.minsi [[TILE]], %c5 : index
// FULL:             [[FIRST:%\S+]] = arith.muli [[PART]], %c10 : index
// FULL:               [[COLUMN:%\S+]] = arith.muli %k, %c3 : index
// FULL-NEXT:          memref.prefetch %w{{\[}}%{{.*}}, [[FIRST]], [[COLUMN]]]
// FULL-NOT:           memref.prefetch
// FULL:               scf.yield

// -----

// One loop over the panels of all three; k and v differ in their buffers only, which are chosen.
// PRODUCTS-LABEL: func.func @three
// PRODUCTS: %[[N:.*]] = arith.constant 5 : index
// PRODUCTS: scf.for %p = %{{.*}} to %[[N]] step
// PRODUCTS: scf.if
// PRODUCTS: vector.store {{.*}} : memref<4x48xf32>, vector<8xf32>
// PRODUCTS: } else {
// PRODUCTS: arith.select %{{.*}}, %v, %k : memref<4x16xf32>
// PRODUCTS: vector.store {{.*}} : memref<4x16xf32>, vector<8xf32>
// PRODUCTS: {openinfer.parallel}
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @three(%x: memref<4x8xf32>, %Wq: memref<3x8x16xf32>, %Wk: memref<1x8x16xf32>, %Wv: memref<1x8x16xf32>, %q: memref<4x48xf32>, %k: memref<4x16xf32>, %v: memref<4x16xf32>) {
    nn.products(%x, %Wq, %Wk, %Wv) outs(%q, %k, %v) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (memref<4x8xf32>, memref<3x8x16xf32>, memref<1x8x16xf32>, memref<1x8x16xf32>, memref<4x48xf32>, memref<4x16xf32>, memref<4x16xf32>) -> ()
    func.return
  }
}
// -----
// On tensors it stays.
// PRODUCTS-LABEL: func.func @tensors
// PRODUCTS: nn.products
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @tensors(%x: tensor<4x8xf32>, %W: tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
    %a, %b = nn.products(%x, %W, %W) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
    func.return %a, %b : tensor<4x16xf32>, tensor<4x16xf32>
  }
}
