// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels,expand-math,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// Buffers that begin at a multiple of what every device binds them at, and lie there in every step, are bound
// where they begin: no word says where that is.
// CHECK-LABEL: func.func private @exact_0
// CHECK-SAME: openinfer.exact = array<i64: 0, 1>
// SPIRV-LABEL: spirv.module @exact_0
// SPIRV-NOT: bind(0, 0)
// SPIRV-LABEL: spirv.module @fine_0
// SPIRV: spirv.GlobalVariable @{{.*}} bind(0, 0)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], outputs = [], device_arena = "2048"}
  func.func @step(%w: memref<4096xi8> {openinfer.arg = #nn.slot<device_weight 0>}, %device: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}) {
    %c0 = arith.constant 0 : index
    %c512 = arith.constant 512 : index
    %x = memref.view %w[%c512][] : memref<4096xi8> to memref<16xf32>
    %y = memref.view %device[%c0][] : memref<?xi8> to memref<16xf32>
    func.call @exact_0(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @exact_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
// -----
// A device may bind buffers at finer multiples. A kernel that is called twice is exact where both calls are.
// CHECK-LABEL: func.func private @fine_0
// CHECK-SAME: openinfer.exact = array<i64: 0>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.alignment = 16 : i64} {
  nn.interface {inputs = [], outputs = [], device_arena = "2048"}
  func.func @step(%device: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}) {
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c132 = arith.constant 132 : index
    %x = memref.view %device[%c64][] : memref<?xi8> to memref<16xf32>
    %y = memref.view %device[%c128][] : memref<?xi8> to memref<16xf32>
    %z = memref.view %device[%c132][] : memref<?xi8> to memref<16xf32>
    func.call @fine_0(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    func.call @fine_0(%y, %z) : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @fine_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
// -----
// Not at finer multiples where the device is not known to bind them there.
// CHECK-LABEL: func.func private @coarse_0
// CHECK-NOT: openinfer.exact
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], outputs = [], device_arena = "2048"}
  func.func @step(%device: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}) {
    %c64 = arith.constant 64 : index
    %x = memref.view %device[%c64][] : memref<?xi8> to memref<16xf32>
    func.call @coarse_0(%x, %x) : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @coarse_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
// -----
// Memory that grows with the sizes of steps lies elsewhere then, and so does a buffer behind a place that the
// step computes: where both would be bound differs from step to step, and commands were recorded again.
// CHECK-LABEL: func.func private @moving_0
// CHECK-SAME: openinfer.exact = array<i64: 1>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], outputs = [], device_arena = "256 * B"}
  func.func @step(%w: memref<4096xi8> {openinfer.arg = #nn.slot<device_weight 0>}, %device: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}, %at: index) {
    %c0 = arith.constant 0 : index
    %c256 = arith.constant 256 : index
    %place = arith.muli %at, %c256 : index
    %x = memref.view %device[%c0][] : memref<?xi8> to memref<16xf32>
    %y = memref.view %w[%c256][] : memref<4096xi8> to memref<16xf32>
    %z = memref.view %w[%place][] : memref<4096xi8> to memref<16xf32>
    func.call @moving_0(%x, %y, %z) : (memref<16xf32>, memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @moving_0(%x: memref<16xf32>, %y: memref<16xf32>, %z: memref<16xf32>) {
    nn.layer_norm(%x, %y) outs(%z) {eps = 1.0e-5 : f64, has_weight} : (memref<16xf32>, memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
