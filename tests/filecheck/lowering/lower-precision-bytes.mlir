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
