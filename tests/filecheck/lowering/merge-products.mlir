// RUN: openinfer-opt %s -p merge-products --split-input-file | filecheck %s

// Two weights of one left operand, one of them with a bias, whose view is moved along.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %row = nn.reshape(%b)
// CHECK-NEXT: %q, %k = nn.products(%x, %Wq, %Wk) extras(%row) {parts = [{layout = #nn.panels<16>}, {body, layout = #nn.panels<16>, maps = [affine_map<(d0, d1) -> (d1)>]}]} {
// CHECK: arith.addf
// CHECK: (tensor<4x8xf32>, tensor<2x8x16xf32>, tensor<1x8x16xf32>, tensor<16xf32>) -> (tensor<4x32xf32>, tensor<4x16xf32>)
// CHECK-NEXT: %s = nn.softmax(%q)
// CHECK-NEXT: func.return %s, %k
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<4x8xf32>, %Wq: tensor<2x8x16xf32>, %Wk: tensor<1x8x16xf32>, %b: tensor<1x16xf32>) -> (tensor<4x32xf32>, tensor<4x16xf32>) {
    %q = nn.matmul(%x, %Wq) {layout = #nn.panels<16>} : (tensor<4x8xf32>, tensor<2x8x16xf32>) -> tensor<4x32xf32>
    %s = nn.softmax(%q) {axis = 1 : i64} : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %row = nn.reshape(%b) : (tensor<1x16xf32>) -> tensor<16xf32>
    %k = nn.matmul(%x, %Wk) extras(%row) {maps = [affine_map<(d0, d1) -> (d1)>], layout = #nn.panels<16>} {
    ^bb0(%in: f32, %in_1: f32):
      %0 = arith.addf %in, %in_1 : f32
      nn.yield %0 : f32
    } : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    func.return %s, %k : tensor<4x32xf32>, tensor<4x16xf32>
  }
}
// -----
// In a loop over layers: the members of families, which are moved along.
// CHECK-LABEL: func.func @step
// CHECK: scf.for
// CHECK-NEXT: nn.member %Wq[%l]
// CHECK-NEXT: nn.member %Wk[%l]
// CHECK-NEXT: %q, %k = nn.products(%h, %{{.*}}, %{{.*}}) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}]}
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<1x16xf32>, %Wq: tensor<2x1x16x16xf32>, %Wk: tensor<2x1x16x16xf32>) -> tensor<1x16xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %y = scf.for %l = %c0 to %c2 step %c1 iter_args(%h = %x) -> (tensor<1x16xf32>) {
      %wq = nn.member %Wq[%l] : tensor<2x1x16x16xf32> -> tensor<1x16x16xf32>
      %q = nn.matmul(%h, %wq) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16xf32>
      %wk = nn.member %Wk[%l] : tensor<2x1x16x16xf32> -> tensor<1x16x16xf32>
      %k = nn.matmul(%h, %wk) {layout = #nn.panels<16>} : (tensor<1x16xf32>, tensor<1x16x16xf32>) -> tensor<1x16xf32>
      %e = tensor.empty() : tensor<1x16xf32>
      %s = linalg.add ins(%q, %k : tensor<1x16xf32>, tensor<1x16xf32>) outs(%e : tensor<1x16xf32>) -> tensor<1x16xf32>
      scf.yield %s : tensor<1x16xf32>
    }
    func.return %y : tensor<1x16xf32>
  }
}
// -----
// Not: another left operand; one that needs the other's result; no packed weight; batches of weights.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.products
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<2x8x8xf32>, %z: tensor<2x8x8xf32>, %W: tensor<1x8x16xf32>, %V: tensor<8x8xf32>, %U: tensor<2x1x8x16xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) {
    %a = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<2x8x8xf32>, tensor<1x8x16xf32>) -> tensor<2x8x8xf32>
    %b = nn.matmul(%z, %W) {layout = #nn.panels<16>} : (tensor<2x8x8xf32>, tensor<1x8x16xf32>) -> tensor<2x8x8xf32>
    %c = nn.matmul(%x, %W) extras(%a) {maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>], layout = #nn.panels<16>} {
    ^bb0(%in: f32, %in_1: f32):
      %0 = arith.mulf %in, %in_1 : f32
      nn.yield %0 : f32
    } : (tensor<2x8x8xf32>, tensor<1x8x16xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
    %d = nn.matmul(%x, %V) : (tensor<2x8x8xf32>, tensor<8x8xf32>) -> tensor<2x8x8xf32>
    %e = nn.matmul(%x, %U) {layout = #nn.panels<16>} : (tensor<2x8x8xf32>, tensor<2x1x8x16xf32>) -> tensor<2x8x8xf32>
    func.return %a, %b, %c, %d, %e : tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>
  }
}
// -----
// A barrier, a hint against it, and another group keep products apart.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.products
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<8x8xf32>, %W: tensor<1x8x16xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
    %a = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<8x8xf32>, tensor<1x8x16xf32>) -> tensor<8x8xf32>
    nn.barrier
    %b = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<8x8xf32>, tensor<1x8x16xf32>) -> tensor<8x8xf32>
    %c = nn.matmul(%x, %W) {layout = #nn.panels<16>} attrs {openinfer.hints = {group = "g"}} : (tensor<8x8xf32>, tensor<1x8x16xf32>) -> tensor<8x8xf32>
    %d = nn.matmul(%x, %W) {layout = #nn.panels<16>} attrs {openinfer.no_fuse} : (tensor<8x8xf32>, tensor<1x8x16xf32>) -> tensor<8x8xf32>
    func.return %a, %b, %c, %d : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
}
// -----
// What is needed only behind attention is not kept through it.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.products
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<4x8xf32>, %W: tensor<1x8x16xf32>, %k: tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<4x8xf32>) {
    %a = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<4x8xf32>, tensor<1x8x16xf32>) -> tensor<4x8xf32>
    %q = nn.reshape(%a) : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %o = nn.attention(%q, %k, %k) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32>
    %b = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<4x8xf32>, tensor<1x8x16xf32>) -> tensor<4x8xf32>
    func.return %o, %b : tensor<1x1x4x8xf32>, tensor<4x8xf32>
  }
}
// -----
// Products that are computed in blocks have a loop each.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.products
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @step(%x: tensor<2056x1024xf32>, %W: tensor<16x1024x16xf32>) -> (tensor<2056x256xf32>, tensor<2056x256xf32>) {
    %a = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<2056x1024xf32>, tensor<16x1024x16xf32>) -> tensor<2056x256xf32>
    %b = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<2056x1024xf32>, tensor<16x1024x16xf32>) -> tensor<2056x256xf32>
    func.return %a, %b : tensor<2056x256xf32>, tensor<2056x256xf32>
  }
}
