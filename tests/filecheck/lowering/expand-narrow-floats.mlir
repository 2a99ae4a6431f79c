// RUN: openinfer-opt %s -p expand-narrow-floats --split-input-file | filecheck %s

// Memory holds integers of 16 bits, which are the upper half of an f32.
// CHECK-LABEL: func.func private @widen_0(%x: memref<?xi16>, %y: memref<?xf32>)
// CHECK: %a = memref.load %x[%c0] : memref<?xi16>
// CHECK-NEXT: %[[W:\S+]] = arith.extui %a : i16 to i32
// CHECK-NEXT: %[[C:\S+]] = arith.constant 16 : i32
// CHECK-NEXT: %[[U:\S+]] = arith.shli %[[W]], %[[C]] : i32
// CHECK-NEXT: %b = arith.bitcast %[[U]] : i32 to f32
// CHECK-NEXT: memref.store %b, %y[%c0] : memref<?xf32>
func.func private @widen_0(%x: memref<?xbf16>, %y: memref<?xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %a = memref.load %x[%c0] : memref<?xbf16>
  %b = arith.extf %a : bf16 to f32
  memref.store %b, %y[%c0] : memref<?xf32>
  func.return
}
// -----
// What is half-way goes to the even neighbour; NaN stays one; arithmetic is done in f32.
// CHECK-LABEL: func.func private @compute_0(%x: memref<?xi16>)
// CHECK: %[[ONE:\S+]] = arith.constant 16256 : i16
// CHECK: arith.addf %{{\S+}}, %{{\S+}} : f32
// CHECK: %[[B:\S+]] = arith.bitcast %{{\S+}} : f32 to i32
// CHECK: %[[UPPER:\S+]] = arith.shrui %[[B]]
// CHECK: arith.andi %[[UPPER]]
// CHECK: arith.cmpi ugt
// CHECK: arith.ori %[[UPPER]]
// CHECK: arith.select
// CHECK: arith.trunci %{{\S+}} : i32 to i16
// CHECK: memref.store %{{\S+}}, %x[%c0] : memref<?xi16>
func.func private @compute_0(%x: memref<?xbf16>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %a = memref.load %x[%c0] : memref<?xbf16>
  %one = arith.constant 1.0 : bf16
  %b = arith.addf %a, %one : bf16
  memref.store %b, %x[%c0] : memref<?xbf16>
  func.return
}
// -----
// To f64 by way of f32.
// CHECK-LABEL: func.func private @double_0
// CHECK: arith.bitcast %{{\S+}} : i32 to f32
// CHECK: arith.extf %{{\S+}} : f32 to f64
func.func private @double_0(%x: memref<?xbf16>, %y: memref<?xf64>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %a = memref.load %x[%c0] : memref<?xbf16>
  %b = arith.extf %a : bf16 to f64
  memref.store %b, %y[%c0] : memref<?xf64>
  func.return
}
// -----
// 8-bit floats are bytes. A subnormal one is a number of steps, never a subnormal f32.
// CHECK-LABEL: func.func private @eight_0(%x: memref<?xi8>, %y: memref<?xf32>)
// CHECK: %[[W:\S+]] = arith.extui %a : i8 to i32
// CHECK: %[[N:\S+]] = arith.sitofp %{{\S+}} : i32 to f32
// CHECK: arith.mulf %[[N]], %{{\S+}} : f32
// CHECK: arith.cmpi ult
// CHECK: arith.select
// CHECK: arith.cmpi uge
// CHECK: arith.select
// CHECK-NOT: f8E4M3FN
func.func private @eight_0(%x: memref<?xf8E4M3FN>, %y: memref<?xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %a = memref.load %x[%c0] : memref<?xf8E4M3FN>
  %b = arith.extf %a : f8E4M3FN to f32
  memref.store %b, %y[%c0] : memref<?xf32>
  func.return
}
// -----
// Functions of the host are not touched.
// CHECK-LABEL: func.func @host(%x: memref<?xbf16>, %y: memref<?xf8E5M2>)
func.func @host(%x: memref<?xbf16>, %y: memref<?xf8E5M2>) {
  func.return
}
