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
