// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// An invocation writes the bytes of a block: two of d, which has the same bits on every device where it is NaN, and 32 codes.
// CHECK-LABEL: func.func private @quantize_blocks_0
// CHECK: scf.for %k =
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: %[[WORD:.*]] = arith.extui %{{.*}} : i16 to i32
// CHECK: %[[NAN:.*]] = arith.constant 32256 : i32
// CHECK: arith.select %{{.*}}, %[[WORD]], %[[NAN]] : i32
// CHECK: memref.store %{{.*}}, %y
// CHECK: memref.store %{{.*}}, %y
// CHECK: scf.for %k
// CHECK: math.roundeven
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x64xf32>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x68xi8>
    func.call @quantize_blocks_0(%x, %y) : (memref<?x64xf32>, memref<?x68xi8>) -> ()
    func.return
  }
  func.func private @quantize_blocks_0(%x: memref<?x64xf32>, %y: memref<?x68xi8>) {
    nn.quantize_blocks(%x) outs(%y) {block = "q8_0"} : (memref<?x64xf32>, memref<?x68xi8>) -> ()
    func.return
  }
}
// -----
// An invocation reads an element, and d of its block.
// CHECK-LABEL: func.func private @dequantize_blocks_0
// CHECK: memref.load %x
// CHECK: memref.load %x
// CHECK: arith.bitcast %{{.*}} : i16 to f16
// CHECK: memref.load %x
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x68xi8>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x64xf32>
    func.call @dequantize_blocks_0(%x, %y) : (memref<?x68xi8>, memref<?x64xf32>) -> ()
    func.return
  }
  func.func private @dequantize_blocks_0(%x: memref<?x68xi8>, %y: memref<?x64xf32>) {
    nn.dequantize_blocks(%x) outs(%y) {block = "q8_0"} : (memref<?x68xi8>, memref<?x64xf32>) -> ()
    func.return
  }
}
