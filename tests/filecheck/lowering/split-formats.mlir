// RUN: openinfer-opt %s -p split-formats --split-input-file | filecheck %s

// The last layer is of another format: bits 0 and 1 say which ones are of the first.
// CHECK: {variable = "W", sources = ["a", "b", ""], members = [3 : i64], formats = ["q4_k"]},
// CHECK-NEXT: {variable = "W", sources = ["", "", "c"], members = [3 : i64], formats = ["q6_k"]}
// CHECK: func.func @step(%x: tensor<2x256xf32>, %W_q4_k: tensor<3x256x256xf32>, %W_q6_k: tensor<3x256x256xf32>)
// CHECK: scf.for %l
// CHECK-NEXT: [[I:%\S+]] = arith.index_cast %l : index to i64
// CHECK-NEXT: [[BITS:%\S+]] = arith.constant 3 : i64
// CHECK-NEXT: [[B:%\S+]] = arith.shrui [[BITS]], [[I]] : i64
// CHECK-NEXT: [[C:%\S+]] = arith.trunci [[B]] : i64 to i1
// CHECK-NEXT: [[R:%\S+]] = scf.if [[C]] -> (tensor<2x256xf32>) {
// CHECK-NEXT:   nn.member %W_q4_k[%l]
// CHECK: } else {
// CHECK-NEXT:   nn.member %W_q6_k[%l]
// CHECK: scf.yield [[R]]
// A number says which one it is.
// CHECK: nn.member %W_q6_k[%two]
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["a", "b", "c"], members = [3 : i64], formats = ["q4_k", "q4_k", "q6_k"]}]}
  func.func @step(%x: tensor<2x256xf32>, %W: tensor<3x256x256xf32>) -> tensor<2x256xf32> {
    %zero = arith.constant 0 : index
    %three = arith.constant 3 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %y = scf.for %l = %zero to %three step %one iter_args(%h = %x) -> (tensor<2x256xf32>) {
      %w = nn.member %W[%l] : tensor<3x256x256xf32> -> tensor<256x256xf32>
      %m = nn.matmul(%h, %w) {transpose_b} : (tensor<2x256xf32>, tensor<256x256xf32>) -> tensor<2x256xf32>
      scf.yield %m : tensor<2x256xf32>
    }
    %v = nn.member %W[%two] : tensor<3x256x256xf32> -> tensor<256x256xf32>
    %z = nn.matmul(%y, %v) {transpose_b} : (tensor<2x256xf32>, tensor<256x256xf32>) -> tensor<2x256xf32>
    func.return %z : tensor<2x256xf32>
  }
}

// -----

// Only the step knows which member it is: the weight stays whole.
// CHECK: formats = ["q4_k", "q6_k"]
// CHECK: nn.member %W[%l]
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["a", "b"], members = [2 : i64], formats = ["q4_k", "q6_k"]}]}
  func.func @step(%x: tensor<2x256xf32>, %W: tensor<2x256x256xf32>) -> tensor<2x256xf32> {
    %l = nn.size "L"
    %w = nn.member %W[%l] : tensor<2x256x256xf32> -> tensor<256x256xf32>
    %m = nn.matmul(%x, %w) {transpose_b} : (tensor<2x256xf32>, tensor<256x256xf32>) -> tensor<2x256xf32>
    func.return %m : tensor<2x256xf32>
  }
}
