// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// An element of the spectrum is a sum over the row; the part of a turn goes on by %k, less whole turns.
// CHECK-LABEL: func.func private @rfft_0
// CHECK: %[[REAL:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
// CHECK: scf.for %j = %{{.*}} -> (f32, f32, f32, index)
// CHECK: memref.load %x
// CHECK: arith.select %[[REAL]]
// CHECK: arith.cmpf olt
// CHECK: arith.cmpi uge
// CHECK: arith.subi
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<3x12xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<3x7x2xf32>
    func.call @rfft_0(%x, %y) : (memref<3x12xf32>, memref<3x7x2xf32>) -> ()
    func.return
  }
  func.func private @rfft_0(%x: memref<3x12xf32>, %y: memref<3x7x2xf32>) {
    nn.rfft(%x) outs(%y) {n = #graph.size<12>, norm = "backward"} : (memref<3x12xf32>, memref<3x7x2xf32>) -> ()
    func.return
  }
}
// -----
// The way back: each bin counts twice, but for the first and the middle one; the result is divided by 12.
// CHECK-LABEL: func.func private @irfft_0
// CHECK: scf.for %j = %{{.*}} -> (f32, f32, f32, index)
// CHECK-COUNT-2: memref.load %x
// CHECK: arith.constant 2.000000e+00 : f32
// CHECK: arith.constant 0.083333
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<3x7x2xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<3x12xf32>
    func.call @irfft_0(%x, %y) : (memref<3x7x2xf32>, memref<3x12xf32>) -> ()
    func.return
  }
  func.func private @irfft_0(%x: memref<3x7x2xf32>, %y: memref<3x12xf32>) {
    nn.irfft(%x) outs(%y) {n = #graph.size<12>, norm = "backward"} : (memref<3x7x2xf32>, memref<3x12xf32>) -> ()
    func.return
  }
}
// -----
// A kernel of the host is none of the device.
// CHECK-LABEL: func.func private @rfft_0
// CHECK-NEXT: nn.rfft
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() : memref<3x12xf32>
    %y = memref.alloc() : memref<3x7x2xf32>
    func.call @rfft_0(%x, %y) {openinfer.place = "host"} : (memref<3x12xf32>, memref<3x7x2xf32>) -> ()
    func.return
  }
  func.func private @rfft_0(%x: memref<3x12xf32>, %y: memref<3x7x2xf32>) {
    nn.rfft(%x) outs(%y) {n = #graph.size<12>, norm = "backward"} : (memref<3x12xf32>, memref<3x7x2xf32>) -> ()
    func.return
  }
}
