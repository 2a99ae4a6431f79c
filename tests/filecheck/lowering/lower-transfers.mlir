// RUN: openinfer-opt %s -p lower-transfers | filecheck %s

// Where the host sees the memory of the device, a transfer in either direction is a copy.
// CHECK: memref.copy %x, %t : memref<?x4xf32> to memref<?x4xf32>
// CHECK-NEXT: memref.copy %t, %x : memref<?x4xf32> to memref<?x4xf32>
// CHECK-NEXT: func.return
func.func @step(%x: memref<?x4xf32>, %n: index) {
  %t = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x4xf32>
  nn.transfer "to_device" %x, %t bytes <"16*N"> : memref<?x4xf32> to memref<?x4xf32>
  nn.transfer "to_host" %t, %x bytes <"16*N"> : memref<?x4xf32> to memref<?x4xf32>
  func.return
}
