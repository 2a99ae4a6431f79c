// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// Where only the step knows the rows of a product, it has a kernel for one row, and others for tiles of
// several sizes; the host looks at the rows.
// CHECK: func.func @step
// CHECK: %[[ROWS:.*]] = memref.dim %y
// CHECK: %[[ONE:.*]] = arith.cmpi eq, %[[ROWS]]
// CHECK: scf.if %[[ONE]] {
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_1
// CHECK: } else {
// CHECK: arith.cmpi ule, %[[ROWS]]
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_960
// CHECK: } else {
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_3968
// CHECK: } else {
// CHECK: gpu.launch_func{{.*}}@matmul_0,
// CHECK: func.func private @matmul_0_of_1(%x: {{.*}} attributes {gpu.known_block_size = array<i32: 256, 1, 1>}
// CHECK: func.func private @matmul_0_of_960(%x: {{.*}} attributes {gpu.known_block_size = array<i32: 256, 1, 1>}
// CHECK: memref<32x
// CHECK: func.func private @matmul_0_of_3968(
// CHECK: func.func private @matmul_0(
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index {openinfer.arg = #nn.slot<size "N">}) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x256xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<256x512xf32>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x512xf32>
    func.call @matmul_0(%x, %w, %y) : (memref<?x256xf32>, memref<256x512xf32>, memref<?x512xf32>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<?x256xf32>, %w: memref<256x512xf32>, %y: memref<?x512xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<?x256xf32>, memref<256x512xf32>, memref<?x512xf32>) -> ()
    func.return
  }
}
// -----
// Where steps of the sum lie side by side, up to four and up to eight rows have kernels that read the right operand
// once: a workgroup computes four columns, and rows that are not there repeat the last one. The subgroup has 32
// invocations, which end with a sum each. Without subgroups there are none, as above.
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_1
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_4
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_8
// CHECK: gpu.launch_func{{.*}}@matmul_0_of_960
// CHECK: func.func private @matmul_0_of_8({{.*}} attributes {gpu.known_block_size = array<i32: 64, 1, 1>}
// CHECK: memref.alloca() : memref<32x2xf32, #gpu.address_space<workgroup>>
// CHECK-COUNT-4: vector.load %w[{{.*}}] : memref<512x256xf32>, vector<4xf32>
// CHECK: vector.load %x[{{.*}}] : memref<?x256xf32>, vector<4xf32>
// CHECK: scf.yield
// CHECK-COUNT-31: gpu.shuffle
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.barrier
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step(%n: index {openinfer.arg = #nn.slot<size "N">}) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x256xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<512x256xf32>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x512xf32>
    func.call @matmul_0(%x, %w, %y) : (memref<?x256xf32>, memref<512x256xf32>, memref<?x512xf32>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<?x256xf32>, %w: memref<512x256xf32>, %y: memref<?x512xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<?x256xf32>, memref<512x256xf32>, memref<?x512xf32>) -> ()
    func.return
  }
}
// -----
// Attention has one for a query of each head, and one for several. An invocation reads 16 bytes of a key.
// CHECK: gpu.launch_func{{.*}}@attention_0_of_1
// CHECK: gpu.launch_func{{.*}}@attention_0,
// CHECK: func.func private @attention_0_of_1({{.*}} attributes {gpu.known_block_size = array<i32: 256, 1, 1>}
// CHECK: vector.load %q[{{.*}}] : memref<1x4x?x64xf16>, vector<8xf16>
// CHECK: vector.load %k[{{.*}}] : memref<1x4x?x64xf16>, vector<8xf16>
// CHECK: gpu.shuffle
// CHECK: func.func private @attention_0({{.*}} attributes {gpu.known_block_size = array<i32: 128, 1, 1>}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step(%n: index {openinfer.arg = #nn.slot<size "N">}) {
    %q = memref.alloc(%n) {openinfer.memory = "device"} : memref<1x4x?x64xf16>
    %k = memref.alloc(%n) {openinfer.memory = "device"} : memref<1x4x?x64xf16>
    %o = memref.alloc(%n) {openinfer.memory = "device"} : memref<1x4x?x64xf16>
    func.call @attention_0(%q, %k, %k, %o) : (memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x4x?x64xf16>, %k: memref<1x4x?x64xf16>, %v: memref<1x4x?x64xf16>, %o: memref<1x4x?x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>, memref<1x4x?x64xf16>) -> ()
    func.return
  }
}
// -----
// A small product has one kernel for all steps, and so has one whose rows are known.
// CHECK: func.func @step
// CHECK-NOT: scf.if
// CHECK: func.func private @matmul_0(
// CHECK-NOT: _of_
// CHECK: func.func private @matmul_1(
// CHECK-NOT: _of_
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index {openinfer.arg = #nn.slot<size "N">}) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x64xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<64x512xf32>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x512xf32>
    func.call @matmul_0(%x, %w, %y) : (memref<?x64xf32>, memref<64x512xf32>, memref<?x512xf32>) -> ()
    %a = memref.alloc() {openinfer.memory = "device"} : memref<512x512xf32>
    func.call @matmul_1(%a, %a, %a) : (memref<512x512xf32>, memref<512x512xf32>, memref<512x512xf32>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<?x64xf32>, %w: memref<64x512xf32>, %y: memref<?x512xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<?x64xf32>, memref<64x512xf32>, memref<?x512xf32>) -> ()
    func.return
  }
  func.func private @matmul_1(%x: memref<512x512xf32>, %w: memref<512x512xf32>, %y: memref<512x512xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<512x512xf32>, memref<512x512xf32>, memref<512x512xf32>) -> ()
    func.return
  }
}
// -----
// A tile of f64 is more than what every device shares: an invocation has an element.
// CHECK-LABEL: func.func private @double_0
// CHECK-NOT: memref.alloca
// CHECK: math.fma %{{.*}} : f64
// CHECK: memref.store %{{.*}} : memref<128x128xf64>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.f64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<128x64xf64>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<64x128xf64>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<128x128xf64>
    func.call @double_0(%x, %w, %y) : (memref<128x64xf64>, memref<64x128xf64>, memref<128x128xf64>) -> ()
    func.return
  }
  func.func private @double_0(%x: memref<128x64xf64>, %w: memref<64x128xf64>, %y: memref<128x128xf64>) {
    nn.matmul(%x, %w) outs(%y) : (memref<128x64xf64>, memref<64x128xf64>, memref<128x128xf64>) -> ()
    func.return
  }
}
// -----
// Where a device shares more, a workgroup has a tile.
// CHECK-LABEL: func.func private @double_1
// CHECK: memref.alloca() : memref<8x65xvector<2xf64>, #gpu.address_space<workgroup>>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.f64, openinfer.shared_memory = 32768 : i64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2048x64xf64>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<64x2048xf64>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2048x2048xf64>
    func.call @double_1(%x, %w, %y) : (memref<2048x64xf64>, memref<64x2048xf64>, memref<2048x2048xf64>) -> ()
    func.return
  }
  func.func private @double_1(%x: memref<2048x64xf64>, %w: memref<64x2048xf64>, %y: memref<2048x2048xf64>) {
    nn.matmul(%x, %w) outs(%y) : (memref<2048x64xf64>, memref<64x2048xf64>, memref<2048x2048xf64>) -> ()
    func.return
  }
}
