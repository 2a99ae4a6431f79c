// RUN: openinfer-opt %s -p outline-moves --split-input-file | filecheck %s

// Copies and fills of device memory are calls of kernels; equal ones share one. Copies in the memory of the
// host stay, and so does one of a part that is cut out of a buffer.
// CHECK: func.func @step
// CHECK: func.call @copy_box_0(%a, %b) : (memref<?x8xf32>, memref<?x8xf32>) -> ()
// CHECK-NEXT: func.call @copy_box_0(%b, %a) : (memref<?x8xf32>, memref<?x8xf32>) -> ()
// CHECK-NEXT: memref.copy %x, %y
// CHECK: func.call @fill_box_0(%a) : (memref<?x8xf32>) -> ()
// CHECK: func.call @copy_box_1(%a, %device_errors, %b) : (memref<?x8xf32>, memref<4xi64>, memref<?x8xf32>) -> ()
// CHECK: memref.copy %part, %c
// CHECK: func.func private @copy_box_0(%a: memref<?x8xf32>, %b: memref<?x8xf32>) {
// CHECK-NEXT: linalg.generic {{.*}} ins(%a : memref<?x8xf32>) outs(%b : memref<?x8xf32>)
// CHECK: func.func private @fill_box_0(%a: memref<?x8xf32>) {
// CHECK: linalg.fill
// CHECK: func.func private @copy_box_1(
// CHECK: linalg.generic
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%x: memref<?x8xf32> {openinfer.arg = #nn.slot<input "x">}, %n: index {openinfer.arg = #nn.slot<size "N">}, %device_errors: memref<4xi64> {openinfer.arg = #nn.slot<device_errors>}) {
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x8xf32>
    %b = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x8xf32>
    %c = memref.alloc(%n) {openinfer.memory = "device"} : memref<?xf32>
    %y = memref.alloc(%n) : memref<?x8xf32>
    memref.copy %a, %b : memref<?x8xf32> to memref<?x8xf32>
    memref.copy %b, %a : memref<?x8xf32> to memref<?x8xf32>
    memref.copy %x, %y : memref<?x8xf32> to memref<?x8xf32>
    %f = arith.constant 1.0 : f32
    linalg.fill ins(%f : f32) outs(%a : memref<?x8xf32>)
    linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%a, %device_errors : memref<?x8xf32>, memref<4xi64>) outs(%b : memref<?x8xf32>) {
    ^bb0(%new: f32, %word: i64, %old: f32):
      %zero = arith.constant 0 : i64
      %none = arith.cmpi eq, %word, %zero : i64
      %kept = arith.select %none, %new, %old : f32
      linalg.yield %kept : f32
    }
    %part = memref.reinterpret_cast %a to offset: [%n], sizes: [%n], strides: [1] : memref<?x8xf32> to memref<?xf32, strided<[1], offset: ?>>
    memref.copy %part, %c : memref<?xf32, strided<[1], offset: ?>> to memref<?xf32>
    func.return
  }
}
