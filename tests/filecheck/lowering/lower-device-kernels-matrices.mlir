// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// A product of f16 by matrices that subgroups multiply. Both operands lie in shared memory in accesses of 16
// bytes, the right one turned: its rows in memory are columns.
// CHECK-LABEL: func.func private @matrices_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<32x9xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<32x9xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %finished = memref.alloca() : memref<4x16x16xf32, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_constant_matrix
// CHECK: vector.load %x
// CHECK: scf.for %k =
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %left
// CHECK: "gpu.barrier"
// CHECK: vector.load %x
// CHECK: gpu.subgroup_mma_load_matrix %left[%{{.*}}, %{{.*}}] {leadDimension = 9 : index}
// CHECK: gpu.subgroup_mma_load_matrix %right[%{{.*}}, %{{.*}}] {leadDimension = 9 : index, transpose}
// CHECK: gpu.subgroup_mma_compute
// CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %finished
// CHECK: memref.load %finished
// CHECK: scf.if
// CHECK: memref.store %{{.*}}, %y
// SPIRV: spirv.module @matrices_0 {{.*}}CooperativeMatrixKHR{{.*}}SPV_KHR_cooperative_matrix
// SPIRV: !spirv.ptr<!spirv.array<288 x vector<4xi32>>, Workgroup>
// SPIRV: spirv.CompositeConstruct %{{.*}} : (f32) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// SPIRV: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor> : !spirv.ptr<vector<4xi32>, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// SPIRV: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor> : {{.*}} MatrixB>
// SPIRV: spirv.KHR.CooperativeMatrixMulAdd
// SPIRV: spirv.KHR.CooperativeMatrixStore %{{.*}}, <RowMajor> : !spirv.ptr<f32, Workgroup>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<70x512xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x96xf16>
    func.call @matrices_0(%a, %w, %y) : (memref<70x512xf16>, memref<96x512xf16>, memref<70x96xf16>) -> ()
    func.return
  }
  func.func private @matrices_0(%x: memref<70x512xf16>, %w: memref<96x512xf16>, %y: memref<70x96xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x512xf16>, memref<96x512xf16>, memref<70x96xf16>) -> ()
    func.return
  }
}
// -----
// Not with strict mathematics, which have an order for each sum.
// CHECK-LABEL: func.func private @strict_0
// CHECK-NOT: gpu.subgroup_mma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices, openinfer.strict_math} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<70x512xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x96xf16>
    func.call @strict_0(%a, %w, %y) : (memref<70x512xf16>, memref<96x512xf16>, memref<70x96xf16>) -> ()
    func.return
  }
  func.func private @strict_0(%x: memref<70x512xf16>, %w: memref<96x512xf16>, %y: memref<70x96xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x512xf16>, memref<96x512xf16>, memref<70x96xf16>) -> ()
    func.return
  }
}
// -----
// Not for f32: matrices of f16 would round it.
// CHECK-LABEL: func.func private @single_0
// CHECK-NOT: gpu.subgroup_mma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<70x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x96xf32>
    func.call @single_0(%a, %w, %y) : (memref<70x512xf32>, memref<96x512xf32>, memref<70x96xf32>) -> ()
    func.return
  }
  func.func private @single_0(%x: memref<70x512xf32>, %w: memref<96x512xf32>, %y: memref<70x96xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x512xf32>, memref<96x512xf32>, memref<70x96xf32>) -> ()
    func.return
  }
}
