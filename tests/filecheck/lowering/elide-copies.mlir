// RUN: openinfer-opt %s -p elide-copies --split-input-file | filecheck %s

// CHECK-LABEL: func.func @result
// CHECK-NEXT: nn.softmax(%x) outs(%y)
// CHECK-NEXT: func.return
func.func @result(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  %t = memref.alloc() : memref<4x8xf32>
  nn.softmax(%x) outs(%t) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  memref.copy %t, %y : memref<4x8xf32> to memref<4x8xf32>
  func.return
}
// -----
// The value that a loop carries is changed in place where each element is read just before it is
// written.
// CHECK-LABEL: func.func @in_step
// CHECK: scf.for
// CHECK-NEXT: linalg.generic {{.*}} ins(%h : memref<4x4xf32>) outs(%h : memref<4x4xf32>)
// CHECK-NOT: memref.copy
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @in_step(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %h = memref.alloc() : memref<4x4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %t = memref.alloc() : memref<4x4xf32>
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%h : memref<4x4xf32>) outs(%t : memref<4x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %r = math.exp %a : f32
      linalg.yield %r : f32
    }
    memref.copy %t, %h : memref<4x4xf32> to memref<4x4xf32>
  }
  nn.publish %h "y" : memref<4x4xf32>
  func.return
}
// -----
// Read at another place, read through a view of another shape, or by a product: the copy stays.
// CHECK-LABEL: func.func @out_of_step
// CHECK-COUNT-3: memref.copy
#id = affine_map<(d0, d1) -> (d0, d1)>
#swap = affine_map<(d0, d1) -> (d1, d0)>
func.func @out_of_step(%n: index, %w: memref<4x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %h = memref.alloc() : memref<4x4xf32>
  %g = memref.alloc() : memref<4x4xf32>
  %p = memref.alloc() : memref<4x4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %t = memref.alloc() : memref<4x4xf32>
    linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%h : memref<4x4xf32>) outs(%t : memref<4x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
    memref.copy %t, %h : memref<4x4xf32> to memref<4x4xf32>
    %v = nn.view %g[] : memref<4x4xf32> to memref<2x8xf32>
    %s = nn.view %v[] : memref<2x8xf32> to memref<4x4xf32>
    %u = memref.alloc() : memref<4x4xf32>
    linalg.generic {indexing_maps = [#swap, #id], iterator_types = ["parallel", "parallel"]} ins(%s : memref<4x4xf32>) outs(%u : memref<4x4xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
    }
    memref.copy %u, %g : memref<4x4xf32> to memref<4x4xf32>
    %o = memref.alloc() : memref<4x4xf32>
    nn.matmul(%p, %w) outs(%o) : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
    memref.copy %o, %p : memref<4x4xf32> to memref<4x4xf32>
  }
  nn.publish %h "y" : memref<4x4xf32>
  nn.publish %g "z" : memref<4x4xf32>
  nn.publish %p "w" : memref<4x4xf32>
  func.return
}
// -----
// An inner loop would read what its round before wrote.
// CHECK-LABEL: func.func @inner_loop
// CHECK: memref.copy
#id = affine_map<(d0) -> (d0)>
func.func @inner_loop(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %h = memref.alloc() : memref<4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %t = memref.alloc() : memref<4xf32>
    scf.for %j = %c0 to %n step %c1 {
      linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%h : memref<4xf32>) outs(%t : memref<4xf32>) {
      ^bb0(%a: f32, %b: f32):
        %r = math.exp %a : f32
        linalg.yield %r : f32
      }
    }
    memref.copy %t, %h : memref<4xf32> to memref<4xf32>
  }
  nn.publish %h "y" : memref<4xf32>
  func.return
}
// -----
// Two values that change places need one of the two saved.
// CHECK-LABEL: func.func @swap
// CHECK: memref.copy %v, %saved
// CHECK-NEXT: memref.copy %u, %v
// CHECK-NEXT: memref.copy %saved, %u
func.func @swap(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %u = memref.alloc() : memref<4xf32>
  %v = memref.alloc() : memref<4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %saved = memref.alloc() : memref<4xf32>
    memref.copy %v, %saved : memref<4xf32> to memref<4xf32>
    %other = memref.alloc() : memref<4xf32>
    memref.copy %u, %other : memref<4xf32> to memref<4xf32>
    memref.copy %saved, %u : memref<4xf32> to memref<4xf32>
    memref.copy %other, %v : memref<4xf32> to memref<4xf32>
  }
  nn.publish %u "y" : memref<4xf32>
  nn.publish %v "z" : memref<4xf32>
  func.return
}
// -----
// The source is read again, or is no buffer of this function.
// CHECK-LABEL: func.func @kept
// CHECK: memref.copy %t, %y
// CHECK: memref.copy %x, %z
func.func @kept(%x: memref<4x8xf32>, %y: memref<4x8xf32>, %z: memref<4x8xf32>, %w: memref<4x8xf32>) {
  %t = memref.alloc() : memref<4x8xf32>
  nn.softmax(%x) outs(%t) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  memref.copy %t, %y : memref<4x8xf32> to memref<4x8xf32>
  nn.softmax(%t) outs(%w) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  memref.copy %x, %z : memref<4x8xf32> to memref<4x8xf32>
  func.return
}
// -----
// A barrier between what computes a value and its copy: the copy stays where it is.
// CHECK-LABEL: func.func @barrier
// CHECK: nn.softmax(%x) outs(%t)
// CHECK-NEXT: nn.barrier
// CHECK-NEXT: memref.copy %t, %y
// CHECK-LABEL: func.func @without
// CHECK: nn.softmax(%x) outs(%y)
// CHECK-NOT: memref.copy
func.func @barrier(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  %t = memref.alloc() : memref<4x8xf32>
  nn.softmax(%x) outs(%t) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  nn.barrier
  memref.copy %t, %y : memref<4x8xf32> to memref<4x8xf32>
  func.return
}
func.func @without(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  %t = memref.alloc() : memref<4x8xf32>
  nn.softmax(%x) outs(%t) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>) -> ()
  memref.copy %t, %y : memref<4x8xf32> to memref<4x8xf32>
  func.return
}
