// RUN: openinfer-opt %s -p 'lower-kernels{only=generic},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// Dimensions without gaps become one; 384 is a multiple of 16, so there is no rest.

// CHECK-LABEL: func.func @flat
// CHECK:       %[[X:.*]] = memref.collapse_shape %x
// CHECK-SAME:  memref<?x7x384xf32> into memref<?xf32>
// CHECK:       scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c16
// CHECK-NEXT:    %[[V:.*]] = vector.load %[[X]][%{{.*}}] : memref<?xf32>, vector<16xf32>
// CHECK-NEXT:    %[[E:.*]] = math.exp %[[V]] : vector<16xf32>
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[E]], %{{.*}} : vector<16xf32>
// CHECK-NEXT:    vector.store %[[R]]
// CHECK-NEXT:  } {openinfer.parallel}
// CHECK-NEXT:  func.return
func.func @flat(%x: memref<?x7x384xf32>, %y: memref<?x7x384xf32>) {
  linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
    iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x : memref<?x7x384xf32>) outs(%y : memref<?x7x384xf32>) {
  ^bb0(%a: f32, %o: f32):
    %two = arith.constant 2.0 : f32
    %e = math.exp %a : f32
    %r = arith.mulf %e, %two : f32
    linalg.yield %r : f32
  }
  func.return
}

// The scale of a row is loaded once for the row; 5 elements are left for the mask.

// CHECK-LABEL: func.func @scaled_rows
// CHECK:       scf.for %[[I:.*]] =
// CHECK:         %[[S:.*]] = memref.load %s[%[[I]]]
// CHECK:         %[[SV:.*]] = vector.broadcast %[[S]] : f32 to vector<16xf32>
// CHECK:         scf.for %[[J:.*]] = {{.*}} step %c16
// CHECK:           vector.load %x[%[[I]], %[[J]]]
// CHECK:           arith.mulf %{{.*}}, %[[SV]]
// CHECK:         }
// CHECK:         %[[M:.*]] = vector.create_mask %c5 : vector<16xi1>
// CHECK:         vector.maskedload %x[%[[I]], %c32], %[[M]]
// CHECK:         vector.maskedstore %y[%[[I]], %c32], %[[M]]
// CHECK:       } {openinfer.parallel}
func.func @scaled_rows(%x: memref<?x37xf32>, %s: memref<?xf32>, %y: memref<?x37xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%x, %s : memref<?x37xf32>, memref<?xf32>) outs(%y : memref<?x37xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  }
  func.return
}

// A reduction along neighbours: four accumulators, combined, then one number.

// CHECK-LABEL: func.func @row_sums
// CHECK:       scf.for %[[I:.*]] =
// CHECK:         %[[ACC:.*]], %{{.*}}, %{{.*}}, %{{.*}} = scf.for %{{.*}} step %c64 iter_args
// CHECK-COUNT-4:   vector.load %x
// CHECK:           scf.yield
// CHECK:         vector.reduction <add>, %{{.*}} fastmath<reassoc> : vector<16xf32> into f32
// CHECK-NEXT:    memref.load %y[%[[I]]]
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    memref.store
func.func @row_sums(%x: memref<?x256xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
    iterator_types = ["parallel", "reduction"]}
    ins(%x : memref<?x256xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  }
  func.return
}

// A reduction over rows: vectors of columns whose sums stay in registers.

// CHECK-LABEL: func.func @column_sums
// CHECK:       scf.for %[[J:.*]] = {{.*}} step %c64
// CHECK:         vector.load %y[%[[J]]]
// CHECK:         scf.for %[[K:.*]] = {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>)
// CHECK:           vector.load %x[%[[K]], %[[J]]]
// CHECK:         vector.store %{{.*}}, %y[%[[J]]]
// CHECK:       } {openinfer.parallel}
func.func @column_sums(%x: memref<?x256xf32>, %y: memref<256xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
    iterator_types = ["reduction", "parallel"]}
    ins(%x : memref<?x256xf32>) outs(%y : memref<256xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  }
  func.return
}

// No neighbours to load together: scalar loops.

// CHECK-LABEL: func.func @transposed
// CHECK-NOT:   vector
// CHECK:       memref.load %x[%[[J:.*]], %[[I:.*]]]
// CHECK:       memref.store %{{.*}}, %y[%[[I]], %[[J]]]
func.func @transposed(%x: memref<?x4xf32>, %y: memref<4x?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%x : memref<?x4xf32>) outs(%y : memref<4x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  }
  func.return
}

// Where x lies side by side along another dimension, squares are turned: 16 vectors, four rounds of shuffles.
// What is left of 20 columns is a square that stores less of each row.

// CHECK-LABEL: func.func @turned
// CHECK:       scf.for %[[I:.*]] = %c0 to %c48 step %c16
// CHECK-COUNT-16: vector.load %x
// CHECK-COUNT-64: vector.shuffle
// CHECK:         %[[G:.*]] = memref.load %gain[%[[I]]]
// CHECK-NEXT:    %[[V:.*]] = vector.broadcast %[[G]]
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %{{.*}}, %[[V]]
// CHECK-NEXT:    vector.store %[[R]], %y[%[[I]], %c0]
// CHECK:         %[[LESS:.*]] = vector.create_mask %c4
// CHECK:         vector.maskedstore %y[%[[I]], %c16], %[[LESS]]
// CHECK:       } {openinfer.parallel}
func.func @turned(%x: memref<20x48xf32>, %gain: memref<48xf32>, %y: memref<48x20xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]}
    ins(%x, %gain : memref<20x48xf32>, memref<48xf32>) outs(%y : memref<48x20xf32>) {
  ^bb0(%a: f32, %g: f32, %o: f32):
    %r = arith.mulf %a, %g : f32
    linalg.yield %r : f32
  }
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  linalg.generic
func.func @on_tensors(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    outs(%x : tensor<4xf32>) {
  ^bb0(%o: f32):
    linalg.yield %o : f32
  } -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

}
