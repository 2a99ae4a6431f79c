// RUN: openinfer-opt %s -p record-calls,lower-transfers --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p plan-memory,record-calls --split-input-file | filecheck %s --check-prefix PLAN

// Device kernels and what goes to the device are words of a record; what comes from there is a copy too.
// CHECK: calls = [
// CHECK-NEXT: {kernel = "transfer to device", buffers = ["x"]}
// CHECK-NEXT: {kernel = "softmax_0", buffers = ["x", "a"]}
// CHECK-NEXT: {kernel = "transfer to host", buffers = ["a"]}
// CHECK: func.func @step({{.*}}, %calls: memref<65536xi64> {openinfer.arg = #nn.slot<calls>})
// CHECK: %[[USED:.*]] = memref.load %calls[%c0
// CHECK: scf.if
// CHECK: memref.store %{{.*}}, %calls[%{{.*}}] : memref<65536xi64>
// CHECK-NOT: func.call
// CHECK: memref.copy %a, %a_mirror : memref<16xf32> to memref<16xf32>
// CHECK-NOT: nn.transfer
// CHECK: func.return
// CHECK-NOT: @softmax_0

// Each memory has an arena.
// PLAN: {name = "a_mirror", offset = "0", size = "64", first
// PLAN-NEXT: {name = "x_mirror", offset = "0", size = "64", {{.*}}, memory = "device"}
// PLAN-NEXT: {name = "a", offset = "64", size = "64", {{.*}}, memory = "device"}
// PLAN: arena = "64"
// PLAN: device_arena = "128"
// PLAN: %arena: memref<?xi8> {openinfer.arg = #nn.slot<arena>}, %device_arena: memref<?xi8> {openinfer.arg = #nn.slot<device_arena>}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["x"], outputs = ["y"]}
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %x_mirror = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    %a = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    %a_mirror = memref.alloc() : memref<16xf32>
    nn.transfer "to_device" %x, %x_mirror bytes <64> : memref<16xf32> to memref<16xf32>
    func.call @softmax_0(%x_mirror, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    nn.transfer "to_host" %a, %a_mirror bytes <64> : memref<16xf32> to memref<16xf32>
    nn.publish %a_mirror "y" : memref<16xf32>
    func.return
  }
  func.func private @softmax_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
