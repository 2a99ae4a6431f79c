// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: nn.softmax takes 1 inputs, found 2
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x8xf32>) {
  %y = nn.softmax(%a0, %a1) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.softmax has 1 results, found 0
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  nn.softmax(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.softmax mixes buffers with other values: found tensor<4x8xf32>
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %b = memref.alloc() : memref<4x8xf32>
  nn.softmax(%x) outs(%b) {axis = 1 : i64} : (tensor<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.softmax without destinations works on tensors, found memref<4x8xf32>
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %b = memref.alloc() : memref<4x8xf32>
  %y = nn.softmax(%b) {axis = 1 : i64} : (memref<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.softmax has 1 destinations, found 2
func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>) {
  %b = memref.alloc() : memref<4x8xf32>
  nn.softmax(%b) outs(%b, %b) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.softmax takes 0 regions at most
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.softmax(%a0) {axis = 1 : i64} {
  ^bb0(%p: f32):
    nn.yield %p : f32
  } : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: expected a #nn.dims that names them
func.func @f(%a0: tensor<?x8xf32>) {
  %y = nn.softmax(%a0) {axis = 1 : i64} : (tensor<?x8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  func.return
}
// -----
// CHECK: are not those of its shape
func.func @f(%a0: tensor<?x8xf32, #nn.dims<N, 9>>) {
  %y = nn.softmax(%a0) {axis = 1 : i64} : (tensor<?x8xf32, #nn.dims<N, 9>>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  func.return
}
// -----
// CHECK: nn.elementwise: kind 'addd' is no elementwise op of the table, did you mean 'add'?
func.func @f(%a0: tensor<4xf32>, %a1: tensor<4xf32>) {
  %y = nn.elementwise(%a0, %a1) {kind = "addd"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: kind 'softmax' is no elementwise op of the table
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "softmax"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: 'add' takes 2 inputs, found 1
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "add"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: input 0 has shape [4], expected one that broadcasts to the result's [5]
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "neg"} : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: input 0 has shape [4, 8], expected one that broadcasts to the result's [8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8xf32>) {
  %y = nn.elementwise(%a0, %a1) {kind = "add"} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: input 1 has shape [M, 8], expected one that broadcasts to the result's [N, 8]
func.func @f(%a0: tensor<?x8xf32, #nn.dims<N, 8>>, %a1: tensor<?x8xf32, #nn.dims<M, 8>>) {
  %y = nn.elementwise(%a0, %a1) {kind = "add"} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<?x8xf32, #nn.dims<M, 8>>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  func.return
}
// -----
// CHECK: nn.elementwise: input 0 has shape [?, 4], expected one that broadcasts to the result's [?, 5]
func.func @f(%b: memref<?x4xf32>, %c: memref<?x5xf32>) {
  nn.elementwise(%b) outs(%c) {kind = "neg"} : (memref<?x4xf32>, memref<?x5xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.elementwise: 'add': x is f32 but y is i32
func.func @f(%a0: tensor<4xf32>, %a1: tensor<4xi32>) {
  %y = nn.elementwise(%a0, %a1) {kind = "add"} : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: 'sqrt': sqrt does not take i32
func.func @f(%a0: tensor<4xi32>) {
  %y = nn.elementwise(%a0) {kind = "sqrt"} : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}
// -----
// CHECK: nn.elementwise: 'lt' gives bool, but the result is f32
func.func @f(%a0: tensor<4xf32>, %a1: tensor<4xf32>) {
  %y = nn.elementwise(%a0, %a1) {kind = "lt"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: 'cast' gives f16, but the result is f32
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "cast", settings = {to = "f16"}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: 'gelu': gelu has no setting 'aproximate'
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "gelu", settings = {aproximate = "tanh"}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: 'gelu': gelu: approximate must be "none" or "tanh", got "fast"
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "gelu", settings = {approximate = "fast"}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: setting 'alpha' is written 'negative_slope' here
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "relu", settings = {alpha = 0.1 : f64}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: setting 'approximate' is unit, expected a number, a bool or a string
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.elementwise(%a0) {kind = "gelu", settings = {approximate}} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.elementwise: index is no element type of a tensor
func.func @f(%a0: tensor<4xindex>) {
  %y = nn.elementwise(%a0) {kind = "neg"} : (tensor<4xindex>) -> tensor<4xindex>
  func.return
}
// -----
// CHECK: nn.fill: value is "0", expected a number
func.func @f() {
  %y = nn.fill() {value = "0"} : () -> tensor<4xf32>
  func.return
}
// -----
// CHECK: expected an integer for elements i32
func.func @f() {
  %y = nn.fill() {value = 0.5 : f64} : () -> tensor<4xi32>
  func.return
}
// -----
// CHECK: nn.iota: axis 2 is out of range, expected 0 to 1
func.func @f() {
  %y = nn.iota() {axis = 2 : i64} : () -> tensor<2x3xi64>
  func.return
}
// -----
// CHECK: nn.iota: the result has elements f32, expected integers
func.func @f() {
  %y = nn.iota() {axis = 1 : i64} : () -> tensor<2x3xf32>
  func.return
}
// -----
// CHECK: nn.reshape: 32 elements do not fill 30
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reshape(%a0) : (tensor<4x8xf32>) -> tensor<30xf32>
  func.return
}
// -----
// CHECK: nn.reshape: 8*N elements do not fill 8*M
func.func @f(%a0: tensor<?x8xf32, #nn.dims<N, 8>>) {
  %y = nn.reshape(%a0) : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?xf32, #nn.dims<"8*M">>
  func.return
}
// -----
// CHECK: nn.reshape: the result has elements f16, expected f32
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reshape(%a0) : (tensor<4x8xf32>) -> tensor<32xf16>
  func.return
}
// -----
// CHECK: nn.transpose: not a permutation of the dimensions: [0, 0] for an input [4, 8]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.transpose(%a0) {permutation = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  func.return
}
// -----
// CHECK: nn.transpose: the result has shape [4, 8], expected [8, 4]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.transpose(%a0) {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.broadcast: the input has shape [4], expected one that broadcasts to the result's [4, 8]
func.func @f(%a0: tensor<4xf32>) {
  %y = nn.broadcast(%a0) : (tensor<4xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.slice: one start and one step for each dimension: expected 2, found 1 and 2
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<0>], steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.slice: the result has 1 dimensions, expected 2
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<0>, #graph.size<0>], steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.slice: the step of axis 0 is 0
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<0>, #graph.size<0>], steps = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.slice: 2 elements from -1 by 1 do not lie within axis 0 of size 4
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<"-1">, #graph.size<0>], steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  func.return
}
// -----
// CHECK: nn.slice: 3 elements from 1 by 2 do not lie within axis 0 of size 4
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<1>, #graph.size<0>], steps = array<i64: 2, 1>} : (tensor<4x8xf32>) -> tensor<3x8xf32>
  func.return
}
// -----
// CHECK: nn.slice: N elements from 1 by 1 do not lie within axis 0 of size N
func.func @f(%a0: tensor<?x8xf32, #nn.dims<N, 8>>) {
  %y = nn.slice(%a0) {starts = [#graph.size<1>, #graph.size<0>], steps = array<i64: 1, 1>} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  func.return
}
// -----
// CHECK: nn.slice: 0 elements from 5 by 1 do not lie within axis 0 of size 4
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<5>, #graph.size<0>], steps = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<0x8xf32>
  func.return
}
// -----
// CHECK: nn.slice: 3 elements from 1 by -1 do not lie within axis 0 of size 4
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.slice(%a0) {starts = [#graph.size<1>, #graph.size<0>], steps = array<i64: -1, 1>} : (tensor<4x8xf32>) -> tensor<3x8xf32>
  func.return
}
// -----
// CHECK: nn.concat: axis 2 is out of range, expected -2 to 1
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.concat(%a0) {axis = 2 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.concat: input 1 has shape [2, 9], expected the result's [6, 8] but for axis 0
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<2x9xf32>) {
  %y = nn.concat(%a0, %a1) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2x9xf32>) -> tensor<6x8xf32>
  func.return
}
// -----
// CHECK: nn.concat: axis 0 of the result is 7, expected 6
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<2x8xf32>) {
  %y = nn.concat(%a0, %a1) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<7x8xf32>
  func.return
}
// -----
// CHECK: nn.concat: axis 0 of the result is 2*N, expected N + 2
func.func @f(%a0: tensor<?x8xf32, #nn.dims<N, 8>>, %a1: tensor<2x8xf32>) {
  %y = nn.concat(%a0, %a1) {axis = 0 : i64} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<2x8xf32>) -> tensor<?x8xf32, #nn.dims<"2*N", 8>>
  func.return
}
// -----
// CHECK: nn.concat: input 1 has elements f16, expected f32
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<2x8xf16>) {
  %y = nn.concat(%a0, %a1) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<2x8xf16>) -> tensor<6x8xf32>
  func.return
}
// -----
// CHECK: nn.gather: axis 2 is out of range, expected 0 to 1
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<5xi64>) {
  %y = nn.gather(%a0, %a1) {axis = 2 : i64} : (tensor<4x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  func.return
}
// -----
// CHECK: nn.gather: the indices are f32, expected integers
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<5xf32>) {
  %y = nn.gather(%a0, %a1) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<5xf32>) -> tensor<5x8xf32>
  func.return
}
// -----
// CHECK: nn.gather: the result has shape [5, 8], expected [4, 5]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<5xi64>) {
  %y = nn.gather(%a0, %a1) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  func.return
}
// -----
// CHECK: nn.gather: node -1 is no row of the node table
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<5xi64>) {
  %y = nn.gather(%a0, %a1) {axis = 0 : i64, node = -1 : i64} : (tensor<4x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  func.return
}
// -----
// CHECK: nn.gather: the error record is memref<3xi64>, expected memref<4xi64>
func.func @f(%b: memref<4x8xf32>, %i: memref<5xi64>, %c: memref<5x8xf32>, %e: memref<3xi64>) {
  nn.gather(%b, %i) outs(%c) scratch(errors = %e) {axis = 0 : i64} : (memref<4x8xf32>, memref<5xi64>, memref<5x8xf32>, memref<3xi64>) -> ()
  func.return
}
// -----
// CHECK: nn.check_indices: the error record has shape [3], expected [4]
func.func @f(%i: memref<5xi64>, %e: memref<3xi64>) {
  nn.check_indices(%i) outs(%e) {bound = #graph.size<4>} : (memref<5xi64>, memref<3xi64>) -> ()
  func.return
}
// -----
// CHECK: nn.take_errors: the target has shape [3], expected [4]
func.func @f(%s: memref<4xi64>, %e: memref<3xi64>) {
  nn.take_errors %s, %e : memref<4xi64>, memref<3xi64>
  func.return
}
// -----
// CHECK: nn.take_errors: the source has elements i32, expected i64
func.func @f(%s: memref<4xi32>, %e: memref<4xi64>) {
  nn.take_errors %s, %e : memref<4xi32>, memref<4xi64>
  func.return
}
// -----
// CHECK: nn.check_indices: the indices are f32, expected integers
func.func @f(%i: memref<5xf32>, %e: memref<4xi64>) {
  nn.check_indices(%i) outs(%e) {bound = #graph.size<4>} : (memref<5xf32>, memref<4xi64>) -> ()
  func.return
}
// -----
// CHECK: nn.check_indices: it stands on buffers only
func.func @f(%i: tensor<5xi64>) {
  %e = nn.check_indices(%i) {bound = #graph.size<4>} : (tensor<5xi64>) -> tensor<4xi64>
  func.return
}
// -----
// CHECK: a panel has 0 columns, expected 1 or more
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.pack(%a0) {layout = #nn.panels<0>} : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  func.return
}
// -----
// CHECK: nn.pack: the input has shape [8], expected two dimensions or more
func.func @f(%a0: tensor<8xf32>) {
  %y = nn.pack(%a0) {layout = #nn.panels<8>} : (tensor<8xf32>) -> tensor<1x1x8xf32>
  func.return
}
// -----
// CHECK: nn.pack: the result has shape [1, 4, 6], expected [2, 4, 6]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.pack(%a0) {layout = #nn.panels<6>} : (tensor<4x8xf32>) -> tensor<1x4x6xf32>
  func.return
}
// -----
// CHECK: nn.pack: the result has shape [2, 4, 6], expected [1, 8, 6]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.pack(%a0) {layout = #nn.panels<6>, transposed = "transposed"} : (tensor<4x8xf32>) -> tensor<2x4x6xf32>
  func.return
}
// -----
// CHECK: nn.matmul: operands have at least two dimensions (three with a layout): found [4, 8] and [8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8xf32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.matmul: inner sizes differ, 8 and 4
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x8xf32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: inner sizes differ, 4 and 8
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>) {
  %y = nn.matmul(%a0, %a1) {transpose_a} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the result has shape [4, 3], expected [4, 2]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x3xf32>
  func.return
}
// -----
// CHECK: nn.matmul: leading dimensions [2] and [3] do not broadcast
func.func @f(%a0: tensor<2x4x8xf32>, %a1: tensor<3x8x2xf32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<2x4x8xf32>, tensor<3x8x2xf32>) -> tensor<2x4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the result has shape [3, 4, 2], expected [5, 3, 4, 2]
func.func @f(%a0: tensor<3x4x8xf32>, %a1: tensor<5x1x8x2xf32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<3x4x8xf32>, tensor<5x1x8x2xf32>) -> tensor<3x4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: an operand with a layout has no transpose_b
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<1x8x16xf32>) {
  %y = nn.matmul(%a0, %a1) {layout = #nn.panels<16>, transpose_b} : (tensor<4x8xf32>, tensor<1x8x16xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the right operand in #nn.panels<16> has shape [1, 8, 16], expected [2, 8, 16]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<1x8x16xf32>) {
  %y = nn.matmul(%a0, %a1) {layout = #nn.panels<16>} : (tensor<4x8xf32>, tensor<1x8x16xf32>) -> tensor<4x20xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the right operand in #nn.panels<8> has shape [1, 8, 0], expected [1, 8, 8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<1x8x0xf32>) {
  %y = nn.matmul(%a0, %a1) {layout = #nn.panels<8>} : (tensor<4x8xf32>, tensor<1x8x0xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: operands have elements f32 and i32, expected one type, two floats, or a float and integers of 8 or 16 bits
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xi32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<4x8xf32>, tensor<8x2xi32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the result has elements i32, the product of f32 gives others
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>) {
  %y = nn.matmul(%a0, %a1) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xi32>
  func.return
}
// -----
// CHECK: nn.matmul: the scratch buffer has shape [1, 3, 8, 2], expected [?, 2, 8, 2]
func.func @f(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<4x4xf32>, %s: memref<1x3x8x2xf32>) {
  nn.matmul(%a, %b) outs(%c) scratch(panels = %s) {transpose_b} : (memref<4x8xf32>, memref<4x8xf32>, memref<4x4xf32>, memref<1x3x8x2xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.matmul: one map for each extra operand: 1 operands, 0 maps
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the map (d0) -> (d0) of extra operand 0 does not lead from the indices of [4, 2] to those of [2]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) {maps = [affine_map<(d0) -> (d0)>]} : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the map (d0, d1) -> (d0) reads extra operand 0 of shape [2] outside its bounds for a result [4, 2]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) {maps = [affine_map<(d0, d1) -> (d0)>]} : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: 1 extra operands and no body that takes them
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) {maps = [affine_map<(d0, d1) -> (d1)>]} : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the body takes 1 arguments, expected 2
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) {maps = [affine_map<(d0, d1) -> (d1)>]} {
  ^bb0(%p: f32):
    nn.yield %p : f32
  } : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the body takes a product of type f16, expected f32 or f64
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) {maps = [affine_map<(d0, d1) -> (d1)>]} {
  ^bb0(%p: f16, %q: f32):
    nn.yield %q : f32
  } : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: argument 1 of the body has elements f64, expected f32
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>, %a2: tensor<2xf32>) {
  %y = nn.matmul(%a0, %a1) extras(%a2) {maps = [affine_map<(d0, d1) -> (d1)>]} {
  ^bb0(%p: f32, %q: f64):
    nn.yield %p : f32
  } : (tensor<4x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the body yields (f64), expected (f32)
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>) {
  %y = nn.matmul(%a0, %a1) {} {
  ^bb0(%p: f64):
    nn.yield %p : f64
  } : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the body ends without nn.yield
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8x2xf32>) {
  %y = nn.matmul(%a0, %a1) {} {
  ^bb0(%p: f32):
    "test.termop"() : () -> ()
  } : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  func.return
}
// -----
// CHECK: nn.reduce: unknown kind 'median', expected one of sum, mean
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "median", axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.reduce: axis 2 is out of range, expected 0 to 1
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "sum", axes = array<i64: 2>} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.reduce: an axis occurs twice in [1, 1]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "sum", axes = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.reduce: the result has shape [8], expected [4]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "sum", axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<8xf32>
  func.return
}
// -----
// CHECK: nn.reduce: the result has shape [4], expected [4, 1]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "sum", axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.reduce: argmax takes one axis, found 2
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "argmax", axes = array<i64: 0, 1>} : (tensor<4x8xf32>) -> tensor<i64>
  func.return
}
// -----
// CHECK: nn.reduce: the result has elements i32, expected i64
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "argmax", axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xi32>
  func.return
}
// -----
// CHECK: nn.reduce: select_last belongs to argmax and argmin, not to sum
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.reduce(%a0) {kind = "sum", axes = array<i64: 1>, select_last} : (tensor<4x8xf32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.reduce: sum of i32 gives an integer, but the result has elements f32
func.func @f(%a0: tensor<4x8xi32>) {
  %y = nn.reduce(%a0) {kind = "sum", axes = array<i64: 1>} : (tensor<4x8xi32>) -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.softmax: axis 9 is out of range, expected -2 to 1
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.softmax(%a0) {axis = 9 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.softmax: the result has shape [4, 9], expected [4, 8]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.softmax(%a0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x9xf32>
  func.return
}
// -----
// CHECK: nn.softmax: expected float elements, found i32
func.func @f(%a0: tensor<4x8xi32>) {
  %y = nn.softmax(%a0) {axis = 1 : i64} : (tensor<4x8xi32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.layer_norm: the inputs are x, weight by the flags, found 1
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.layer_norm(%a0) {eps = 1.0e-5 : f64, has_weight} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.layer_norm: weight has shape [4], expected [8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4xf32>) {
  %y = nn.layer_norm(%a0, %a1) {eps = 1.0e-5 : f64, has_weight} : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.layer_norm: bias has shape [4], expected [8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<8xf32>, %a2: tensor<4xf32>) {
  %y = nn.layer_norm(%a0, %a1, %a2) {eps = 1.0e-5 : f64, has_weight, has_bias} : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.layer_norm: the result has shape [8, 4], expected [4, 8]
func.func @f(%a0: tensor<4x8xf32>) {
  %y = nn.layer_norm(%a0) {eps = 1.0e-5 : f64} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  func.return
}
// -----
// CHECK: nn.layer_norm: x is a scalar, expected a last axis
func.func @f(%a0: tensor<f32>) {
  %y = nn.layer_norm(%a0) {eps = 1.0e-5 : f64} : (tensor<f32>) -> tensor<f32>
  func.return
}
// -----
// CHECK: nn.rms_norm: weight has shape [4, 8], expected [8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<4x8xf32>) {
  %y = nn.rms_norm(%a0, %a1) {eps = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: layouts are four of bhld, blhd, found
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "dlhb", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: q, k, v and the result have four dimensions, found [4, 8]
func.func @f(%a0: tensor<4x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<4x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: with masked, without windowed, without softcapped there are 4 inputs, found 3
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: window 0 lets no position attend
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, window = 0 : i64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: without masked, with windowed, without softcapped there are 4 inputs, found 3
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, windowed, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: window and windowed exclude each other
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>, %a3: tensor<i64>) {
  %y = nn.attention(%a0, %a1, %a2, %a3) {scale = 1.0 : f64, window = 3 : i64, windowed, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>, tensor<i64>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: softcap 0.0 is not above 0 and finite
func.func @f(%a0: tensor<1x4x5x8xf32>) {
  %y = nn.attention(%a0, %a0, %a0) {scale = 1.0 : f64, softcap = 0.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: softcap and softcapped exclude each other
func.func @f(%a0: tensor<1x4x5x8xf32>, %c: tensor<f32>) {
  %y = nn.attention(%a0, %a0, %a0, %c) {scale = 1.0 : f64, softcap = 2.0 : f64, softcapped, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<f32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the window has elements i32
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>, %a3: tensor<i32>) {
  %y = nn.attention(%a0, %a1, %a2, %a3) {scale = 1.0 : f64, windowed, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>, tensor<i32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the window has shape [1]
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>, %a3: tensor<1xi64>) {
  %y = nn.attention(%a0, %a1, %a2, %a3) {scale = 1.0 : f64, windowed, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>, tensor<1xi64>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: expected float elements, found i32
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xi32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xi32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: batch sizes differ: q 1, k 3, v 1
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<3x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<3x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: k has 2 heads and v has 4, expected as many
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x4x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x4x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: q has 4 heads and k has 3, expected a multiple
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x3x7x8xf32>, %a2: tensor<1x3x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x3x7x8xf32>, tensor<1x3x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: k has length 7 and v has 6, expected the same
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x6x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: k has length 2 and v has 7, expected the same
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x2x8xf32>, %a2: tensor<1x7x2x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "blhd", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x2x8xf32>, tensor<1x7x2x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: q has head size 8 and k has 6, expected the same
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x6xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x6xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the result is [1, 4, 5, 8] in bhld order, expected [1, 4, 5, 6]
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x6xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x6xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the result is [1, 5, 4, 8] in bhld order, expected [1, 4, 5, 8]
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>) {
  %y = nn.attention(%a0, %a1, %a2) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "blhd"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the mask has shape [5, 6], expected one that broadcasts to the scores' [1, 4, 5, 7]
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>, %a3: tensor<5x6xf32>) {
  %y = nn.attention(%a0, %a1, %a2, %a3) {scale = 1.0 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>, tensor<5x6xf32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the mask has elements i32, expected bools or floats
func.func @f(%a0: tensor<1x4x5x8xf32>, %a1: tensor<1x2x7x8xf32>, %a2: tensor<1x2x7x8xf32>, %a3: tensor<5x7xi32>) {
  %y = nn.attention(%a0, %a1, %a2, %a3) {scale = 1.0 : f64, masked, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32>, tensor<5x7xi32>) -> tensor<1x4x5x8xf32>
  func.return
}
// -----
// CHECK: nn.attention: the scratch buffer of scores has shape [1, 5, 8], expected [?, 7, ?]
func.func @f(%q: memref<1x4x5x8xf32>, %k: memref<1x2x7x8xf32>, %o: memref<1x4x5x8xf32>, %s: memref<1x8x8xf32>, %t: memref<1x5x8xf32>) {
  nn.attention(%q, %k, %k) outs(%o) scratch(queries = %s, scores = %t) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x4x5x8xf32>, memref<1x2x7x8xf32>, memref<1x2x7x8xf32>, memref<1x4x5x8xf32>, memref<1x8x8xf32>, memref<1x5x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.member: the member has shape [4], expected [4, 8]
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.member %w[%i] : tensor<3x4x8xf32> -> tensor<4xf32>
  func.return
}
// -----
// CHECK: nn.member: the member has elements f16, expected f32
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.member %w[%i] : tensor<3x4x8xf32> -> tensor<4x8xf16>
  func.return
}
// -----
// CHECK: nn.member: 0 indices for a family tensor<3x4x8xf32>
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.member %w[] : tensor<3x4x8xf32> -> tensor<3x4x8xf32>
  func.return
}
// -----
// CHECK: nn.check_index: bound -1 is negative
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.check_index %i below -1 : i64 node 7 : i64
  func.return
}
// -----
// CHECK: nn.view: 32 elements seen as 30
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.view %b[] : memref<4x8xf32> to memref<30xf32>
  func.return
}
// -----
// CHECK: nn.view: 0 sizes for the view's 1 run-time dimensions
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.view %b[] : memref<4x8xf32> to memref<?xf32>
  func.return
}
// -----
// CHECK: nn.view: the view has elements i32, expected f32
func.func @f(%i: index, %w: tensor<3x4x8xf32>, %b: memref<4x8xf32>) {
  %y = nn.view %b[] : memref<4x8xf32> to memref<32xi32>
  func.return
}
// -----
// CHECK: nn.subview: the part has shape [2, 8], expected [1, 8]
func.func @f(%i: index, %b: memref<4x8xf32>) {
  %y = nn.subview %b[%i] : memref<4x8xf32> to memref<2x8xf32>
  func.return
}
// -----
// CHECK: nn.subview: the part has elements i32, expected f32
func.func @f(%i: index, %b: memref<4x8xf32>) {
  %y = nn.subview %b[%i] : memref<4x8xf32> to memref<1x8xi32>
  func.return
}
// -----
// CHECK: nn.subview: a part of memref<4x8xi4> may begin within a byte
func.func @f(%i: index, %b: memref<4x8xi4>) {
  %y = nn.subview %b[%i] : memref<4x8xi4> to memref<1x8xi4>
  func.return
}
// -----
// CHECK: nn.subview: parts of memref<4x?xf32> are of no known size
func.func @f(%i: index, %b: memref<4x?xf32>) {
  %y = nn.subview %b[%i] : memref<4x?xf32> to memref<1x?xf32>
  func.return
}
// -----
// CHECK: nn.stamp: phase 'late' is none of enter, exit, node, pass, turn, size, begin, end
func.func @f() {
  nn.stamp "late" "" [1]
  func.return
}
// -----
// CHECK: nn.stamp: phase 'node' speaks of 2 nodes, not of one
func.func @f() {
  nn.stamp "node" "" [1, 2]
  func.return
}
// -----
// CHECK: nn.stamp: a value goes with the phases 'turn' and 'size', and with no other
func.func @f() {
  nn.stamp "turn" "l" [1]
  func.return
}
// -----
// CHECK: nn.softmax takes no extra operands
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8xf32>) {
  %y = nn.softmax(%x) extras(%w) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.products: 2 products give 1 results
func.func @f(%x: tensor<4x8xf32>, %w: tensor<1x8x16xf32>) {
  %y = nn.products(%x, %w, %w) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<4x16xf32>
  func.return
}
// -----
// CHECK: nn.products: the settings are those of 3 inputs, 0 extra operands and 0 bodies, found 4, 0 and 0
func.func @f(%x: tensor<4x8xf32>, %w: tensor<1x8x16xf32>) {
  %y, %z = nn.products(%x, %w, %w, %w) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
  func.return
}
// -----
// CHECK: nn.products: every right operand has a layout
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) {
  %y, %z = nn.products(%x, %w, %w) {parts = [{}, {}]} : (tensor<4x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
  func.return
}
// -----
// CHECK: nn.products: the left operand is not transposed
func.func @f(%x: tensor<8x4xf32>, %w: tensor<1x8x16xf32>) {
  %y, %z = nn.products(%x, %w, %w) {parts = [{layout = #nn.panels<16>, transpose_a}, {layout = #nn.panels<16>}]} : (tensor<8x4xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
  func.return
}
// -----
// CHECK: nn.matmul: the right operand in #nn.panels<16> has shape [1, 4, 16], expected [1, 8, 16]
func.func @f(%x: tensor<4x8xf32>, %w: tensor<1x8x16xf32>, %v: tensor<1x4x16xf32>) {
  %y, %z = nn.products(%x, %w, %v) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<4x8xf32>, tensor<1x8x16xf32>, tensor<1x4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)
  func.return
}
// -----
// CHECK: nn.interface: the module does not say what it is compiled for, expected `builtin.module attributes {openinfer.target = "generic", …}` around it
builtin.module {
  nn.interface {inputs = ["x"]}
}
// -----
// CHECK: direction 'up' is neither to_device nor to_host
func.func @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  nn.transfer "up" %x, %y bytes <16> : memref<4xf32> to memref<4xf32>
  func.return
}
// -----
// CHECK: memref<4xf32> does not fill memref<8xf32>
func.func @f(%x: memref<4xf32>, %y: memref<8xf32>) {
  nn.transfer "to_host" %x, %y bytes <16> : memref<4xf32> to memref<8xf32>
  func.return
}
// -----
// Scratch buffers have names, which the op knows.
// CHECK: nn.softmax has no scratch buffer rows, it has: none
func.func @f(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  nn.softmax(%x) outs(%y) scratch(rows = %x) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: the scratch buffer panels stands here twice
func.func @f(%a: memref<4x8xf32>, %b: memref<8x4xf32>, %c: memref<4x4xf32>, %s: memref<1x2x8x2xf32>) {
  nn.matmul(%a, %b) outs(%c) scratch(panels = %s, panels = %s) : (memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>, memref<1x2x8x2xf32>, memref<1x2x8x2xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.matmul: blocks have a copy of rows and sums, found one of both
func.func @f(%a: memref<4x8xf32>, %b: memref<8x4xf32>, %c: memref<4x4xf32>, %s: memref<1x2x4xf32>) {
  nn.matmul(%a, %b) outs(%c) scratch(copy = %s) : (memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>, memref<1x2x4xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.softmax has 1 destinations, found 2
func.func @f(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  nn.softmax(%x) outs(%y, %y) {axis = 1 : i64} : (memref<4x8xf32>, memref<4x8xf32>, memref<4x8xf32>) -> ()
  func.return
}
// -----
// CHECK: nn.matmul has 2 scratch buffers, named panels
"builtin.module"() ({
  "func.func"() <{sym_name = "f", function_type = (memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>, memref<1x2x8x2xf32>) -> ()}> ({
  ^bb0(%a: memref<4x8xf32>, %b: memref<8x4xf32>, %c: memref<4x4xf32>, %s: memref<1x2x8x2xf32>):
    "nn.matmul"(%a, %b, %c, %s, %s) <{rooms = ["panels"], operandSegmentSizes = array<i32: 2, 0, 1, 2>}> : (memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>, memref<1x2x8x2xf32>, memref<1x2x8x2xf32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
// -----
// CHECK: unknown block format q9_9, expected one of q8_0
func.func @f(%w: tensor<8x64x!nn.block<q9_9>>) {
  func.return
}
// -----
// CHECK: a panel has 0 columns, expected 1 or more
func.func @f(%x: tensor<4x64xf32>, %w: tensor<1x2x544xi8>) {
  %y = nn.matmul(%x, %w) {layout = #nn.blocks<q8_0, 0>} : (tensor<4x64xf32>, tensor<1x2x544xi8>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: blocks lie along K: a right operand of !nn.block<q8_0> has transpose_b
func.func @f(%x: tensor<4x64xf32>, %w: tensor<64x64x!nn.block<q8_0>>) {
  %y = nn.matmul(%x, %w) : (tensor<4x64xf32>, tensor<64x64x!nn.block<q8_0>>) -> tensor<4x64xf32>
  func.return
}
// -----
// CHECK: nn.matmul: K is 48, expected a multiple of the 32 elements of a block
func.func @f(%x: tensor<4x48xf32>, %w: tensor<8x48x!nn.block<q4_0>>) {
  %y = nn.matmul(%x, %w) {transpose_b} : (tensor<4x48xf32>, tensor<8x48x!nn.block<q4_0>>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: blocks are multiplied with floats, found i32 and a result of i32
func.func @f(%x: tensor<4x64xi32>, %w: tensor<8x64x!nn.block<q8_0>>) {
  %y = nn.matmul(%x, %w) {transpose_b} : (tensor<4x64xi32>, tensor<8x64x!nn.block<q8_0>>) -> tensor<4x8xi32>
  func.return
}
// -----
// CHECK: nn.matmul: the right operand in #nn.blocks<q8_0, 16> has shape [1, 64, 16], expected [1, 2, 544]
func.func @f(%x: tensor<4x64xf32>, %w: tensor<1x64x16xi8>) {
  %y = nn.matmul(%x, %w) {layout = #nn.blocks<q8_0, 16>} : (tensor<4x64xf32>, tensor<1x64x16xi8>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: the right operand in #nn.blocks<q8_0, 16> has elements f32, expected i8
func.func @f(%x: tensor<4x64xf32>, %w: tensor<1x2x544xf32>) {
  %y = nn.matmul(%x, %w) {layout = #nn.blocks<q8_0, 16>} : (tensor<4x64xf32>, tensor<1x2x544xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.matmul: a right operand in blocks has no precision but q8
func.func @f(%x: tensor<4x64xbf16>, %w: tensor<1x2x544xi8>) {
  %y = nn.matmul(%x, %w) {layout = #nn.blocks<q8_0, 16>, precision = "bf16"} : (tensor<4x64xbf16>, tensor<1x2x544xi8>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.rotary: x has shape [4, 7], expected pairs along the last axis
func.func @f(%x: tensor<4x7xf32>, %c: tensor<3xf32>) {
  %y = nn.rotary(%x, %c, %c) : (tensor<4x7xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x7xf32>
  func.return
}
// -----
// CHECK: nn.rotary: the sine has shape [8], expected one that broadcasts to [4, 4]
func.func @f(%x: tensor<4x8xf32>, %c: tensor<4xf32>, %s: tensor<8xf32>) {
  %y = nn.rotary(%x, %c, %s) : (tensor<4x8xf32>, tensor<4xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return
}
// -----
// CHECK: nn.rotary: the cosine has elements f16, not f32 or f64
func.func @f(%x: tensor<4x8xf16>, %c: tensor<4xf16>) {
  %y = nn.rotary(%x, %c, %c) : (tensor<4x8xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<4x8xf16>
  func.return
}
// -----
// CHECK: nn.matvec: pair and eps say that there are 4 inputs, found 3
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w, %w) {pair, eps = 1.0e-05 : f64} : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: a matrix has shape [4, 9], expected [4, 8]
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x9xf32>) {
  %y = nn.matvec(%x, %w) : (tensor<1x8xf32>, tensor<4x9xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: the weight of the norm has shape [4], expected [8]
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>, %n: tensor<4xf32>) {
  %y = nn.matvec(%x, %w, %n) {eps = 1.0e-05 : f64} : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: two matrices need a body that joins their sums
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w, %w) {pair} : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: the body takes 1 arguments, expected 2
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w, %w) {pair, maps = []} {
  ^bb0(%a: f32):
    nn.yield %a : f32
  } : (tensor<1x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: interleaved says how halves of columns stand: there are no halves
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w) {interleaved} : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: halves of columns need a body, and one matrix
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w) {halves = 2 : i64} : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: [4] columns are no blocks of two times 3
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w) {halves = 3 : i64, maps = []} {
  ^bb0(%a: f32, %b: f32):
    nn.yield %a, %b : f32, f32
  } : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.matvec: the body yields (f32), expected (f32, f32)
func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matvec(%x, %w) {halves = 2 : i64, maps = []} {
  ^bb0(%a: f32, %b: f32):
    nn.yield %a : f32
  } : (tensor<1x8xf32>, tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.expert_matmul: x has shape [3, 4, 8], chosen [3, 2]: rows and choices differ
func.func @f(%x: tensor<3x4x8xf32>, %w: tensor<5x6x8xf32>, %e: tensor<3x2xi32>) {
  %y = nn.expert_matmul(%x, %w, %e) : (tensor<3x4x8xf32>, tensor<5x6x8xf32>, tensor<3x2xi32>) -> tensor<3x2x6xf32>
  func.return
}
// -----
// CHECK: nn.matvec: the matrices lie in #nn.panels<16>, expected blocks
func.func @f(%x: tensor<1x32xf32>, %w: tensor<1x32x16xf32>) {
  %y = nn.matvec(%x, %w) {layout = #nn.panels<16>} : (tensor<1x32xf32>, tensor<1x32x16xf32>) -> tensor<1x4xf32>
  func.return
}
// -----
// CHECK: nn.unpack_blocks: the input has elements f32, expected blocks
func.func @f(%w: tensor<4x32xf32>) {
  %y = nn.unpack_blocks(%w) : (tensor<4x32xf32>) -> tensor<4x32xf32>
  func.return
}
// -----
// CHECK: nn.unpack_blocks: the result has elements i32, expected floats
func.func @f(%w: tensor<4x32x!nn.block<q8_0>>) {
  %y = nn.unpack_blocks(%w) : (tensor<4x32x!nn.block<q8_0>>) -> tensor<4x32xi32>
  func.return
}
// -----
// CHECK: nn.expert_matmul: x has 48 features, expected a multiple of the 32 elements of a block
func.func @f(%x: tensor<3x1x48xf32>, %w: tensor<5x2x1x272xi8>, %e: tensor<3x2xi32>) {
  %y = nn.expert_matmul(%x, %w, %e) {layout = #nn.blocks<q8_0, 8>} : (tensor<3x1x48xf32>, tensor<5x2x1x272xi8>, tensor<3x2xi32>) -> tensor<3x2x12xf32>
  func.return
}
// -----
// CHECK: nn.expert_matmul: w in #nn.blocks<q8_0, 8> has shape [5, 2, 1, 272], expected [5, 3, 1, 272]
func.func @f(%x: tensor<3x1x32xf32>, %w: tensor<5x2x1x272xi8>, %e: tensor<3x2xi32>) {
  %y = nn.expert_matmul(%x, %w, %e) {layout = #nn.blocks<q8_0, 8>} : (tensor<3x1x32xf32>, tensor<5x2x1x272xi8>, tensor<3x2xi32>) -> tensor<3x2x20xf32>
  func.return
}
// -----
// CHECK: nn.expert_matmul: precision q8 is for matrices in blocks
func.func @f(%x: tensor<3x1x48xi8>, %w: tensor<5x6x32xf32>, %e: tensor<3x2xi32>) {
  %y = nn.expert_matmul(%x, %w, %e) {precision = "q8"} : (tensor<3x1x48xi8>, tensor<5x6x32xf32>, tensor<3x2xi32>) -> tensor<3x2x6xf32>
  func.return
}
// -----
// CHECK: nn.quantize_blocks: rows are blocks of 32 elements, found [3, 40]
func.func @f(%x: tensor<3x40xf32>) {
  %y = nn.quantize_blocks(%x) {block = "q8_0"} : (tensor<3x40xf32>) -> tensor<3x34xi8>
  func.return
}
// -----
// CHECK: nn.dequantize_blocks: rows are blocks of 34 bytes, found [3, 40]
func.func @f(%x: tensor<3x40xi8>) {
  %y = nn.dequantize_blocks(%x) {block = "q8_0"} : (tensor<3x40xi8>) -> tensor<3x32xf32>
  func.return
}
// -----
// CHECK: nn.quantize_blocks: q9_0 is no format of blocks
func.func @f(%x: tensor<3x32xf32>) {
  %y = nn.quantize_blocks(%x) {block = "q9_0"} : (tensor<3x32xf32>) -> tensor<3x34xi8>
  func.return
}
