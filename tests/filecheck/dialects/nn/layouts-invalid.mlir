// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: nn.matmul: the layout #nn.panels<16> does not belong to precision bf16
func.func @f(%x: tensor<4x8xbf16>, %w: tensor<1x8x16xbf16>) {
  %y = nn.matmul(%x, %w) {layout = #nn.panels<16>, precision = "bf16"} : (tensor<4x8xbf16>, tensor<1x8x16xbf16>) -> tensor<4x16xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the layout #nn.pairs<8> does not belong to precision as declared
func.func @f(%x: tensor<4x8xf32>, %w: tensor<1x4x16xbf16>) {
  %y = nn.matmul(%x, %w) {layout = #nn.pairs<8>} : (tensor<4x8xf32>, tensor<1x4x16xbf16>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the right operand in #nn.panels<8> has shape [1, 8, 16], expected [2, 8, 8]
func.func @f(%x: tensor<4x8xf32>, %w: tensor<1x8x16xf32>) {
  %y = nn.matmul(%x, %w) {layout = #nn.panels<8>} : (tensor<4x8xf32>, tensor<1x8x16xf32>) -> tensor<4x16xf32>
  func.return
}
// -----
// CHECK: nn.matmul: only an operand with a layout is streamed
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) {
  %y = nn.matmul(%x, %w) {streamed} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  func.return
}
// -----
// CHECK: nn.pack: the result has elements f32, expected bf16
func.func @f(%w: tensor<8x16xf32>) {
  %y = nn.pack(%w) {layout = #nn.pairs<8>} : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  func.return
}
// -----
// CHECK: nn.interface: the weight "W" lies as #nn.panels<16>, nn.matmul reads it as #nn.panels<8>
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x"], weights = [{layout = #nn.panels<16>, sources = ["W"], variable = "W"}]}
  func.func @step(%x: tensor<4x8xf32>, %W: tensor<1x8x8xf32>) {
    %y = nn.matmul(%x, %W) {layout = #nn.panels<8>} : (tensor<4x8xf32>, tensor<1x8x8xf32>) -> tensor<4x8xf32>
    func.return
  }
}
// -----
// CHECK: nn.interface: the weight "W" lies as the package has it, nn.products reads it as #nn.panels<16>
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x"], weights = [{sources = ["W"], variable = "W"}]}
  func.func @step(%x: tensor<4x8xf32>, %W: tensor<1x8x16xf32>) {
    %y, %z = nn.products(%x, %W, %W) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
    func.return
  }
}
// -----
// On buffers the kernel that is given a member reads it.
// CHECK: nn.interface: the weight "W" lies as #nn.panels<16>, nn.matmul reads it as the package has it
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x"], weights = [{layout = #nn.panels<16>, sources = ["W.0", "W.1"], variable = "W", members = [2 : i64]}]}
  func.func @step(%x: memref<4x8xf32> {openinfer.arg = #nn.slot<input "x">}, %W: memref<1024xi8> {openinfer.arg = #nn.slot<weight 0>}, %y: memref<4x16xf32>) {
    %o = arith.constant 512 : index
    %w = memref.view %W[%o][] : memref<1024xi8> to memref<8x16xf32>
    func.call @matmul_0(%x, %w, %y) : (memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>) -> ()
    func.return
  }
  func.func private @matmul_0(%x: memref<4x8xf32>, %w: memref<8x16xf32>, %y: memref<4x16xf32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>) -> ()
    func.return
  }
}
// -----
// CHECK: nn.matmul: the right operand in #nn.tiles<16> has shape [2, 2, 256], expected [2, 3, 256]
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x2x256xf16>) {
  %y = nn.matmul(%x, %w) {layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x2x256xf16>) -> tensor<4x20xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: its flags say that there are 4 inputs, found 3
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x3x256xf16>, %g: tensor<40xf16>) {
  %y = nn.row_matmul(%x, %w, %g) {has_bias, has_weight, eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>, tensor<40xf16>) -> tensor<4x20xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: the matrix in #nn.tiles<16> has shape [2, 2, 256], expected [2, 3, 256]
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x2x256xf16>) {
  %y = nn.row_matmul(%x, %w) {eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x2x256xf16>) -> tensor<4x20xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: the bias of the norm has shape [20], expected [40]
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x3x256xf16>, %g: tensor<20xf16>) {
  %y = nn.row_matmul(%x, %w, %g) {has_bias, eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>, tensor<20xf16>) -> tensor<4x20xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul has 2 results, found 1
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x3x256xf16>) {
  %y = nn.row_matmul(%x, %w) {gives_rows, eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>) -> tensor<4x20xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: what the norm gives has shape [4, 20], expected [4, 40]
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x3x256xf16>) {
  %y, %r = nn.row_matmul(%x, %w) {gives_rows, eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>) -> (tensor<4x20xf16>, tensor<4x20xf16>)
  func.return
}
// -----
// CHECK: nn.row_matmul: 1 parts, expected 2 or more
func.func @f(%x: tensor<4x40xf16>, %w: tensor<1x2x3x256xf16>) {
  %y = nn.row_matmul(%x, %w) {layout = #nn.tiles<16>, parts = 1 : i64} : (tensor<4x40xf16>, tensor<1x2x3x256xf16>) -> tensor<4x20xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: the matrix in #nn.tiles<16> has shape [3, 2, 3, 256], expected [2, 2, 3, 256]
func.func @f(%x: tensor<4x40xf16>, %w: tensor<3x2x3x256xf16>) {
  %y, %z = nn.row_matmul(%x, %w) {layout = #nn.tiles<16>, parts = 2 : i64} : (tensor<4x40xf16>, tensor<3x2x3x256xf16>) -> (tensor<4x20xf16>, tensor<4x20xf16>)
  func.return
}
// -----
// CHECK: nn.row_matmul: its flags belong to a norm, which has eps
func.func @f(%x: tensor<4x40xf16>, %w: tensor<2x3x256xf16>) {
  %y, %z = nn.row_matmul(%x, %w) {gives_rows, layout = #nn.tiles<16>} : (tensor<4x40xf16>, tensor<2x3x256xf16>) -> (tensor<4x20xf16>, tensor<4x40xf16>)
  func.return
}
// -----
// CHECK: nn.row_matmul: the norm of rows that lie in squares
func.func @f(%x: tensor<2x3x256xf16>, %w: tensor<2x3x256xf16>) {
  %y = nn.row_matmul(%x, %w) {tiled_left, eps = 1.0e-05 : f64, layout = #nn.tiles<16>} : (tensor<2x3x256xf16>, tensor<2x3x256xf16>) -> tensor<32x32xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: rows in squares have shape [32, 48], expected
func.func @f(%x: tensor<32x48xf16>, %w: tensor<2x3x256xf16>) {
  %y = nn.row_matmul(%x, %w) {tiled_left, layout = #nn.tiles<16>} : (tensor<32x48xf16>, tensor<2x3x256xf16>) -> tensor<32x32xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: rows in squares, but a matrix in #nn.panels<16>
func.func @f(%x: tensor<2x3x256xf16>, %w: tensor<2x48x16xf16>) {
  %y = nn.row_matmul(%x, %w) {tiled_left, layout = #nn.panels<16>} : (tensor<2x3x256xf16>, tensor<2x48x16xf16>) -> tensor<32x32xf16>
  func.return
}
// -----
// CHECK: nn.row_matmul: the result has shape [32, 32], expected [16, 32]
func.func @f(%x: tensor<1x3x256xf16>, %w: tensor<2x3x256xf16>) {
  %y = nn.row_matmul(%x, %w) {tiled_left, tiled_result, layout = #nn.tiles<16>} : (tensor<1x3x256xf16>, tensor<2x3x256xf16>) -> tensor<2x2x256xf16>
  func.return
}
// -----
// CHECK: nn.matmul: the layout #nn.panels<16> does not belong to precision i8
func.func @f(%x: tensor<4x8xi8>, %w: tensor<1x8x16xi8>) {
  %y = nn.matmul(%x, %w) {layout = #nn.panels<16>, precision = "i8"} : (tensor<4x8xi8>, tensor<1x8x16xi8>) -> tensor<4x16xi32>
  func.return
}
// -----
// CHECK: nn.matmul: sums of precision i8 are i32, found i8
func.func @f(%x: tensor<4x8xi8>, %w: tensor<1x2x64xi8>) {
  %y = nn.matmul(%x, %w) {layout = #nn.quads<16>, precision = "i8"} : (tensor<4x8xi8>, tensor<1x2x64xi8>) -> tensor<4x16xi8>
  func.return
}
// -----
// CHECK: nn.matmul: operands of precision i8 have a sign, and the left one is not transposed
func.func @f(%x: tensor<8x4xi8>, %w: tensor<1x2x64xi8>) {
  %y = nn.matmul(%x, %w) {layout = #nn.quads<16>, precision = "i8", transpose_a} : (tensor<8x4xi8>, tensor<1x2x64xi8>) -> tensor<4x16xi32>
  func.return
}
// -----
// CHECK: nn.pack: the input has elements f32, expected i8
func.func @f(%w: tensor<8x16xf32>) {
  %y = nn.pack(%w) {layout = #nn.quads<8>} : (tensor<8x16xf32>) -> tensor<2x2x32xi8>
  func.return
}
