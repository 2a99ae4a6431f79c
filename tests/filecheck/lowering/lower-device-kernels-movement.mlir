// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// An invocation copies an element; a start that only the run knows is a word that the host passes.
// CHECK: %[[GIVEN:.*]] = nn.size "N + 1"
// CHECK: "gpu.launch_func"({{.*}}, %a, %b, %[[GIVEN]]) <{kernel = @slice_0
// CHECK-LABEL: func.func private @slice_0
// CHECK-SAME: %y: memref<?x4xf32>, %[[START:.*]]: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>}
// CHECK-NOT: nn.size
// CHECK: scf.if
// CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[START]] : index
// CHECK: %[[STEP:.*]] = arith.constant -3 : index
// CHECK: arith.muli %{{.*}}, %[[STEP]] : index
// CHECK: %[[V:.*]] = memref.load %x[%[[ROW]], %{{.*}}] : memref<9x30xf32>
// CHECK: memref.store %[[V]], %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index) {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<9x30xf32>
    %b = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x4xf32>
    func.call @slice_0(%a, %b) : (memref<9x30xf32>, memref<?x4xf32>) -> ()
    func.return
  }
  func.func private @slice_0(%x: memref<9x30xf32>, %y: memref<?x4xf32>) {
    nn.slice(%x) outs(%y) {starts = [#graph.size<"N + 1">, #graph.size<20>], steps = array<i64: 1, -3>} : (memref<9x30xf32>, memref<?x4xf32>) -> ()
    func.return
  }
}
// -----
// A join: each element asks which operand it lies in, the last one is not asked for.
// CHECK-LABEL: func.func private @concat_0
// CHECK: scf.if
// CHECK: scf.if
// CHECK: memref.load %p
// CHECK: else
// CHECK-NOT: scf.if
// CHECK: memref.load %q
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<9x30xf32>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<9x60xf32>
    func.call @concat_0(%a, %a, %b) : (memref<9x30xf32>, memref<9x30xf32>, memref<9x60xf32>) -> ()
    func.return
  }
  func.func private @concat_0(%p: memref<9x30xf32>, %q: memref<9x30xf32>, %y: memref<9x60xf32>) {
    nn.concat(%p, %q) outs(%y) {axis = -1 : i64} : (memref<9x30xf32>, memref<9x30xf32>, memref<9x60xf32>) -> ()
    func.return
  }
}
// -----
// An index of 64 bits is compared before it is a place, and one outside reads row 0.
// CHECK-LABEL: func.func private @gather_0
// CHECK: %[[RAW:.*]] = memref.load %k
// CHECK: %[[PLACE:.*]] = arith.index_cast %[[RAW]] : i64 to index
// CHECK: %[[OK:.*]] = arith.cmpi ult, %[[RAW]], %{{.*}} : i64
// CHECK: %[[ROW:.*]] = arith.select %[[OK]], %[[PLACE]], %c0
// CHECK: memref.load %x[%[[ROW]], %{{.*}}]
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<9x30xf32>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<5xi64>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<5x30xf32>
    func.call @gather_0(%a, %k, %b) : (memref<9x30xf32>, memref<5xi64>, memref<5x30xf32>) -> ()
    func.return
  }
  func.func private @gather_0(%x: memref<9x30xf32>, %k: memref<5xi64>, %y: memref<5x30xf32>) {
    nn.gather(%x, %k) outs(%y) {axis = 0 : i64} : (memref<9x30xf32>, memref<5xi64>, memref<5x30xf32>) -> ()
    func.return
  }
}
// -----
// A kernel of the host is none of the device.
// CHECK-LABEL: func.func private @slice_0
// CHECK: nn.slice
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() : memref<9xf32>
    func.call @slice_0(%a, %a) {openinfer.place = "host"} : (memref<9xf32>, memref<9xf32>) -> ()
    func.return
  }
  func.func private @slice_0(%x: memref<9xf32>, %y: memref<9xf32>) {
    nn.slice(%x) outs(%y) {starts = [#graph.size<0>], steps = array<i64: 1>} : (memref<9xf32>, memref<9xf32>) -> ()
    func.return
  }
}
