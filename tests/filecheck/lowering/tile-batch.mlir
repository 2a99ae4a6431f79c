// RUN: openinfer-opt %s -p 'tile-batch{least=1024}' --split-input-file | filecheck %s
// RUN: openinfer-opt %s --observe -p 'tile-batch{least=1024}' --split-input-file | filecheck %s --check-prefix OBSERVE

// A value of 4 KiB for each image goes from one kernel to the next: it is there for one image at a time. What
// is computed of weights stays in front of the loop; an input is read, and a result written, image by image.
// CHECK-LABEL: func.func @step
// CHECK: linalg.generic {{.*}} outs(%scale : memref<4xf32>)
// CHECK: scf.for %image = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK-NEXT: %[[X:.*]] = nn.subview %x[%image] : memref<?x4x16x16xf32> to memref<1x4x16x16xf32>
// CHECK-NEXT: %[[T:.*]] = memref.alloc() : memref<1x4x16x16xf32>
// CHECK-NEXT: linalg.generic {{.*}} ins(%[[X]], %scale : memref<1x4x16x16xf32>, memref<4xf32>) outs(%[[T]] : memref<1x4x16x16xf32>)
// CHECK: %[[Y:.*]] = nn.subview %y[%image] : memref<?x4x8x8xf32> to memref<1x4x8x8xf32>
// CHECK-NEXT: nn.pool(%[[T]]) outs(%[[Y]])
// CHECK: } {openinfer.tiled}
// CHECK-NEXT: nn.publish %y "y"
// OBSERVE-LABEL: func.func @step
// OBSERVE-NOT: scf.for
#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#channel = affine_map<(d0, d1, d2, d3) -> (d1)>
#one = affine_map<(d0) -> (d0)>
func.func @step(%x: memref<?x4x16x16xf32>, %v: memref<4xf32>) {
  %B = nn.size "B"
  %t = memref.alloc(%B) : memref<?x4x16x16xf32>
  %y = memref.alloc(%B) : memref<?x4x8x8xf32>
  %scale = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%v : memref<4xf32>) outs(%scale : memref<4xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#id, #channel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %scale : memref<?x4x16x16xf32>, memref<4xf32>) outs(%t : memref<?x4x16x16xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  }
  nn.pool(%t) outs(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<?x4x16x16xf32>, memref<?x4x8x8xf32>) -> ()
  nn.publish %y "y" : memref<?x4x8x8xf32>
  func.return
}
// -----
// Weights, padded planes, a view, and a kernel of weights between: all of one image but the weights.
// CHECK-LABEL: func.func @step
// CHECK: linalg.generic {{.*}} outs(%bias : memref<64xf32>)
// CHECK: scf.for %image
// CHECK: nn.conv(%{{.*}}, %w) outs(%[[T:.*]]) scratch(planes = %{{.*}}) {{.*}} : (memref<1x4x16x16xf32>, memref<4x4x3x3xf32>, memref<1x4x16x16xf32>, memref<{{[0-9]+}}xf32>) -> ()
// CHECK: %[[V:.*]] = nn.view %[[T]][] : memref<1x4x16x16xf32> to memref<1x16x64xf32>
// CHECK: nn.layer_norm(%[[V]], %bias) outs(%{{.*}})
// CHECK: nn.publish %y "y"
#one = affine_map<(d0) -> (d0)>
func.func @step(%x: memref<?x4x16x16xf32>, %w: memref<4x4x3x3xf32>, %v: memref<64xf32>) {
  %B = nn.size "B"
  %t = memref.alloc(%B) : memref<?x4x16x16xf32>
  %planes = nn.size "5000*B"
  %s = memref.alloc(%planes) : memref<?xf32>
  nn.conv(%x, %w) outs(%t) scratch(planes = %s) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (memref<?x4x16x16xf32>, memref<4x4x3x3xf32>, memref<?x4x16x16xf32>, memref<?xf32>) -> ()
  %bias = memref.alloc() : memref<64xf32>
  linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%v : memref<64xf32>) outs(%bias : memref<64xf32>) {
  ^bb0(%p: f32, %o: f32):
    %r = arith.negf %p : f32
    linalg.yield %r : f32
  }
  %n = nn.size "B"
  %view = nn.view %t[%n] : memref<?x4x16x16xf32> to memref<?x16x64xf32>
  %y = memref.alloc(%n) : memref<?x16x64xf32>
  nn.layer_norm(%view, %bias) outs(%y) {eps = 1.0e-05 : f64, has_weight} : (memref<?x16x64xf32>, memref<64xf32>, memref<?x16x64xf32>) -> ()
  nn.publish %y "y" : memref<?x16x64xf32>
  func.return
}
// -----
// A value that is a result, too, has all images; so the chain ends where no other value is handed on.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.for
// CHECK: nn.pool(%x) outs(%t)
// CHECK-NEXT: nn.pool(%t) outs(%y)
// CHECK-NOT: scf.for
func.func @step(%x: memref<?x4x16x16xf32>) {
  %B = nn.size "B"
  %t = memref.alloc(%B) : memref<?x4x16x16xf32>
  %y = memref.alloc(%B) : memref<?x4x8x8xf32>
  nn.pool(%x) outs(%t) {kind = "max", kernel = array<i64: 1, 1>, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<?x4x16x16xf32>, memref<?x4x16x16xf32>) -> ()
  nn.pool(%t) outs(%y) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<?x4x16x16xf32>, memref<?x4x8x8xf32>) -> ()
  nn.publish %t "t" : memref<?x4x16x16xf32>
  nn.publish %y "y" : memref<?x4x8x8xf32>
  func.return
}
// -----
// Not: a loop nest that mixes images, one that asks for the number of the image, weights that are large
// beside an image, small values, and a batch of one.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.for
// CHECK: func.return
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#mixed = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
func.func @step(%x: memref<16x16x16xf32>, %w: memref<4x64x32xf32>, %u: memref<1x16x64xf32>) {
  %a = memref.alloc() : memref<16x16x16xf32>
  %b = memref.alloc() : memref<16x16x16xf32>
  %c = memref.alloc() : memref<16x16x16xf32>
  linalg.generic {indexing_maps = [#mixed, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : memref<16x16x16xf32>) outs(%a : memref<16x16x16xf32>) {
  ^bb0(%p: f32, %o: f32):
    linalg.yield %p : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : memref<16x16x16xf32>) outs(%b : memref<16x16x16xf32>) {
  ^bb0(%p: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    linalg.yield %k : f32
  }
  nn.layer_norm(%b) outs(%c) {eps = 1.0e-05 : f64} : (memref<16x16x16xf32>, memref<16x16x16xf32>) -> ()
  nn.publish %c "c" : memref<16x16x16xf32>
  %B = nn.size "B"
  %d = memref.alloc(%B) : memref<?x16x64xf32>
  %e = memref.alloc(%B) : memref<?x16x128xf32>
  %f = memref.alloc(%B) : memref<?x16x128xf32>
  %g = memref.alloc(%B) : memref<?x4x16xf32>
  %h = memref.alloc(%B) : memref<?x4x16xf32>
  nn.matmul(%d, %w) outs(%e) {layout = #nn.panels<32>} : (memref<?x16x64xf32>, memref<4x64x32xf32>, memref<?x16x128xf32>) -> ()
  nn.layer_norm(%e) outs(%f) {eps = 1.0e-05 : f64} : (memref<?x16x128xf32>, memref<?x16x128xf32>) -> ()
  nn.layer_norm(%g) outs(%h) {eps = 1.0e-05 : f64} : (memref<?x4x16xf32>, memref<?x4x16xf32>) -> ()
  nn.layer_norm(%h) outs(%g) {eps = 1.0e-05 : f64} : (memref<?x4x16xf32>, memref<?x4x16xf32>) -> ()
  %j = memref.alloc() : memref<1x16x64xf32>
  %k = memref.alloc() : memref<1x16x64xf32>
  nn.layer_norm(%u) outs(%j) {eps = 1.0e-05 : f64} : (memref<1x16x64xf32>, memref<1x16x64xf32>) -> ()
  nn.layer_norm(%j) outs(%k) {eps = 1.0e-05 : f64} : (memref<1x16x64xf32>, memref<1x16x64xf32>) -> ()
  func.return
}
// -----
// A transposed convolution, and a join of channels: weights on the left, windows that are folded.
// CHECK-LABEL: func.func @step
// CHECK: scf.for %image
// CHECK: nn.matmul(%w, %{{.*}}) outs(%[[S:.*]]) {transpose_a} : (memref<8x16xf32>, memref<1x8x64xf32>, memref<1x16x64xf32>) -> ()
// CHECK: %[[V:.*]] = nn.view %[[S]][] : memref<1x16x64xf32> to memref<1x4x2x2x8x8xf32>
// CHECK: nn.fold(%[[V]]) outs(%[[F:.*]]) {{.*}} : (memref<1x4x2x2x8x8xf32>, memref<1x4x16x16xf32>) -> ()
// CHECK: nn.concat(%[[F]], %{{.*}}) outs(%{{.*}}) {axis = 1 : i64} : (memref<1x4x16x16xf32>, memref<1x4x16x16xf32>, memref<1x8x16x16xf32>) -> ()
// CHECK: } {openinfer.tiled}
func.func @step(%x: memref<?x8x64xf32>, %w: memref<8x16xf32>, %d: memref<?x4x16x16xf32>) {
  %B = nn.size "B"
  %s = memref.alloc(%B) : memref<?x16x64xf32>
  nn.matmul(%w, %x) outs(%s) {transpose_a} : (memref<8x16xf32>, memref<?x8x64xf32>, memref<?x16x64xf32>) -> ()
  %n = nn.size "B"
  %v = nn.view %s[%n] : memref<?x16x64xf32> to memref<?x4x2x2x8x8xf32>
  %f = memref.alloc(%n) : memref<?x4x16x16xf32>
  nn.fold(%v) outs(%f) {stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<?x4x2x2x8x8xf32>, memref<?x4x16x16xf32>) -> ()
  %y = memref.alloc(%n) : memref<?x8x16x16xf32>
  nn.concat(%f, %d) outs(%y) {axis = 1 : i64} : (memref<?x4x16x16xf32>, memref<?x4x16x16xf32>, memref<?x8x16x16xf32>) -> ()
  nn.publish %y "y" : memref<?x8x16x16xf32>
  func.return
}
// -----
// Not: a join of images.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.for
// CHECK: nn.concat(%a, %x)
// CHECK: func.return
func.func @step(%x: memref<4x4x16x16xf32>) {
  %a = memref.alloc() : memref<4x4x16x16xf32>
  %y = memref.alloc() : memref<8x4x16x16xf32>
  nn.pool(%x) outs(%a) {kind = "max", kernel = array<i64: 1, 1>, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (memref<4x4x16x16xf32>, memref<4x4x16x16xf32>) -> ()
  nn.concat(%a, %x) outs(%y) {axis = 0 : i64} : (memref<4x4x16x16xf32>, memref<4x4x16x16xf32>, memref<8x4x16x16xf32>) -> ()
  nn.publish %y "y" : memref<8x4x16x16xf32>
  func.return
}
