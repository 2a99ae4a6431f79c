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
// -----
// Rows of which only the step knows how many: up to 16 of them read the blocks, more have them unpacked first.
// CHECK-LABEL: func.func @step
// CHECK: %[[ROWS:.*]] = memref.dim %y, %c0
// CHECK: %[[FOUR:.*]] = arith.cmpi ule, %[[ROWS]], %c4
// CHECK: scf.if %[[FOUR]] {
// CHECK-NOT: @unpack_blocks_0
// CHECK: gpu.launch_func{{.*}} %x, %g, %y) <{kernel = @matmul_0_of_blocks_of_4,
// CHECK: } else {
// CHECK: gpu.launch_func{{.*}} %x, %g, %y) <{kernel = @matmul_0_of_blocks_of_16,
// CHECK: } else {
// CHECK: gpu.launch_func{{.*}} %g, %v) <{kernel = @unpack_blocks_0,
// CHECK: gpu.launch_func{{.*}} %x, %v, %y) <{kernel = @matmul_0
// A row that is not there repeats the last one, and is not stored.
// CHECK-LABEL: func.func private @matmul_0_of_blocks_of_4(
// CHECK: %[[LAST:.*]] = arith.subi %{{.*}}, %c1
// CHECK: arith.min{{.*}} %[[LAST]]
// CHECK: arith.cmpi ule, %{{.*}}, %[[LAST]]
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64} {
  func.func @step(%n: index {openinfer.arg = #nn.slot<size "N">}) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x64xf32>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<1x2x544xi8>
    %v = memref.alloc() {openinfer.memory = "device"} : memref<12x64xf16>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x12xf32>
    func.call @unpack_blocks_0(%g, %v) : (memref<1x2x544xi8>, memref<12x64xf16>) -> ()
    func.call @matmul_0(%x, %v, %y) : (memref<?x64xf32>, memref<12x64xf16>, memref<?x12xf32>) -> ()
    func.return
  }
  func.func private @unpack_blocks_0(%w: memref<1x2x544xi8>, %y: memref<12x64xf16>) {
    nn.unpack_blocks(%w) outs(%y) {layout = #nn.blocks<q8_0, 16>} : (memref<1x2x544xi8>, memref<12x64xf16>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<?x64xf32>, %w: memref<12x64xf16>, %y: memref<?x12xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<?x64xf32>, memref<12x64xf16>, memref<?x12xf32>) -> ()
    func.return
  }
}
// -----
// Values that another product reads, too, are unpacked in any case.
// CHECK-LABEL: func.func @step
// CHECK-NOT: of_blocks
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64} {
  func.func @step(%n: index {openinfer.arg = #nn.slot<size "N">}) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x64xf32>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<1x2x544xi8>
    %v = memref.alloc() {openinfer.memory = "device"} : memref<12x64xf16>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x12xf32>
    %z = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x12xf32>
    func.call @unpack_blocks_0(%g, %v) : (memref<1x2x544xi8>, memref<12x64xf16>) -> ()
    func.call @matmul_0(%x, %v, %y) : (memref<?x64xf32>, memref<12x64xf16>, memref<?x12xf32>) -> ()
    func.call @matmul_0(%x, %v, %z) : (memref<?x64xf32>, memref<12x64xf16>, memref<?x12xf32>) -> ()
    func.return
  }
  func.func private @unpack_blocks_0(%w: memref<1x2x544xi8>, %y: memref<12x64xf16>) {
    nn.unpack_blocks(%w) outs(%y) {layout = #nn.blocks<q8_0, 16>} : (memref<1x2x544xi8>, memref<12x64xf16>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<?x64xf32>, %w: memref<12x64xf16>, %y: memref<?x12xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<?x64xf32>, memref<12x64xf16>, memref<?x12xf32>) -> ()
    func.return
  }
}
