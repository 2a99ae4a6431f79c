// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A workgroup computes a line along the last axis. The subgroup that is enough for a short one exchanges values
// without a barrier.
// CHECK-LABEL: func.func private @short_0
// CHECK-SAME: gpu.known_block_size = array<i32: 32, 1, 1>
// CHECK: gpu.shuffle xor
// CHECK-NOT: "gpu.barrier"
// CHECK: vector.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x512xf32>
    func.call @short_0(%a, %a) : (memref<7x512xf32>, memref<7x512xf32>) -> ()
    func.return
  }
  func.func private @short_0(%x: memref<7x512xf32>, %y: memref<7x512xf32>) {
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<7x512xf32>, memref<7x512xf32>) -> ()
    func.return
  }
}
// -----
// The subgroups of a longer one exchange values, then share them.
// CHECK-LABEL: func.func private @softmax_0
// CHECK-SAME: gpu.known_block_size = array<i32: 128, 1, 1>
// CHECK: %joined = memref.alloca() : memref<1x4xf32, #gpu.address_space<workgroup>>
// CHECK: %thread = "gpu.thread_id"
// CHECK: vector.load %x{{.*}} vector<4xf32>
// CHECK: gpu.shuffle xor
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %joined
// CHECK: "gpu.barrier"
// CHECK: math.exp
// CHECK: vector.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x520xf32>
    func.call @softmax_0(%a, %a) : (memref<7x520xf32>, memref<7x520xf32>) -> ()
    func.return
  }
  func.func private @softmax_0(%x: memref<7x520xf32>, %y: memref<7x520xf32>) {
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<7x520xf32>, memref<7x520xf32>) -> ()
    func.return
  }
}
// -----
// Without subgroups they share memory alone.
// CHECK-LABEL: func.func private @softmax_0
// CHECK: %joined = memref.alloca() : memref<1x64xf32, #gpu.address_space<workgroup>>
// CHECK-NOT: gpu.shuffle
// CHECK: "gpu.barrier"
// CHECK-NOT: gpu.shuffle
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x500xf32>
    func.call @softmax_0(%a, %a) : (memref<7x500xf32>, memref<7x500xf32>) -> ()
    func.return
  }
  func.func private @softmax_0(%x: memref<7x500xf32>, %y: memref<7x500xf32>) {
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<7x500xf32>, memref<7x500xf32>) -> ()
    func.return
  }
}
// -----
// A sum along the last axis: a workgroup for each result, and its first invocation stores it.
// CHECK-LABEL: func.func private @along_0
// CHECK: scf.for %k = %thread to %{{.*}} step %{{.*}} iter_args
// CHECK: gpu.shuffle
// CHECK: arith.cmpi eq, %thread
// CHECK: scf.if
// CHECK: memref.store
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<7xf32>
    func.call @along_0(%a, %s) : (memref<7x200xf32>, memref<7xf32>) -> ()
    func.return
  }
  func.func private @along_0(%x: memref<7x200xf32>, %y: memref<7xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<7x200xf32>) outs(%y : memref<7xf32>) {
    ^bb0(%v: f32, %o: f32):
      %r = arith.addf %v, %o : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// Along the first axis neighbours belong to different results: 32 of them, with 8 invocations each.
// CHECK-LABEL: func.func private @across_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: %parts = memref.alloca() : memref<8x32xf32, #gpu.address_space<workgroup>>
// CHECK: "gpu.barrier"
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<200x7xf32>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<7xf32>
    func.call @across_0(%a, %s) : (memref<200x7xf32>, memref<7xf32>) -> ()
    func.return
  }
  func.func private @across_0(%x: memref<200x7xf32>, %y: memref<7xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<200x7xf32>) outs(%y : memref<7xf32>) {
    ^bb0(%v: f32, %o: f32):
      %r = arith.addf %v, %o : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// A short sum, or one in order because mathematics are strict, is a loop of one invocation.
// CHECK-LABEL: func.func private @short_0
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK-NOT: gpu.shuffle
// CHECK-NOT: gpu.barrier
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x16xf32>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<7xf32>
    func.call @short_0(%a, %s) : (memref<7x16xf32>, memref<7xf32>) -> ()
    func.return
  }
  func.func private @short_0(%x: memref<7x16xf32>, %y: memref<7xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<7x16xf32>) outs(%y : memref<7xf32>) {
    ^bb0(%v: f32, %o: f32):
      %r = arith.addf %v, %o : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// CHECK-LABEL: func.func private @strict_0
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK-NOT: gpu.shuffle
// CHECK-NOT: gpu.barrier
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.strict_math} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    %s = memref.alloc() {openinfer.memory = "device"} : memref<7xf32>
    func.call @strict_0(%a, %s) : (memref<7x200xf32>, memref<7xf32>) -> ()
    func.return
  }
  func.func private @strict_0(%x: memref<7x200xf32>, %y: memref<7xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : memref<7x200xf32>) outs(%y : memref<7xf32>) {
    ^bb0(%v: f32, %o: f32):
      %r = arith.addf %v, %o : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// Four neighbours in one access, where a buffer begins at a multiple of 16 bytes in every call.
// CHECK-LABEL: func.func private @wide_0
// CHECK: vector.load %{{.*}} : memref<128xf32>, vector<4xf32>
// CHECK: vector.extract %{{.*}}[0] : f32 from vector<4xf32>
// CHECK-COUNT-4: arith.negf
// CHECK: vector.store
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%arena: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}, %l: index) {
    %c512 = arith.constant 512 : index
    %at = arith.muli %l, %c512 : index
    %a = memref.view %arena[%at][] : memref<?xi8> to memref<4x32xf32>
    func.call @wide_0(%a, %a) : (memref<4x32xf32>, memref<4x32xf32>) -> ()
    func.return
  }
  func.func private @wide_0(%x: memref<4x32xf32>, %y: memref<4x32xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x32xf32>) outs(%y : memref<4x32xf32>) {
    ^bb0(%v: f32, %o: f32):
      %r = arith.negf %v : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// One that may begin anywhere is accessed element by element.
// CHECK-LABEL: func.func private @narrow_0
// CHECK-NOT: vector.load
// CHECK: memref.load
// CHECK-NOT: vector.store
// CHECK: memref.store
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%arena: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}, %at: index) {
    %a = memref.view %arena[%at][] : memref<?xi8> to memref<4x32xf32>
    func.call @narrow_0(%a, %a) : (memref<4x32xf32>, memref<4x32xf32>) -> ()
    func.return
  }
  func.func private @narrow_0(%x: memref<4x32xf32>, %y: memref<4x32xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x : memref<4x32xf32>) outs(%y : memref<4x32xf32>) {
    ^bb0(%v: f32, %o: f32):
      %r = arith.negf %v : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// A norm: mean, what its rounding was off by, the mean of squares, each of the whole workgroup.
// CHECK-LABEL: func.func private @norm_0
// CHECK-COUNT-3: arith.divf
// CHECK: math.sqrt
// CHECK: vector.store
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %w = memref.alloc() {openinfer.memory = "device"} : memref<200xf32>
    %a = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    func.call @norm_0(%a, %w, %a) : (memref<7x200xf32>, memref<200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
  func.func private @norm_0(%x: memref<7x200xf32>, %w: memref<200xf32>, %y: memref<7x200xf32>) {
    nn.layer_norm(%x, %w) outs(%y) {eps = 1.0e-5 : f64, has_weight} : (memref<7x200xf32>, memref<200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
}
// -----
// A product in tiles: both operands through shared memory, 32 steps at a time, read while the sums of the
// steps before them grow. Shared memory has 4 steps of a row, and 2 columns of an invocation, in an access.
// CHECK-LABEL: func.func private @tiles_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-DAG: %left = memref.alloca() : memref<32x9xvector<4xf32>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<32x17xvector<2xf32>, #gpu.address_space<workgroup>>
// CHECK: memref.load %x
// CHECK: scf.for %k =
// CHECK: "gpu.barrier"
// CHECK: memref.store %{{.*}}, %left
// CHECK: "gpu.barrier"
// CHECK: memref.load %x
// CHECK: scf.for %d =
// CHECK-COUNT-2: memref.load %left{{.*}}vector<4xf32>
// CHECK-COUNT-4: memref.load %right{{.*}}vector<2xf32>
// CHECK-COUNT-16: math.fma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<70x70xf32>
    func.call @tiles_0(%a, %a, %a) : (memref<70x70xf32>, memref<70x70xf32>, memref<70x70xf32>) -> ()
    func.return
  }
  func.func private @tiles_0(%x: memref<70x70xf32>, %w: memref<70x70xf32>, %y: memref<70x70xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<70x70xf32>, memref<70x70xf32>, memref<70x70xf32>) -> ()
    func.return
  }
}
// -----
// A product of one row: a workgroup computes a column of the result from a row of the right operand.
// CHECK-LABEL: func.func private @row_0
// CHECK: scf.for %k =
// CHECK: vector.load %w{{.*}} vector<8xf16>
// CHECK: vector.load %x{{.*}} vector<8xf16>
// CHECK-COUNT-8: math.fma
// CHECK: gpu.shuffle
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %w = memref.alloc() {openinfer.memory = "device"} : memref<70x512xf16>
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x512xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x70xf16>
    func.call @row_0(%a, %w, %y) : (memref<1x512xf16>, memref<70x512xf16>, memref<1x70xf16>) -> ()
    func.return
  }
  func.func private @row_0(%x: memref<1x512xf16>, %w: memref<70x512xf16>, %y: memref<1x70xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<1x512xf16>, memref<70x512xf16>, memref<1x70xf16>) -> ()
    func.return
  }
}
// -----
// Attention: scores of 128 keys at a time, weights in shared memory, columns that two invocations share.
// CHECK-LABEL: func.func private @attention_0
// CHECK-SAME: array<i32: 128, 1, 1>
// CHECK-DAG: %weights = memref.alloca() : memref<4x128xf32, #gpu.address_space<workgroup>>
// CHECK: scf.for %at =
// CHECK: math.exp
// CHECK: memref.store %{{.*}}, %weights
// CHECK: scf.for %j =
// CHECK: memref.load %weights
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x2x9x64xf32>
    func.call @attention_0(%a, %a) : (memref<1x2x9x64xf32>, memref<1x2x9x64xf32>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x2x9x64xf32>, %o: memref<1x2x9x64xf32>) {
    nn.attention(%q, %q, %q) outs(%o) {scale = 1.25e-1 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x9x64xf32>, memref<1x2x9x64xf32>, memref<1x2x9x64xf32>, memref<1x2x9x64xf32>) -> ()
    func.return
  }
}
// -----
// With strict mathematics, attention of f16 is not computed by matrices.
// CHECK-LABEL: func.func private @strict_attention_0
// CHECK-NOT: gpu.subgroup_mma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices, openinfer.strict_math} {
  func.func @step() {
    %q0 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x64xf16>
    %k0 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x300x64xf16>
    %o0 = memref.alloc() {openinfer.memory = "device"} : memref<1x2x40x64xf16>
    func.call @strict_attention_0(%q0, %k0, %k0, %o0) : (memref<1x2x40x64xf16>, memref<1x2x300x64xf16>, memref<1x2x300x64xf16>, memref<1x2x40x64xf16>) -> ()
    func.return
  }
  func.func private @strict_attention_0(%q: memref<1x2x40x64xf16>, %k: memref<1x2x300x64xf16>, %v: memref<1x2x300x64xf16>, %o: memref<1x2x40x64xf16>) {
    nn.attention(%q, %k, %v) outs(%o) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x2x40x64xf16>, memref<1x2x300x64xf16>, memref<1x2x300x64xf16>, memref<1x2x40x64xf16>) -> ()
    func.return
  }
}
