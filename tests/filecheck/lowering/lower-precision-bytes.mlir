// RUN: openinfer-opt %s -p lower-precision --split-input-file | filecheck %s

// One value, two products with weights in blocks: it is rounded once. A product of floats stays.
// CHECK: precision = "q8",
// CHECK-NEXT: rounded_products = 2 : i64
// CHECK: [[B:%\S+]] = nn.quantize_rows(%x) : (tensor<2x64xf32>) -> tensor<2x96xi8>
// CHECK-NEXT: nn.matmul([[B]], %V) {transpose_b, precision = "q8"} : (tensor<2x96xi8>, tensor<8x64x!nn.block<q8_0>>) -> tensor<2x8xf32>
// CHECK-NEXT: nn.matmul([[B]], %W) {transpose_b, precision = "q8"}
// CHECK-NEXT: nn.matmul(%x, %U) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.precision = "q8"} {
  nn.interface {inputs = ["x"], weights = [{variable = "V", sources = ["v"], block = "q8_0"}, {variable = "W", sources = ["w"], block = "q4_0"}, {variable = "U", sources = ["u"]}]}
  func.func @step(%x: tensor<2x64xf32>, %V: tensor<8x64x!nn.block<q8_0>>, %W: tensor<8x64x!nn.block<q4_0>>, %U: tensor<8x64xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) {
    %a = nn.matmul(%x, %V) {transpose_b} : (tensor<2x64xf32>, tensor<8x64x!nn.block<q8_0>>) -> tensor<2x8xf32>
    %b = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64x!nn.block<q4_0>>) -> tensor<2x8xf32>
    %c = nn.matmul(%x, %U) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %a, %b, %c : tensor<2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>
  }
}

// -----

// Rows that meet the matrices of experts; those of f32 take rows as they are.
// CHECK: rounded_products = 1 : i64
// CHECK: [[B:%\S+]] = nn.quantize_rows(%x) : (tensor<2x1x64xf32>) -> tensor<2x1x96xi8>
// CHECK-NEXT: nn.expert_matmul([[B]], %W, %c) {precision = "q8"} : (tensor<2x1x96xi8>, tensor<3x8x64x!nn.block<q8_0>>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
// CHECK-NEXT: nn.expert_matmul(%x, %U, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf32>
builtin.module attributes {openinfer.target = "avx2", openinfer.precision = "q8"} {
  nn.interface {inputs = ["x", "c"], weights = [{variable = "W", sources = ["w"], block = "q8_0"}, {variable = "U", sources = ["u"]}]}
  func.func @step(%x: tensor<2x1x64xf32>, %c: tensor<2x2xi32>, %W: tensor<3x8x64x!nn.block<q8_0>>, %U: tensor<3x8x64xf32>) -> (tensor<2x2x8xf32>, tensor<2x2x8xf32>) {
    %y = nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x8x64x!nn.block<q8_0>>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
    %z = nn.expert_matmul(%x, %U, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf32>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
    func.return %y, %z : tensor<2x2x8xf32>, tensor<2x2x8xf32>
  }
}
