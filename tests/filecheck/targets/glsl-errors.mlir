// RUN: openinfer-opt %s --split-input-file --verify-diagnostics -t glsl | filecheck %s

// CHECK: error[OI0764]: no device kernel to write as GLSL
func.func @step() {
  func.return
}

// -----

// CHECK: error[OI0765]: layer.oi:3:5: 'math.acos' has no text in GLSL
func.func private @acos_0(%x: memref<4xf32>, %i: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %v = memref.load %x[%i] : memref<4xf32>
  %t = math.acos %v : f32 loc("layer.oi":3:5)
  memref.store %t, %x[%i] : memref<4xf32>
  func.return
}

// -----

// CHECK: error[OI0765]: the type bf16 has no text in GLSL
func.func private @copy_0(%x: memref<4xbf16>, %i: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %v = memref.load %x[%i] : memref<4xbf16>
  memref.store %v, %x[%i] : memref<4xbf16>
  func.return
}

// -----

// CHECK: error[OI0765]: memory of i1 has no text in GLSL
func.func private @bits_0(%x: memref<4xi1>, %i: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %v = memref.load %x[%i] : memref<4xi1>
  memref.store %v, %x[%i] : memref<4xi1>
  func.return
}
