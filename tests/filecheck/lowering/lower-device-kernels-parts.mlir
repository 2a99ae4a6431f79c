// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// The step asks how many keys there are. Many are divided: a kernel for parts of them, two heads of queries
// in a workgroup, of which the last one of some heads joins the parts. Few stay together, in the kernel that
// they had.
// CHECK-LABEL: func.func @step(%device_counts: memref<1024xi32> {openinfer.arg = #nn.slot<device_counts>})
// CHECK: %[[KEYS:.*]] = memref.dim %k
// CHECK: %c2048 = arith.constant 2048
// CHECK: %[[MANY:.*]] = arith.cmpi uge, %[[KEYS]], %c2048
// CHECK: scf.if %[[MANY]] {
// CHECK: "gpu.launch_func"({{.*}}, %parts, %device_counts) {{.*}} @attention_0_in_parts,
// CHECK: } else {
// CHECK: "gpu.launch_func"({{.*}} @attention_0,
// CHECK-LABEL: func.func private @attention_0_in_parts
// CHECK-SAME: array<i32: 512, 1, 1>
// CHECK: %parts_1 = memref.alloca() : memref<2x16x64xf32
// CHECK: %heads = memref.alloca() : memref<2x2x16xf32
// CHECK: "gpu.barrier"
// CHECK-NOT: arith.divf
// CHECK: memref.store %{{.*}}, %parts[
// CHECK-NOT: memref.store %{{.*}}, %o[
// CHECK: "gpu.barrier"() {openinfer.of_device}
// CHECK: scf.if
// CHECK: %before = memref.atomic_rmw addi %{{.*}}, %device_counts[%{{.*}}]
// CHECK: %[[LAST:.*]] = arith.cmpi eq, %before, %{{.*}} : i32
// CHECK: scf.if %[[LAST]] {
// CHECK: memref.store %{{.*}}, %device_counts[
// CHECK: }
// CHECK: memref.store %{{.*}}, %told[
// CHECK: "gpu.barrier"() {openinfer.of_device}
// CHECK: memref.load %told[
// CHECK: scf.if
// CHECK-COUNT-48: memref.load %parts
// CHECK: arith.cmpi ult
// CHECK: arith.divf
// CHECK: memref.store %{{.*}}, %o[
// CHECK-LABEL: func.func private @attention_0(
// CHECK-NOT: memref.store %{{.*}}, %parts[
// CHECK: memref.store %{{.*}}, %o[
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step() {
    %n = nn.size "n"
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x8x1x64xf16>
    %k = memref.alloc(%n) {openinfer.memory = "device"} : memref<1x?x2x64xf16>
    %v = memref.alloc(%n) {openinfer.memory = "device"} : memref<1x?x2x64xf16>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<1x8x1x64xf16>
    %parts = memref.alloc() {openinfer.memory = "device"} : memref<1x8x16x66xf32>
    func.call @attention_0(%q, %k, %v, %o, %parts) : (memref<1x8x1x64xf16>, memref<1x?x2x64xf16>, memref<1x?x2x64xf16>, memref<1x8x1x64xf16>, memref<1x8x16x66xf32>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x8x1x64xf16>, %k: memref<1x?x2x64xf16>, %v: memref<1x?x2x64xf16>, %o: memref<1x8x1x64xf16>, %parts: memref<1x8x16x66xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(parts = %parts) {scale = 0.125 : f64, layouts = ["bhld", "blhd", "blhd", "bhld"]} : (memref<1x8x1x64xf16>, memref<1x?x2x64xf16>, memref<1x?x2x64xf16>, memref<1x8x1x64xf16>, memref<1x8x16x66xf32>) -> ()
    func.return
  }
}
// -----
// 4096 keys of a known number: eight parts of 512, all of them whole. Nobody asks, and no other kernel is left.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.if
// CHECK: "gpu.launch_func"(%c32, %c1{{.*}} @attention_0_in_parts,
// CHECK-LABEL: func.func private @attention_0_in_parts
// CHECK: scf.for
// CHECK-COUNT-8: vector.load %k
// CHECK-COUNT-8: vector.load %v
// CHECK-NOT: scf.for
// CHECK: "gpu.barrier"
// CHECK: memref.atomic_rmw
// CHECK-COUNT-24: memref.load %parts
// CHECK-NOT: memref.load %parts
// CHECK-NOT: func.func private @attention_0(
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x8x1x64xf16>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<1x2x4096x64xf16>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<1x8x1x64xf16>
    %parts = memref.alloc() {openinfer.memory = "device"} : memref<1x8x16x66xf32>
    func.call @attention_0(%q, %k, %k, %o, %parts) : (memref<1x8x1x64xf16>, memref<1x2x4096x64xf16>, memref<1x2x4096x64xf16>, memref<1x8x1x64xf16>, memref<1x8x16x66xf32>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x8x1x64xf16>, %k: memref<1x2x4096x64xf16>, %v: memref<1x2x4096x64xf16>, %o: memref<1x8x1x64xf16>, %parts: memref<1x8x16x66xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(parts = %parts) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x8x1x64xf16>, memref<1x2x4096x64xf16>, memref<1x2x4096x64xf16>, memref<1x8x1x64xf16>, memref<1x8x16x66xf32>) -> ()
    func.return
  }
}
// -----
// So many batches as only the step knows have no counts: a second kernel joins the parts.
// CHECK-LABEL: func.func @step()
// CHECK: "gpu.launch_func"({{.*}} @attention_0_in_parts,
// CHECK: "gpu.launch_func"({{.*}} @attention_0_joined,
// CHECK: "gpu.launch_func"({{.*}} @attention_0,
// CHECK-LABEL: func.func private @attention_0_in_parts
// CHECK-NOT: memref.atomic_rmw
// CHECK-LABEL: func.func private @attention_0_joined
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK: memref.load %parts
// CHECK: memref.store %{{.*}}, %o[
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step() {
    %n = nn.size "n"
    %b = nn.size "b"
    %q = memref.alloc(%b) {openinfer.memory = "device"} : memref<?x8x1x64xf16>
    %k = memref.alloc(%b, %n) {openinfer.memory = "device"} : memref<?x?x2x64xf16>
    %v = memref.alloc(%b, %n) {openinfer.memory = "device"} : memref<?x?x2x64xf16>
    %o = memref.alloc(%b) {openinfer.memory = "device"} : memref<?x8x1x64xf16>
    %parts = memref.alloc(%b) {openinfer.memory = "device"} : memref<?x8x16x66xf32>
    func.call @attention_0(%q, %k, %v, %o, %parts) : (memref<?x8x1x64xf16>, memref<?x?x2x64xf16>, memref<?x?x2x64xf16>, memref<?x8x1x64xf16>, memref<?x8x16x66xf32>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<?x8x1x64xf16>, %k: memref<?x?x2x64xf16>, %v: memref<?x?x2x64xf16>, %o: memref<?x8x1x64xf16>, %parts: memref<?x8x16x66xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(parts = %parts) {scale = 0.125 : f64, layouts = ["bhld", "blhd", "blhd", "bhld"]} : (memref<?x8x1x64xf16>, memref<?x?x2x64xf16>, memref<?x?x2x64xf16>, memref<?x8x1x64xf16>, memref<?x8x16x66xf32>) -> ()
    func.return
  }
}
// -----
// Without subgroups no invocations share a key: the scratch buffer stays unused.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.if
// CHECK: "gpu.launch_func"({{.*}} @attention_0,
// CHECK-NOT: attention_0_
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %n = nn.size "n"
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x8x1x64xf16>
    %k = memref.alloc(%n) {openinfer.memory = "device"} : memref<1x?x2x64xf16>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<1x8x1x64xf16>
    %parts = memref.alloc() {openinfer.memory = "device"} : memref<1x8x16x66xf32>
    func.call @attention_0(%q, %k, %k, %o, %parts) : (memref<1x8x1x64xf16>, memref<1x?x2x64xf16>, memref<1x?x2x64xf16>, memref<1x8x1x64xf16>, memref<1x8x16x66xf32>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x8x1x64xf16>, %k: memref<1x?x2x64xf16>, %v: memref<1x?x2x64xf16>, %o: memref<1x8x1x64xf16>, %parts: memref<1x8x16x66xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(parts = %parts) {scale = 0.125 : f64, layouts = ["bhld", "blhd", "blhd", "bhld"]} : (memref<1x8x1x64xf16>, memref<1x?x2x64xf16>, memref<1x?x2x64xf16>, memref<1x8x1x64xf16>, memref<1x8x16x66xf32>) -> ()
    func.return
  }
}
