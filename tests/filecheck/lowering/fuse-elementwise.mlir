// RUN: openinfer-opt %s -p fuse-elementwise --split-input-file | filecheck %s

// CHECK-LABEL: func.func @chain
// CHECK: linalg.generic {{.*}} ins(%x : tensor<4x8xf32>)
// CHECK: %[[E:.*]] = math.exp
// CHECK-NEXT: %[[N:.*]] = arith.negf %[[E]]
// CHECK-NEXT: linalg.yield %[[N]]
// CHECK-NOT: linalg.generic
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @chain(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  func.return %z : tensor<4x8xf32>
}
// -----
// The map of the producer's operand goes through the consumer's map, here a transposition.
// CHECK-LABEL: func.func @through_a_map
// CHECK: indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME: ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>)
// CHECK-NOT: linalg.generic
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @through_a_map(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<8x4xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d1)>, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.addf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %f = tensor.empty() : tensor<8x4xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x8xf32>) outs(%f : tensor<8x4xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  } -> tensor<8x4xf32>
  func.return %z : tensor<8x4xf32>
}
// -----
// CHECK-LABEL: func.func @reduction
// CHECK: iterator_types = ["parallel", "reduction"]} ins(%x
// CHECK: math.exp
// CHECK-NEXT: arith.addf
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @reduction(%x: tensor<4x8xf32>, %s: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %z = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%y : tensor<4x8xf32>) outs(%s : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.addf %b, %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
// -----
// Two users, a barrier, a hint.
// CHECK-LABEL: func.func @kept_apart
// CHECK-COUNT-6: linalg.generic
#id = affine_map<(d0) -> (d0)>
func.func @kept_apart(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %u = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.tanh %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  nn.barrier
  %v = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%u : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.absf %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %h = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) attrs = {openinfer.no_fuse} {
  ^bb0(%a: f32, %b: f32):
    %r = math.sin %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%h : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.cos %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  func.return %z, %v, %w, %y : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// -----
// A row that is stretched over a matrix is not computed again for each row of it.
// CHECK-LABEL: func.func @stretched
// CHECK: math.exp
// CHECK: linalg.generic
// CHECK: arith.addf
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @stretched(%x: tensor<1x8xf32>, %m: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<1x8xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x8xf32>) outs(%e : tensor<1x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<1x8xf32>
  %f = tensor.empty() : tensor<4x8xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (0, d1)>, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %m : tensor<1x8xf32>, tensor<4x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  func.return %z : tensor<4x8xf32>
}
// -----
// What stands before a loop is not computed in every round.
// CHECK-LABEL: func.func @before_a_loop
// CHECK: math.exp
// CHECK: scf.for
// CHECK: linalg.generic
#id = affine_map<(d0) -> (d0)>
func.func @before_a_loop(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> (tensor<4xf32>) {
    %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%y, %h : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %c: f32, %b: f32):
      %r = arith.addf %a, %c : f32
      linalg.yield %r : f32
    } -> tensor<4xf32>
    scf.yield %z : tensor<4xf32>
  }
  func.return %s : tensor<4xf32>
}
// -----
// What asks for places joins a user with the same single loop; of two loops, none could be made of them any more.
// CHECK-LABEL: func.func @places
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(
// CHECK: linalg.index 0
// CHECK-NOT: linalg.generic
// CHECK: math.exp
// CHECK: linalg.index 1
// CHECK: linalg.generic
// CHECK: math.exp
#one = affine_map<(d0) -> (d0)>
#two = affine_map<(d0, d1) -> (d0, d1)>
func.func @places() -> (tensor<8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %i = linalg.generic {indexing_maps = [#one], iterator_types = ["parallel"]} outs(%e : tensor<8xf32>) {
  ^bb0(%o: f32):
    %p = linalg.index 0 : index
    %q = arith.index_cast %p : index to i64
    %r = arith.sitofp %q : i64 to f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%i : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %f = tensor.empty() : tensor<4x8xf32>
  %j = linalg.generic {indexing_maps = [#two], iterator_types = ["parallel", "parallel"]} outs(%f : tensor<4x8xf32>) {
  ^bb0(%o: f32):
    %p = linalg.index 1 : index
    %q = arith.index_cast %p : index to i64
    %r = arith.sitofp %q : i64 to f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  %z = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%j : tensor<4x8xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.exp %a : f32
    linalg.yield %r : f32
  } -> tensor<4x8xf32>
  func.return %y, %z : tensor<8xf32>, tensor<4x8xf32>
}
// -----
// A kernel of Vulkan has 29 buffers: these two have 29 together.
// CHECK-LABEL: func.func @as_many_buffers
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
// CHECK-LABEL: func.func @too_many_buffers
// CHECK-COUNT-2: linalg.generic
#one = affine_map<(d0) -> (d0)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
func.func @as_many_buffers(%x0: tensor<8xf32>, %x1: tensor<8xf32>, %x2: tensor<8xf32>, %x3: tensor<8xf32>, %x4: tensor<8xf32>, %x5: tensor<8xf32>, %x6: tensor<8xf32>, %x7: tensor<8xf32>, %x8: tensor<8xf32>, %x9: tensor<8xf32>, %x10: tensor<8xf32>, %x11: tensor<8xf32>, %x12: tensor<8xf32>, %x13: tensor<8xf32>, %x14: tensor<8xf32>, %x15: tensor<8xf32>, %x16: tensor<8xf32>, %x17: tensor<8xf32>, %x18: tensor<8xf32>, %x19: tensor<8xf32>, %x20: tensor<8xf32>, %x21: tensor<8xf32>, %x22: tensor<8xf32>, %x23: tensor<8xf32>, %x24: tensor<8xf32>, %x25: tensor<8xf32>, %x26: tensor<8xf32>, %y0: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one], iterator_types = ["parallel"]} ins(%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12, %x13, %x14, %x15, %x16, %x17, %x18, %x19, %x20, %x21, %x22, %x23, %x24, %x25, %x26 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %a5: f32, %a6: f32, %a7: f32, %a8: f32, %a9: f32, %a10: f32, %a11: f32, %a12: f32, %a13: f32, %a14: f32, %a15: f32, %a16: f32, %a17: f32, %a18: f32, %a19: f32, %a20: f32, %a21: f32, %a22: f32, %a23: f32, %a24: f32, %a25: f32, %a26: f32, %o: f32):
    %r = arith.addf %a0, %a26 : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %q = linalg.generic {indexing_maps = [#one, #one, #one], iterator_types = ["parallel"]} ins(%p, %y0 : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %o: f32):
    %r = arith.addf %a0, %a1 : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  func.return %q : tensor<8xf32>
}
func.func @too_many_buffers(%x0: tensor<8xf32>, %x1: tensor<8xf32>, %x2: tensor<8xf32>, %x3: tensor<8xf32>, %x4: tensor<8xf32>, %x5: tensor<8xf32>, %x6: tensor<8xf32>, %x7: tensor<8xf32>, %x8: tensor<8xf32>, %x9: tensor<8xf32>, %x10: tensor<8xf32>, %x11: tensor<8xf32>, %x12: tensor<8xf32>, %x13: tensor<8xf32>, %x14: tensor<8xf32>, %x15: tensor<8xf32>, %x16: tensor<8xf32>, %x17: tensor<8xf32>, %x18: tensor<8xf32>, %x19: tensor<8xf32>, %x20: tensor<8xf32>, %x21: tensor<8xf32>, %x22: tensor<8xf32>, %x23: tensor<8xf32>, %x24: tensor<8xf32>, %x25: tensor<8xf32>, %x26: tensor<8xf32>, %y0: tensor<8xf32>, %y1: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one], iterator_types = ["parallel"]} ins(%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12, %x13, %x14, %x15, %x16, %x17, %x18, %x19, %x20, %x21, %x22, %x23, %x24, %x25, %x26 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %a5: f32, %a6: f32, %a7: f32, %a8: f32, %a9: f32, %a10: f32, %a11: f32, %a12: f32, %a13: f32, %a14: f32, %a15: f32, %a16: f32, %a17: f32, %a18: f32, %a19: f32, %a20: f32, %a21: f32, %a22: f32, %a23: f32, %a24: f32, %a25: f32, %a26: f32, %o: f32):
    %r = arith.addf %a0, %a26 : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %q = linalg.generic {indexing_maps = [#one, #one, #one, #one], iterator_types = ["parallel"]} ins(%p, %y0, %y1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %o: f32):
    %r = arith.addf %a0, %a2 : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  func.return %q : tensor<8xf32>
}
}
// -----
// The CPU has no such limit.
// CHECK-LABEL: func.func @many_buffers
// CHECK: linalg.generic
// CHECK-NOT: linalg.generic
#one = affine_map<(d0) -> (d0)>
func.func @many_buffers(%x0: tensor<8xf32>, %x1: tensor<8xf32>, %x2: tensor<8xf32>, %x3: tensor<8xf32>, %x4: tensor<8xf32>, %x5: tensor<8xf32>, %x6: tensor<8xf32>, %x7: tensor<8xf32>, %x8: tensor<8xf32>, %x9: tensor<8xf32>, %x10: tensor<8xf32>, %x11: tensor<8xf32>, %x12: tensor<8xf32>, %x13: tensor<8xf32>, %x14: tensor<8xf32>, %x15: tensor<8xf32>, %x16: tensor<8xf32>, %x17: tensor<8xf32>, %x18: tensor<8xf32>, %x19: tensor<8xf32>, %x20: tensor<8xf32>, %x21: tensor<8xf32>, %x22: tensor<8xf32>, %x23: tensor<8xf32>, %x24: tensor<8xf32>, %x25: tensor<8xf32>, %x26: tensor<8xf32>, %y0: tensor<8xf32>, %y1: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %p = linalg.generic {indexing_maps = [#one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one, #one], iterator_types = ["parallel"]} ins(%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12, %x13, %x14, %x15, %x16, %x17, %x18, %x19, %x20, %x21, %x22, %x23, %x24, %x25, %x26 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %a3: f32, %a4: f32, %a5: f32, %a6: f32, %a7: f32, %a8: f32, %a9: f32, %a10: f32, %a11: f32, %a12: f32, %a13: f32, %a14: f32, %a15: f32, %a16: f32, %a17: f32, %a18: f32, %a19: f32, %a20: f32, %a21: f32, %a22: f32, %a23: f32, %a24: f32, %a25: f32, %a26: f32, %o: f32):
    %r = arith.addf %a0, %a26 : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %q = linalg.generic {indexing_maps = [#one, #one, #one, #one], iterator_types = ["parallel"]} ins(%p, %y0, %y1 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a0: f32, %a1: f32, %a2: f32, %o: f32):
    %r = arith.addf %a0, %a2 : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  func.return %q : tensor<8xf32>
}
