// RUN: openinfer-opt %s -p expand-math | filecheck %s

// A device has no C library: functions of f64 are polynomials there.
// CHECK-LABEL: func.func private @exp_0
// CHECK-NOT: math.exp
// CHECK: arith.shli %{{.*}}, %{{.*}} : i64
// CHECK-LABEL: func.func @host
// CHECK: math.exp
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.f64} {
  func.func private @exp_0(%x: memref<1xf64>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %v = memref.load %x[%c0] : memref<1xf64>
    %e = math.exp %v : f64
    memref.store %e, %x[%c0] : memref<1xf64>
    func.return
  }
  func.func @host(%x: f64) -> f64 {
    %e = math.exp %x : f64
    func.return %e : f64
  }
}
