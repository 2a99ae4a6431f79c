// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// Many tiles: the sums of a row of matrices go to shared memory together. What the epilogue reads for the next
// such strip is read before the results of one are stored, in accesses of 16 bytes.
// CHECK-LABEL: func.func private @strips_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK-DAG: %finished = memref.alloca() : memref<4x16x17xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK: scf.for %k =
// CHECK: vector.load %r{{.*}} vector<8xf16>
// CHECK: vector.load %r{{.*}} vector<8xf16>
// CHECK: "gpu.barrier"() {openinfer.of_subgroup}
// CHECK-COUNT-4: gpu.subgroup_mma_store_matrix %{{.*}}, %finished{{.*}} {leadDimension = 17 : index}
// CHECK: "gpu.barrier"() {openinfer.of_subgroup}
// CHECK: memref.load %finished
// CHECK: vector.store %{{.*}}, %y{{.*}} vector<8xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<2048x256xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<1536x256xf16>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<2048x1536xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2048x1536xf16>
    func.call @strips_0(%a, %w, %s, %y) : (memref<2048x256xf16>, memref<1536x256xf16>, memref<2048x1536xf16>, memref<2048x1536xf16>) -> ()
    func.return
  }
  func.func private @strips_0(%x: memref<2048x256xf16>, %w: memref<1536x256xf16>, %r: memref<2048x1536xf16>, %y: memref<2048x1536xf16>) {
    nn.matmul(%x, %w) extras(%r) outs(%y) {transpose_b, maps = [affine_map<(d0, d1) -> (d0, d1)>]} {
    ^bb0(%v: f32, %o: f16):
      %e = arith.extf %o : f16 to f32
      %z = arith.addf %v, %e : f32
      %h = arith.truncf %z : f32 to f16
      nn.yield %h : f16
    } : (memref<2048x256xf16>, memref<1536x256xf16>, memref<2048x1536xf16>, memref<2048x1536xf16>) -> ()
    func.return
  }
}
// -----
// The results of very long sums are finished matrix by matrix, each by itself.
// CHECK-LABEL: func.func private @very_long_0
// CHECK-DAG: %finished = memref.alloca() : memref<8x16x17xf32, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_store_matrix %{{.*}}, %finished{{.*}} {leadDimension = 17 : index}
// CHECK-NOT: vector.store
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<70x2048xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x2048xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x96xf16>
    func.call @very_long_0(%a, %w, %y) : (memref<70x2048xf16>, memref<96x2048xf16>, memref<70x96xf16>) -> ()
    func.return
  }
  func.func private @very_long_0(%x: memref<70x2048xf16>, %w: memref<96x2048xf16>, %y: memref<70x96xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x2048xf16>, memref<96x2048xf16>, memref<70x96xf16>) -> ()
    func.return
  }
}
