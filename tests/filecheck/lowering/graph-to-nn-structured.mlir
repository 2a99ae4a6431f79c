// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic --split-input-file | filecheck %s

// With a height that only the run knows a convolution is the product of the kernel as a matrix with
// the windows of x; the bias is added before the product gets its shape, so that it can join it. A
// step checks that a window fits.
// CHECK: {low = "3", high = "H + 2", node = 0 : i64, kind = "bound"}
// CHECK: %[[W:.*]] = nn.unfold(%x) {stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
// CHECK: %[[C:.*]] = nn.reshape(%[[W]]) : {{.*}} -> tensor<?x2x18x?xf32, #nn.dims<N, 2, 18, "4*((H + 1)/2)">>
// CHECK: %[[K:.*]] = nn.reshape(%w) : (tensor<6x2x3x3xf32>) -> tensor<2x3x18xf32>
// CHECK: %[[P:.*]] = nn.matmul(%[[K]], %[[C]])
// CHECK: %[[B:.*]] = nn.reshape(%b) : (tensor<6xf32>) -> tensor<2x3x1xf32>
// CHECK: %[[S:.*]] = nn.elementwise(%[[P]], %[[B]]) {kind = "add"}
// CHECK: %y = nn.reshape(%[[S]])
graph.variable x dynamic f32 [N, 4, H, 8]
graph.variable w dynamic f32 [6, 2, 3, 3]
graph.variable b dynamic f32 [6]
graph.variable y volatile f32 [N, 6, "floordiv(H + 1, 2)", 4]
graph.block entry {
  graph.op conv2d(x, w, b) -> (y) settings {stride = 2 : i64, padding = 1 : i64, groups = 2 : i64}
  graph.return
}
// -----
// Windows of one element side by side are x itself.
// CHECK: func.func @step(%x: tensor<1x4x?x8xf32, {{.*}}>, %w: tensor<6x4x1x1xf32>)
// CHECK-NOT: nn.unfold
// CHECK: nn.matmul
graph.variable x dynamic f32 [1, 4, H, 8]
graph.variable w dynamic f32 [6, 4, 1, 1]
graph.variable y volatile f32 [1, 6, H, 8]
graph.block entry {
  graph.op conv2d(x, w) -> (y)
  graph.return
}
// -----
// Where all sizes but the batch are known it is one op; the bias keeps its own dtype until the end.
// CHECK: %[[P:.*]] = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 2 : i64, stride = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>}
// CHECK-SAME: -> tensor<?x6x4x4xf32, #nn.dims<N, 6, 4, 4>>
// CHECK: %[[B:.*]] = nn.reshape(%b) : (tensor<6xf32>) -> tensor<6x1x1xf32>
// CHECK: nn.elementwise(%[[P]], %[[B]]) {kind = "add"}
graph.variable x dynamic f32 [N, 4, 8, 8]
graph.variable w dynamic f32 [6, 2, 3, 3]
graph.variable b dynamic f32 [6]
graph.variable y volatile f32 [N, 6, 4, 4]
graph.block entry {
  graph.op conv2d(x, w, b) -> (y) settings {stride = 2 : i64, padding = 1 : i64, groups = 2 : i64}
  graph.return
}
// -----
// Integers are products of windows, too.
// CHECK-NOT: nn.conv
// CHECK: nn.unfold
// CHECK: nn.matmul
graph.variable x dynamic i32 [1, 4, 8, 8]
graph.variable w dynamic i32 [6, 4, 3, 3]
graph.variable y volatile i32 [1, 6, 6, 6]
graph.block entry {
  graph.op conv2d(x, w) -> (y)
  graph.return
}
// -----
// A transposed one multiplies first; windows that meet are added in f32, and rounded once.
// CHECK: %[[P:.*]] = nn.matmul({{.*}}) {transpose_a} : (tensor<4x12xf16>, tensor<1x4x15xf16>) -> tensor<1x12x15xf32>
// CHECK: %[[F:.*]] = nn.fold({{.*}}) {{.*}} : (tensor<1x3x2x2x3x5xf32>) -> tensor<1x3x6x10xf32>
// CHECK: nn.elementwise({{.*}}) {kind = "cast", settings = {to = "f16"}}
graph.variable x dynamic f16 [1, 4, 3, 5]
graph.variable w dynamic f16 [4, 3, 2, 2]
graph.variable y volatile f16 [1, 3, 6, 10]
graph.block entry {
  graph.op conv_transpose2d(x, w) -> (y) settings {stride = 2 : i64}
  graph.return
}
// -----
// The input's part of all steps of a layer is one product; both directions are joined.
// CHECK: %[[A:.*]] = nn.matmul({{.*}}) {transpose_b} : (tensor<12x4xf32>, tensor<18x4xf32>) -> tensor<12x18xf32>
// CHECK: nn.gru
// CHECK-NOT: reverse
// CHECK: nn.matmul
// CHECK: nn.gru({{.*}}) {reverse}
// CHECK: nn.concat({{.*}}) {axis = 2 : i64} : (tensor<4x3x6xf32>, tensor<4x3x6xf32>) -> tensor<4x3x12xf32>
graph.variable x dynamic f32 [4, 3, 4]
graph.variable h dynamic f32 [2, 3, 6]
graph.variable w dynamic f32 [2, 18, 4]
graph.variable u dynamic f32 [2, 18, 6]
graph.variable y volatile f32 [4, 3, 12]
graph.block entry {
  graph.op gru(x, h, w, u) -> (y) settings {direction = "bidirectional"}
  graph.return
}
// -----
// What is not rotated is not touched; angles are made in f64.
// CHECK: nn.elementwise({{.*}}) {kind = "cos"} : (tensor<5x2xf64>) -> tensor<5x2xf64>
// CHECK: %[[PART:.*]] = nn.slice(%x) {starts = [#graph.size<0>, #graph.size<0>, #graph.size<0>]
// CHECK: %[[TURNED:.*]] = nn.rotary(%[[PART]], %{{.*}}, %{{.*}}) : (tensor<3x5x4xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<3x5x4xf32>
// CHECK: %[[REST:.*]] = nn.slice(%x) {starts = [#graph.size<0>, #graph.size<0>, #graph.size<4>]
// CHECK: nn.concat(%[[TURNED]], %[[REST]]) {axis = 2 : i64}
graph.variable x dynamic f32 [3, 5, 6]
graph.variable y volatile f32 [3, 5, 6]
graph.block entry {
  graph.op rope(x) -> (y) settings {dims = 4 : i64}
  graph.return
}
// -----
// Settings of the step: a window is an operand, checked first; a switch chooses between two results.
// CHECK: %[[SEEN:.*]] = nn.elementwise({{.*}}) {kind = "ge"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
// CHECK: nn.require %{{.*}} else "window"
// CHECK: %[[REACH:.*]] = nn.elementwise({{.*}}) {kind = "min"} : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK: nn.attention({{.*}}, %[[REACH]]) {scale = 5.000000e-01 : f64, windowed, layouts
// CHECK: nn.elementwise(%{{.*}}) {kind = "cast", settings = {saturate = true, rounding_mode = "trunc"}}
// CHECK: nn.elementwise(%{{.*}}) {kind = "cast", settings = {saturate = false, rounding_mode = "trunc"}}
// CHECK: nn.elementwise({{.*}}) {kind = "where"}
// What is known stays a setting.
// CHECK: nn.attention({{.*}}) {scale = 5.000000e-01 : f64, window = 3 : i64, layouts
// CHECK-NOT: nn.require
graph.variable x dynamic f32 [1, 2, 5, 4]
graph.variable n dynamic i64
graph.variable f dynamic bool
graph.variable y volatile f32 [1, 2, 5, 4]
graph.variable z volatile f32 [1, 2, 5, 4]
graph.variable i volatile i8 [1, 2, 5, 4]
graph.block entry {
  graph.op attention(x, x, x) -> (y) settings {window = #graph.name<n>}
  graph.op cast(x) -> (i) settings {to = #graph.name<i8>, saturate = #graph.name<f>}
  graph.op attention(x, x, x) -> (z) settings {window = 3 : i64}
  graph.return
}
// -----
// Numbers of windows that only the step knows are dynamic sizes: it checks them, then it gives values to
// the sizes of the result, then windows are read.
// CHECK: dynamic_sizes = ["window.0", "windows.1", "windows.2"]
// CHECK: nn.require %{{.*}} else "number" %[[N:.*]], %[[N]] node 0 : i64
// CHECK: nn.require %{{.*}} else "not-positive" %[[N]], %{{.*}} node 0 : i64
// CHECK: %[[CUT:.*]] = arith.minsi %[[N]], %{{.*}} : index
// CHECK: nn.define_size "window.0" = %[[CUT]] node 0 : i64
// CHECK: nn.define_size "windows.1" = %{{.*}} node 0 : i64
// CHECK: %[[U:.*]] = nn.unfold(%x) {stride = [#graph.size<window.0>, #graph.size<window.0>], padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x3x3x?x?xf32, #nn.dims<1, 4, 3, 3, windows.1, windows.1>>
// CHECK: nn.matmul
// CHECK: nn.require %{{.*}} else "not-positive" %{{.*}} node 1 : i64
// CHECK: nn.require %{{.*}} else "bound" %{{.*}} node 1 : i64
// CHECK: nn.define_size "windows.2" = %{{.*}} node 1 : i64
// CHECK: nn.pool(%x) {kind = "max", kernel = [#graph.size<window.0>, #graph.size<2>], stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>}
graph.variable x dynamic f32 [1, 4, 8, 8]
graph.variable w dynamic f32 [6, 4, 3, 3]
graph.variable n dynamic i64
graph.variable y volatile f32 ["_", "_", "_", "_"]
graph.variable z volatile f32 ["_", "_", "_", "_"]
graph.block entry {
  graph.op conv2d(x, w) -> (y) settings {stride = #graph.name<n>}
  graph.op max_pool2d(x) -> (z) settings {kernel_size = [#graph.name<n>, 2 : i64], stride = 1 : i64}
  graph.return
}
// -----
// A name that has one value in every step is a number.
// CHECK-NOT: nn.require
// CHECK: nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 2, 2>
graph.variable x dynamic f32 [1, 4, 8, 8]
graph.variable w dynamic f32 [6, 4, 3, 3]
graph.variable n constant i64 {init = 2 : i64}
graph.variable y volatile f32 ["_", "_", "_", "_"]
graph.block entry {
  graph.op conv2d(x, w) -> (y) settings {stride = #graph.name<n>}
  graph.return
}
// -----
// Tables turn the first elements of every head; nothing is made of positions. They broadcast along the heads.
// CHECK-NOT: nn.iota
// CHECK: %[[APART:.*]] = nn.reshape(%x) : (tensor<3x20xf16>) -> tensor<3x2x10xf16>
// CHECK: %[[COS:.*]] = nn.reshape(%c) : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
// CHECK: %[[SIN:.*]] = nn.reshape(%s) : (tensor<3x4xf32>) -> tensor<3x1x4xf32>
// CHECK: %[[FIRST:.*]] = nn.slice(%[[APART]])
// CHECK: nn.rotary(%[[FIRST]], %[[COS]], %[[SIN]]) : (tensor<3x2x8xf16>, tensor<3x1x4xf32>, tensor<3x1x4xf32>) -> tensor<3x2x8xf16>
graph.variable x dynamic f16 [3, 20]
graph.variable c dynamic f32 [3, 4]
graph.variable s dynamic f32 [3, 4]
graph.variable y volatile f16 [3, 20]
graph.block entry {
  graph.op rope(x, c, s) -> (y) settings {heads = 2 : i64}
  graph.return
}
