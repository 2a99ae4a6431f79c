// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A row behind a norm, times two matrices: products and squares in one walk, joined together, one factor.
// CHECK-LABEL: func.func private @matvec_0
// CHECK: %joined = memref.alloca() : memref<3x2xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for %k = {{.*}} iter_args({{.*}}, {{.*}}, {{.*}}) -> (f32, f32, f32)
// CHECK: vector.load %gate{{.*}} vector<8xf16>
// CHECK: vector.load %up{{.*}} vector<8xf16>
// CHECK: vector.load %w{{.*}} vector<4xf32>
// CHECK: vector.load %w{{.*}} vector<4xf32>
// CHECK: math.fma
// CHECK: arith.cmpi ult, %thread
// CHECK: math.sqrt
// CHECK: arith.divf
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x512xf16>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<9x512xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<512xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x9xf16>
    func.call @matvec_0(%a, %g, %g, %w, %y) : (memref<1x512xf16>, memref<9x512xf16>, memref<9x512xf16>, memref<512xf32>, memref<1x9xf16>) -> ()
    func.return
  }
  func.func private @matvec_0(%x: memref<1x512xf16>, %gate: memref<9x512xf16>, %up: memref<9x512xf16>, %w: memref<512xf32>, %y: memref<1x9xf16>) {
    nn.matvec(%x, %gate, %up, %w) outs(%y) {pair, eps = 1.0e-05 : f64, maps = []} {
    ^bb0(%0: f32, %1: f32):
      %2 = arith.mulf %0, %1 : f32
      %3 = arith.truncf %2 : f32 to f16
      nn.yield %3 : f16
    } : (memref<1x512xf16>, memref<9x512xf16>, memref<9x512xf16>, memref<512xf32>, memref<1x9xf16>) -> ()
    func.return
  }
}
// -----
// Attention of one query over keys that the types count: all of them are read, eight at a time with their
// values, and nobody asks whether they are there. One barrier stands behind the walk.
// CHECK-LABEL: func.func private @attention_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: scf.for
// CHECK-COUNT-8: vector.load %k
// CHECK-COUNT-8: vector.load %v
// CHECK-NOT: arith.cmpi ult
// CHECK: math.exp2
// CHECK: "gpu.barrier"
// CHECK-NOT: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %o
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x4x1x64xf16>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<1x4x512x64xf16>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<1x4x1x64xf16>
    func.call @attention_0(%q, %k, %k, %o) : (memref<1x4x1x64xf16>, memref<1x4x512x64xf16>, memref<1x4x512x64xf16>, memref<1x4x1x64xf16>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x4x1x64xf16>, %k: memref<1x4x512x64xf16>, %v: memref<1x4x512x64xf16>, %o: memref<1x4x1x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x4x1x64xf16>, memref<1x4x512x64xf16>, memref<1x4x512x64xf16>, memref<1x4x1x64xf16>) -> ()
    func.return
  }
}
// -----
// One key more: behind a walk without questions stands one that asks which keys are there.
// CHECK-LABEL: func.func private @attention_0
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %c512
// CHECK-COUNT-8: vector.load %k
// CHECK-NOT: arith.cmpi ult
// CHECK: scf.for %{{.*}} = %c512{{.*}} to %c513
// CHECK: arith.minsi
// CHECK: vector.load %k
// CHECK: arith.cmpi ult
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x4x1x64xf16>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<1x4x513x64xf16>
    %o = memref.alloc() {openinfer.memory = "device"} : memref<1x4x1x64xf16>
    func.call @attention_0(%q, %k, %k, %o) : (memref<1x4x1x64xf16>, memref<1x4x513x64xf16>, memref<1x4x513x64xf16>, memref<1x4x1x64xf16>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x4x1x64xf16>, %k: memref<1x4x513x64xf16>, %v: memref<1x4x513x64xf16>, %o: memref<1x4x1x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x4x1x64xf16>, memref<1x4x513x64xf16>, memref<1x4x513x64xf16>, memref<1x4x1x64xf16>) -> ()
    func.return
  }
}
// -----
// Two columns half a block apart: their sums are found together, and one invocation stores both. What its
// epilogue reads is there before.
// CHECK-LABEL: func.func private @matvec_0
// CHECK: %joined = memref.alloca() : memref<2x2xf32, #gpu.address_space<workgroup>>
// CHECK: vector.load %w
// CHECK: vector.load %w
// CHECK: memref.load %c
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %y
// CHECK: arith.addi %{{.*}}, %c32
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x512xf16>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<256x512xf16>
    %c = memref.alloc() {openinfer.memory = "device"} : memref<1x32xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x256xf16>
    func.call @matvec_0(%a, %g, %c, %y) : (memref<1x512xf16>, memref<256x512xf16>, memref<1x32xf32>, memref<1x256xf16>) -> ()
    func.return
  }
  func.func private @matvec_0(%x: memref<1x512xf16>, %w: memref<256x512xf16>, %c: memref<1x32xf32>, %y: memref<1x256xf16>) {
    nn.matvec(%x, %w) extras(%c) outs(%y) {halves = 32 : i64, maps = [affine_map<(d0, d1, d2) -> (0, d2)>]} {
    ^bb0(%0: f32, %1: f32, %2: f32):
      %3 = arith.mulf %0, %2 : f32
      %4 = arith.subf %3, %1 : f32
      %5 = arith.truncf %4 : f32 to f16
      %6 = arith.truncf %3 : f32 to f16
      nn.yield %5, %6 : f16, f16
    } : (memref<1x512xf16>, memref<256x512xf16>, memref<1x32xf32>, memref<1x256xf16>) -> ()
    func.return
  }
}
// -----
// The same of neighbouring columns: workgroup n has those from 2 n on.
// CHECK-LABEL: func.func private @matvec_0
// CHECK: [[FIRST:%\S+]] = arith.muli %{{.*}}, %c2
// CHECK: memref.store %{{.*}}, %y
// CHECK: [[NEXT:%\S+]] = arith.addi %{{.*}}, %c1
// CHECK: memref.store %{{.*}}, %y[{{.*}}, [[NEXT]]]
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x512xf16>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<256x512xf16>
    %c = memref.alloc() {openinfer.memory = "device"} : memref<1x32xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x256xf16>
    func.call @matvec_0(%a, %g, %c, %y) : (memref<1x512xf16>, memref<256x512xf16>, memref<1x32xf32>, memref<1x256xf16>) -> ()
    func.return
  }
  func.func private @matvec_0(%x: memref<1x512xf16>, %w: memref<256x512xf16>, %c: memref<1x32xf32>, %y: memref<1x256xf16>) {
    nn.matvec(%x, %w) extras(%c) outs(%y) {halves = 32 : i64, interleaved, maps = [affine_map<(d0, d1, d2) -> (0, d2)>]} {
    ^bb0(%0: f32, %1: f32, %2: f32):
      %3 = arith.mulf %0, %2 : f32
      %4 = arith.subf %3, %1 : f32
      %5 = arith.truncf %4 : f32 to f16
      %6 = arith.truncf %3 : f32 to f16
      nn.yield %5, %6 : f16, f16
    } : (memref<1x512xf16>, memref<256x512xf16>, memref<1x32xf32>, memref<1x256xf16>) -> ()
    func.return
  }
}
// -----
// Two products that are started together: those of 64 columns have the first workgroups, those of 128 the
// ones behind them, and count from there.
// CHECK-LABEL: func.func @step
// CHECK: "gpu.launch_func"(%c192, %c1
// CHECK-LABEL: func.func private @matvecs_0
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK: %[[NUMBER:.*]] = "gpu.block_id"
// CHECK: %[[FIRST:.*]] = "gpu.block_id"
// CHECK: arith.cmpi ult, %[[FIRST]], %c64
// CHECK: memref.store %{{.*}}, %y[
// CHECK: %[[BEHIND:.*]] = arith.cmpi uge, %[[NUMBER]], %c64
// CHECK: scf.if %[[BEHIND]] {
// CHECK: %[[OWN:.*]] = arith.subi %[[NUMBER]], %c64
// CHECK-NOT: gpu.block_id
// CHECK: arith.cmpi ult, %[[OWN]], %c128
// CHECK: memref.store %{{.*}}, %z[
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x512xf16>
    %g = memref.alloc() {openinfer.memory = "device"} : memref<64x512xf16>
    %h = memref.alloc() {openinfer.memory = "device"} : memref<128x512xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x64xf16>
    %z = memref.alloc() {openinfer.memory = "device"} : memref<1x128xf16>
    func.call @matvecs_0(%a, %g, %y, %h, %z) : (memref<1x512xf16>, memref<64x512xf16>, memref<1x64xf16>, memref<128x512xf16>, memref<1x128xf16>) -> ()
    func.return
  }
  func.func private @matvecs_0(%x: memref<1x512xf16>, %g: memref<64x512xf16>, %y: memref<1x64xf16>, %h: memref<128x512xf16>, %z: memref<1x128xf16>) {
    nn.matvec(%x, %g) outs(%y) : (memref<1x512xf16>, memref<64x512xf16>, memref<1x64xf16>) -> ()
    nn.matvec(%x, %h) outs(%z) : (memref<1x512xf16>, memref<128x512xf16>, memref<1x128xf16>) -> ()
    func.return
  }
}
