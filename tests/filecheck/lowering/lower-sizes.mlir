// RUN: openinfer-opt %s -p lower-sizes --split-input-file | filecheck %s

// CHECK: frame = [#nn.slot<input "x">, #nn.slot<extent "x" 0>, #nn.slot<extent "x" 1>, #nn.slot<weight 0>, #nn.slot<errors>, #nn.slot<arena>, #nn.slot<arena_length>, #nn.slot<size "M">, #nn.slot<size "N">],
// CHECK-NEXT: weight_bytes = [48 : i64]
// CHECK: func.func @step({{.*}}, %M: index {openinfer.arg = #nn.slot<size "M">}, %N: index {openinfer.arg = #nn.slot<size "N">})
// CHECK-NEXT: %[[P:.*]] = arith.muli %M, %N : index
// CHECK: arith.floordivsi
// CHECK: func.call @k(%x, %N)
// CHECK-NOT: nn.size
// CHECK: func.func private @k(%x: memref<?x?xf32>, %N: index)
// CHECK-NEXT: "test.op"(%N)
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], sizes = ["M", "N"], variables = [{name = "x", dims = ["N", "M"]}]}
func.func @step(%x: memref<?x?xf32> {openinfer.arg = #nn.slot<input "x">}, %w: memref<3x4xf32> {openinfer.arg = #nn.slot<weight 0>}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %arena: memref<?xi8> {openinfer.arg = #nn.slot<arena>}) {
  %a = nn.size "M*N"
  %b = nn.size "floordiv(M*N + 3, 4)"
  "test.op"(%a, %b) : (index, index) -> ()
  func.call @k(%x) : (memref<?x?xf32>) -> ()
  func.return
}
func.func private @k(%x: memref<?x?xf32>) {
  %n = nn.size "N"
  "test.op"(%n) : (index) -> ()
  func.return
}
}
// -----
// A function that asks for no size gets none, and a module that was lowered stays as it is.
// CHECK: func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<input "x">}) {
// CHECK-NEXT: func.call @k(%x) : (memref<4xf32>) -> ()
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], variables = [{name = "x", dims = ["4"]}]}
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<input "x">}) {
  func.call @k(%x) : (memref<4xf32>) -> ()
  func.return
}
func.func private @k(%x: memref<4xf32>) {
  func.return
}
}
// -----
// CHECK: frame = [#nn.slot<input "x">]
// CHECK: nn.size "N"
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {frame = [#nn.slot<input "x">]}
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<input "x">}) {
  %n = nn.size "N"
  func.return
}
}
