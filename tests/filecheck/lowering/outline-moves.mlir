// RUN: openinfer-opt %s -p outline-moves --split-input-file | filecheck %s

// Copies and fills of device memory are calls of kernels; equal ones share one. Copies in the memory of the
// host stay, and so does one of a part that is cut out of a buffer.
// CHECK: func.func @step
// CHECK: func.call @copy_box_0(%a, %b) : (memref<?x8xf32>, memref<?x8xf32>) -> ()
// CHECK-NEXT: func.call @copy_box_0(%b, %a) : (memref<?x8xf32>, memref<?x8xf32>) -> ()
// CHECK-NEXT: memref.copy %x, %y
// CHECK: func.call @fill_box_0(%a) : (memref<?x8xf32>) -> ()
// CHECK: memref.copy %part, %c
// CHECK: func.func private @copy_box_0(%a: memref<?x8xf32>, %b: memref<?x8xf32>) {
// CHECK-NEXT: linalg.generic {{.*}} ins(%a : memref<?x8xf32>) outs(%b : memref<?x8xf32>)
// CHECK: func.func private @fill_box_0(%a: memref<?x8xf32>) {
// CHECK: linalg.fill
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%x: memref<?x8xf32> {openinfer.arg = #nn.slot<input "x">}, %n: index {openinfer.arg = #nn.slot<size "N">}) {
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x8xf32>
    %b = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x8xf32>
    %c = memref.alloc(%n) {openinfer.memory = "device"} : memref<?xf32>
    %y = memref.alloc(%n) : memref<?x8xf32>
    memref.copy %a, %b : memref<?x8xf32> to memref<?x8xf32>
    memref.copy %b, %a : memref<?x8xf32> to memref<?x8xf32>
    memref.copy %x, %y : memref<?x8xf32> to memref<?x8xf32>
    %f = arith.constant 1.0 : f32
    linalg.fill ins(%f : f32) outs(%a : memref<?x8xf32>)
    %part = memref.reinterpret_cast %a to offset: [%n], sizes: [%n], strides: [1] : memref<?x8xf32> to memref<?xf32, strided<[1], offset: ?>>
    memref.copy %part, %c : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32>
    func.return
  }
}
