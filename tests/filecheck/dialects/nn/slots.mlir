// RUN: openinfer-opt %s | openinfer-opt | filecheck %s

// An argument without a name, with a name, with a number, with both; any text is a name.
// CHECK: func.func @step(%a: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %b: memref<4xf32> {openinfer.arg = #nn.slot<input "a \22b\22 0">}, %c: memref<4xf32> {openinfer.arg = #nn.slot<weight 12>}, %d: index {openinfer.arg = #nn.slot<extent "bound.out.1" 1>}) {
func.func @step(%a: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %b: memref<4xf32> {openinfer.arg = #nn.slot<input "a \22b\22 0">}, %c: memref<4xf32> {openinfer.arg = #nn.slot<weight 12>}, %d: index {openinfer.arg = #nn.slot<extent "bound.out.1" 1>}) {
  func.return
}
