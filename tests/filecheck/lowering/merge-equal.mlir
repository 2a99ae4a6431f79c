// RUN: openinfer-opt %s -p merge-equal | filecheck %s
// RUN: openinfer-opt %s -p cse | filecheck %s --check-prefix PLAIN

// Equal values are computed once, also for an operation in a loop; behind a barrier they are computed
// anew. What the program would be without that stands behind PLAIN.
// CHECK-LABEL: func.func @barrier
// CHECK-NEXT: %a = nn.elementwise(%x) {kind = "exp"}
// CHECK-NEXT: nn.barrier
// CHECK-NEXT: %c = nn.elementwise(%x) {kind = "exp"}
// CHECK-NEXT: "test.op"(%a, %a, %c)
// PLAIN-LABEL: func.func @barrier
// PLAIN-NEXT: %a = nn.elementwise(%x) {kind = "exp"}
// PLAIN-NEXT: nn.barrier
// PLAIN-NEXT: "test.op"(%a, %a, %a)
func.func @barrier(%x: tensor<4xf32>) {
  %a = nn.elementwise(%x) {kind = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = nn.elementwise(%x) {kind = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
  nn.barrier
  %c = nn.elementwise(%x) {kind = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
  "test.op"(%a, %b, %c) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  func.return
}

// In a loop with a barrier the second round stands behind it.
// CHECK-LABEL: func.func @loop
// CHECK: nn.elementwise(%x) {kind = "exp"}
// CHECK: scf.for
// CHECK: nn.elementwise(%x) {kind = "exp"}
// CHECK: nn.barrier
// CHECK: scf.for
// CHECK-NOT: nn.elementwise(%x) {kind = "abs"}
// CHECK: func.return
func.func @loop(%x: tensor<4xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = nn.elementwise(%x) {kind = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
  %d = nn.elementwise(%x) {kind = "abs"} : (tensor<4xf32>) -> tensor<4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %b = nn.elementwise(%x) {kind = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
    nn.barrier
    "test.op"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }
  %e0 = nn.elementwise(%x) {kind = "sin"} : (tensor<4xf32>) -> tensor<4xf32>
  scf.for %i = %c0 to %n step %c1 {
    %e = nn.elementwise(%x) {kind = "sin"} : (tensor<4xf32>) -> tensor<4xf32>
    "test.op"(%d, %e, %e0) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }
  func.return
}

// A node that is not to be fused or reordered keeps its own operation.
// CHECK-LABEL: func.func @hint
// CHECK-COUNT-2: nn.elementwise(%x) {kind = "exp"}
// PLAIN-LABEL: func.func @hint
// PLAIN: nn.elementwise(%x) {kind = "exp"}
// PLAIN-NEXT: "test.op"
func.func @hint(%x: tensor<4xf32>) {
  %a = nn.elementwise(%x) {kind = "exp"} attrs {openinfer.no_fuse} : (tensor<4xf32>) -> tensor<4xf32>
  %b = nn.elementwise(%x) {kind = "exp"} attrs {openinfer.no_fuse} : (tensor<4xf32>) -> tensor<4xf32>
  "test.op"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> ()
  func.return
}
