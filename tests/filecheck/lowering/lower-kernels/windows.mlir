// RUN: openinfer-opt %s -p 'lower-kernels{only=windows},verify-dominance,canonicalize,cse' | filecheck %s

builtin.module attributes {openinfer.target = "avx512"} {

// A line of the plane that lies in it is copied, shifted, between zeros; one that does not is zeros.

// CHECK-LABEL: func.func @unfold
// CHECK:       scf.for %[[P:.*]] = %c0 to %c8
// CHECK:         %[[SHIFT:.*]] = arith.subi %[[J:.*]], %c1 : index
// CHECK:         scf.for %h =
// CHECK:           %[[LINE:.*]] = arith.addi %h,
// CHECK-NEXT:      %[[IN:.*]] = arith.cmpi ult, %[[LINE]], %{{.*}} : index
// CHECK-NEXT:      scf.if %[[IN]] {
// CHECK:             vector.load %{{.*}}[%[[P]], %[[LINE]],
// CHECK:           } else {
// CHECK:             vector.maskedstore %{{.*}}[%[[P]], %{{.*}}, %[[J]], %h, %c0]
// CHECK:       } {openinfer.parallel}
func.func @unfold(%x: memref<2x4x?x8xf32>, %y: memref<2x4x3x3x?x8xf32>) {
  nn.unfold(%x) outs(%y) {stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
    : (memref<2x4x?x8xf32>, memref<2x4x3x3x?x8xf32>) -> ()
  func.return
}

// Without padding nothing is asked.

// CHECK-LABEL: func.func @unpadded
// CHECK-NOT:   arith.cmpi
// CHECK:       %[[LINE:.*]] = arith.addi %{{.*}}, %[[I:.*]] : index
// CHECK:       %[[V:.*]] = vector.maskedload %{{.*}}[%{{.*}}, %[[LINE]], %[[J:.*]]]
// CHECK-NEXT:  vector.maskedstore %{{.*}}[%{{.*}}, %[[I]], %[[J]], %h, %c0], %{{.*}}, %[[V]]
// CHECK-NOT:   scf.if
func.func @unpadded(%x: memref<2x4x9x8xf32>, %y: memref<2x4x3x2x4x7xf32>) {
  nn.unfold(%x) outs(%y) {stride = array<i64: 2, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : (memref<2x4x9x8xf32>, memref<2x4x3x2x4x7xf32>) -> ()
  func.return
}

// The plane is cleared, then the windows are added to it by the thread that cleared it.

// CHECK-LABEL: func.func @fold
// CHECK:       scf.for %[[P:.*]] = %c0 to %c8
// CHECK:         vector.maskedstore
// CHECK:         scf.for %w =
// CHECK:           %[[OLD:.*]] = memref.load %[[Y:.*]][%[[P]], %[[H:.*]], %[[W:.*]]]
// CHECK-NEXT:      %[[NEW:.*]] = memref.load
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[OLD]], %[[NEW]] : f32
// CHECK-NEXT:      memref.store %[[SUM]], %[[Y]][%[[P]], %[[H]], %[[W]]]
// CHECK:       } {openinfer.parallel}
func.func @fold(%x: memref<2x4x3x3x5x6xf32>, %y: memref<2x4x10x12xf32>) {
  nn.fold(%x) outs(%y) {stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
    : (memref<2x4x3x3x5x6xf32>, memref<2x4x10x12xf32>) -> ()
  func.return
}

// Windows side by side: a line of the plane is woven of the vectors of two columns, 16 and 5 of them, and
// nothing is added.

// CHECK-LABEL: func.func @side_by_side
// CHECK-NOT:   arith.addf
// CHECK:       %[[A:.*]] = vector.load %{{.*}}[%[[P:.*]], %[[I:.*]], %c0, %h, %c0] : memref<8x2x2x5x21xf32>, vector<16xf32>
// CHECK-NEXT:  %[[B:.*]] = vector.load %{{.*}}[%[[P]], %[[I]], %c1, %h, %c0] : memref<8x2x2x5x21xf32>, vector<16xf32>
// CHECK-NEXT:  %[[LOW:.*]] = vector.shuffle %[[A]], %[[B]] [0, 16, 1, 17,
// CHECK-NEXT:  %[[HIGH:.*]] = vector.shuffle %[[A]], %[[B]] [8, 24, 9, 25,
// CHECK:       vector.store %[[LOW]], %{{.*}}[%[[P]], %[[LINE:.*]], %c0] : memref<8x10x42xf32>
// CHECK:       vector.store %[[HIGH]], %{{.*}}[%[[P]], %[[LINE]], %c16] : memref<8x10x42xf32>
// CHECK:       vector.maskedload %{{.*}}[%[[P]], %[[I]], %c0, %h, %c16]
// CHECK:       vector.maskedstore %{{.*}}[%[[P]], %[[LINE]], %c32]
// CHECK-NOT:   arith.addf
// CHECK:       } {openinfer.parallel}
func.func @side_by_side(%x: memref<2x4x2x2x5x21xf32>, %y: memref<2x4x10x42xf32>) {
  nn.fold(%x) outs(%y) {stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : (memref<2x4x2x2x5x21xf32>, memref<2x4x10x42xf32>) -> ()
  func.return
}

// Of three columns elements are stored one by one.

// CHECK-LABEL: func.func @three_columns
// CHECK-NOT:   vector.shuffle
// CHECK:       scf.for %w =
// CHECK:         memref.store
// CHECK-NOT:   arith.addf
// CHECK:       } {openinfer.parallel}
func.func @three_columns(%x: memref<2x4x1x3x5x6xf32>, %y: memref<2x4x5x18xf32>) {
  nn.fold(%x) outs(%y) {stride = array<i64: 1, 3>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : (memref<2x4x1x3x5x6xf32>, memref<2x4x5x18xf32>) -> ()
  func.return
}

// The elements of a window that lie in the plane are two ranges. NaN is the largest of all. Windows
// whose columns all lie in the plane are computed side by side.

// CHECK-LABEL: func.func @largest
// CHECK:       %[[LOWEST:.*]] = arith.constant 0xff800000 : f32
// CHECK:       scf.for %[[I:.*]] = %{{.*}} to %{{.*}} step %c1 iter_args(%[[A:.*]] = %[[LOWEST]])
// CHECK-NEXT:    scf.for %j = %{{.*}} to %{{.*}} step %c1 iter_args(%[[B:.*]] = %[[A]])
// CHECK:           %[[X:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT:      %[[NAN:.*]] = arith.cmpf uno, %[[B]], %[[B]] : f32
// CHECK-NEXT:      %[[MORE:.*]] = arith.cmpf ogt, %[[B]], %[[X]] : f32
// CHECK-NEXT:      %[[MAX:.*]] = arith.select %[[MORE]], %[[B]], %[[X]] : f32
// CHECK-NEXT:      arith.select %[[NAN]], %[[B]], %[[MAX]] : f32
// CHECK:       arith.truncf %{{.*}} : f32 to f16
// CHECK:       vector.create_mask %c3 : vector<16xi1>
// CHECK:       vector.shuffle %{{.*}}[0, 2, 4,
// CHECK-NEXT:  vector.shuffle %{{.*}}[1, 3, 5,
// CHECK:       arith.truncf %{{.*}} : vector<16xf32> to vector<16xf16>
func.func @largest(%x: memref<2x4x?x8xf16>, %y: memref<2x4x?x4xf16>) {
  nn.pool(%x) outs(%y) {kind = "max", kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
    : (memref<2x4x?x8xf16>, memref<2x4x?x4xf16>) -> ()
  func.return
}

// CHECK-LABEL: func.func @largest_byte
// CHECK:       arith.constant dense<0> : vector<4xi8>
// CHECK:       arith.maxui %{{.*}} : vector<4xi8>
func.func @largest_byte(%x: memref<1x4x8x8xi8>, %y: memref<1x4x4x4xi8>) {
  nn.pool(%x) outs(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, unsigned}
    : (memref<1x4x8x8xi8>, memref<1x4x4x4xi8>) -> ()
  func.return
}

// Where no window reaches over the border all have the same number of elements.

// CHECK-LABEL: func.func @mean
// CHECK:       %[[COUNT:.*]] = arith.constant 4.000000e+00 : f32
// CHECK:       scf.for %[[I:.*]] = %c0 to %c2
// CHECK:         arith.addf %{{.*}} : vector<4xf32>
// CHECK:       %[[COUNTS:.*]] = vector.broadcast %[[COUNT]] : f32 to vector<4xf32>
// CHECK-NEXT:  arith.divf %{{.*}}, %[[COUNTS]] : vector<4xf32>
func.func @mean(%x: memref<2x4x8x8xf32>, %y: memref<2x4x4x4xf32>) {
  nn.pool(%x) outs(%y) {kind = "average", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, count_padding}
    : (memref<2x4x8x8xf32>, memref<2x4x4x4xf32>) -> ()
  func.return
}

// A place is a quotient of integers: scale 3/2 downwards, 2 across.

// CHECK-LABEL: func.func @nearest
// CHECK:       %[[TWICE:.*]] = arith.muli %h, %c2
// CHECK-NEXT:  arith.divui %[[TWICE]], %c3
// CHECK:       arith.divui %w, %c2
// CHECK-NOT:   arith.divf
func.func @nearest(%x: memref<2x4x8x8xi8>, %y: memref<2x4x12x16xi8>) {
  nn.resample(%x) outs(%y) {kind = "nearest", scales = array<i64: 3, 2, 2, 1>}
    : (memref<2x4x8x8xi8>, memref<2x4x12x16xi8>) -> ()
  func.return
}

// CHECK-LABEL: func.func @bilinear
// CHECK:       scf.for %h =
// CHECK:         %[[SHARE:.*]] = arith.divf %{{.*}} : f64
// CHECK:         arith.truncf %[[SHARE]] : f64 to f32
// CHECK:         scf.for %w =
// CHECK-COUNT-4:   memref.load
// CHECK:           memref.store
func.func @bilinear(%x: memref<2x4x8x8xf32>, %y: memref<2x4x12x16xf32>) {
  nn.resample(%x) outs(%y) {kind = "bilinear", scales = array<i64: 3, 2, 2, 1>}
    : (memref<2x4x8x8xf32>, memref<2x4x12x16xf32>) -> ()
  func.return
}

// A stride and a padding that only the run knows are read once, and cannot be a divisor of 0. Columns
// that may lie anywhere are read one by one.

// CHECK-LABEL: func.func @unfold_by_the_run
// CHECK-DAG:   %[[N:.*]] = nn.size "max(n.0, 1)"
// CHECK-DAG:   %[[P:.*]] = nn.size "max(p.1, 0)"
// CHECK:       %[[FIRST:.*]] = arith.subi %{{.*}}, %[[P]] : index
// CHECK:       %[[LINE:.*]] = arith.addi %h, %[[FIRST]] : index
// CHECK-NEXT:  %[[IN:.*]] = arith.cmpi ult, %[[LINE]], %{{.*}} : index
// CHECK-NEXT:  scf.if %[[IN]] {
// CHECK-NEXT:    scf.for %w =
// CHECK-NEXT:      %[[W:.*]] = arith.muli %w, %[[N]] : index
// CHECK-NEXT:      %[[C:.*]] = arith.addi %[[W]], %{{.*}} : index
// CHECK-NEXT:      memref.load %{{.*}}[%{{.*}}, %[[LINE]], %[[C]]]
func.func @unfold_by_the_run(%x: memref<2x4x?x8xf32>, %y: memref<2x4x3x3x?x?xf32>) {
  nn.unfold(%x) outs(%y) {stride = [#graph.size<1>, #graph.size<"n.0">], padding = [#graph.size<"p.1">, #graph.size<"p.1">, #graph.size<0>, #graph.size<0>], dilation = array<i64: 1, 1>}
    : (memref<2x4x?x8xf32>, memref<2x4x3x3x?x?xf32>) -> ()
  func.return
}

// Rows of a kernel that only the run knows are a loop as they always are; the columns are known, so
// windows are still computed side by side.

// CHECK-LABEL: func.func @rows_by_the_run
// CHECK:       %[[K:.*]] = nn.size "max(k.0, 1)"
// CHECK:       scf.for %{{.*}} = %c0 to %[[K]] step %c1 iter_args(%{{.*}}) -> (vector<16xf32>) {
func.func @rows_by_the_run(%x: memref<2x4x9x9xf32>, %y: memref<2x4x?x?xf32>) {
  nn.pool(%x) outs(%y) {kind = "max", kernel = [#graph.size<"k.0">, #graph.size<2>], stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : (memref<2x4x9x9xf32>, memref<2x4x?x?xf32>) -> ()
  func.return
}

// Columns that only the run knows are not.

// CHECK-LABEL: func.func @columns_by_the_run
// CHECK-NOT:   vector<
// CHECK:       func.return
func.func @columns_by_the_run(%x: memref<2x4x9x9xf32>, %y: memref<2x4x?x?xf32>) {
  nn.pool(%x) outs(%y) {kind = "max", kernel = [#graph.size<2>, #graph.size<"k.0">], stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
    : (memref<2x4x9x9xf32>, memref<2x4x?x?xf32>) -> ()
  func.return
}

// On tensors nothing happens.

// CHECK-LABEL: func.func @on_tensors
// CHECK-NEXT:  nn.resample
func.func @on_tensors(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32> {
  %y = nn.resample(%x) {kind = "nearest"} : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

}
