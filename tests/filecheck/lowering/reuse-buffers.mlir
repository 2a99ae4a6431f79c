// RUN: openinfer-opt %s -p reuse-buffers --split-input-file | filecheck %s
// RUN: openinfer-opt %s --observe -p reuse-buffers --split-input-file | filecheck %s --check-prefix OBSERVE

// CHECK-LABEL: func.func @dying
// CHECK: linalg.generic {{.*}} ins(%x, %a : memref<4x4xf32>, memref<4x4xf32>) outs(%a : memref<4x4xf32>)
// CHECK: nn.publish %a "y"
// OBSERVE-LABEL: func.func @dying
// OBSERVE: linalg.generic {{.*}} outs(%c : memref<4x4xf32>)
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @dying(%x: memref<4x4xf32>) {
  %a = memref.alloc() : memref<4x4xf32>
  nn.softmax(%x) outs(%a) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  %c = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %a : memref<4x4xf32>, memref<4x4xf32>) outs(%c : memref<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.subf %p, %q : f32
    linalg.yield %r : f32
  }
  nn.publish %c "y" : memref<4x4xf32>
  func.return
}
// -----
// Read later.
// CHECK-LABEL: func.func @read_later
// CHECK: linalg.generic {{.*}} outs(%c
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @read_later(%x: memref<4x4xf32>) {
  %a = memref.alloc() : memref<4x4xf32>
  nn.softmax(%x) outs(%a) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  %c = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : memref<4x4xf32>) outs(%c : memref<4x4xf32>) {
  ^bb0(%q: f32, %o: f32):
    %r = arith.negf %q : f32
    linalg.yield %r : f32
  }
  nn.publish %c "y" : memref<4x4xf32>
  nn.publish %a "z" : memref<4x4xf32>
  func.return
}
// -----
// Read transposed as well, directly or through a view.
// CHECK-LABEL: func.func @transposed
// CHECK: outs(%c : memref<4x4xf32>)
// CHECK: outs(%d : memref<4x4xf32>)
#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
func.func @transposed(%x: memref<4x4xf32>) {
  %a = memref.alloc() : memref<4x4xf32>
  nn.softmax(%x) outs(%a) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  %c = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %a : memref<4x4xf32>, memref<4x4xf32>) outs(%c : memref<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  }
  %v = nn.view %c[] : memref<4x4xf32> to memref<2x8xf32>
  %w = nn.view %v[] : memref<2x8xf32> to memref<4x4xf32>
  %d = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [#id, #swap, #id], iterator_types = ["parallel", "parallel"]} ins(%c, %w : memref<4x4xf32>, memref<4x4xf32>) outs(%d : memref<4x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  }
  nn.publish %d "y" : memref<4x4xf32>
  func.return
}
// -----
// An input, another element type, a broadcast operand, a value that a loop carries.
// CHECK-LABEL: func.func @kept
// CHECK: outs(%c : memref<4xf32>)
// CHECK: outs(%d : memref<4xi32>)
// CHECK: outs(%e : memref<4x4xf32>)
// CHECK: outs(%g : memref<4x4xf32>)
#id = affine_map<(d0) -> (d0)>
#all = affine_map<(d0, d1) -> (d0, d1)>
func.func @kept(%x: memref<4xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : memref<4xf32>) outs(%c : memref<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  %d = memref.alloc() : memref<4xi32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%c : memref<4xf32>) outs(%d : memref<4xi32>) {
  ^bb0(%p: f32, %o: i32):
    %r = arith.fptosi %p : f32 to i32
    linalg.yield %r : i32
  }
  %e = memref.alloc() : memref<4x4xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, #all], iterator_types = ["parallel", "parallel"]} ins(%c : memref<4xf32>) outs(%e : memref<4x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  }
  scf.for %i = %c0 to %n step %c1 {
    %g = memref.alloc() : memref<4x4xf32>
    linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%e : memref<4x4xf32>) outs(%g : memref<4x4xf32>) {
    ^bb0(%p: f32, %o: f32):
      %r = arith.negf %p : f32
      linalg.yield %r : f32
    }
    nn.softmax(%g) outs(%g) {axis = 1 : i64} : (memref<4x4xf32>, memref<4x4xf32>) -> ()
  }
  nn.publish %d "y" : memref<4xi32>
  func.return
}
// -----
// A barrier between what computes the operand and the operation: it gets a buffer of its own.
// CHECK-LABEL: func.func @barrier
// CHECK: %[[T:.*]] = memref.alloc
// CHECK: %[[U:.*]] = memref.alloc
// CHECK: ins(%[[T]] : {{.*}} outs(%[[U]]
// CHECK-LABEL: func.func @without
// CHECK: %[[T:.*]] = memref.alloc
// CHECK-NOT: memref.alloc
// CHECK: ins(%[[T]] : {{.*}} outs(%[[T]]
#id = affine_map<(d0) -> (d0)>
func.func @barrier(%x: memref<4xf32>) {
  %t = memref.alloc() : memref<4xf32>
  nn.softmax(%x) outs(%t) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  nn.barrier
  %u = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%u : memref<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  nn.publish %u "y" : memref<4xf32>
  func.return
}
func.func @without(%x: memref<4xf32>) {
  %t = memref.alloc() : memref<4xf32>
  nn.softmax(%x) outs(%t) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  %u = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : memref<4xf32>) outs(%u : memref<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  nn.publish %u "y" : memref<4xf32>
  func.return
}
