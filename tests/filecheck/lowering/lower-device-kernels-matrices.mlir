// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels,expand-math,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// A product of f16 by matrices that subgroups multiply. Four subgroups share the few tiles, and add up their sums. Both operands lie in shared memory in accesses of 16
// bytes, the right one turned: its rows in memory are columns.
// CHECK-LABEL: func.func private @matrices_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<16x17xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<32x17xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %finished = memref.alloca() : memref<8x16x9xvector<2xf32>, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_constant_matrix
// CHECK: vector.load %x
// CHECK: scf.for %k =
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %left
// CHECK: "gpu.barrier"
// CHECK: vector.load %x
// CHECK: gpu.subgroup_mma_load_matrix %left[%{{.*}}, %{{.*}}] {leadDimension = 17 : index}
// CHECK: gpu.subgroup_mma_load_matrix %right[%{{.*}}, %{{.*}}] {leadDimension = 17 : index, transpose}
// CHECK: gpu.subgroup_mma_compute
// CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %finished{{.*}} {leadDimension = 9 : index}
// CHECK-COUNT-4: memref.load %finished
// CHECK-NOT: memref.load %finished
// CHECK: scf.if
// CHECK: vector.store %{{.*}}, %y{{.*}} vector<2xf16>
// SPIRV: spirv.module @matrices_0 Logical Vulkan {{.*}}CooperativeMatrixKHR{{.*}}VulkanMemoryModel{{.*}}SPV_KHR_cooperative_matrix{{.*}}SPV_KHR_vulkan_memory_model
// SPIRV: !spirv.ptr<!spirv.array<544 x vector<4xi32>>, Workgroup>
// SPIRV: spirv.CompositeConstruct %{{.*}} : (f32) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// SPIRV: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// SPIRV: spirv.Store "Workgroup" %{{.*}}, %{{.*}} ["NonPrivatePointer"] : vector<4xi32>
// SPIRV: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<vector<4xi32>, Workgroup>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// SPIRV: spirv.KHR.CooperativeMatrixLoad %{{.*}}, %{{.*}}, <ColumnMajor>, <NonPrivatePointer> : {{.*}} MatrixB>
// SPIRV: spirv.KHR.CooperativeMatrixMulAdd
// SPIRV: spirv.KHR.CooperativeMatrixStore %{{.*}}, <RowMajor>, <NonPrivatePointer> : !spirv.ptr<vector<2xi32>, Workgroup>
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
// A product of few steps is not shared.
// CHECK-LABEL: func.func private @shallow_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<32x9xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %finished = memref.alloca() : memref<4x16x5xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %finished
// CHECK: "gpu.barrier"() {openinfer.of_subgroup}
// CHECK-COUNT-2: memref.load %finished
// CHECK: vector.store %{{.*}}, %y{{.*}} vector<8xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<70x192xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x192xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x96xf16>
    func.call @shallow_0(%a, %w, %y) : (memref<70x192xf16>, memref<96x192xf16>, memref<70x96xf16>) -> ()
    func.return
  }
  func.func private @shallow_0(%x: memref<70x192xf16>, %w: memref<96x192xf16>, %y: memref<70x96xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x192xf16>, memref<96x192xf16>, memref<70x96xf16>) -> ()
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
// -----
// Attention of many queries: each of four subgroups has 16 of them. Queries come through the memory of keys;
// scores, and the weights made of them, are exchanged within a subgroup.
// CHECK-LABEL: func.func private @many_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK-DAG: %keys = memref.alloca() : memref<64x9xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %scores = memref.alloca() : memref<64x17xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG: %shares = memref.alloca() : memref<64x9xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK: vector.load %q
// CHECK: memref.store %{{.*}}, %keys
// CHECK-COUNT-4: gpu.subgroup_mma_load_matrix %keys{{.*}} {leadDimension = 9 : index} : {{.*}}"AOp">
// CHECK: scf.for %at =
// CHECK: "gpu.barrier"() : () -> ()
// CHECK: memref.store %{{.*}}, %keys
// CHECK: memref.store %{{.*}}, %values
// CHECK: "gpu.barrier"() : () -> ()
// CHECK: gpu.subgroup_mma_load_matrix %keys{{.*}} {leadDimension = 9 : index, transpose} : {{.*}}"BOp">
// CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %scores
// CHECK: "gpu.barrier"() {openinfer.of_subgroup}
// CHECK: math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK: memref.store %{{.*}}, %shares
// CHECK: gpu.subgroup_mma_elementwise mulf
// CHECK: gpu.subgroup_mma_load_matrix %values{{.*}} {leadDimension = 9 : index} : {{.*}}"BOp">
// CHECK: gpu.subgroup_mma_compute
// What is not finite is computed once more, key by key.
// CHECK: scf.if
// CHECK: scf.for %key =
// CHECK: vector.store %{{.*}}, %o
// SPIRV: spirv.module @many_0 {{.*}}CooperativeMatrixKHR
// SPIRV: spirv.ControlBarrier <Subgroup>, <Subgroup>, <AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>
// SPIRV: spirv.GL.Exp2
// SPIRV: spirv.FMul %{{.*}}, %{{.*}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// Few queries: eight subgroups have the same 16, and other keys.
// CHECK-LABEL: func.func private @few_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %keys = memref.alloca() : memref<128x5xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %heads = memref.alloca() : memref<2x128xf32, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_compute
// CHECK: memref.store %{{.*}}, %heads
// CHECK-COUNT-8: memref.load %heads
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %q0 = memref.alloc() {openinfer.memory = "device"} : memref<1x32x512x64xf16>
    %k0 = memref.alloc() {openinfer.memory = "device"} : memref<1x8x512x64xf16>
    %o0 = memref.alloc() {openinfer.memory = "device"} : memref<1x32x512x64xf16>
    func.call @many_0(%q0, %k0, %k0, %o0) : (memref<1x32x512x64xf16>, memref<1x8x512x64xf16>, memref<1x8x512x64xf16>, memref<1x32x512x64xf16>) -> ()
    %q1 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x32xf16>
    %k1 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x300x32xf16>
    %o1 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x32xf16>
    func.call @few_0(%q1, %k1, %k1, %o1) : (memref<1x2x40x32xf16>, memref<1x2x300x32xf16>, memref<1x2x300x32xf16>, memref<1x2x40x32xf16>) -> ()
    func.return
  }
  func.func private @many_0(%q: memref<1x32x512x64xf16>, %k: memref<1x8x512x64xf16>, %v: memref<1x8x512x64xf16>, %o: memref<1x32x512x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x32x512x64xf16>, memref<1x8x512x64xf16>, memref<1x8x512x64xf16>, memref<1x32x512x64xf16>) -> ()
    func.return
  }
  func.func private @few_0(%q: memref<1x2x40x32xf16>, %k: memref<1x2x300x32xf16>, %v: memref<1x2x300x32xf16>, %o: memref<1x2x40x32xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x40x32xf16>, memref<1x2x300x32xf16>, memref<1x2x300x32xf16>, memref<1x2x40x32xf16>) -> ()
    func.return
  }
}
// -----
// Not for a head of 40 columns, which are no matrices of 16, nor for f32.
// CHECK-LABEL: func.func private @odd_0
// CHECK-NOT: gpu.subgroup_mma
// CHECK-LABEL: func.func private @single_attention_0
// CHECK-NOT: gpu.subgroup_mma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %q0 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x40xf16>
    %k0 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x300x40xf16>
    %o0 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x40xf16>
    func.call @odd_0(%q0, %k0, %k0, %o0) : (memref<1x2x40x40xf16>, memref<1x2x300x40xf16>, memref<1x2x300x40xf16>, memref<1x2x40x40xf16>) -> ()
    %q1 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x64xf32>
    %k1 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x300x64xf32>
    %o1 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x64xf32>
    func.call @single_attention_0(%q1, %k1, %k1, %o1) : (memref<1x2x40x64xf32>, memref<1x2x300x64xf32>, memref<1x2x300x64xf32>, memref<1x2x40x64xf32>) -> ()
    func.return
  }
  func.func private @odd_0(%q: memref<1x2x40x40xf16>, %k: memref<1x2x300x40xf16>, %v: memref<1x2x300x40xf16>, %o: memref<1x2x40x40xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x40x40xf16>, memref<1x2x300x40xf16>, memref<1x2x300x40xf16>, memref<1x2x40x40xf16>) -> ()
    func.return
  }
  func.func private @single_attention_0(%q: memref<1x2x40x64xf32>, %k: memref<1x2x300x64xf32>, %v: memref<1x2x300x64xf32>, %o: memref<1x2x40x64xf32>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x40x64xf32>, memref<1x2x300x64xf32>, memref<1x2x300x64xf32>, memref<1x2x40x64xf32>) -> ()
    func.return
  }
}
// -----
// Nor where the result begins at no multiple of 16 bytes.
// CHECK-LABEL: func.func private @unaligned_0
// CHECK-NOT: gpu.subgroup_mma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x64xf16>
    %arena = memref.alloc() {openinfer.memory = "device"} : memref<20480xi8>
    %c8 = arith.constant 8 : index
    %o = memref.view %arena[%c8][] : memref<20480xi8> to memref<1x2x40x64xf16>
    func.call @unaligned_0(%q, %q, %q, %o) : (memref<1x2x40x64xf16>, memref<1x2x40x64xf16>, memref<1x2x40x64xf16>, memref<1x2x40x64xf16>) -> ()
    func.return
  }
  func.func private @unaligned_0(%q: memref<1x2x40x64xf16>, %k: memref<1x2x40x64xf16>, %v: memref<1x2x40x64xf16>, %o: memref<1x2x40x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x40x64xf16>, memref<1x2x40x64xf16>, memref<1x2x40x64xf16>, memref<1x2x40x64xf16>) -> ()
    func.return
  }
}
// -----
// Where tiles of 128 x 128 leave a part of a large device idle, tiles of 128 x 64 do not: eight subgroups have 32 x 32
// each, and 64 steps lie between two barriers.
// CHECK-LABEL: func.func private @broad_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<128x9xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<64x9xvector<8xf16>, #gpu.address_space<workgroup>>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<1024x1024xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1024x1024xf16>
    func.call @broad_0(%x, %x, %y) : (memref<1024x1024xf16>, memref<1024x1024xf16>, memref<1024x1024xf16>) -> ()
    func.return
  }
  func.func private @broad_0(%x: memref<1024x1024xf16>, %w: memref<1024x1024xf16>, %y: memref<1024x1024xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<1024x1024xf16>, memref<1024x1024xf16>, memref<1024x1024xf16>) -> ()
    func.return
  }
}
