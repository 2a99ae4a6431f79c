// RUN: OI_ROUNDTRIP

// The layout of a weight stands in its row, on the op that makes it and on those that read it.
builtin.module attributes {openinfer.target = "avx512"} {
  // CHECK: nn.interface {
  // CHECK: {layout = #nn.panels<16>, prepare = "prepare_0", sources = ["W"], variable = "W"},
  // CHECK-NEXT: {layout = #nn.pairs<16>, prepare = "prepare_1", sources = ["V.0", "V.1"], variable = "V", members = [2 : i64]},
  nn.interface {inputs = ["x", "h", "n"], weights = [
    {layout = #nn.panels<16>, prepare = "prepare_0", sources = ["W"], variable = "W"},
    {layout = #nn.pairs<16>, prepare = "prepare_1", sources = ["V.0", "V.1"], variable = "V", members = [2 : i64]},
    {sources = ["b"], variable = "b"}
  ]}
  func.func @step(%x: tensor<4x5xf32>, %h: tensor<4x5xbf16>, %n: tensor<i64>, %W: tensor<2x5x16xf32>, %V: tensor<2x2x3x32xbf16>, %b: tensor<20xf32>) {
    // CHECK: %a = nn.matmul(%x, %W) {layout = #nn.panels<16>}
    %a = nn.matmul(%x, %W) {layout = #nn.panels<16>} : (tensor<4x5xf32>, tensor<2x5x16xf32>) -> tensor<4x20xf32>
    %i = arith.constant 1 : index
    %v = nn.member %V[%i] : tensor<2x2x3x32xbf16> -> tensor<2x3x32xbf16>
    // CHECK: %c = nn.matmul(%h, %v) {layout = #nn.pairs<16>, precision = "bf16"}
    %c = nn.matmul(%h, %v) {layout = #nn.pairs<16>, precision = "bf16"} : (tensor<4x5xbf16>, tensor<2x3x32xbf16>) -> tensor<4x20xf32>
    func.return
  }
  // CHECK: nn.pack(%source) {layout = #nn.pairs<16>} : (tensor<5x20xf32>) -> tensor<2x3x32xbf16>
  func.func @prepare_1(%source: tensor<5x20xf32>) -> tensor<2x3x32xbf16> {
    %p = nn.pack(%source) {layout = #nn.pairs<16>} : (tensor<5x20xf32>) -> tensor<2x3x32xbf16>
    func.return %p : tensor<2x3x32xbf16>
  }
  // CHECK: %f, %r = nn.row_matmul(%x, %t, %g) {centred, gives_rows, has_weight, eps = 1.000000e-05 : f64, layout = #nn.tiles<16>}
  // CHECK: nn.row_matmul(%x, %t) {eps = 1.000000e-05 : f64, layout = #nn.tiles<16>}
  // CHECK: %q, %k = nn.row_matmul(%x, %p) extras(%b) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1, d2) -> (d0, d2)>], parts = 2 : i64} {
  func.func @normed(%x: tensor<4x40xf16>, %t: tensor<2x3x256xf16>, %g: tensor<40xf16>, %p: tensor<2x2x3x256xf16>, %b: tensor<2x20xf16>) {
    %f, %r = nn.row_matmul(%x, %t, %g) {centred, gives_rows, has_weight, eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>, tensor<40xf16>) -> (tensor<4x20xf16>, tensor<4x40xf16>)
    %a = nn.row_matmul(%x, %t) {eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>) -> tensor<4x20xf16>
    %q, %k = nn.row_matmul(%x, %p) extras(%b) {layout = #nn.tiles<16>, maps = [affine_map<(p, m, n) -> (p, n)>], parts = 2 : i64} {
    ^bb0(%0: f32, %1: f16):
      nn.yield %1 : f16
    } : (tensor<4x40xf16>, tensor<2x2x3x256xf16>, tensor<2x20xf16>) -> (tensor<4x20xf16>, tensor<4x20xf16>)
    func.return
  }
}
