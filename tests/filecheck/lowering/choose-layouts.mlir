// RUN: openinfer-opt %s -p choose-layouts --target-cpu avx2 --split-input-file | filecheck %s

// One weight in two products, once transposed, and in a sum: two layouts, and the weight itself.
// CHECK: {variable = "W", sources = ["W"]},
// CHECK-NEXT: {variable = "W", sources = ["W"], layout = #nn.panels<[[T:[0-9]+]]>, prepare = "prepare_0"},
// CHECK-NEXT: {variable = "W", sources = ["W"], layout = #nn.panels<[[T]]>, prepare = "prepare_1"}
// CHECK: func.func @step(%x: tensor<4x4xf32>, %W: tensor<4x4xf32>, %W_packed: tensor<1x4x[[T]]xf32>, %W_packed_t: tensor<1x4x[[T]]xf32>)
// CHECK-NEXT: nn.matmul(%x, %W_packed) {layout = #nn.panels<[[T]]>}
// CHECK-NEXT: nn.matmul(%a, %W_packed_t) {layout = #nn.panels<[[T]]>}
// CHECK-NEXT: nn.matmul(%b, %W_packed) {layout = #nn.panels<[[T]]>}
// CHECK: linalg.add ins(%c, %W
// CHECK: func.func @prepare_0(%source: tensor<4x4xf32>) -> tensor<1x4x[[T]]xf32>
// CHECK-NEXT: nn.pack(%source) {layout = #nn.panels<[[T]]>}
// CHECK: func.func @prepare_1(%source: tensor<4x4xf32>)
// CHECK-NEXT: nn.pack(%source) {layout = #nn.panels<[[T]]>, transposed = "transposed"}
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%x: tensor<4x4xf32>, %W: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %a = nn.matmul(%x, %W) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = nn.matmul(%a, %W) {transpose_b} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %c = nn.matmul(%b, %W) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %e = tensor.empty() : tensor<4x4xf32>
    %y = linalg.add ins(%c, %W : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
    func.return %y : tensor<4x4xf32>
  }
}
// -----
// The members of a family are laid out one by one; the weight as it is has no reader any more.
// CHECK: weights = [
// CHECK-NEXT: {variable = "V", sources = ["V.0", "V.1"], members = [2 : i64], layout = #nn.panels<[[T:[0-9]+]]>, prepare = "prepare_0"}
// CHECK: func.func @step(%x: tensor<4x4xf32>, %V_packed: tensor<2x1x4x[[T]]xf32>)
// CHECK: nn.member %V_packed[%{{.*}}] : tensor<2x1x4x[[T]]xf32> -> tensor<1x4x[[T]]xf32>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "V", sources = ["V.0", "V.1"], members = [2 : i64]}]}
  func.func @step(%x: tensor<4x4xf32>, %V: tensor<2x4x4xf32>) -> tensor<4x4xf32> {
    %i = arith.constant 1 : index
    %w = nn.member %V[%i] : tensor<2x4x4xf32> -> tensor<4x4xf32>
    %y = nn.matmul(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    func.return %y : tensor<4x4xf32>
  }
}
// -----
// An input, a left operand, integers: nothing is laid out.
// CHECK: func.func @step(%x: tensor<4x4xf32>, %n: tensor<4x4xi32>, %W: tensor<4x4xf32>, %I: tensor<4x4xi32>)
// CHECK-NOT: layout
// CHECK: func.return %a, %b
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "n"], weights = [{variable = "W", sources = ["W"]}, {variable = "I", sources = ["I"]}]}
  func.func @step(%x: tensor<4x4xf32>, %n: tensor<4x4xi32>, %W: tensor<4x4xf32>, %I: tensor<4x4xi32>) -> (tensor<4x4xf32>, tensor<4x4xi32>) {
    %a = nn.matmul(%W, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = nn.matmul(%n, %I) : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
    func.return %a, %b : tensor<4x4xf32>, tensor<4x4xi32>
  }
}
// -----
// Kernels are a matrix for each group, an output channel a column.
// CHECK: func.func @step(%x: tensor<1x4x8x32xf32>, %K_packed_t: tensor<2x[[N:[0-9]+]]x18x[[T:[0-9]+]]xf32>)
// CHECK: nn.conv(%x, %K_packed_t) {{{.*}}layout = #nn.panels<[[T]]>}
// CHECK: func.func @prepare_0(%source: tensor<12x2x3x3xf32>) -> tensor<2x[[N]]x18x[[T]]xf32>
// CHECK-NEXT: %[[M:.*]] = nn.reshape(%source) : (tensor<12x2x3x3xf32>) -> tensor<2x6x18xf32>
// CHECK-NEXT: nn.pack(%[[M]]) {layout = #nn.panels<[[T]]>, transposed = "transposed"}
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "K", sources = ["K"]}]}
  func.func @step(%x: tensor<1x4x8x32xf32>, %K: tensor<12x2x3x3xf32>) -> tensor<1x12x6x30xf32> {
    %y = nn.conv(%x, %K) {kernel = array<i64: 3, 3>, groups = 2 : i64, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x32xf32>, tensor<12x2x3x3xf32>) -> tensor<1x12x6x30xf32>
    func.return %y : tensor<1x12x6x30xf32>
  }
}
// -----
// Kernels that a step computes stay where they are.
// CHECK: nn.conv(%x, %k)
// CHECK-NOT: layout
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "k"], weights = []}
  func.func @step(%x: tensor<1x4x8x32xf32>, %k: tensor<12x4x3x3xf32>) -> tensor<1x12x6x30xf32> {
    %y = nn.conv(%x, %k) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x32xf32>, tensor<12x4x3x3xf32>) -> tensor<1x12x6x30xf32>
    func.return %y : tensor<1x12x6x30xf32>
  }
}
