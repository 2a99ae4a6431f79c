// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A large product of f32: 16 x 8 sums of an invocation, 8 steps at a time. Where steps are neighbours in memory, an
// invocation reads two of each of four rows, and writes four rows of each of two steps.
// CHECK-LABEL: func.func private @floats_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<8x33xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<8x33xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK: scf.for
// CHECK-COUNT-4: memref.store {{.*}} : memref<8x33xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK: gpu.barrier
// CHECK: scf.for
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<2048x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<512x2048xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2048x2048xf32>
    func.call @floats_0(%a, %w, %y) : (memref<2048x512xf32>, memref<512x2048xf32>, memref<2048x2048xf32>) -> ()
    func.return
  }
  func.func private @floats_0(%x: memref<2048x512xf32>, %w: memref<512x2048xf32>, %y: memref<2048x2048xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<2048x512xf32>, memref<512x2048xf32>, memref<2048x2048xf32>) -> ()
    func.return
  }
}
// -----
// Integers keep 8 x 8 sums.
// CHECK-LABEL: func.func private @integers_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: %left = memref.alloca() : memref<128x3xvector<4xi32>, #gpu.address_space<workgroup>>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<2048x512xi32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<512x2048xi32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2048x2048xi32>
    func.call @integers_0(%a, %w, %y) : (memref<2048x512xi32>, memref<512x2048xi32>, memref<2048x2048xi32>) -> ()
    func.return
  }
  func.func private @integers_0(%x: memref<2048x512xi32>, %w: memref<512x2048xi32>, %y: memref<2048x2048xi32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<2048x512xi32>, memref<512x2048xi32>, memref<2048x2048xi32>) -> ()
    func.return
  }
}
// -----
// A tile that was measured on the device is taken: 64 x 32 results of a workgroup, 8 x 4 of an invocation.
// CHECK-LABEL: func.func private @measured_0
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<16x17xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<16x9xvector<4xf32>, #gpu.address_space<workgroup>>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.device_tiles = {"256x512x96 f32 transposed" = array<i64: 64, 32, 16, 8, 4>}} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<256x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<256x96xf32>
    func.call @measured_0(%a, %w, %y) : (memref<256x512xf32>, memref<96x512xf32>, memref<256x96xf32>) -> ()
    func.return
  }
  func.func private @measured_0(%x: memref<256x512xf32>, %w: memref<96x512xf32>, %y: memref<256x96xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<256x512xf32>, memref<96x512xf32>, memref<256x96xf32>) -> ()
    func.return
  }
}
// -----
// Not for other rows, nor for a right operand that lies the other way: the default of the device's limits.
// CHECK-LABEL: func.func private @other_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: %left = memref.alloca() : memref<32x9xvector<4xf32>, #gpu.address_space<workgroup>>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.device_tiles = {"255x512x96 f32" = array<i64: 64, 32, 16, 8, 4>, "256x512x96 f32 transposed" = array<i64: 64, 32, 16, 8, 4>}} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<256x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<512x96xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<256x96xf32>
    func.call @other_0(%a, %w, %y) : (memref<256x512xf32>, memref<512x96xf32>, memref<256x96xf32>) -> ()
    func.return
  }
  func.func private @other_0(%x: memref<256x512xf32>, %w: memref<512x96xf32>, %y: memref<256x96xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<256x512xf32>, memref<512x96xf32>, memref<256x96xf32>) -> ()
    func.return
  }
}
// -----
// Batches that share the right operand are rows: 4 x 64 of them, which a tile of 64 rows divides.
// CHECK-LABEL: func.func private @batches_0
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK: %left = memref.alloca() : memref<16x17xvector<4xf32>, #gpu.address_space<workgroup>>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.device_tiles = {"256x512x96 f32 transposed" = array<i64: 64, 32, 16, 8, 4>}} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<4x64x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<4x64x96xf32>
    func.call @batches_0(%a, %w, %y) : (memref<4x64x512xf32>, memref<96x512xf32>, memref<4x64x96xf32>) -> ()
    func.return
  }
  func.func private @batches_0(%x: memref<4x64x512xf32>, %w: memref<96x512xf32>, %y: memref<4x64x96xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<4x64x512xf32>, memref<96x512xf32>, memref<4x64x96xf32>) -> ()
    func.return
  }
}
// -----
// A tile that is larger than a batch is not taken.
// CHECK-LABEL: func.func private @short_0
// CHECK-SAME: array<i32: 256, 1, 1>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.device_tiles = {"256x512x96 f32 transposed" = array<i64: 64, 32, 16, 8, 4>}} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<8x32x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<8x32x96xf32>
    func.call @short_0(%a, %w, %y) : (memref<8x32x512xf32>, memref<96x512xf32>, memref<8x32x96xf32>) -> ()
    func.return
  }
  func.func private @short_0(%x: memref<8x32x512xf32>, %w: memref<96x512xf32>, %y: memref<8x32x96xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<8x32x512xf32>, memref<96x512xf32>, memref<8x32x96xf32>) -> ()
    func.return
  }
}
// -----
// Matrices have tiles of their own: 32 x 64 results, whose steps two subgroups share.
// CHECK-LABEL: func.func private @matrices_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<32x25xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<64x25xvector<8xf16>, #gpu.address_space<workgroup>>
// CHECK: gpu.subgroup_mma_compute
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices, openinfer.device_tiles = {"128x384x1536 f16 transposed" = array<i64: 64, 32, 16, 8, 4>, "128x384x1536 f16 transposed matrices" = array<i64: 32, 64, 192, 32, 16, 2>}} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<1536x384xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<128x1536xf16>
    func.call @matrices_0(%a, %w, %y) : (memref<128x384xf16>, memref<1536x384xf16>, memref<128x1536xf16>) -> ()
    func.return
  }
  func.func private @matrices_0(%x: memref<128x384xf16>, %w: memref<1536x384xf16>, %y: memref<128x1536xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<128x384xf16>, memref<1536x384xf16>, memref<128x1536xf16>) -> ()
    func.return
  }
}
// -----
// Where only the step knows the rows, a kernel takes the row of the most that start it: up to 320 rows the
// first, the second beyond 1280.
// CHECK-LABEL: func.func private @some_0_of_320
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK: %left = memref.alloca() : memref<16x17xvector<4xf32>
// CHECK-LABEL: func.func private @some_0_of_1280
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: %left = memref.alloca() : memref<64x5xvector<4xf32>
// CHECK-LABEL: func.func private @some_0(
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK: %left = memref.alloca() : memref<128x3xvector<4xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.device_tiles = {"256x384x1536 f32 transposed" = array<i64: 64, 32, 16, 8, 4>, "4096x384x1536 f32 transposed" = array<i64: 128, 64, 8, 8, 8>}} {
  func.func @step(%n: index) {
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x384xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<1536x384xf32>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x1536xf32>
    func.call @some_0(%a, %w, %y) : (memref<?x384xf32>, memref<1536x384xf32>, memref<?x1536xf32>) -> ()
    func.return
  }
  func.func private @some_0(%x: memref<?x384xf32>, %w: memref<1536x384xf32>, %y: memref<?x1536xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<?x384xf32>, memref<1536x384xf32>, memref<?x1536xf32>) -> ()
    func.return
  }
}
