// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic --split-input-file | filecheck %s

// Names become values; a temporary starts as zeros where it is read first; a loop carries what is
// read after a write of an earlier round; a family is one argument.
// CHECK: inputs = ["x"],
// CHECK-NEXT: outputs = ["y"],
// CHECK: {variable = "W", sources = ["W.0", "W.1"], members = [2 : i64]}
// CHECK: func.func @step(%x: tensor<?x4xf32, #nn.dims<N, 4>>, %W: tensor<2x4x4xf32>) -> tensor<?x4xf32, #nn.dims<N, 4>>
// CHECK: %h = nn.fill() {value = 0.000000e+00 : f64}
// CHECK: %[[H:.*]] = scf.for %l = %{{.*}} iter_args(%[[C:.*]] = %h)
// CHECK-NEXT: %[[M:.*]] = nn.member %W[%l] : tensor<2x4x4xf32> -> tensor<4x4xf32>
// CHECK-NEXT: %[[T:.*]] = nn.matmul(%x, %[[M]])
// CHECK-NEXT: %[[S:.*]] = nn.elementwise(%[[C]], %[[T]]) {kind = "add"}
// CHECK-NEXT: scf.yield %[[S]]
// CHECK: %y = nn.elementwise(%[[H]]) {kind = "tanh"}
// CHECK-NEXT: func.return %y
graph.package_tensor "W.0" f32 [4, 4]
graph.package_tensor "W.1" f32 [4, 4]
graph.variable x dynamic f32 [N, 4]
graph.variable W(l) constant f32 [4, 4] {pattern = "W.{l}"}
graph.variable y volatile f32 [N, 4]
graph.block entry {
  graph.assign t f32 [N, 4]
  graph.assign h f32 [N, 4]
  graph.loop a l in 0 to 2 {
    graph.op matmul(x, W[l]) -> (t)
    graph.op add(h, t) -> (h)
  }
  graph.op tanh(h) -> (y)
  graph.return
}
// -----
// Both sides of a branch give what is read behind it; a side that writes nothing gives the old value.
// CHECK: %[[E:.*]] = tensor.extract %c[]
// CHECK: %[[Y:.*]] = scf.if %[[E]] -> (tensor<4xf32>) {
// CHECK: nn.elementwise(%x) {kind = "exp"}
// CHECK: } else {
// CHECK-NEXT: scf.yield %[[OLD:.*]] : tensor<4xf32>
// CHECK: func.return %[[Y]]
graph.variable x dynamic f32 [4]
graph.variable c dynamic bool
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op neg(x) -> (y)
  graph.branch if c then good else bad
  graph.return
}
graph.block good {
  graph.op exp(x) -> (y)
  graph.return
}
graph.block bad {
  graph.return
}
// -----
// What stands behind a return never runs, also when the return stands in a loop; a loop over
// nothing does not return.
// CHECK: scf.for
// CHECK: nn.elementwise(%{{.*}}, %x) {kind = "add"}
// CHECK: nn.elementwise(%{{.*}}) {kind = "neg"}
// CHECK-NEXT: func.return
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.loop a i in 0 to 3 {
    graph.op add(y, x) -> (y)
    graph.loop b j in 0 to 0 {
      graph.return
    }
  }
  graph.loop c k in 0 to 5 {
    graph.op neg(y) -> (y)
    graph.return
  }
  graph.op exp(y) -> (y)
  graph.return
}
// -----
// A barrier stays until nothing is moved any more, and so does the order that a `dep` asks for; what it
// orders is kept.
// CHECK: nn.elementwise(%x) {kind = "exp"}
// CHECK-NEXT: nn.barrier
// CHECK-NEXT: %[[N:.*]] = nn.elementwise({{.*}}) {kind = "neg"}
// CHECK-NEXT: nn.keep %[[N]]
// CHECK-NEXT: nn.barrier
// CHECK-NEXT: %[[A:.*]] = nn.elementwise({{.*}}) {kind = "abs"}
// CHECK-NEXT: nn.keep %[[A]]
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op exp(x) -> (y)
  graph.barrier
  graph.op neg(y) -> (y)
  graph.dep after "neg" before "abs"
  graph.op abs(y) -> (y)
  graph.return
}
// -----
// Hints of a node, of a scope and of a block that is called are kept with what they hold.
// CHECK: {kind = "exp"} attrs {openinfer.no_fuse}
// CHECK: {kind = "neg"} attrs {openinfer.hints = {fuse = true}} :
// CHECK: {kind = "abs"} attrs {openinfer.no_fuse}
// CHECK: {kind = "sin"} attrs {openinfer.no_fuse}
// CHECK: {kind = "cos"} :
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op exp(x) -> (y) with {fuse = false}
  graph.op neg(y) -> (y) with {fuse = true}
  graph.scope "s" with {no_reorder = true} {
    graph.op abs(y) -> (y)
  }
  graph.branch called
  graph.op cos(y) -> (y)
  graph.return
}
graph.block called with {fuse = false} {
  graph.op sin(y) -> (y)
  graph.return
}
// -----
// What the steps of a loop leave as a bound is checked when sizes are known; a member that is
// chosen by data is checked in the step.
// CHECK: requires = [
// CHECK-NEXT: {low = "0", high = "N - 2", node = 0 : i64, kind = "negative-size"},
// CHECK-NEXT: {low = "2", high = "N", node = 1 : i64, kind = "bound"}
// CHECK: nn.slice(%x) {starts = [#graph.size<2>], steps = array<i64: 1>}
// CHECK: arith.index_cast %{{.*}} : i64 to index
// CHECK: nn.check_index %{{.*}} below 2 : i64 node 2 : i64
graph.package_tensor "W.0" f32 [4]
graph.package_tensor "W.1" f32 [4]
graph.variable x dynamic f32 [N]
graph.variable i dynamic i64
graph.variable W(l) constant f32 [4] {pattern = "W.{l}"}
graph.variable y volatile f32 [4]
graph.block entry {
  graph.assign t f32 ["N - 2"]
  graph.op slice(x) -> (t) settings {axis = 0 : i64, start = 2 : i64}
  graph.op exp(W[i]) -> (y)
  graph.return (t, y)
}
// -----
// A setting that only the step knows is an operand: the function is written out. A constant stays one.
// CHECK: nn.elementwise(%x, %{{.*}}) {kind = "max"}
// CHECK: %[[CLAMPED:.*]] = nn.elementwise(%{{.*}}, %high) {kind = "min"}
// CHECK: scf.for %i =
// CHECK:   %[[T:.*]] = nn.from_index %i : tensor<i64>
// CHECK:   %[[F:.*]] = nn.elementwise(%[[T]]) {kind = "cast", settings = {to = "f32"}} : (tensor<i64>) -> tensor<f32>
// CHECK:   nn.broadcast(%[[F]]) : (tensor<f32>) -> tensor<4xf32>
// CHECK: nn.elementwise(%{{.*}}) {kind = "clamp", settings = {max = 2.000000e+00 : f64}}
graph.variable x dynamic f32 [4]
graph.variable high dynamic f32
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op clamp(x) -> (y) settings {min = 0.5 : f64, max = #graph.name<high>}
  graph.loop l i in 0 to 3 {
    graph.op fill(y) -> (y) settings {value = #graph.name<i>}
  }
  graph.op clamp(y) -> (y) settings {max = 2.0 : f64}
  graph.return
}
