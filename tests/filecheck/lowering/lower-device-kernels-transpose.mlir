// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A workgroup turns a tile of 32 x 32 in shared memory: it reads neighbours, waits, and stores neighbours.
// CHECK-LABEL: func.func private @turned_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK: %turned = memref.alloca() : memref<32x33xf32, #gpu.address_space<workgroup>>
// CHECK: %[[COLUMN:.*]] = arith.remui %thread
// CHECK: %[[ROW:.*]] = arith.divui %thread
// CHECK: scf.if
// CHECK: %[[X:.*]] = memref.load %x[%{{.*}}, %[[P:.*]]] : memref<?x64xf32>
// CHECK: memref.store %[[X]], %turned[%[[ROW]], %[[COLUMN]]]
// CHECK: "gpu.barrier"
// CHECK: %[[T:.*]] = memref.load %turned[%[[COLUMN]], %[[ROW]]]
// CHECK: %[[N:.*]] = arith.negf %[[T]]
// CHECK: memref.store %[[N]], %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index) {
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x64xf32>
    %b = memref.alloc(%n) {openinfer.memory = "device"} : memref<64x?xf32>
    func.call @turned_0(%a, %b) : (memref<?x64xf32>, memref<64x?xf32>) -> ()
    func.return
  }
  func.func private @turned_0(%x: memref<?x64xf32>, %y: memref<64x?xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>]} ins(%x : memref<?x64xf32>) outs(%y : memref<64x?xf32>) {
    ^bb0(%e: f32, %o: f32):
      %r = arith.negf %e : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// Not where a side is short: most of a tile would be empty.
// CHECK-LABEL: func.func private @short_0
// CHECK-NOT: memref.alloca
// CHECK-NOT: gpu.barrier
// CHECK: arith.negf
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<500x3xf32>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<3x500xf32>
    func.call @short_0(%a, %b) : (memref<500x3xf32>, memref<3x500xf32>) -> ()
    func.return
  }
  func.func private @short_0(%x: memref<500x3xf32>, %y: memref<3x500xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>]} ins(%x : memref<500x3xf32>) outs(%y : memref<3x500xf32>) {
    ^bb0(%e: f32, %o: f32):
      %r = arith.negf %e : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
// -----
// Nor where neighbours stay neighbours: another order of lines.
// CHECK-LABEL: func.func private @lines_0
// CHECK-NOT: memref.alloca
// CHECK: vector.load %x
// CHECK: vector.store
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<40x50x64xf32>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<50x40x64xf32>
    func.call @lines_0(%a, %b) : (memref<40x50x64xf32>, memref<50x40x64xf32>) -> ()
    func.return
  }
  func.func private @lines_0(%x: memref<40x50x64xf32>, %y: memref<50x40x64xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d0, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = [#linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>, #linalg.iterator_type<parallel>]} ins(%x : memref<40x50x64xf32>) outs(%y : memref<50x40x64xf32>) {
    ^bb0(%e: f32, %o: f32):
      %r = arith.negf %e : f32
      linalg.yield %r : f32
    }
    func.return
  }
}
