// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// The largest of a window: the rows and columns of it that lie in the plane, and no test of an element.
// CHECK-LABEL: func.func private @pool_0
// CHECK-SAME: gpu.known_block_size = array<i32: 64, 1, 1>
// CHECK: scf.if
// CHECK: scf.for %k = %{{.*}} iter_args
// CHECK: scf.for %k
// CHECK-NOT: scf.if
// CHECK: memref.load %x
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x4x4xf32>
    func.call @pool_0(%x, %y) : (memref<2x4x9x9xf32>, memref<2x4x4x4xf32>) -> ()
    func.return
  }
  func.func private @pool_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x4x4xf32>) {
    nn.pool(%x) outs(%y) {kind = "max", kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x9x9xf32>, memref<2x4x4x4xf32>) -> ()
    func.return
  }
}
// -----
// A mean is a sum with what its roundings take away.
// CHECK-LABEL: func.func private @pool_0
// CHECK: scf.for %k
// CHECK: scf.for %k{{.*}} -> (f32, f32)
// CHECK: arith.divf
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x4x4xf32>
    func.call @pool_0(%x, %y) : (memref<2x4x9x9xf32>, memref<2x4x4x4xf32>) -> ()
    func.return
  }
  func.func private @pool_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x4x4xf32>) {
    nn.pool(%x) outs(%y) {kind = "average", kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x9x9xf32>, memref<2x4x4x4xf32>) -> ()
    func.return
  }
}
// -----
// In strict mathematics it is added up in order.
// CHECK-LABEL: func.func private @pool_0
// CHECK: scf.for %k
// CHECK: scf.for %k{{.*}} -> (f32) {
// CHECK: arith.addf
// CHECK-NOT: arith.subf
// CHECK: arith.divf
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.strict_math} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x4x4xf32>
    func.call @pool_0(%x, %y) : (memref<2x4x9x9xf32>, memref<2x4x4x4xf32>) -> ()
    func.return
  }
  func.func private @pool_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x4x4xf32>) {
    nn.pool(%x) outs(%y) {kind = "average", kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x9x9xf32>, memref<2x4x4x4xf32>) -> ()
    func.return
  }
}
// -----
// What lies outside of the plane is 0.
// CHECK-LABEL: func.func private @unfold_0
// CHECK: arith.cmpi ult
// CHECK: arith.cmpi ult
// CHECK: arith.cmpi ult
// CHECK: arith.andi
// CHECK: scf.if
// CHECK: memref.load %x
// CHECK: else
// CHECK: arith.constant 0.0
// CHECK: memref.store
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x3x3x9x9xf32>
    func.call @unfold_0(%x, %y) : (memref<2x4x9x9xf32>, memref<2x4x3x3x9x9xf32>) -> ()
    func.return
  }
  func.func private @unfold_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x3x3x9x9xf32>) {
    nn.unfold(%x) outs(%y) {stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (memref<2x4x9x9xf32>, memref<2x4x3x3x9x9xf32>) -> ()
    func.return
  }
}
// -----
// Without padding nothing does.
// CHECK-LABEL: func.func private @unfold_0
// CHECK: scf.if
// CHECK-NOT: scf.if
// CHECK-NOT: else
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x3x3x7x7xf32>
    func.call @unfold_0(%x, %y) : (memref<2x4x9x9xf32>, memref<2x4x3x3x7x7xf32>) -> ()
    func.return
  }
  func.func private @unfold_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x3x3x7x7xf32>) {
    nn.unfold(%x) outs(%y) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x9x9xf32>, memref<2x4x3x3x7x7xf32>) -> ()
    func.return
  }
}
// -----
// An element adds up the windows that it lies in: those that begin a multiple of the stride before it.
// CHECK-LABEL: func.func private @fold_0
// CHECK: scf.for %k
// CHECK: scf.for %k
// CHECK: arith.divui
// CHECK: arith.cmpi eq
// CHECK: scf.if
// CHECK: memref.load %x
// CHECK: arith.addf
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x3x3x4x4xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    func.call @fold_0(%x, %y) : (memref<2x4x3x3x4x4xf32>, memref<2x4x9x9xf32>) -> ()
    func.return
  }
  func.func private @fold_0(%x: memref<2x4x3x3x4x4xf32>, %y: memref<2x4x9x9xf32>) {
    nn.fold(%x) outs(%y) {stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x3x3x4x4xf32>, memref<2x4x9x9xf32>) -> ()
    func.return
  }
}
// -----
// A convolution: channels of the group, rows and columns of the kernel, then the epilogue.
// CHECK-LABEL: func.func private @conv_0
// CHECK: scf.for %k
// CHECK: scf.for %k
// CHECK: scf.for %k
// CHECK: memref.load %x
// CHECK: memref.load %w
// CHECK: math.fma
// CHECK: arith.negf
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<6x2x3x3xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x6x9x9xf32>
    func.call @conv_0(%x, %w, %y) : (memref<2x4x9x9xf32>, memref<6x2x3x3xf32>, memref<2x6x9x9xf32>) -> ()
    func.return
  }
  func.func private @conv_0(%x: memref<2x4x9x9xf32>, %w: memref<6x2x3x3xf32>, %y: memref<2x6x9x9xf32>) {
    nn.conv(%x, %w) outs(%y) {kernel = array<i64: 3, 3>, groups = 2 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} {
    ^bb0(%s: f32):
      %r = arith.negf %s : f32
      nn.yield %r : f32
    } : (memref<2x4x9x9xf32>, memref<6x2x3x3xf32>, memref<2x6x9x9xf32>) -> ()
    func.return
  }
}
// -----
// In strict mathematics products are rounded.
// CHECK-LABEL: func.func private @conv_0
// CHECK-NOT: math.fma
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK-NOT: math.fma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.strict_math} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<6x4x3x3xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x6x7x7xf32>
    func.call @conv_0(%x, %w, %y) : (memref<2x4x9x9xf32>, memref<6x4x3x3xf32>, memref<2x6x7x7xf32>) -> ()
    func.return
  }
  func.func private @conv_0(%x: memref<2x4x9x9xf32>, %w: memref<6x4x3x3xf32>, %y: memref<2x6x7x7xf32>) {
    nn.conv(%x, %w) outs(%y) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<2x4x9x9xf32>, memref<6x4x3x3xf32>, memref<2x6x7x7xf32>) -> ()
    func.return
  }
}
// -----
// Which element is read is a quotient of whole numbers of 64 bits.
// CHECK-LABEL: func.func private @resample_0
// CHECK: arith.muli %{{.*}} : i64
// CHECK: arith.divui %{{.*}} : i64
// CHECK: arith.minsi %{{.*}} : i64
// CHECK: memref.load %x
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<2x4x9x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<2x4x13x13xf32>
    func.call @resample_0(%x, %y) : (memref<2x4x9x9xf32>, memref<2x4x13x13xf32>) -> ()
    func.return
  }
  func.func private @resample_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x13x13xf32>) {
    nn.resample(%x) outs(%y) {kind = "nearest", scales = array<i64: 3, 2, 3, 2>} : (memref<2x4x9x9xf32>, memref<2x4x13x13xf32>) -> ()
    func.return
  }
}
// -----
// A kernel of the host is none of the device.
// CHECK-LABEL: func.func private @resample_0
// CHECK-NEXT: nn.resample
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() : memref<2x4x9x9xf32>
    %y = memref.alloc() : memref<2x4x13x13xf32>
    func.call @resample_0(%x, %y) {openinfer.place = "host"} : (memref<2x4x9x9xf32>, memref<2x4x13x13xf32>) -> ()
    func.return
  }
  func.func private @resample_0(%x: memref<2x4x9x9xf32>, %y: memref<2x4x13x13xf32>) {
    nn.resample(%x) outs(%y) {kind = "nearest", scales = array<i64: 3, 2, 3, 2>} : (memref<2x4x9x9xf32>, memref<2x4x13x13xf32>) -> ()
    func.return
  }
}
