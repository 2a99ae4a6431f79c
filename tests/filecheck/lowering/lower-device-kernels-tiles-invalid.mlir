// RUN: not openinfer-opt %s -p lower-device-kernels 2>&1 | filecheck %s

// A row of a table that no kernel can be made of is refused, not run.
// CHECK: error[OI0532]: the tile 64x48 by 16, each 4x4 of the product 256x512x96 f32 transposed cannot be: its 192 invocations are no power of two
// CHECK: take the row out of the table of tiles
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.device_tiles = {"256x512x96 f32 transposed" = array<i64: 64, 48, 16, 4, 4>}} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<256x512xf32>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x512xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<256x96xf32>
    func.call @wrong_0(%a, %w, %y) : (memref<256x512xf32>, memref<96x512xf32>, memref<256x96xf32>) -> ()
    func.return
  }
  func.func private @wrong_0(%x: memref<256x512xf32>, %w: memref<96x512xf32>, %y: memref<256x96xf32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<256x512xf32>, memref<96x512xf32>, memref<256x96xf32>) -> ()
    func.return
  }
}
