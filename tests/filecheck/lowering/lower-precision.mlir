// RUN: openinfer-opt %s -p lower-precision --split-input-file | filecheck %s
// RUN: sed -e 's/, openinfer.bf16_dot//' -e 's/, openinfer.precision = "bf16"//' %s | openinfer-opt - -p lower-precision --split-input-file | filecheck %s --check-prefix SAME

// Where the module does not ask for it nothing changes.
// SAME-NOT: bf16
// SAME-NOT: precision

// The left operand is rounded once for both products; weights are, when they are packed.
// CHECK: precision = "bf16",
// CHECK-NEXT: rounded_products = 2 : i64
// CHECK: func.func @step(%x: tensor<8x64xf32>
// CHECK-NEXT: [[X:%\S+]] = nn.elementwise(%x) {kind = "cast"} : (tensor<8x64xf32>) -> tensor<8x64xbf16>
// CHECK-NEXT: nn.matmul([[X]], %W) {precision = "bf16"} : (tensor<8x64xbf16>, tensor<64x32xf32>) -> tensor<8x32xf32>
// CHECK-NEXT: nn.matmul([[X]], %V) {transpose_b, precision = "bf16"} : (tensor<8x64xbf16>, tensor<32x64xf32>) -> tensor<8x32xf32>
// CHECK-NEXT: nn.elementwise(%a, %b) {kind = "add"}
builtin.module attributes {openinfer.target = "avx512", openinfer.bf16_dot, openinfer.precision = "bf16"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["W"]}, {variable = "V", sources = ["V"]}]}
  func.func @step(%x: tensor<8x64xf32>, %W: tensor<64x32xf32>, %V: tensor<32x64xf32>) -> tensor<8x32xf32> {
    %a = nn.matmul(%x, %W) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %b = nn.matmul(%x, %V) {transpose_b} : (tensor<8x64xf32>, tensor<32x64xf32>) -> tensor<8x32xf32>
    %c = nn.elementwise(%a, %b) {kind = "add"} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
    func.return %c : tensor<8x32xf32>
  }
}

// -----

// An attention: what makes its operands rounds them, through a change of shape, and it gives bf16
// where only a product reads its result.
// CHECK: rounded_products = 2 : i64
// CHECK-LABEL: func.func @step(%q: tensor<1x16x64xf32>
// CHECK: [[Q:%\S+]] = nn.elementwise(%q) {kind = "cast"}
// CHECK: [[Q4:%\S+]] = nn.reshape([[Q]]) : (tensor<1x16x64xbf16>) -> tensor<1x16x2x32xbf16>
// CHECK:      [[O:%\S+]] = nn.attention([[Q4]], {{%\S+}}, {{%\S+}}) {{.*}}precision = "bf16"{{.*}} -> tensor<1x16x2x32xbf16>
// CHECK:      [[O2:%\S+]] = nn.reshape([[O]]) : (tensor<1x16x2x32xbf16>) -> tensor<1x16x64xbf16>
// CHECK:      nn.matmul([[O2]], %W) {precision = "bf16"}
builtin.module attributes {openinfer.target = "avx512", openinfer.bf16_dot, openinfer.precision = "bf16"} {
  nn.interface {inputs = ["q", "k"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%q: tensor<1x16x64xf32>, %k: tensor<1x16x2x32xf32>, %W: tensor<64x8xf32>) -> tensor<1x16x8xf32> {
    %q4 = nn.reshape(%q) : (tensor<1x16x64xf32>) -> tensor<1x16x2x32xf32>
    %o = nn.attention(%q4, %k, %k) {scale = 0.125 : f64, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (tensor<1x16x2x32xf32>, tensor<1x16x2x32xf32>, tensor<1x16x2x32xf32>) -> tensor<1x16x2x32xf32>
    %a = nn.reshape(%o) : (tensor<1x16x2x32xf32>) -> tensor<1x16x64xf32>
    %y = nn.matmul(%a, %W) : (tensor<1x16x64xf32>, tensor<64x8xf32>) -> tensor<1x16x8xf32>
    func.return %y : tensor<1x16x8xf32>
  }
}

// -----

// Without the instruction: weights for four rows, which are read; neither more rows nor attention.
// CHECK: rounded_products = 1 : i64
// CHECK: func.func @step
// CHECK: nn.matmul({{%\S+}}, %W) {precision = "bf16"} : (tensor<4x64xbf16>
// CHECK-NEXT: nn.matmul(%y, %W) : (tensor<8x64xf32>
// CHECK-NEXT: nn.attention(%q, %q, %q) {scale = 1.250000e-01 : f64, layouts = ["blhd", "blhd", "blhd", "blhd"]}
builtin.module attributes {openinfer.target = "avx2", openinfer.precision = "bf16"} {
  nn.interface {inputs = ["x", "y", "q"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%x: tensor<4x64xf32>, %y: tensor<8x64xf32>, %q: tensor<1x16x2x32xf32>, %W: tensor<64x32xf32>) -> (tensor<4x32xf32>, tensor<8x32xf32>, tensor<1x16x2x32xf32>) {
    %a = nn.matmul(%x, %W) : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
    %b = nn.matmul(%y, %W) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    %o = nn.attention(%q, %q, %q) {scale = 0.125 : f64, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (tensor<1x16x2x32xf32>, tensor<1x16x2x32xf32>, tensor<1x16x2x32xf32>) -> tensor<1x16x2x32xf32>
    func.return %a, %b, %o : tensor<4x32xf32>, tensor<8x32xf32>, tensor<1x16x2x32xf32>
  }
}

// -----

// Left alone: integers, f64, a short contraction, few rows against an operand of the step, a weight on
// the left, a transposed left operand, causal attention, attention of one query.
// CHECK: rounded_products = 0 : i64
// CHECK: func.func @step
// CHECK-NOT: bf16
builtin.module attributes {openinfer.target = "avx512", openinfer.bf16_dot, openinfer.precision = "bf16"} {
  nn.interface {inputs = ["i", "d", "s", "x", "q", "one"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%i: tensor<16x16xi32>, %d: tensor<16x16xf64>, %s: tensor<16x8xf32>, %x: tensor<4x64xf32>, %q: tensor<1x2x16x32xf32>, %one: tensor<1x2x1x32xf32>, %W: tensor<64x64xf32>) -> (tensor<16x16xi32>, tensor<16x16xf64>, tensor<16x16xf32>, tensor<4x4xf32>, tensor<64x4xf32>, tensor<64x64xf32>, tensor<1x2x16x32xf32>, tensor<1x2x1x32xf32>) {
    %a = nn.matmul(%i, %i) : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi32>
    %b = nn.matmul(%d, %d) : (tensor<16x16xf64>, tensor<16x16xf64>) -> tensor<16x16xf64>
    %c = nn.matmul(%s, %s) {transpose_b} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x16xf32>
    %e = nn.matmul(%x, %x) {transpose_b} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x4xf32>
    %f = nn.matmul(%W, %x) {transpose_b} : (tensor<64x64xf32>, tensor<4x64xf32>) -> tensor<64x4xf32>
    %g = nn.matmul(%x, %x) {transpose_a} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<64x64xf32>
    %h = nn.attention(%q, %q, %q) {scale = 0.125 : f64, causal, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x16x32xf32>, tensor<1x2x16x32xf32>, tensor<1x2x16x32xf32>) -> tensor<1x2x16x32xf32>
    %j = nn.attention(%one, %q, %q) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x1x32xf32>, tensor<1x2x16x32xf32>, tensor<1x2x16x32xf32>) -> tensor<1x2x1x32xf32>
    func.return %a, %b, %c, %e, %f, %g, %h, %j : tensor<16x16xi32>, tensor<16x16xf64>, tensor<16x16xf32>, tensor<4x4xf32>, tensor<64x4xf32>, tensor<64x64xf32>, tensor<1x2x16x32xf32>, tensor<1x2x1x32xf32>
  }
}
