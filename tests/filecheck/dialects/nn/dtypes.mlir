// RUN: OI_ROUNDTRIP

// Every dtype has an element type of its own; `i1` is bool, one signed bit `si1`.
// CHECK: func.func @floats(%a: tensor<2xf64>, %b: tensor<2xf32>, %c: tensor<2xf16>, %d: tensor<2xbf16>, %e: tensor<2xf8E5M2>, %f: tensor<2xf8E4M3FN>)
func.func @floats(%a: tensor<2xf64>, %b: tensor<2xf32>, %c: tensor<2xf16>, %d: tensor<2xbf16>, %e: tensor<2xf8E5M2>, %f: tensor<2xf8E4M3FN>) {
  func.return
}
// CHECK: func.func @packed(%a: tensor<2xi4>, %b: tensor<2xi2>, %c: tensor<2xsi1>, %d: tensor<2xui4>, %e: tensor<2xui2>, %f: tensor<2xui1>)
func.func @packed(%a: tensor<2xi4>, %b: tensor<2xi2>, %c: tensor<2xsi1>, %d: tensor<2xui4>, %e: tensor<2xui2>, %f: tensor<2xui1>) {
  func.return
}
// CHECK: func.func @others(%a: tensor<2xi1>, %b: tensor<2x!nn.dtype<bitset>>, %c: tensor<2x!nn.dtype<t2>>, %d: tensor<2x!nn.dtype<t1>>)
func.func @others(%a: tensor<2xi1>, %b: tensor<2x!nn.dtype<bitset>>, %c: tensor<2x!nn.dtype<t2>>, %d: tensor<2x!nn.dtype<t1>>) {
  // CHECK-NEXT: nn.elementwise(%b, %b) {kind = "add"} : (tensor<2x!nn.dtype<bitset>>, tensor<2x!nn.dtype<bitset>>) -> tensor<2x!nn.dtype<bitset>>
  %x = nn.elementwise(%b, %b) {kind = "add"} : (tensor<2x!nn.dtype<bitset>>, tensor<2x!nn.dtype<bitset>>) -> tensor<2x!nn.dtype<bitset>>
  func.return
}
