// RUN: not openinfer-opt %s -p record-calls --split-input-file 2>&1 | filecheck %s

// No op may reach into the memory of the other machine, also where somebody edited a dump.
// CHECK: 'func.call' has buffers in the memory of host, device: expected device, device
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    func.call @k(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @k(memref<16xf32>, memref<16xf32>)
}
// -----
// CHECK: 'memref.load' has buffers in the memory of device: expected host
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%w: memref<16xf32> {openinfer.arg = #nn.slot<device_weight 0>}) {
    %c0 = arith.constant 0 : index
    %a = memref.load %w[%c0] : memref<16xf32>
    func.return
  }
}
// -----
// CHECK: 'nn.transfer' has buffers in the memory of host, device: expected device, host
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    nn.transfer "to_host" %x, %a bytes <64> : memref<16xf32> to memref<16xf32>
    func.return
  }
}
