// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | openinfer-opt -p expand-math,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// Attention of many queries, 16 for a subgroup: one round of all keys, which lie in shared memory with the values and
// with what the mask adds. Scores and weights stay in registers.
// CHECK-LABEL: func.func private @attention_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %biases = memref.alloca() : memref<128xf32, #gpu.address_space<workgroup>>
// CHECK-DAG: %keys = memref.alloca() : memref<128x5xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %values = memref.alloca() : memref<128x5xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK: %[[Q:.*]] = gpu.subgroup_mma_load_matrix %q[%{{.*}}] {leadDimension = 32 : index} : memref<64x12x128x32xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
// CHECK: memref.store %{{.*}}, %keys
// CHECK: memref.store %{{.*}}, %values
// CHECK: memref.load %m
// CHECK: memref.store %{{.*}}, %biases
// CHECK: gpu.barrier
// CHECK: %[[B:.*]] = gpu.subgroup_mma_load_matrix %biases[%{{.*}}] {leadDimension = 0 : index}
// CHECK: %[[K:.*]] = gpu.subgroup_mma_load_matrix %keys[%{{.*}}] {leadDimension = 5 : index, transpose}
// CHECK: gpu.subgroup_mma_compute %[[Q]], %[[K]], %[[B]]
// CHECK-NOT: gpu.barrier
// CHECK: %[[LARGEST:.*]] = gpu.matrix_map
// CHECK: %[[TOP:.*]] = gpu.matrix_reduce %[[LARGEST]] : !gpu.mma_matrix<16x16xf32, "COp"> -> !gpu.mma_matrix<16x16xf32, "COp">
// CHECK: %[[BASE:.*]] = gpu.matrix_map %[[TOP]]
// CHECK: %[[W:.*]] = gpu.matrix_map %{{.*}}, %[[BASE]]
// CHECK: math.exp2
// CHECK: gpu.matrix_convert %{{.*}} : !gpu.mma_matrix<16x16xf32, "COp"> -> !gpu.mma_matrix<16x16xf16, "AOp">
// CHECK: gpu.subgroup_mma_load_matrix %values
// CHECK-NOT: gpu.barrier
// CHECK: %[[SUM:.*]] = gpu.matrix_reduce
// CHECK: gpu.matrix_map %{{.*}}, %[[SUM]]
// CHECK: arith.divf
// CHECK: gpu.matrix_reduce whole
// CHECK: gpu.matrix_element
// CHECK: scf.if
// CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %o
// CHECK: } else {
// CHECK: gpu.lane_id
// CHECK: scf.for %key
// SPIRV: spirv.module @attention_0 {{.*}}CooperativeMatrixConversionsNV, CooperativeMatrixKHR, CooperativeMatrixPerElementOperationsNV, CooperativeMatrixReductionsNV
// SPIRV: spirv.EXT.CooperativeMatrixReduce <Row> @attention_0_pair_
// SPIRV: spirv.EXT.CooperativeMatrixConvertUse
// SPIRV: spirv.EXT.CooperativeMatrixReduce <Row|Column> @attention_0_pair_
// SPIRV: spirv.CompositeExtract {{.*}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    %m = memref.alloc() {openinfer.memory = "device"} : memref<64x1x1x128xf16>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    func.call @attention_0(%q, %q, %q, %m, %o) : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x1x128xf16>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<64x12x128x32xf16>, %k: memref<64x12x128x32xf16>, %v: memref<64x12x128x32xf16>, %m: memref<64x1x1x128xf16>, %o: memref<64x12x128x32xf16>) {
    nn.attention(%q, %k, %v, %m) outs(%o) {scale = 0.125 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x1x128xf16>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
}
// -----
// Causal queries in rounds of 64 keys. The next ones are on their way while a round is computed; only rounds that a
// query does not see all of ask which.
// CHECK-LABEL: func.func private @causal_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK: scf.for %at = %{{.*}} to %{{.*}} step %{{.*}} iter_args({{.*}}) -> (!gpu.mma_matrix<{{.*}}, vector<8xf16>)
// CHECK: gpu.barrier
// CHECK: memref.store %{{.*}}, %keys
// CHECK: gpu.barrier
// CHECK: vector.load %k
// CHECK: gpu.subgroup_mma_compute
// CHECK: %[[SOME:.*]] = arith.cmpi sgt
// CHECK-NEXT: scf.if %[[SOME]]
// CHECK: gpu.matrix_map
// CHECK: arith.cmpi sle
// CHECK: arith.select
// CHECK: gpu.matrix_reduce
// CHECK: gpu.subgroup_mma_elementwise mulf
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x512x32x64xf16>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<1x512x8x64xf16>
    func.call @causal_0(%q, %k, %k, %q) : (memref<1x512x32x64xf16>, memref<1x512x8x64xf16>, memref<1x512x8x64xf16>, memref<1x512x32x64xf16>) -> ()
    func.return
  }
  func.func private @causal_0(%q: memref<1x512x32x64xf16>, %k: memref<1x512x8x64xf16>, %v: memref<1x512x8x64xf16>, %o: memref<1x512x32x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (memref<1x512x32x64xf16>, memref<1x512x8x64xf16>, memref<1x512x8x64xf16>, memref<1x512x32x64xf16>) -> ()
    func.return
  }
}
// -----
// Few blocks of queries leave most of a device idle, and a window has no form here: both are for subgroups.
// CHECK-LABEL: func.func private @few_0
// CHECK-NOT: gpu.matrix_map
// CHECK: gpu.subgroup_mma_load_matrix
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x12x128x32xf16>
    func.call @few_0(%q, %q, %q, %q) : (memref<1x12x128x32xf16>, memref<1x12x128x32xf16>, memref<1x12x128x32xf16>, memref<1x12x128x32xf16>) -> ()
    func.return
  }
  func.func private @few_0(%q: memref<1x12x128x32xf16>, %k: memref<1x12x128x32xf16>, %v: memref<1x12x128x32xf16>, %o: memref<1x12x128x32xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x12x128x32xf16>, memref<1x12x128x32xf16>, memref<1x12x128x32xf16>, memref<1x12x128x32xf16>) -> ()
    func.return
  }
}
// -----
// CHECK-LABEL: func.func private @window_0
// CHECK-NOT: gpu.matrix_map
// CHECK: gpu.subgroup_mma_load_matrix
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    func.call @window_0(%q, %q, %q, %q) : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
  func.func private @window_0(%q: memref<64x12x128x32xf16>, %k: memref<64x12x128x32xf16>, %v: memref<64x12x128x32xf16>, %o: memref<64x12x128x32xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, window = 9 : i64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
}
// -----
// A mask of bools that differs between queries hides scores: a function of elements reads it. Rows behind the last
// query are 0, and not stored.
// CHECK-LABEL: func.func private @hidden_0
// CHECK: gpu.tensor_load %q[%{{.*}}] {{{.*bounded.*}}}
// CHECK: gpu.matrix_map %{{.*}}, %m, {{.*}} : (!gpu.mma_matrix<16x16xf32, "COp">, memref<64x1x120x128xi8>, index, index, index, index) -> !gpu.mma_matrix<16x16xf32, "COp">
// CHECK: memref.load %{{.*}} : memref<64x1x120x128xi8>
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: gpu.matrix_reduce
// CHECK: gpu.tensor_store %{{.*}}, %o[%{{.*}}] {{{.*bounded.*}}}
// SPIRV: spirv.func @hidden_0_element_0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[FIRST:.*]]: i32) -> f32
// SPIRV: %[[M:.*]] = spirv.mlir.addressof @m_4
// SPIRV: spirv.IAdd %[[FIRST]]
// SPIRV: spirv.AccessChain %[[M]]
// SPIRV: spirv.Load "StorageBuffer" %{{.*}} : i8
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<64x12x120x32xf16>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    %m = memref.alloc() {openinfer.memory = "device"} : memref<64x1x120x128xi8>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<64x12x120x32xf16>
    func.call @hidden_0(%q, %k, %k, %m, %o) : (memref<64x12x120x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x120x128xi8>, memref<64x12x120x32xf16>) -> ()
    func.return
  }
  func.func private @hidden_0(%q: memref<64x12x120x32xf16>, %k: memref<64x12x128x32xf16>, %v: memref<64x12x128x32xf16>, %m: memref<64x1x120x128xi8>, %o: memref<64x12x120x32xf16>) {
    nn.attention(%q, %k, %v, %m) outs(%o) {scale = 0.125 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<64x12x120x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x120x128xi8>, memref<64x12x120x32xf16>) -> ()
    func.return
  }
}
