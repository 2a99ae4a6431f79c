// RUN: openinfer-opt %s -p 'partition-kernels{worth=1000}' --split-input-file | filecheck %s

// Small kernels are for other processes: the step is more work than they are. It stays in unit 0, with its data and
// what the host calls.

// CHECK-LABEL: func.func @step({{[^)]*}}) {
// CHECK: func.func private @softmax_0(%x: memref<4x8xf32>, %y: memref<4x8xf32>) attributes {openinfer.unit = 1 : i64} {
// CHECK: func.func private @matmul_0({{.*}}) attributes {openinfer.unit = 1 : i64} {
// CHECK: func.func private @matmul_1({{.*}}) attributes {openinfer.unit = 3 : i64} {
// CHECK: func.func @prepare_0({{[^)]*}}) {
func.func @step(%x: memref<4x8xf32>, %w: memref<8x8xf32>, %y: memref<4x8xf32>) {
  func.call @softmax_0(%x, %y) : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  func.call @matmul_0(%x, %w, %y) : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>) -> ()
  func.call @matmul_1(%x, %w, %y) : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
func.func private @softmax_0(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
func.func private @matmul_0(%x: memref<4x8xf32>, %w: memref<8x8xf32>, %y: memref<4x8xf32>) {
  nn.matmul(%x, %w) outs(%y) : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
func.func private @matmul_1(%x: memref<4x8xf32>, %w: memref<8x8xf32>, %y: memref<4x8xf32>) {
  nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
func.func @prepare_0(%w: memref<8x8xf32>, %p: memref<8x8xf32>) {
  memref.copy %w, %p : memref<8x8xf32> to memref<8x8xf32>
  func.return
}

// -----

// A program that is not worth another process is left alone.

// CHECK-LABEL: func.func private @softmax_0({{[^)]*}}) {
func.func private @softmax_0(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
