// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// Many short rows: each of the four subgroups of a workgroup has one, and waits for nobody.
// CHECK-LABEL: func.func private @norm_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK: %thread = "gpu.lane_id"()
// CHECK: %[[GROUP:.*]] = "gpu.block_id"
// CHECK: %[[FIRST:.*]] = arith.muli %[[GROUP]], %{{.*}} : index
// CHECK: %[[SUBGROUP:.*]] = "gpu.subgroup_id"
// CHECK: arith.addi %[[FIRST]], %[[SUBGROUP]] : index
// CHECK: gpu.shuffle
// CHECK-NOT: gpu.barrier
// CHECK: func.return
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384xf16>
    func.call @norm_0(%x, %w, %x) : (memref<8192x384xf16>, memref<384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
  func.func private @norm_0(%x: memref<8192x384xf16>, %w: memref<384xf16>, %y: memref<8192x384xf16>) {
    nn.layer_norm(%x, %w) outs(%y) {eps = 1.0e-5 : f64, has_weight} : (memref<8192x384xf16>, memref<384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
}
// -----
// Few rows have a workgroup each.
// CHECK-LABEL: func.func private @few_0
// CHECK-SAME: array<i32: 32, 1, 1>
// CHECK-NOT: "gpu.subgroup_id"
// CHECK: func.return
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    func.call @few_0(%x, %x) : (memref<128x384xf16>, memref<128x384xf16>) -> ()
    func.return
  }
  func.func private @few_0(%x: memref<128x384xf16>, %y: memref<128x384xf16>) {
    nn.rms_norm(%x) outs(%y) {eps = 1.0e-5 : f64} : (memref<128x384xf16>, memref<128x384xf16>) -> ()
    func.return
  }
}
