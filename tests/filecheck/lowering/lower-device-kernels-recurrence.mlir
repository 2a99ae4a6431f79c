// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A workgroup walks a sequence: the states lie in memory that it shares, two of them in turn.
// CHECK-LABEL: func.func private @lstm_0
// CHECK-SAME: gpu.known_block_size = array<i32: 64, 1, 1>
// CHECK-DAG: %states = memref.alloca() : memref<2x40xf32, #gpu.address_space<workgroup>>
// CHECK-DAG: %cells = memref.alloca() : memref<40xf32, #gpu.address_space<workgroup>>
// CHECK: memref.store %{{.*}}, %states
// CHECK: "gpu.barrier"
// CHECK: scf.for %n =
// CHECK: scf.for %j{{.*}} = %thread
// CHECK: scf.for %k{{.*}} -> (f32, f32, f32, f32)
// CHECK: memref.load %states
// CHECK-COUNT-4: math.fma
// CHECK: math.exp
// CHECK: memref.store %{{.*}}, %states
// CHECK: memref.store %{{.*}}, %y
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %h
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %f = memref.alloc() {openinfer.memory = "device"} : memref<9x2x160xf32>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<2x40xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<160x40xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<9x2x40xf32>
    func.call @lstm_0(%f, %s, %s, %w, %y, %s, %s) : (memref<9x2x160xf32>, memref<2x40xf32>, memref<2x40xf32>, memref<160x40xf32>, memref<9x2x40xf32>, memref<2x40xf32>, memref<2x40xf32>) -> ()
    func.return
  }
  func.func private @lstm_0(%f: memref<9x2x160xf32>, %h0: memref<2x40xf32>, %c0: memref<2x40xf32>, %w: memref<160x40xf32>, %y: memref<9x2x40xf32>, %h: memref<2x40xf32>, %c: memref<2x40xf32>) {
    nn.lstm(%f, %h0, %c0, %w) outs(%y, %h, %c) : (memref<9x2x160xf32>, memref<2x40xf32>, memref<2x40xf32>, memref<160x40xf32>, memref<9x2x40xf32>, memref<2x40xf32>, memref<2x40xf32>) -> ()
    func.return
  }
}
// -----
// A layer of one state has no cells; backwards in time.
// CHECK-LABEL: func.func private @gru_0
// CHECK-NOT: %cells
// CHECK: scf.for %n =
// CHECK: arith.subi %{{.*}}, %n
// CHECK: scf.for %k{{.*}} -> (f32, f32, f32)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %f = memref.alloc() {openinfer.memory = "device"} : memref<9x2x120xf32>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<2x40xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<120x40xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<9x2x40xf32>
    func.call @gru_0(%f, %s, %w, %y, %s) : (memref<9x2x120xf32>, memref<2x40xf32>, memref<120x40xf32>, memref<9x2x40xf32>, memref<2x40xf32>) -> ()
    func.return
  }
  func.func private @gru_0(%f: memref<9x2x120xf32>, %h0: memref<2x40xf32>, %w: memref<120x40xf32>, %y: memref<9x2x40xf32>, %h: memref<2x40xf32>) {
    nn.gru(%f, %h0, %w) outs(%y, %h) {reverse} : (memref<9x2x120xf32>, memref<2x40xf32>, memref<120x40xf32>, memref<9x2x40xf32>, memref<2x40xf32>) -> ()
    func.return
  }
}
// -----
// A kernel of the host is none of the device.
// CHECK-LABEL: func.func private @gru_0
// CHECK-NEXT: nn.gru
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %f = memref.alloc() : memref<9x2x12xf32>
    %s = memref.alloc() : memref<2x4xf32>
    %w = memref.alloc() : memref<12x4xf32>
    %y = memref.alloc() : memref<9x2x4xf32>
    func.call @gru_0(%f, %s, %w, %y, %s) {openinfer.place = "host"} : (memref<9x2x12xf32>, memref<2x4xf32>, memref<12x4xf32>, memref<9x2x4xf32>, memref<2x4xf32>) -> ()
    func.return
  }
  func.func private @gru_0(%f: memref<9x2x12xf32>, %h0: memref<2x4xf32>, %w: memref<12x4xf32>, %y: memref<9x2x4xf32>, %h: memref<2x4xf32>) {
    nn.gru(%f, %h0, %w) outs(%y, %h) : (memref<9x2x12xf32>, memref<2x4xf32>, memref<12x4xf32>, memref<9x2x4xf32>, memref<2x4xf32>) -> ()
    func.return
  }
}
