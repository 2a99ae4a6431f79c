// RUN: OI_ROUNDTRIP

// Ops that xDSL lacks or types too narrowly, in MLIR's syntax.

memref.global "private" constant @table : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]> {alignment = 64 : i64}
memref.global "private" @space : memref<16xi8> = uninitialized
// CHECK:      memref.global "private" constant @table : memref<4xf32> = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> {alignment = 64 : i64}
// CHECK-NEXT: memref.global "private" @space : memref<16xi8> = uninitialized

func.func @arith(%a: vector<4xi32>, %b: vector<4xf32>, %c: i32, %x: vector<4xindex>, %flag: i1) {
  %0 = arith.cmpi slt, %a, %a : vector<4xi32>
  %1 = arith.select %0, %b, %b : vector<4xi1>, vector<4xf32>
  %2 = arith.cmpf olt, %b, %b fastmath<nnan> : vector<4xf32>
  %3 = arith.select %flag, %2, %0 : vector<4xi1>
  %4 = arith.sitofp %a : vector<4xi32> to vector<4xf32>
  %5 = arith.fptoui %b : vector<4xf32> to vector<4xi32>
  %6 = arith.extsi %a : vector<4xi32> to vector<4xi64>
  %7 = arith.trunci %a : vector<4xi32> to vector<4xi8>
  %8 = arith.remf %b, %b fastmath<nsz> : vector<4xf32>
  %9 = arith.index_cast %x : vector<4xindex> to vector<4xi32>
  %10 = arith.index_castui %c : i32 to index
  func.return
}
// CHECK-LABEL: func.func @arith
// CHECK-NEXT:    %0 = arith.cmpi slt, %a, %a : vector<4xi32>
// CHECK-NEXT:    %1 = arith.select %0, %b, %b : vector<4xi1>, vector<4xf32>
// CHECK-NEXT:    %2 = arith.cmpf olt, %b, %b fastmath<nnan> : vector<4xf32>
// CHECK-NEXT:    %3 = arith.select %flag, %2, %0 : vector<4xi1>
// CHECK-NEXT:    %4 = arith.sitofp %a : vector<4xi32> to vector<4xf32>
// CHECK-NEXT:    %5 = arith.fptoui %b : vector<4xf32> to vector<4xi32>
// CHECK-NEXT:    %6 = arith.extsi %a : vector<4xi32> to vector<4xi64>
// CHECK-NEXT:    %7 = arith.trunci %a : vector<4xi32> to vector<4xi8>
// CHECK-NEXT:    %8 = arith.remf %b, %b fastmath<nsz> : vector<4xf32>
// CHECK-NEXT:    %9 = arith.index_cast %x : vector<4xindex> to vector<4xi32>
// CHECK-NEXT:    %10 = arith.index_castui %c : i32 to index

func.func @memory(%m: memref<4x?xf32>, %i: index, %c: memref<1xi64>, %one: i64, %v: vector<8xf32>, %mask: vector<8xi1>) {
  %0 = memref.cast %m : memref<4x?xf32> to memref<?x?xf32>
  memref.copy %m, %m : memref<4x?xf32> to memref<4x?xf32>
  memref.prefetch %m[%i, %i], read, locality<3>, data : memref<4x?xf32>
  %1 = memref.atomic_rmw addi %one, %c[%i] : (i64, memref<1xi64>) -> i64
  %2 = vector.reduction <add>, %v : vector<8xf32> into f32
  %3 = vector.reduction <add>, %v, %2 fastmath<reassoc> : vector<8xf32> into f32
  %4 = vector.step : vector<8xindex>
  %5 = vector.gather %m[%i, %i] [%4], %mask, %v : memref<4x?xf32>, vector<8xindex>, vector<8xi1>, vector<8xf32> into vector<8xf32>
  %6 = vector.load %m[%i, %i] {alignment = 64 : i64} : memref<4x?xf32>, vector<8xf32>
  func.return
}
// CHECK-LABEL: func.func @memory
// CHECK-NEXT:    %0 = memref.cast %m : memref<4x?xf32> to memref<?x?xf32>
// CHECK-NEXT:    memref.copy %m, %m : memref<4x?xf32> to memref<4x?xf32>
// CHECK-NEXT:    memref.prefetch %m[%i, %i], read, locality<3>, data : memref<4x?xf32>
// CHECK-NEXT:    %1 = memref.atomic_rmw addi %one, %c[%i] : (i64, memref<1xi64>) -> i64
// CHECK-NEXT:    %2 = vector.reduction <add>, %v : vector<8xf32> into f32
// CHECK-NEXT:    %3 = vector.reduction <add>, %v, %2 fastmath<reassoc> : vector<8xf32> into f32
// CHECK-NEXT:    %4 = vector.step : vector<8xindex>
// CHECK-NEXT:    %5 = vector.gather %m[%i, %i] [%4], %mask, %v : memref<4x?xf32>, vector<8xindex>, vector<8xi1>, vector<8xf32> into vector<8xf32>
// CHECK-NEXT:    %6 = vector.load %m[%i, %i] {alignment = 64 : i64} : memref<4x?xf32>, vector<8xf32>

llvm.func @llvm(%p: !llvm.ptr, %i: i64, %f: f32, %v: vector<4xf32>, %w: vector<4xi32>) {
  %0 = llvm.fcmp "olt" %v, %v {fastmathFlags = #llvm.fastmath<nnan>} : vector<4xf32>
  %1 = llvm.select %0, %v, %v : vector<4xi1>, vector<4xf32>
  %2 = llvm.atomicrmw add %p, %i monotonic : !llvm.ptr, i64
  %3 = llvm.cmpxchg %p, %i, %i acq_rel monotonic : !llvm.ptr, i64
  llvm.fence seq_cst
  llvm.store %i, %p atomic release {alignment = 8 : i64} : i64, !llvm.ptr
  %4 = llvm.extractelement %v[%i : i64] : vector<4xf32>
  %5 = llvm.intr.maximum(%v, %v) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
  %6 = llvm.intr.vector.reduce.smax(%w) : (vector<4xi32>) -> i32
  %7 = llvm.intr.masked.load %p, %0, %v {alignment = 4 : i32} : (!llvm.ptr, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
  "llvm.intr.memcpy"(%p, %p, %i) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  %8 = llvm.fptosi %v : vector<4xf32> to vector<4xi32>
  llvm.switch %i : i64, ^a [1: ^b, 2: ^c(%f : f32)]
^a:
  llvm.return
^b:
  llvm.return
^c(%z: f32):
  llvm.return
}
// CHECK-LABEL: llvm.func @llvm
// CHECK-NEXT:    %{{\S+}} = llvm.fcmp "olt" %v{{\S*}}, %v{{\S*}} {fastmathFlags = #llvm.fastmath<nnan>} : vector<4xf32>
// CHECK-NEXT:    %{{\S+}} = llvm.select %{{\S+}}, %v{{\S*}}, %v{{\S*}} : vector<4xi1>, vector<4xf32>
// CHECK-NEXT:    %{{\S+}} = llvm.atomicrmw add %p{{\S*}}, %i{{\S*}} monotonic : !llvm.ptr, i64
// CHECK-NEXT:    %{{\S+}} = llvm.cmpxchg %p{{\S*}}, %i{{\S*}}, %i{{\S*}} acq_rel monotonic : !llvm.ptr, i64
// CHECK-NEXT:    llvm.fence seq_cst
// CHECK-NEXT:    llvm.store %i{{\S*}}, %p{{\S*}} atomic release {alignment = 8 : i64} : i64, !llvm.ptr
// CHECK-NEXT:    %{{\S+}} = llvm.extractelement %v{{\S*}}[%i{{\S*}} : i64] : vector<4xf32>
// CHECK-NEXT:    %{{\S+}} = llvm.intr.maximum(%v{{\S*}}, %v{{\S*}}) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:    %{{\S+}} = llvm.intr.vector.reduce.smax(%w{{\S*}}) : (vector<4xi32>) -> i32
// CHECK-NEXT:    %{{\S+}} = llvm.intr.masked.load %p{{\S*}}, %{{\S+}}, %v{{\S*}} {alignment = 4 : i32} : (!llvm.ptr, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
// CHECK-NEXT:    "llvm.intr.memcpy"(%p{{\S*}}, %p{{\S*}}, %i{{\S*}}) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
// CHECK-NEXT:    %{{\S+}} = llvm.fptosi %v{{\S*}} : vector<4xf32> to vector<4xi32>
// CHECK-NEXT:    llvm.switch %i{{\S*}} : i64, ^{{\S+}} [1: ^{{\S+}}, 2: ^{{\S+}}(%f{{\S*}} : f32)]

func.func @gpu(%x: f32, %i: index, %h: memref<64x5xvector<8xf16>, #gpu.address_space<workgroup>>) {
  %one = arith.constant 1 : i32
  %there, %valid = gpu.shuffle xor %x, %one, %one : f32
  %shared = memref.alloca() : memref<16x16xf32, #gpu.address_space<workgroup>>
  %sums = gpu.subgroup_mma_constant_matrix %x : !gpu.mma_matrix<16x16xf32, "COp">
  %left = gpu.subgroup_mma_load_matrix %h[%i, %i] {leadDimension = 5 : index} : memref<64x5xvector<8xf16>, #gpu.address_space<workgroup>> -> !gpu.mma_matrix<16x16xf16, "AOp">
  %right = gpu.subgroup_mma_load_matrix %h[%i, %i] {leadDimension = 5 : index, transpose} : memref<64x5xvector<8xf16>, #gpu.address_space<workgroup>> -> !gpu.mma_matrix<16x16xf16, "BOp">
  %more = gpu.subgroup_mma_compute %left, %right, %sums : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
  %scaled = gpu.subgroup_mma_elementwise mulf %more, %sums : (!gpu.mma_matrix<16x16xf32, "COp">, !gpu.mma_matrix<16x16xf32, "COp">) -> !gpu.mma_matrix<16x16xf32, "COp">
  gpu.subgroup_mma_store_matrix %more, %shared[%i, %i] {leadDimension = 16 : index} : !gpu.mma_matrix<16x16xf32, "COp">, memref<16x16xf32, #gpu.address_space<workgroup>>
  func.return
}
// CHECK:      %there{{\S*}}, %valid{{\S*}} = gpu.shuffle xor %x{{\S*}}, %one{{\S*}}, %one{{\S*}} : f32
// CHECK-NEXT: %shared{{\S*}} = memref.alloca() : memref<16x16xf32, #gpu.address_space<workgroup>>
// CHECK-NEXT: %sums{{\S*}} = gpu.subgroup_mma_constant_matrix %x{{\S*}} : !gpu.mma_matrix<16x16xf32, "COp">
// CHECK-NEXT: %left{{\S*}} = gpu.subgroup_mma_load_matrix %h{{\S*}}[%i{{\S*}}, %i{{\S*}}] {leadDimension = 5 : index} : memref<64x5xvector<8xf16>, #gpu.address_space<workgroup>> -> !gpu.mma_matrix<16x16xf16, "AOp">
// CHECK-NEXT: %right{{\S*}} = gpu.subgroup_mma_load_matrix %h{{\S*}}[%i{{\S*}}, %i{{\S*}}] {leadDimension = 5 : index, transpose}
// CHECK-NEXT: %more{{\S*}} = gpu.subgroup_mma_compute %left{{\S*}}, %right{{\S*}}, %sums{{\S*}} : !gpu.mma_matrix<16x16xf16, "AOp">
// CHECK-NEXT: %scaled{{\S*}} = gpu.subgroup_mma_elementwise mulf %more{{\S*}}, %sums{{\S*}} : (!gpu.mma_matrix<16x16xf32, "COp">, !gpu.mma_matrix<16x16xf32, "COp">) -> !gpu.mma_matrix<16x16xf32, "COp">
// CHECK-NEXT: gpu.subgroup_mma_store_matrix %more{{\S*}}, %shared{{\S*}}[%i{{\S*}}, %i{{\S*}}] {leadDimension = 16 : index}

// Matrices of a workgroup: parts of buffers, other elements, functions of elements.
func.func @tensors(%x: memref<4x70x64xf16>, %b: memref<192xf16>, %y: memref<70x192xf16>, %i: index) {
  %left = gpu.tensor_load %x[%i, %i, %i] {bounded, transpose} : memref<4x70x64xf16> -> !gpu.mma_matrix<128x64xf16, "AOp", workgroup>
  %row = gpu.tensor_load %b[%i] {repeated} : memref<192xf16> -> !gpu.mma_matrix<128x192xf16, "COp", workgroup>
  %sums = gpu.matrix_convert %row : !gpu.mma_matrix<128x192xf16, "COp", workgroup> -> !gpu.mma_matrix<128x192xf32, "COp", workgroup>
  %scaled = gpu.matrix_map %sums, %sums, %i : (!gpu.mma_matrix<128x192xf32, "COp", workgroup>, !gpu.mma_matrix<128x192xf32, "COp", workgroup>, index) -> !gpu.mma_matrix<128x192xf32, "COp", workgroup> {
  ^bb0(%at: index, %column: index, %e: f32, %f: f32, %n: index):
    %two = arith.addf %e, %f : f32
    gpu.matrix_yield %two : f32
  }
  %most = gpu.matrix_reduce %scaled : !gpu.mma_matrix<128x192xf32, "COp", workgroup> -> !gpu.mma_matrix<128x32xf32, "COp", workgroup> {
  ^bb0(%e: f32, %f: f32):
    %larger = arith.maximumf %e, %f : f32
    gpu.matrix_yield %larger : f32
  }
  %all = gpu.matrix_reduce whole %scaled : !gpu.mma_matrix<128x192xf32, "COp", workgroup> -> !gpu.mma_matrix<32x32xf32, "COp", workgroup> {
  ^bb0(%e: f32, %f: f32):
    gpu.matrix_yield %e : f32
  }
  %first = gpu.matrix_element %all : !gpu.mma_matrix<32x32xf32, "COp", workgroup> -> f32
  %weights = gpu.matrix_convert %sums : !gpu.mma_matrix<128x192xf32, "COp", workgroup> -> !gpu.mma_matrix<128x192xf16, "AOp", workgroup>
  gpu.tensor_store %row, %y[%i, %i] {bounded} : !gpu.mma_matrix<128x192xf16, "COp", workgroup>, memref<70x192xf16>
  func.return
}
// CHECK:      %left{{\S*}} = gpu.tensor_load %x{{\S*}}[%i{{\S*}}, %i{{\S*}}, %i{{\S*}}] {{{.*}}bounded{{.*}}} : memref<4x70x64xf16> -> !gpu.mma_matrix<128x64xf16, "AOp", workgroup>
// CHECK-NEXT: %row{{\S*}} = gpu.tensor_load %b{{\S*}}[%i{{\S*}}] {repeated} : memref<192xf16> -> !gpu.mma_matrix<128x192xf16, "COp", workgroup>
// CHECK-NEXT: %sums{{\S*}} = gpu.matrix_convert %row{{\S*}} : !gpu.mma_matrix<128x192xf16, "COp", workgroup> -> !gpu.mma_matrix<128x192xf32, "COp", workgroup>
// CHECK-NEXT: %scaled{{\S*}} = gpu.matrix_map %sums{{\S*}}, %sums{{\S*}}, %i{{\S*}} : (!gpu.mma_matrix<128x192xf32, "COp", workgroup>, !gpu.mma_matrix<128x192xf32, "COp", workgroup>, index) -> !gpu.mma_matrix<128x192xf32, "COp", workgroup> {
// CHECK-NEXT: ^{{\S+}}(%at{{\S*}}: index, %column{{\S*}}: index, %e{{\S*}}: f32, %f{{\S*}}: f32, %n{{\S*}}: index):
// CHECK:      gpu.matrix_yield %two{{\S*}} : f32
// CHECK:      %most{{\S*}} = gpu.matrix_reduce %scaled{{\S*}} : !gpu.mma_matrix<128x192xf32, "COp", workgroup> -> !gpu.mma_matrix<128x32xf32, "COp", workgroup> {
// CHECK:      %all{{\S*}} = gpu.matrix_reduce whole %scaled{{\S*}} : {{.*}} -> !gpu.mma_matrix<32x32xf32, "COp", workgroup> {
// CHECK:      %first{{\S*}} = gpu.matrix_element %all{{\S*}} : !gpu.mma_matrix<32x32xf32, "COp", workgroup> -> f32
// CHECK-NEXT: %weights{{\S*}} = gpu.matrix_convert %sums{{\S*}} : {{.*}} -> !gpu.mma_matrix<128x192xf16, "AOp", workgroup>
// CHECK:      gpu.tensor_store %row{{\S*}}, %y{{\S*}}[%i{{\S*}}, %i{{\S*}}] {bounded} : !gpu.mma_matrix<128x192xf16, "COp", workgroup>, memref<70x192xf16>
