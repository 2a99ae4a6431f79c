// RUN: openinfer-opt %s -p block-device-sums --split-input-file | filecheck %s

// A sum whose length only the run knows goes in blocks of 56 additions, which begin at what changes nothing;
// what they add up to is carried with what rounding took from it.
// CHECK-LABEL: func.func @unknown
// CHECK: %[[SPAN:\S+]] = arith.constant 56 : index
// CHECK: %[[HIGH:\S+]], %[[LOW:\S+]] = scf.for %block = %{{\S+}} to %n step %[[SPAN]] iter_args(%[[H:\S+]] = %zero, %[[L:\S+]] = %{{\S+}}) -> (f32, f32)
// CHECK: %[[NEXT:\S+]] = arith.addi %block
// CHECK-NEXT: %[[END:\S+]] = arith.minsi %[[NEXT]], %n
// CHECK-NEXT: %[[NOTHING:\S+]] = arith.constant -0.000000e+00 : f32
// CHECK-NEXT: %[[PART:\S+]] = scf.for %k = %block to %[[END]] step %one iter_args(%[[OLD:\S+]] = %[[NOTHING]]) -> (f32)
// CHECK: arith.addf %[[OLD]]
// CHECK: arith.addf %[[H]], %[[PART]] : f32
// CHECK: scf.yield %{{\S+}}, %{{\S+}} : f32, f32
// CHECK: arith.addf %[[HIGH]], %[[LOW]] : f32
// CHECK: func.return
func.func @unknown(%x: memref<?xf32>, %n: index) -> f32 attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  }
  func.return %s : f32
}
// -----
// Of products 128 follow one another, what is carried beside them goes from block to block; where several
// invocations share a sum each has a part of what may follow.
// CHECK-LABEL: func.func @products
// CHECK: arith.constant 128 : index
// CHECK: scf.for %block = {{.*}} -> (f32, index, f32)
// CHECK: scf.for %k = {{.*}} -> (f32, index)
// CHECK: arith.constant 128 : index
// CHECK: scf.for %block
// CHECK: scf.for %k
func.func @products(%x: memref<9000xf32>) -> (f32, index, f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %length = arith.constant 9000 : index
  %some = arith.constant 200 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s, %last = scf.for %k = %none to %length step %one iter_args(%old = %zero, %before = %none) -> (f32, index) {
    %v = memref.load %x[%k] : memref<9000xf32>
    %new = math.fma %v, %v, %old : f32
    scf.yield %new, %k : f32, index
  }
  %t = scf.for %k = %none to %some step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<9000xf32>
    %new = math.fma %v, %v, %old : f32
    scf.yield %new : f32
  } {openinfer.beside = 64 : index}
  func.return %s, %last, %t : f32, index, f32
}
// -----
// A loop around one whose rounds only the run knows has a block for each of its own.
// CHECK-LABEL: func.func @around
// CHECK: %c1 = arith.constant 1 : index
// CHECK: scf.for %block = %c0 to %c8 step %c1
// CHECK: arith.constant 56 : index
func.func @around(%x: memref<8x?xf32>, %n: index) -> f32 attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s = scf.for %i = %none to %eight step %one iter_args(%so_far = %zero) -> (f32) {
    %t = scf.for %k = %none to %n step %one iter_args(%old = %so_far) -> (f32) {
      %v = memref.load %x[%i, %k] : memref<8x?xf32>
      %new = arith.addf %old, %v : f32
      scf.yield %new : f32
    }
    scf.yield %t : f32
  }
  func.return %s : f32
}
// -----
// Not: sums that are known to be short, as their bounds or their schedule say, or to be in order, of integers, what is more than a
// sum, and kernels of the processor.
// CHECK-LABEL: func.func @short
// CHECK-NOT: scf.for %block
// CHECK-LABEL: func.func @on_the_processor
// CHECK-NOT: scf.for %block
func.func @short(%x: memref<?xf32>, %y: memref<?xi32>, %n: index) -> (f32, f32, f32, i32, f32, f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %few = arith.constant 64 : index
  %many = arith.constant 8192 : index
  %zero = arith.constant 0.000000e+00 : f32
  %izero = arith.constant 0 : i32
  %a = scf.for %k = %none to %few step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  }
  %b = scf.for %k = %none to %many step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = math.fma %v, %v, %old : f32
    scf.yield %new : f32
  }
  %c = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  } {openinfer.rounds = 64 : index}
  %o = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  } {openinfer.sums = "in order"}
  %d = scf.for %k = %none to %n step %one iter_args(%old = %izero) -> (i32) {
    %v = memref.load %y[%k] : memref<?xi32>
    %new = arith.addi %old, %v : i32
    scf.yield %new : i32
  }
  %e = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %half = arith.mulf %old, %v : f32
    %new = arith.addf %half, %v : f32
    scf.yield %new : f32
  }
  func.return %a, %b, %c, %d, %e, %o : f32, f32, f32, i32, f32, f32
}
func.func @on_the_processor(%x: memref<?xf32>, %n: index) -> f32 {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  }
  func.return %s : f32
}
// -----
// Nor where mathematics are strict.
// CHECK-LABEL: func.func @strict
// CHECK-NOT: scf.for %block
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.strict_math} {
  func.func @strict(%x: memref<?xf32>, %n: index) -> f32 attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    %none = arith.constant 0 : index
    %one = arith.constant 1 : index
    %zero = arith.constant 0.000000e+00 : f32
    %s = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
      %v = memref.load %x[%k] : memref<?xf32>
      %new = arith.addf %old, %v : f32
      scf.yield %new : f32
    }
    func.return %s : f32
  }
}
