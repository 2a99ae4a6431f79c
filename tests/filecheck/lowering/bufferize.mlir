// RUN: openinfer-opt %s -p bufferize --split-input-file | filecheck %s

// Two results of one memory: the second is a copy, so that the host may keep both.
// CHECK: func.func @step(%x: memref<?x4xf32> {openinfer.arg = #nn.slot<input "x">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
// CHECK: %y = memref.alloc(%{{.*}}) : memref<?x4xf32>
// CHECK-NEXT: nn.softmax(%x) outs(%y) {axis = 1 : i64}
// CHECK: %r = nn.view %y[%{{.*}}] : memref<?x4xf32> to memref<?xf32>
// CHECK-NEXT: nn.publish %y "y"
// CHECK: %[[C:.*]] = memref.alloc(%{{.*}}) : memref<?xf32>
// CHECK-NEXT: memref.copy %r, %[[C]]
// CHECK-NEXT: nn.publish %[[C]] "z"
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], outputs = ["y", "z"], weights = []}
func.func @step(%x: tensor<?x4xf32, #nn.dims<N, 4>>) -> (tensor<?x4xf32, #nn.dims<N, 4>>, tensor<?xf32, #nn.dims<"4*N">>) {
  %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<N, 4>>) -> tensor<?x4xf32, #nn.dims<N, 4>>
  %r = nn.reshape(%y) : (tensor<?x4xf32, #nn.dims<N, 4>>) -> tensor<?xf32, #nn.dims<"4*N">>
  func.return %y, %r : tensor<?x4xf32, #nn.dims<N, 4>>, tensor<?xf32, #nn.dims<"4*N">>
}
}
// -----
// Values that change places in a loop are saved before either one is overwritten.
// CHECK: %u = memref.alloc
// CHECK-NEXT: memref.copy %a, %u
// CHECK: scf.for
// CHECK: memref.copy %v, %[[S:saved[_0-9]*]]
// CHECK: memref.copy %u, %[[T:saved[_0-9]*]]
// CHECK-NEXT: memref.copy %[[S]], %u
// CHECK-NEXT: memref.copy %[[T]], %v
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["a", "b"], outputs = ["p", "q"], weights = []}
func.func @step(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %p, %q = scf.for %i = %c0 to %c5 step %c1 iter_args(%u = %a, %v = %b) -> (tensor<4xf32>, tensor<4xf32>) {
    scf.yield %v, %u : tensor<4xf32>, tensor<4xf32>
  }
  func.return %p, %q : tensor<4xf32>, tensor<4xf32>
}
}
// -----
// A member is a view of its family's bytes; both sides of a branch fill one buffer.
// CHECK: %V: memref<32xi8> {openinfer.arg = #nn.slot<weight 0>}
// CHECK: memref.view %V[%{{.*}}][] : memref<32xi8> to memref<4xf32>
// CHECK: %p = memref.alloc
// CHECK-NEXT: scf.if
// CHECK-NEXT: memref.copy %a, %p
// CHECK-NEXT: } else {
// CHECK: memref.copy %s, %p
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["a"], outputs = ["p"], weights = [{variable = "V", sources = ["V.0", "V.1"], members = [2 : i64]}]}
func.func @step(%a: tensor<4xf32>, %V: tensor<2x4xf32>) -> tensor<4xf32> {
  %c1 = arith.constant 1 : index
  %c = arith.constant true
  %w = nn.member %V[%c1] : tensor<2x4xf32> -> tensor<4xf32>
  %p = scf.if %c -> (tensor<4xf32>) {
    scf.yield %a : tensor<4xf32>
  } else {
    %s = nn.softmax(%w) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  func.return %p : tensor<4xf32>
}
}
// -----
// A reduction starts in the buffer of its fill, unless that fill stands outside of the loop.
// CHECK: %f = memref.alloc
// CHECK-NEXT: linalg.fill
// CHECK: scf.for
// CHECK: %[[START:.*]] = memref.alloc() : memref<f32>
// CHECK-NEXT: memref.copy %f, %[[START]]
// CHECK-NEXT: linalg.generic {{.*}} outs(%[[START]] : memref<f32>)
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], outputs = ["y"], weights = []}
func.func @step(%x: tensor<4xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = tensor.empty() : tensor<f32>
  %y = scf.for %i = %c0 to %c5 step %c1 iter_args(%h = %s) -> (tensor<f32>) {
    %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : tensor<4xf32>) outs(%f : tensor<f32>) {
    ^bb0(%a: f32, %b: f32):
      %t = arith.addf %a, %b : f32
      linalg.yield %t : f32
    } -> tensor<f32>
    scf.yield %r : tensor<f32>
  }
  func.return %y : tensor<f32>
}
}
// -----
// A product gets the scratch that its kernel asks for, a gather the error record.
// CHECK: %scratch = memref.alloc
// CHECK: nn.matmul(%x, %w) outs(%y) scratch(panels = %scratch) {transpose_b}
// CHECK: nn.gather(%y, %i) outs(%g) scratch(errors = %errors) {axis = 0 : i64, node = 7 : i64}
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x", "w", "i"], outputs = ["g"], weights = []}
func.func @step(%x: tensor<64x8xf32>, %w: tensor<32x8xf32>, %i: tensor<3xi64>) -> tensor<3x32xf32> {
  %y = nn.matmul(%x, %w) {transpose_b} : (tensor<64x8xf32>, tensor<32x8xf32>) -> tensor<64x32xf32>
  %g = nn.gather(%y, %i) {axis = 0 : i64, node = 7 : i64} : (tensor<64x32xf32>, tensor<3xi64>) -> tensor<3x32xf32>
  func.return %g : tensor<3x32xf32>
}
}
// -----
// On a device with memory of its own the host looks at the indices, and the gather has no record.
// CHECK: nn.check_indices(%i) outs(%errors) {bound = #graph.size<8>, node = 7 : i64} attrs {openinfer.place = "host"}
// CHECK-NEXT: nn.gather(%y, %i) outs(%g) {axis = 1 : i64, node = 7 : i64} :
// One that the host computes keeps it.
// CHECK: nn.gather(%y, %i) outs(%h) scratch(errors = %errors) {axis = 1 : i64, node = 8 : i64} attrs {openinfer.place = "host"}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
nn.interface {inputs = ["y", "i"], outputs = ["g", "h"], weights = []}
func.func @step(%y: tensor<64x8xf32>, %i: tensor<3xi64>) -> (tensor<64x3xf32>, tensor<64x3xf32>) {
  %g = nn.gather(%y, %i) {axis = 1 : i64, node = 7 : i64} : (tensor<64x8xf32>, tensor<3xi64>) -> tensor<64x3xf32>
  %h = nn.gather(%y, %i) {axis = 1 : i64, node = 8 : i64} attrs {openinfer.place = "host"} : (tensor<64x8xf32>, tensor<3xi64>) -> tensor<64x3xf32>
  func.return %g, %h : tensor<64x3xf32>, tensor<64x3xf32>
}
}
// -----
// A function that lays out a weight writes into its last argument: nothing plans its memory.
// CHECK: func.func @prepare_0(%source: memref<4x5xf32>, %result: memref<1x4x32xf32>)
// CHECK-NEXT: nn.pack(%source) outs(%result)
// CHECK-NEXT: func.return
func.func @prepare_0(%source: tensor<4x5xf32>) -> tensor<1x4x32xf32> {
  %0 = nn.pack(%source) {layout = #nn.panels<32>} : (tensor<4x5xf32>) -> tensor<1x4x32xf32>
  func.return %0 : tensor<1x4x32xf32>
}
// -----
// What it does not compute itself is copied there.
// CHECK: func.func @prepare_0(%source: memref<4x5xf32>, %result: memref<4x5xf32>)
// CHECK-NEXT: memref.copy %source, %result
func.func @prepare_0(%source: tensor<4x5xf32>) -> tensor<4x5xf32> {
  func.return %source : tensor<4x5xf32>
}
// -----
// What a round hands on loosened lies in one buffer, each time with the shape that it has then.
// CHECK: %[[N:.*]] = nn.size "t.bound.0"
// CHECK-NEXT: %t = memref.alloc(%[[N]])
// CHECK-NEXT: %[[FIRST:.*]] = nn.view %t[] : memref<?xf32> to memref<4xf32>
// CHECK-NEXT: memref.copy %x, %[[FIRST]]
// CHECK: scf.for
// CHECK-NEXT: %[[IN:.*]] = nn.size "t.1"
// CHECK-NEXT: %s = nn.view %t[%[[IN]]]
// CHECK: %[[OUT:.*]] = nn.view %t[%{{.*}}]
// CHECK-NEXT: memref.copy %e, %[[OUT]]
// CHECK: %[[LAST:.*]] = nn.size "t.2"
// CHECK-NEXT: %y = nn.view %t[%[[LAST]]]
// CHECK-NEXT: nn.publish %y "y"
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], outputs = ["y"], weights = [], dynamic_sizes = ["t.bound.0", "t.1", "t.2"]}
func.func @step(%x: tensor<4xf32>) -> tensor<?xf32, #nn.dims<"t.2">> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %l = nn.loosen %x : tensor<4xf32> to tensor<?xf32, #nn.dims<"t.bound.0">>
  %r = scf.for %i = %c0 to %c5 step %c1 iter_args(%t = %l) -> (tensor<?xf32, #nn.dims<"t.bound.0">>) {
    %s = nn.settle %t : tensor<?xf32, #nn.dims<"t.bound.0">> to tensor<?xf32, #nn.dims<"t.1">>
    %e = nn.softmax(%s) {axis = 0 : i64} : (tensor<?xf32, #nn.dims<"t.1">>) -> tensor<?xf32, #nn.dims<"t.1">>
    %g = nn.loosen %e : tensor<?xf32, #nn.dims<"t.1">> to tensor<?xf32, #nn.dims<"t.bound.0">>
    scf.yield %g : tensor<?xf32, #nn.dims<"t.bound.0">>
  }
  %y = nn.settle %r : tensor<?xf32, #nn.dims<"t.bound.0">> to tensor<?xf32, #nn.dims<"t.2">>
  func.return %y : tensor<?xf32, #nn.dims<"t.2">>
}
}
