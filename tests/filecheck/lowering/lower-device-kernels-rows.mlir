// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels,expand-math,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// A weight in matrices of 16 x 16, which are read where they lie, 16 bytes at a time, before the rows: four
// subgroups have the same columns, and six matrices each. Rows lie in shared memory, for all steps of the sum.
// CHECK-LABEL: func.func private @short_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %rows = memref.alloca() : memref<16x49xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %finished = memref.alloca() : memref<8x16x9xvector<2xf32>, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_constant_matrix
// CHECK-NOT: scf.for
// SPIRV-LABEL: spirv.module @short_0
// SPIRV-COUNT-6: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor> : !spirv.ptr<vector<4xi32>, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// SPIRV: spirv.Load "StorageBuffer" %{{.*}} : vector<4xi32>
// SPIRV: spirv.Store "Workgroup"
// SPIRV: spirv.ControlBarrier <Workgroup>
// SPIRV: spirv.KHR.CooperativeMatrixLoad %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<vector<4xi32>, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// SPIRV: spirv.KHR.CooperativeMatrixMulAdd
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<24x24x256xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    func.call @short_0(%a, %w, %y) : (memref<128x384xf16>, memref<24x24x256xf16>, memref<128x384xf16>) -> ()
    func.return
  }
  func.func private @short_0(%x: memref<128x384xf16>, %w: memref<24x24x256xf16>, %y: memref<128x384xf16>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.tiles<16>} : (memref<128x384xf16>, memref<24x24x256xf16>, memref<128x384xf16>) -> ()
    func.return
  }
}
// -----
// A long sum: rows come in four turns, all of which are on their way before the first.
// CHECK-LABEL: func.func private @long_0
// CHECK-DAG: %rows = memref.alloca() : memref<32x49xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-COUNT-12: gpu.subgroup_mma_load_matrix %w{{.*}} {openinfer.together = 8 : i64, leadDimension = 16 : index, transpose}
// CHECK-COUNT-24: vector.load %x
// CHECK-COUNT-6: memref.store %{{.*}}, %rows
// CHECK-NEXT: "gpu.barrier"
// CHECK-COUNT-6: gpu.subgroup_mma_compute
// CHECK-NEXT: "gpu.barrier"
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<128x1536xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<24x96x256xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    func.call @long_0(%a, %w, %y) : (memref<128x1536xf16>, memref<24x96x256xf16>, memref<128x384xf16>) -> ()
    func.return
  }
  func.func private @long_0(%x: memref<128x1536xf16>, %w: memref<24x96x256xf16>, %y: memref<128x384xf16>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.tiles<16>} : (memref<128x1536xf16>, memref<24x96x256xf16>, memref<128x384xf16>) -> ()
    func.return
  }
}
// -----
// The norm of the rows on their way: 16 invocations have a row. Beside the 24 workgroups of a tile of rows there
// is one that writes them.
// CHECK-LABEL: func.func @step
// CHECK: arith.constant 100 : index
// CHECK-LABEL: func.func private @normed_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: scf.if
// CHECK: vector.load %x
// CHECK-COUNT-8: gpu.shuffle xor
// CHECK: math.sqrt
// CHECK: memref.store %{{.*}}, %rows
// CHECK: gpu.subgroup_mma_compute
// CHECK: } else {
// CHECK-NOT: gpu.subgroup_mma
// CHECK: math.sqrt
// CHECK: vector.store %{{.*}}, %n{{.*}} vector<8xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x24x256xf16>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<384xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<128x1536xf16>
    %r = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    func.call @normed_0(%a, %w, %g, %y, %r) : (memref<128x384xf16>, memref<96x24x256xf16>, memref<384xf16>, memref<128x1536xf16>, memref<128x384xf16>) -> ()
    func.return
  }
  func.func private @normed_0(%x: memref<128x384xf16>, %w: memref<96x24x256xf16>, %g: memref<384xf16>, %y: memref<128x1536xf16>, %n: memref<128x384xf16>) {
    nn.row_matmul(%x, %w, %g) outs(%y, %n) {centred, gives_rows, has_weight, eps = 1.0e-12 : f64, layout = #nn.tiles<16>} : (memref<128x384xf16>, memref<96x24x256xf16>, memref<384xf16>, memref<128x1536xf16>, memref<128x384xf16>) -> ()
    func.return
  }
}
// -----
// Rows in squares: matrices of both operands are read where they lie, and nothing goes to shared memory but sums.
// The result lies so, too: 16 bytes at a time, which are a part of a row of a square.
// CHECK-LABEL: func.func private @squares_0
// CHECK-NOT: memref<{{.*}}vector<8xf16>
// CHECK: gpu.subgroup_mma_load_matrix %x{{.*}} {openinfer.together = 8 : i64, leadDimension = 16 : index} : memref<8x96x256xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
// CHECK: gpu.subgroup_mma_compute
// CHECK: vector.store %{{.*}}, %y[%{{.*}}, %{{.*}}, %{{.*}}] : memref<8x24x256xf16>, vector<2xf16>
// SPIRV-LABEL: spirv.module @squares_0
// SPIRV: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor> : !spirv.ptr<vector<4xi32>, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<8x96x256xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<24x96x256xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<8x24x256xf16>
    func.call @squares_0(%a, %w, %y) : (memref<8x96x256xf16>, memref<24x96x256xf16>, memref<8x24x256xf16>) -> ()
    func.return
  }
  func.func private @squares_0(%x: memref<8x96x256xf16>, %w: memref<24x96x256xf16>, %y: memref<8x24x256xf16>) {
    nn.row_matmul(%x, %w) outs(%y) {layout = #nn.tiles<16>, tiled_left, tiled_result} : (memref<8x96x256xf16>, memref<24x96x256xf16>, memref<8x24x256xf16>) -> ()
    func.return
  }
}
