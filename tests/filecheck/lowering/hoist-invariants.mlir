// RUN: openinfer-opt %s -p hoist-invariants --split-input-file | filecheck %s

// The cosine of angles, what they are made of, and what makes it smaller. The constant is read by a
// cheap op that stays, so it stays for that one, too.
// CHECK-LABEL: func.func @angles
// CHECK: %[[C:.*]] = nn.fill() {value = 2.000000e+00 : f64}
// CHECK-NEXT: %[[A:.*]] = nn.elementwise(%p, %[[C]]) {kind = "mul"}
// CHECK-NEXT: %[[COS:.*]] = nn.elementwise(%[[A]]) {kind = "cos"}
// CHECK-NEXT: %[[F:.*]] = nn.elementwise(%[[COS]]) {kind = "cast"
// CHECK-NEXT: scf.for
// CHECK-NEXT: %[[HERE:.*]] = nn.fill()
// CHECK-NEXT: nn.elementwise(%{{.*}}, %[[F]]) {kind = "mul"}
// CHECK-NEXT: nn.elementwise(%w, %[[HERE]]) {kind = "mul"}
func.func @angles(%x: tensor<8xf32>, %p: tensor<8xf64>, %w: tensor<8xf64>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %y = scf.for %l = %c0 to %c6 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %c = nn.fill() {value = 2.0 : f64} : () -> tensor<f64>
    %a = nn.elementwise(%p, %c) {kind = "mul"} : (tensor<8xf64>, tensor<f64>) -> tensor<8xf64>
    %cos = nn.elementwise(%a) {kind = "cos"} : (tensor<8xf64>) -> tensor<8xf64>
    %f = nn.elementwise(%cos) {kind = "cast", settings = {to = "f32"}} : (tensor<8xf64>) -> tensor<8xf32>
    %m = nn.elementwise(%h, %f) {kind = "mul"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %d = nn.elementwise(%w, %c) {kind = "mul"} : (tensor<8xf64>, tensor<f64>) -> tensor<8xf64>
    %e = nn.elementwise(%d) {kind = "cast", settings = {to = "f32"}} : (tensor<8xf64>) -> tensor<8xf32>
    %s = nn.elementwise(%m, %e) {kind = "add"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    scf.yield %s : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
// -----
// Out of two loops; sizes of the run are compared with what the loop carries.
// CHECK-LABEL: func.func @nested
// CHECK: nn.elementwise(%p) {kind = "exp"}
// CHECK-NEXT: nn.concat
// CHECK-NEXT: scf.for
// CHECK-NEXT: scf.for
// CHECK-NEXT: nn.elementwise(%q) {kind = "exp"}
func.func @nested(%x: tensor<?x8xf32, #nn.dims<T, 8>>, %p: tensor<?x4xf32, #nn.dims<T, 4>>, %q: tensor<?x?xf32, #nn.dims<T, T>>) -> tensor<?x8xf32, #nn.dims<T, 8>> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %y = scf.for %i = %c0 to %c6 step %c1 iter_args(%g = %x) -> (tensor<?x8xf32, #nn.dims<T, 8>>) {
    %z = scf.for %j = %c0 to %c6 step %c1 iter_args(%h = %g) -> (tensor<?x8xf32, #nn.dims<T, 8>>) {
      %e = nn.elementwise(%p) {kind = "exp"} : (tensor<?x4xf32, #nn.dims<T, 4>>) -> tensor<?x4xf32, #nn.dims<T, 4>>
      %b = nn.elementwise(%q) {kind = "exp"} : (tensor<?x?xf32, #nn.dims<T, T>>) -> tensor<?x?xf32, #nn.dims<T, T>>
      %r = nn.concat(%e, %e) {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<T, 4>>, tensor<?x4xf32, #nn.dims<T, 4>>) -> tensor<?x8xf32, #nn.dims<T, 8>>
      %m = nn.matmul(%b, %r) : (tensor<?x?xf32, #nn.dims<T, T>>, tensor<?x8xf32, #nn.dims<T, 8>>) -> tensor<?x8xf32, #nn.dims<T, 8>>
      %s = nn.elementwise(%h, %m) {kind = "add"} : (tensor<?x8xf32, #nn.dims<T, 8>>, tensor<?x8xf32, #nn.dims<T, 8>>) -> tensor<?x8xf32, #nn.dims<T, 8>>
      scf.yield %s : tensor<?x8xf32, #nn.dims<T, 8>>
    }
    scf.yield %z : tensor<?x8xf32, #nn.dims<T, 8>>
  }
  func.return %y : tensor<?x8xf32, #nn.dims<T, 8>>
}
// -----
// Not: what a round changes, what is cheap where it is used, what carries a hint or may be an error.
// CHECK-LABEL: func.func @stays
// CHECK: scf.for
// CHECK: kind = "exp"
// CHECK: kind = "cast"
// CHECK: kind = "tanh"
// CHECK: kind = "div"
func.func @stays(%x: tensor<8xf32>, %p: tensor<8xf32>, %n: tensor<8xi32>) -> tensor<8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c6 = arith.constant 6 : index
  %y = scf.for %l = %c0 to %c6 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
    %a = nn.elementwise(%h) {kind = "exp"} : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.elementwise(%n) {kind = "cast", settings = {to = "f32"}} : (tensor<8xi32>) -> tensor<8xf32>
    %c = nn.elementwise(%p) {kind = "tanh"} attrs {openinfer.no_fuse} : (tensor<8xf32>) -> tensor<8xf32>
    %d = nn.elementwise(%n, %n) {kind = "div"} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %e = nn.elementwise(%a, %b, %c) {kind = "fma"} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    scf.yield %e : tensor<8xf32>
  }
  func.return %y : tensor<8xf32>
}
// -----
// Nothing leaves a loop with a barrier, and nothing needs a size before it is known.
// CHECK-LABEL: func.func @step
// CHECK-NOT: kind = "exp"
// CHECK: scf.for
// CHECK: kind = "exp"
// CHECK-NOT: kind = "tanh"
// CHECK: scf.for
// CHECK: kind = "tanh"
builtin.module attributes {openinfer.target = "generic"} {
  nn.interface {inputs = [], dynamic_sizes = ["size.0"]}
  func.func @step(%x: tensor<8xf32>, %p: tensor<8xf32>) -> tensor<8xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %y = scf.for %l = %c0 to %c6 step %c1 iter_args(%h = %x) -> (tensor<8xf32>) {
      %a = nn.elementwise(%p) {kind = "exp"} : (tensor<8xf32>) -> tensor<8xf32>
      nn.barrier
      %e = nn.elementwise(%a, %h) {kind = "add"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      scf.yield %e : tensor<8xf32>
    }
    %z = scf.for %l = %c0 to %c6 step %c1 iter_args(%h = %y) -> (tensor<8xf32>) {
      nn.define_size "size.0" = %l node 3 : i64
      %f = nn.fill() {value = 1.0 : f32} : () -> tensor<?xf32, #nn.dims<size.0>>
      %t = nn.elementwise(%f) {kind = "tanh"} : (tensor<?xf32, #nn.dims<size.0>>) -> tensor<?xf32, #nn.dims<size.0>>
      nn.keep %t : tensor<?xf32, #nn.dims<size.0>>
      scf.yield %h : tensor<8xf32>
    }
    func.return %z : tensor<8xf32>
  }
}
