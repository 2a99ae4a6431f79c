// RUN: openinfer-opt %s -p outline-kernels --split-input-file | filecheck %s

// Equal operations on different buffers share a function; another axis is another one.
// CHECK: func.func @step
// CHECK: func.call @softmax_0(%x, %a)
// CHECK: func.call @softmax_0(%a, %b)
// CHECK: func.call @softmax_1(%b, %a)
// CHECK-NEXT: func.return
// CHECK: func.func private @softmax_0(%x: memref<4x4xf32>, %a: memref<4x4xf32>)
// CHECK-NEXT: nn.softmax(%x) outs(%a) {axis = 1 : i64}
// CHECK: func.func private @softmax_1(
// CHECK-NOT: @softmax_2
func.func @step(%x: memref<4x4xf32>) {
  %a = memref.alloc() : memref<4x4xf32>
  %b = memref.alloc() : memref<4x4xf32>
  nn.softmax(%x) outs(%a) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  nn.softmax(%a) outs(%b) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  nn.softmax(%b) outs(%a) {axis = 0 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  func.return
}
// -----
// In place is another kernel than from one buffer to another: its only buffer is named once.
// CHECK: func.call @elementwise_0(%x, %a)
// CHECK-NEXT: func.call @elementwise_1(%a)
// CHECK: func.func private @elementwise_1(%a: memref<4xf32>)
// CHECK-NEXT: linalg.generic {{.*}} ins(%a : memref<4xf32>) outs(%a : memref<4xf32>)
#id = affine_map<(d0) -> (d0)>
func.func @step(%x: memref<4xf32>) {
  %a = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%a : memref<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%a : memref<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  func.return
}
// -----
// A constant or a size that a body uses is said again inside; an index of the step is passed.
// CHECK: scf.for %i
// CHECK-NEXT: func.call @elementwise_0(%x, %i)
// CHECK: func.func private @elementwise_0(%x: memref<?xi64>, %i: index)
// CHECK-DAG: nn.size "N"
// CHECK-DAG: arith.constant 3 : i64
// CHECK: linalg.generic
#id = affine_map<(d0) -> (d0)>
func.func @step(%x: memref<?xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k = arith.constant 3 : i64
  %n = nn.size "N"
  scf.for %i = %c0 to %n step %c1 {
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<?xi64>) outs(%x : memref<?xi64>) {
    ^bb0(%p: i64, %o: i64):
      %j = arith.addi %i, %n : index
      %w = arith.index_cast %j : index to i64
      %s = arith.muli %w, %k : i64
      %r = arith.addi %p, %s : i64
      linalg.yield %r : i64
    }
  }
  func.return
}
// -----
// Control flow, copies and views stay in the step; what is in another function stays there.
// CHECK: func.func @step
// CHECK: nn.view
// CHECK: memref.copy
// CHECK: func.func @prepare_0
// CHECK-NEXT: nn.softmax
// CHECK-NOT: func.call
func.func @step(%x: memref<4x4xf32>) {
  %a = memref.alloc() : memref<2x8xf32>
  %v = nn.view %x[] : memref<4x4xf32> to memref<2x8xf32>
  memref.copy %v, %a : memref<2x8xf32> to memref<2x8xf32>
  func.return
}
func.func @prepare_0(%x: memref<4x4xf32>, %y: memref<4x4xf32>) {
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  func.return
}
// -----
// Work on single elements is no kernel: it becomes scalar code of the step, in the place where it stood.
// All is loaded before anything is stored; an output that the body does not ask for is not loaded.
// CHECK: func.func @step
// CHECK-NEXT: arith.constant
// CHECK-NEXT: %[[A:\S+]] = memref.load %n[] : memref<i32>
// CHECK-NEXT: %[[K:\S+]] = arith.constant 1 : i32
// CHECK-NEXT: %[[B:\S+]] = arith.addi %[[A]], %[[K]] : i32
// CHECK-NEXT: memref.store %[[B]], %n[] : memref<i32>
// CHECK-NEXT: memref.store %k, %m[] : memref<i32>
// CHECK-NEXT: func.call @elementwise_0(%n, %x)
// CHECK-NEXT: arith.constant
// CHECK-NEXT: func.call @fill_0(%p)
// CHECK-NEXT: func.return
// CHECK: func.func private @elementwise_0(
// CHECK: func.func private @fill_0(%p: memref<i4>)
#none = affine_map<() -> ()>
#row = affine_map<(d0) -> (d0)>
#one = affine_map<(d0) -> ()>
func.func @step(%n: memref<i32>, %m: memref<i32>, %x: memref<4xi32>, %p: memref<i4>) {
  %k = arith.constant 1 : i32
  linalg.generic {indexing_maps = [#none, #none], iterator_types = []} ins(%n : memref<i32>) outs(%n : memref<i32>) {
  ^bb0(%a: i32, %o: i32):
    %r = arith.addi %a, %k : i32
    linalg.yield %r : i32
  }
  linalg.fill ins(%k : i32) outs(%m : memref<i32>)
  // One element of several, and elements that share a byte with a tail that is to be cleared.
  linalg.generic {indexing_maps = [#one, #row], iterator_types = ["parallel"]} ins(%n : memref<i32>) outs(%x : memref<4xi32>) {
  ^bb0(%a: i32, %o: i32):
    linalg.yield %a : i32
  }
  %q = arith.constant 1 : i4
  linalg.fill ins(%q : i4) outs(%p : memref<i4>)
  func.return
}
