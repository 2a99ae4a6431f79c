// RUN: openinfer-opt %s -p expand-math | filecheck %s

// A device computes the remainder of floats in whole numbers of 64 bits; the host calls the C library.
// CHECK-LABEL: func.func private @rem_0
// CHECK-NOT: arith.remf
// CHECK: scf.for
// CHECK: arith.remui %{{.*}}, %{{.*}} : i64
// CHECK-LABEL: func.func @host
// CHECK: arith.remf
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func private @rem_0(%x: memref<2xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = memref.load %x[%c0] : memref<2xf32>
    %b = memref.load %x[%c1] : memref<2xf32>
    %r = arith.remf %a, %b : f32
    memref.store %r, %x[%c0] : memref<2xf32>
    func.return
  }
  func.func @host(%x: f32, %y: f32) -> f32 {
    %r = arith.remf %x, %y : f32
    func.return %r : f32
  }
}
