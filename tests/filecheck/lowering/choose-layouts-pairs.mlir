// RUN: openinfer-opt %s -p choose-layouts --split-input-file | filecheck %s

// One weight in products of bf16 and of f32: two layouts, of which the one in pairs takes half the
// memory; an odd number of rows ends in half a pair.
// CHECK: func.func @step(%x: tensor<4x33xf32>, %h: tensor<4x33xbf16>, %W_pairs: tensor<1x17x64xbf16>, %W_packed: tensor<1x33x32xf32>)
// CHECK-NEXT: nn.matmul(%h, %W_pairs) {precision = "bf16", layout = #nn.pairs<32>} : (tensor<4x33xbf16>, tensor<1x17x64xbf16>) -> tensor<4x20xf32>
// CHECK-NEXT: nn.matmul(%x, %W_packed) {layout = #nn.panels<32>}
// CHECK: func.func @prepare_0(%source: tensor<33x20xf32>) -> tensor<1x17x64xbf16>
// CHECK-NEXT: nn.pack(%source) {layout = #nn.pairs<32>} : (tensor<33x20xf32>) -> tensor<1x17x64xbf16>
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["x", "h"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%x: tensor<4x33xf32>, %h: tensor<4x33xbf16>, %W: tensor<33x20xf32>) -> (tensor<4x20xf32>, tensor<4x20xf32>) {
    %a = nn.matmul(%h, %W) {precision = "bf16"} : (tensor<4x33xbf16>, tensor<33x20xf32>) -> tensor<4x20xf32>
    %b = nn.matmul(%x, %W) : (tensor<4x33xf32>, tensor<33x20xf32>) -> tensor<4x20xf32>
    func.return %a, %b : tensor<4x20xf32>, tensor<4x20xf32>
  }
}

// -----

// An operand of the step is packed by the kernel, in each step: it stays.
// CHECK: func.func @step
// CHECK-NEXT: nn.matmul(%h, %x) {precision = "bf16", transpose_b}
builtin.module attributes {openinfer.target = "avx512"} {
  nn.interface {inputs = ["h", "x"], weights = []}
  func.func @step(%h: tensor<9x32xbf16>, %x: tensor<9x32xf32>) -> tensor<9x9xf32> {
    %a = nn.matmul(%h, %x) {precision = "bf16", transpose_b} : (tensor<9x32xbf16>, tensor<9x32xf32>) -> tensor<9x9xf32>
    func.return %a : tensor<9x9xf32>
  }
}
