// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A panel of 16 columns for a workgroup: 64 steps are two blocks, 16 invocations for each. Eight neighbours are joined
// in their subgroup, and what four of each column have, through shared memory.
// CHECK-LABEL: func.func private @matmul_0
// CHECK-SAME: array<i32: 32, 1, 1>
// CHECK: %parts = memref.alloca() : memref<16x1xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for %block
// CHECK: vector.load %w[{{.*}}] : memref<1x2x544xi8>, vector<8xi8>
// CHECK: arith.bitcast %{{.*}} : i16 to f16
// CHECK-COUNT-2: vector.load %w[{{.*}}] : memref<1x2x544xi8>, vector<16xi8>
// CHECK: arith.sitofp %{{.*}} : i8 to f32
// CHECK: vector.load %x[{{.*}}] : memref<1x64xf32>, vector<4xf32>
// CHECK-COUNT-3: gpu.shuffle
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x64xf32>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<1x2x544xi8>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x12xf32>
    func.call @matmul_0(%a, %g, %y) : (memref<1x64xf32>, memref<1x2x544xi8>, memref<1x12xf32>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<1x64xf32>, %w: memref<1x2x544xi8>, %y: memref<1x12xf32>) {
    nn.matmul(%x, %w) outs(%y) {layout = #nn.blocks<q8_0, 16>} : (memref<1x64xf32>, memref<1x2x544xi8>, memref<1x12xf32>) -> ()
    func.return
  }
}
// -----
// The same weight in f16, for products of many rows: a word of q4_0 has codes of two places, four bits each.
// CHECK-LABEL: func.func private @unpack_blocks_0
// CHECK: vector.load %w[{{.*}}] : memref<1x2x288xi8>, vector<8xi8>
// CHECK: vector.load %w[{{.*}}] : memref<1x2x288xi8>, vector<16xi8>
// CHECK-NOT: vector.load
// CHECK: arith.andi
// CHECK: arith.shrui
// CHECK: vector.store %{{.*}}, %y[{{.*}}] : memref<16x64xf16>, vector<4xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %g = memref.alloc() {openinfer.memory = "device"} : memref<1x2x288xi8>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<16x64xf16>
    func.call @unpack_blocks_0(%g, %y) : (memref<1x2x288xi8>, memref<16x64xf16>) -> ()
    func.return
  }
  func.func private @unpack_blocks_0(%w: memref<1x2x288xi8>, %y: memref<16x64xf16>) {
    nn.unpack_blocks(%w) outs(%y) {layout = #nn.blocks<q4_0, 16>} : (memref<1x2x288xi8>, memref<16x64xf16>) -> ()
    func.return
  }
}
