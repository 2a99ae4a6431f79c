// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: nn.unfold: strides are 2 numbers of 1 or more, found [0, 1]
func.func @f(%x: tensor<1x2x4x4xf32>) {
  %y = nn.unfold(%x) {stride = array<i64: 0, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2x3x3xf32>
  func.return
}
// -----
// CHECK: nn.unfold: paddings are 4 numbers of 0 or more, found [1, 1]
func.func @f(%x: tensor<1x2x4x4xf32>) {
  %y = nn.unfold(%x) {stride = array<i64: 1, 1>, padding = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2x3x3xf32>
  func.return
}
// -----
// CHECK: nn.unfold: the result has 4 windows along axis 3, expected 3
func.func @f(%x: tensor<1x2x4x4xf32>) {
  %y = nn.unfold(%x) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2x3x4xf32>
  func.return
}
// -----
// CHECK: nn.unfold: x has shape [2, 4, 4], expected [N, C, H, W]
func.func @f(%x: tensor<2x4x4xf32>) {
  %y = nn.unfold(%x) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<2x4x4xf32>) -> tensor<1x2x2x2x3x3xf32>
  func.return
}
// -----
// CHECK: nn.unfold: the result has elements f16, expected f32
func.func @f(%x: tensor<1x2x4x4xf32>) {
  %y = nn.unfold(%x) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2x3x3xf16>
  func.return
}
// -----
// CHECK: nn.fold: x has shape [1, 3, 2, 2, 3, 3], expected [1, 2]
func.func @f(%x: tensor<1x3x2x2x3x3xf32>) {
  %y = nn.fold(%x) {stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x3x2x2x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return
}
// -----
// CHECK: nn.pool: unknown kind 'least', expected one of max, average
func.func @f(%x: tensor<1x2x4x4xf32>) {
  %y = nn.pool(%x) {kind = "least", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  func.return
}
// -----
// CHECK: nn.pool: count_padding and divisor belong to kind 'average'
func.func @f(%x: tensor<1x2x4x4xf32>) {
  %y = nn.pool(%x) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, count_padding} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  func.return
}
// -----
// CHECK: nn.pool: expected float elements, found i32
func.func @f(%x: tensor<1x2x4x4xi32>) {
  %y = nn.pool(%x) {kind = "average", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x2x4x4xi32>) -> tensor<1x2x2x2xi32>
  func.return
}
// -----
// CHECK: nn.pool: the result has 3 windows along axis 2, expected 2
func.func @f(%x: tensor<1x2x5x4xf32>) {
  %y = nn.pool(%x) {kind = "max", kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x2x5x4xf32>) -> tensor<1x2x3x2xf32>
  func.return
}
// -----
// CHECK: nn.resample: corners belong to kind 'bilinear'
func.func @f(%x: tensor<1x2x5x4xf32>) {
  %y = nn.resample(%x) {kind = "nearest", corners} : (tensor<1x2x5x4xf32>) -> tensor<1x2x3x2xf32>
  func.return
}
// -----
// CHECK: nn.resample: the result has shape [1, 3, 3, 2], expected [1, 2, 3, 2]
func.func @f(%x: tensor<1x2x5x4xf32>) {
  %y = nn.resample(%x) {kind = "nearest"} : (tensor<1x2x5x4xf32>) -> tensor<1x3x3x2xf32>
  func.return
}
// -----
// CHECK: nn.lstm takes 4 inputs, found 3
func.func @f(%a: tensor<4x2x20xf32>, %h: tensor<2x5xf32>, %w: tensor<20x5xf32>) {
  %y, %hn, %cn = nn.lstm(%a, %h, %w) : (tensor<4x2x20xf32>, tensor<2x5xf32>, tensor<20x5xf32>) -> (tensor<4x2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  func.return
}
// -----
// CHECK: nn.lstm: the fed part has shape [4, 2, 15], expected [?, ?, 20]
func.func @f(%a: tensor<4x2x15xf32>, %h: tensor<2x5xf32>, %w: tensor<20x5xf32>) {
  %y, %hn, %cn = nn.lstm(%a, %h, %h, %w) : (tensor<4x2x15xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<20x5xf32>) -> (tensor<4x2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
  func.return
}
// -----
// CHECK: nn.gru: the bias has shape [5], expected [15]
func.func @f(%a: tensor<4x2x15xf32>, %h: tensor<2x5xf32>, %w: tensor<15x5xf32>, %b: tensor<5xf32>) {
  %y, %hn = nn.gru(%a, %h, %w, %b) : (tensor<4x2x15xf32>, tensor<2x5xf32>, tensor<15x5xf32>, tensor<5xf32>) -> (tensor<4x2x5xf32>, tensor<2x5xf32>)
  func.return
}
// -----
// CHECK: nn.gru: a last state has shape [3, 5], expected [2, 5]
func.func @f(%a: tensor<4x2x15xf32>, %h: tensor<2x5xf32>, %w: tensor<15x5xf32>) {
  %y, %hn = nn.gru(%a, %h, %w) : (tensor<4x2x15xf32>, tensor<2x5xf32>, tensor<15x5xf32>) -> (tensor<4x2x5xf32>, tensor<3x5xf32>)
  func.return
}
// -----
// CHECK: nn.rfft: the result has shape [3, 4, 2], expected [3, 5, 2]
func.func @f(%x: tensor<3x8xf32>) {
  %y = nn.rfft(%x) {n = #graph.size<8>, norm = "backward"} : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
  func.return
}
// -----
// CHECK: nn.rfft: unknown norm 'half', expected one of backward, forward, ortho
func.func @f(%x: tensor<3x8xf32>) {
  %y = nn.rfft(%x) {n = #graph.size<8>, norm = "half"} : (tensor<3x8xf32>) -> tensor<3x5x2xf32>
  func.return
}
// -----
// CHECK: nn.rfft: 0 samples are no signal
func.func @f(%x: tensor<3x8xf32>) {
  %y = nn.rfft(%x) {n = #graph.size<0>, norm = "ortho"} : (tensor<3x8xf32>) -> tensor<3x1x2xf32>
  func.return
}
// -----
// CHECK: nn.irfft: x has shape [3, 8], expected bins of two numbers
func.func @f(%x: tensor<3x8xf32>) {
  %y = nn.irfft(%x) {n = #graph.size<8>, norm = "ortho"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: w has shape [6, 3, 3, 3], expected [6, 4, 3, 3]
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x3x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: 4 and 6 channels do not divide into 4 groups
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 4 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: the result has 7 windows along axis 3, expected 8
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x7xf32>
  func.return
}
// -----
// CHECK: nn.conv: kernel sizes are 2 numbers of 1 or more, found [3, 0]
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 0>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: the result has shape [1, 6, 4, 3], expected 4 along 3
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, pool = 2 : i64} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x4x3xf32>
  func.return
}
// -----
// CHECK: nn.conv: w in #nn.panels<3> has shape [6, 4, 3], expected [1, 2, 36, 3]
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, layout = #nn.panels<3>} : (tensor<1x4x8x8xf32>, tensor<6x4x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: w in #nn.panels<4> has shape [1, 2, 35, 4], expected [1, 2, 36, 4]
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<1x2x35x4xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, layout = #nn.panels<4>} : (tensor<1x4x8x8xf32>, tensor<1x2x35x4xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: expected float elements, found i32
func.func @f(%x: tensor<1x4x8x8xi32>, %w: tensor<6x4x3x3xi32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xi32>, tensor<6x4x3x3xi32>) -> tensor<1x6x8x8xi32>
  func.return
}
// -----
// CHECK: nn.conv: x has shape [1, 4, H, 8], expected known sizes but for the first
func.func @f(%x: tensor<1x4x?x8xf32, #nn.dims<1, 4, H, 8>>, %w: tensor<6x4x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x?x8xf32, #nn.dims<1, 4, H, 8>>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.conv: strides, paddings and dilations are known numbers
func.func @f(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = nn.conv(%x, %w) {kernel = array<i64: 3, 3>, groups = 1 : i64, stride = [#graph.size<1>, #graph.size<"n.0">], padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}
// -----
// CHECK: nn.pool: kernel sizes are 2 numbers of 1 or more, found [k.0, 0]
func.func @f(%x: tensor<1x4x8x8xf32>) {
  %y = nn.pool(%x) {kind = "max", kernel = [#graph.size<"k.0">, #graph.size<0>], stride = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x?x8xf32, #nn.dims<1, 4, "late.1", 8>>
  func.return
}
