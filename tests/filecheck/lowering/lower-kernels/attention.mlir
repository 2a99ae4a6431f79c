// RUN: openinfer-opt %s -p 'lower-kernels{only=attention},cse' --split-input-file | filecheck %s

// One block of queries, two vectors of them, at a time: queries are transposed and scaled, then scores and their maximum,
// then weights and their sum, then the weighted values. Lanes are queries, rows are keys.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @attend(%q: memref<1x8x40x32xf32>, %k: memref<1x2x?x32xf32>, %v: memref<1x2x?x32xf32>,
      %mask: memref<1x1x1x?xi8>, %o: memref<1x40x8x32xf32>,
      %queries: memref<1x32x32xf32>, %scores: memref<1x?x32xf32>) {
    nn.attention(%q, %k, %v, %mask) outs(%o) scratch(queries = %queries, scores = %scores)
      {scale = 0.5 : f64, masked, causal, layouts = ["bhld", "bhld", "bhld", "blhd"]}
      : (memref<1x8x40x32xf32>, memref<1x2x?x32xf32>, memref<1x2x?x32xf32>, memref<1x1x1x?xi8>,
         memref<1x40x8x32xf32>, memref<1x32x32xf32>, memref<1x?x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @attend
// CHECK:         [[THREAD:%\S+]] = nn.thread
// Times 1 / log 2: weights are powers of two.
// CHECK:         [[SCALE:%\S+]] = arith.constant dense<0.721347511> : vector<16xf32>
// CHECK:           scf.for %h = %c0 to %c8 step %c1 {
// Four heads share the keys and values of one.
// CHECK:             [[GROUP:%\S+]] = arith.divui %h, {{%\S+}} : index
// CHECK:             scf.for %i = %c0 to {{%\S+}} step %c32 {
// CHECK:               vector.load %q[%c0, %h, {{%\S+}}, %k{{\S*}}] : memref<1x8x40x32xf32>, vector<16xf32>
// CHECK:               [[SCALED:%\S+]] = arith.mulf {{%\S+}}, [[SCALE]] : vector<16xf32>
// CHECK-NEXT:          vector.store [[SCALED]], %queries{{\[}}[[THREAD]], {{%\S+}}, %c0] : memref<1x32x32xf32>, vector<16xf32>
// CHECK:               vector.store {{%\S+}}, %queries{{\[}}[[THREAD]], {{%\S+}}, %c16] : memref<1x32x32xf32>, vector<16xf32>
// CHECK:               {{%\S+}}, {{%\S+}} = scf.for %j = %c0 to {{%\S+}} step %c8 iter_args(
// CHECK:                 vector.load %queries{{\[}}[[THREAD]], {{%\S+}}, %c0] : memref<1x32x32xf32>, vector<16xf32>
// CHECK-NEXT:            vector.load %queries{{\[}}[[THREAD]], {{%\S+}}, %c16] : memref<1x32x32xf32>, vector<16xf32>
// CHECK-NEXT:            memref.load %k[%c0, [[GROUP]], %j, {{%\S+}}] : memref<1x2x?x32xf32>
// CHECK:                 [[SEEN:%\S+]] = memref.load %mask[%c0, %c0, %c0, %j] : memref<1x1x1x?xi8>
// CHECK:                 arith.cmpi ne, [[SEEN]], {{%\S+}} : i8
// CHECK:                 arith.cmpi sle, {{%\S+}}, {{%\S+}} : vector<16xi32>
// CHECK:                 [[MORE:%\S+]] = arith.cmpf ogt, [[SCORE:%\S+]], {{%\S+}} : vector<16xf32>
// CHECK-NEXT:            arith.select [[MORE]], [[SCORE]], {{%\S+}} : vector<16xi1>, vector<16xf32>
// CHECK-NEXT:            vector.store [[SCORE]], %scores{{\[}}[[THREAD]], %j, %c0] : memref<1x?x32xf32>, vector<16xf32>
// CHECK:               {{%\S+}}, {{%\S+}} = scf.for %j{{\S*}} = %c0 to {{%\S+}} step %c1 iter_args(
// CHECK:                 [[WEIGHT:%\S+]] = math.exp2 {{%\S+}} : vector<16xf32>
// CHECK-NEXT:            vector.store [[WEIGHT]], %scores[
// CHECK:               vector.load %v[%c0, [[GROUP]], %k{{\S*}}, {{%\S+}}] : memref<1x2x?x32xf32>, vector<16xf32>
// CHECK:               vector.store {{%\S+}}, %o[%c0, {{%\S+}}, %h, {{%\S+}}] : memref<1x40x8x32xf32>, vector<16xf32>
// The last block has 8 queries: one vector of them.
// CHECK:             } else {
// CHECK:               {{%\S+}} = scf.for %j{{\S*}} = {{%\S+}} to {{%\S+}} step %c8{{\S*}} iter_args(
// CHECK:         } {openinfer.parallel}
// CHECK-NOT:     nn.attention

// -----

// The step knows the window and the head size: keys out of sight are left out, what is left of the
// columns of the result is masked.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @windowed(%q: memref<1x2x?x?xf32>, %w: memref<i64>, %o: memref<1x2x?x?xf32>,
      %queries: memref<1x?x16xf32>, %scores: memref<1x?x16xf32>) {
    nn.attention(%q, %q, %q, %w) outs(%o) scratch(queries = %queries, scores = %scores)
      {scale = 0.5 : f64, windowed, layouts = ["bhld", "bhld", "bhld", "bhld"]}
      : (memref<1x2x?x?xf32>, memref<1x2x?x?xf32>, memref<1x2x?x?xf32>, memref<i64>,
         memref<1x2x?x?xf32>, memref<1x?x16xf32>, memref<1x?x16xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @windowed
// CHECK:         [[WORD:%\S+]] = memref.load %w[] : memref<i64>
// CHECK-NEXT:    [[WINDOW:%\S+]] = arith.index_cast [[WORD]] : i64 to index
// CHECK:         [[REACH:%\S+]] = arith.subi [[WINDOW]], %c1 : index
// CHECK:         [[FIRST:%\S+]] = arith.subi {{%\S+}}, [[REACH]] : index
// CHECK-NEXT:    [[POSITIVE:%\S+]] = arith.maxsi [[FIRST]], %c0 : index
// CHECK:         arith.index_cast [[WINDOW]] : index to i32
// CHECK:         arith.cmpi slt, {{%\S+}}, {{%\S+}} : vector<16xi32>
// CHECK:         arith.cmpi slt, {{%\S+}}, {{%\S+}} : vector<16xi32>
// CHECK:         vector.create_mask
// CHECK:         vector.maskedload
// CHECK-NOT:     nn.attention

// -----

// Not on tensors.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @tensors(%q: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
    %o = nn.attention(%q, %q, %q) {scale = 0.5 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]}
      : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
    func.return %o : tensor<1x2x4x8xf32>
  }
}
// CHECK-LABEL: func.func @tensors
// CHECK-NEXT:    nn.attention(%q, %q, %q)
// -----
// One query: lanes lie along the head, and as many keys as there are lanes become one vector of scores
// by shuffles. Both heads of a group meet a key that was widened once; keys further on are prefetched, because
// other groups lie between them. Where the run knows the number of queries, it chooses.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @one_query(%q: memref<1x4x?x16xf32>, %k: memref<1x?x2x16xf16>, %v: memref<1x?x2x16xf16>,
      %o: memref<1x4x?x16xf32>, %queries: memref<1x16x16xf32>, %scores: memref<1x?x16xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(queries = %queries, scores = %scores)
      {scale = 0.25 : f64, causal, layouts = ["bhld", "blhd", "blhd", "bhld"]}
      : (memref<1x4x?x16xf32>, memref<1x?x2x16xf16>, memref<1x?x2x16xf16>,
         memref<1x4x?x16xf32>, memref<1x16x16xf32>, memref<1x?x16xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @one_query
// CHECK:         [[ONE:%\S+]] = arith.cmpi eq, {{%\S+}}, %c1 : index
// CHECK:         scf.if [[ONE]] {
// CHECK:           [[ROWS:%\S+]] = memref.collapse_shape %scores
// CHECK:           scf.for %g = %c0 to {{%\S+}} step %c1 {
// CHECK:             scf.for %j = {{%\S+}} to {{%\S+}} step %c16 {
// CHECK:               scf.for %g_1 = {{%\S+}} to {{%\S+}} step %c1 {
// CHECK:                 [[Q0:%\S+]] = vector.load %q
// CHECK:                 [[Q1:%\S+]] = vector.load %q
// CHECK:                 memref.prefetch %k[{{%\S+}}, {{%\S+}}, %g_1, %c0], read, locality<2>, data
// CHECK-NEXT:            [[KEY:%\S+]] = vector.load %k[{{%\S+}}, {{%\S+}}, %g_1, %c0] : memref<1x?x2x16xf16>, vector<16xf16>
// CHECK-NEXT:            [[WIDE:%\S+]] = arith.extf [[KEY]] : vector<16xf16> to vector<16xf32>
// CHECK-NEXT:            arith.mulf {{%\S+}}, [[WIDE]] : vector<16xf32>
// CHECK-NEXT:            arith.mulf {{%\S+}}, [[WIDE]] : vector<16xf32>
// CHECK-COUNT-62:        vector.shuffle
// CHECK:                 vector.store {{%\S+}}, [[ROWS]]
// CHECK:         } else {
// CHECK:           scf.for %h = {{%\S+}} to {{%\S+}} step {{%\S+}} {
// CHECK:             scf.for %i = {{%\S+}} to {{%\S+}} step {{%\S+}} {

// -----

// Results are added up; where that is NaN, columns that have become NaN are made once more, of the keys
// that the query sees.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @causal(%q: memref<1x2x9x16xf32>, %k: memref<1x2x9x16xf32>, %v: memref<1x2x9x16xf32>,
      %o: memref<1x2x9x16xf32>, %queries: memref<1x16x16xf32>, %scores: memref<1x9x16xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(queries = %queries, scores = %scores)
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
    nn.attention(%q, %k, %v, %mask) outs(%o) scratch(queries = %queries, scores = %scores)
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

// -----

// Values become pairs for all heads; then each block of queries: scores against keys where they lie, two
// weights rounded into one word in place of their scores, and the product with the pairs of values.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @pairs(%q: memref<1x2x32x16xbf16>, %k: memref<1x2x8x16xbf16>, %v: memref<1x2x8x32xbf16>, %o: memref<1x2x32x32xbf16>, %queries: memref<?x8x32xf32>, %scores: memref<?x8x32xf32>, %values: memref<2x1x4x64xbf16>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(queries = %queries, scores = %scores, values = %values) {scale = 0.25 : f64, precision = "bf16", layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x32x16xbf16>, memref<1x2x8x16xbf16>, memref<1x2x8x32xbf16>, memref<1x2x32x32xbf16>, memref<?x8x32xf32>, memref<?x8x32xf32>, memref<2x1x4x64xbf16>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @pairs
// CHECK:         scf.for %bh = %c0 to %c2 step %c1 {
// CHECK:           vector.shuffle {{.*}} [0, 16, 1, 17,
// CHECK:           vector.store {{%\S+}}, %values[%bh,
// CHECK:         } {openinfer.parallel}
// CHECK:         scf.for %h = %c0 to %c2 step %c1 {
// CHECK:           vector.store {{%\S+}}, %queries[
// CHECK:           nn.dot_pairs
// CHECK:           arith.mulf
// CHECK:           math.exp2
// CHECK:           math.exp2
// CHECK:           [[BOTH:%\S+]] = nn.round_pairs {{%\S+}}, {{%\S+}} : vector<16xf32>, vector<32xbf16>
// CHECK-NEXT:      [[WORDS:%\S+]] = vector.bitcast [[BOTH]] : vector<32xbf16> to vector<16xf32>
// CHECK-NEXT:      vector.store [[WORDS]], %scores[
// CHECK:           arith.divf
// CHECK:           vector.load %values[
// CHECK:           nn.dot_pairs
// CHECK:           arith.truncf {{%\S+}} : vector<16xf32> to vector<16xbf16>
// CHECK:         } {openinfer.parallel}

// -----

// A cap: queries are scaled and divided by it; what tanh gives is multiplied by it and by 1 / log 2.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @capped(%q: memref<1x1x32x16xf32>, %k: memref<1x1x8x16xf32>, %o: memref<1x1x32x16xf32>,
      %queries: memref<1x16x32xf32>, %scores: memref<1x8x32xf32>) {
    nn.attention(%q, %k, %k) outs(%o) scratch(queries = %queries, scores = %scores)
      {scale = 0.5 : f64, softcap = 2.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]}
      : (memref<1x1x32x16xf32>, memref<1x1x8x16xf32>, memref<1x1x8x16xf32>,
         memref<1x1x32x16xf32>, memref<1x16x32xf32>, memref<1x8x32xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @capped
// CHECK:         [[TIMES:%\S+]] = arith.constant 2.885390e+00 : f32
// CHECK:         arith.constant dense<2.500000e-01> : vector<16xf32>
// CHECK:         [[TANH:%\S+]] = math.tanh {{%\S+}} : vector<16xf32>
// CHECK-NEXT:    [[LIMIT:%\S+]] = vector.broadcast [[TIMES]] : f32 to vector<16xf32>
// CHECK-NEXT:    arith.mulf [[TANH]], [[LIMIT]] : vector<16xf32>
