// RUN: openinfer-opt %s -p drop-carried --split-input-file | filecheck %s

// What is assigned anew in each round and read by nobody else is not carried; an inner loop that was handed
// it carries it no longer, either.
// CHECK: %h = scf.for %i = %c0 to %n step %c1 iter_args(%b = %x) -> (tensor<4xf32>) {
// CHECK-NEXT: %v = nn.softmax(%b)
// CHECK-NEXT: scf.for %j = %c0 to %n step %c1 {
// CHECK-NEXT: "test.op"(%v)
// CHECK-NEXT: }
// CHECK-NEXT: scf.yield %v : tensor<4xf32>
func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k, %h = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x) -> (tensor<4xf32>, tensor<4xf32>) {
    %v = nn.softmax(%b) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %w = scf.for %j = %c0 to %n step %c1 iter_args(%c = %a) -> (tensor<4xf32>) {
      "test.op"(%v) : (tensor<4xf32>) -> ()
      scf.yield %v : tensor<4xf32>
    }
    scf.yield %v, %v : tensor<4xf32>, tensor<4xf32>
  }
  func.return %h : tensor<4xf32>
}
// -----
// A value that the next round reads, or somebody behind the loop, stays: also one that another carried value
// is made of.
// CHECK: scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x, %c = %x) ->
func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %k, %h, %l = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %x, %c = %x) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    "test.op"(%b) : (tensor<4xf32>) -> ()
    %v = nn.softmax(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %v, %c, %v : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  func.return %k : tensor<4xf32>
}
