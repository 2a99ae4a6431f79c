// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | openinfer-opt -p expand-math,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// Attention of many queries by matrices that a workgroup holds: all keys at once, with a mask of each batch.
// CHECK-LABEL: func.func private @attention_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK: %[[Q:.*]] = gpu.tensor_load %q[%{{.*}}] {rows = 2 : i64} : memref<64x12x128x32xf16> -> !gpu.mma_matrix<128x32xf16, "AOp", workgroup>
// CHECK: %[[K:.*]] = gpu.tensor_load %k[%{{.*}}] {{{.*}}transpose{{.*}}} : memref<64x12x128x32xf16> -> !gpu.mma_matrix<32x128xf16, "BOp", workgroup>
// CHECK: %[[S:.*]] = gpu.subgroup_mma_compute %[[Q]], %[[K]]
// CHECK: %[[M:.*]] = gpu.tensor_load %m[%{{.*}}] {repeated} : memref<64x1x1x128xf16>
// CHECK-NEXT: %[[M32:.*]] = gpu.matrix_convert %[[M]]
// CHECK-NEXT: %[[T:.*]] = gpu.matrix_map %[[S]], %[[M32]]
// CHECK: math.fma
// CHECK: %[[TOP:.*]] = gpu.matrix_reduce %[[T]] : !gpu.mma_matrix<128x128xf32, "COp", workgroup> -> !gpu.mma_matrix<128x128xf32, "COp", workgroup>
// CHECK: %[[W:.*]] = gpu.matrix_map %[[T]], %[[TOP]]
// CHECK: math.exp2
// CHECK: %[[SUM:.*]] = gpu.matrix_reduce %[[W]] : !gpu.mma_matrix<128x128xf32, "COp", workgroup> -> !gpu.mma_matrix<128x32xf32, "COp", workgroup>
// CHECK: gpu.tensor_load %v
// CHECK-NEXT: %[[P:.*]] = gpu.matrix_convert %[[W]] : !gpu.mma_matrix<128x128xf32, "COp", workgroup> -> !gpu.mma_matrix<128x128xf16, "AOp", workgroup>
// CHECK: %[[O:.*]] = gpu.subgroup_mma_compute %[[P]]
// CHECK: gpu.matrix_map %[[O]], %[[SUM]]
// CHECK: arith.divf
// CHECK: gpu.matrix_reduce whole
// CHECK: %[[BAD:.*]] = gpu.matrix_element
// CHECK: scf.if
// CHECK: gpu.tensor_store %{{.*}}, %o
// CHECK: } else {
// CHECK: gpu.thread_id
// CHECK: scf.for %key
// SPIRV: spirv.module @attention_0 {{.*}}CooperativeMatrixConversionsNV, CooperativeMatrixKHR, CooperativeMatrixPerElementOperationsNV, CooperativeMatrixReductionsNV
// SPIRV: spirv.EXT.CooperativeMatrixReduce <Row> @attention_0_pair_
// SPIRV: spirv.EXT.CooperativeMatrixConvertUse
// SPIRV: spirv.EXT.CooperativeMatrixReduce <Row|Column> @attention_0_pair_
// SPIRV: spirv.CompositeExtract {{.*}} : !spirv.coopmatrix<32x32xf32, Workgroup, MatrixAcc>
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
// More keys than one matrix has are for subgroups.
// CHECK-LABEL: func.func private @causal_0
// CHECK-NOT: gpu.tensor_load
// CHECK: gpu.subgroup_mma_load_matrix
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
// CHECK-NOT: gpu.tensor_load
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
// CHECK-NOT: gpu.tensor_load
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
// A mask of bools that differs between queries hides scores: a function of elements reads it.
// CHECK-LABEL: func.func private @hidden_0
// CHECK: %[[S:.*]] = gpu.subgroup_mma_compute
// CHECK: %[[T:.*]] = gpu.matrix_map %[[S]], %m, {{.*}} : (!gpu.mma_matrix<128x128xf32, "COp", workgroup>, memref<64x1x128x128xi8>, index, index, index) -> !gpu.mma_matrix<128x128xf32, "COp", workgroup>
// CHECK: memref.load %{{.*}} : memref<64x1x128x128xi8>
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: gpu.matrix_reduce %[[T]]
// SPIRV: spirv.func @hidden_0_element_0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[FIRST:.*]]: i32) -> f32
// SPIRV: %[[M:.*]] = spirv.mlir.addressof @m_4
// SPIRV: spirv.IAdd %[[FIRST]]
// SPIRV: spirv.AccessChain %[[M]]
// SPIRV: spirv.Load "StorageBuffer" %{{.*}} : i8
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    %m = memref.alloc() {openinfer.memory = "device"} : memref<64x1x128x128xi8>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    func.call @hidden_0(%q, %q, %q, %m, %o) : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x128x128xi8>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
  func.func private @hidden_0(%q: memref<64x12x128x32xf16>, %k: memref<64x12x128x32xf16>, %v: memref<64x12x128x32xf16>, %m: memref<64x1x128x128xi8>, %o: memref<64x12x128x32xf16>) {
    nn.attention(%q, %k, %v, %m) outs(%o) {scale = 0.125 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x128x128xi8>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
}
// -----
// One that is the same for all queries goes to shared memory, as what is added.
// CHECK-LABEL: func.func private @keys_0
// CHECK: %[[B:.*]] = memref.alloca() : memref<128xf32, #gpu.address_space<workgroup>>
// CHECK: %[[S:.*]] = gpu.subgroup_mma_compute
// CHECK: memref.load %m
// CHECK: memref.store %{{.*}}, %[[B]]
// CHECK: gpu.barrier
// CHECK: gpu.matrix_map %[[S]], %[[B]] :
// CHECK: memref.load %{{.*}} : memref<128xf32, #gpu.address_space<workgroup>>
// SPIRV: spirv.func @keys_0_element_0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32) -> f32
// SPIRV: %[[M:.*]] = spirv.mlir.addressof @biases_shared_0
// SPIRV: spirv.AccessChain %[[M]]
// SPIRV: spirv.Load "Workgroup" %{{.*}} : f32
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    %m = memref.alloc() {openinfer.memory = "device"} : memref<64x1x1x128xi8>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<64x12x128x32xf16>
    func.call @keys_0(%q, %q, %q, %m, %o) : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x1x128xi8>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
  func.func private @keys_0(%q: memref<64x12x128x32xf16>, %k: memref<64x12x128x32xf16>, %v: memref<64x12x128x32xf16>, %m: memref<64x1x1x128xi8>, %o: memref<64x12x128x32xf16>) {
    nn.attention(%q, %k, %v, %m) outs(%o) {scale = 0.125 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x12x128x32xf16>, memref<64x1x1x128xi8>, memref<64x12x128x32xf16>) -> ()
    func.return
  }
}
