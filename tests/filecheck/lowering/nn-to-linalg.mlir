// RUN: openinfer-opt %s -p nn-to-linalg --split-input-file | filecheck %s

// A fill is a constant of the body, not an operand.
// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT: %[[N:.*]] = nn.size "N"
// CHECK-NEXT: tensor.empty(%[[N]])
// CHECK-NEXT: linalg.generic {{.*}} ins(%x : tensor<?x8xf32, #nn.dims<N, 8>>)
// CHECK: %[[C:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT: arith.mulf %{{.*}}, %[[C]] : f32
// CHECK-NEXT: linalg.yield
func.func @elementwise(%x: tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?x8xf32, #nn.dims<N, 8>> {
  %c = nn.fill() {value = 2.0 : f64} : () -> tensor<f32>
  %y = nn.elementwise(%x, %c) {kind = "mul"} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<f32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  func.return %y : tensor<?x8xf32, #nn.dims<N, 8>>
}
// -----
// Size 1 stretches.
// CHECK-LABEL: func.func @broadcast
// CHECK: indexing_maps = [affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
func.func @broadcast(%x: tensor<4x1xf32>, %z: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = nn.elementwise(%x, %z) {kind = "add"} : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// -----
// CHECK-LABEL: func.func @maximum
// CHECK: arith.constant -128 : i8
// CHECK: linalg.fill
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.maxsi
func.func @maximum(%x: tensor<4x8xi8>) -> tensor<4xi8> {
  %y = nn.reduce(%x) {kind = "max", axes = array<i64: 1>} : (tensor<4x8xi8>) -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}
// -----
// f16 is added up in f32 and rounded once.
// CHECK-LABEL: func.func @mean
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT: arith.addf
// CHECK: arith.divf
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to f16
// CHECK: nn.reshape({{.*}}) : (tensor<4xf16>) -> tensor<4x1xf16>
func.func @mean(%x: tensor<4x8xf16>) -> tensor<4x1xf16> {
  %y = nn.reduce(%x) {kind = "mean", axes = array<i64: 1>, keepdims} : (tensor<4x8xf16>) -> tensor<4x1xf16>
  func.return %y : tensor<4x1xf16>
}
// -----
// The mean of integers is summed in their own type, which is wide, and divided before it is cut.
// CHECK-LABEL: func.func @mean_of_integers
// CHECK: arith.addi %{{.*}} : i64
// CHECK: arith.maxsi %{{.*}} : index
// CHECK: arith.divsi %{{.*}} : i64
// CHECK: arith.trunci %{{.*}} : i64 to i8
func.func @mean_of_integers(%x: tensor<?xi64, #nn.dims<N>>) -> tensor<i8> {
  %y = nn.reduce(%x) {kind = "mean", axes = array<i64: 0>} : (tensor<?xi64, #nn.dims<N>>) -> tensor<i8>
  func.return %y : tensor<i8>
}
// -----
// bool is a byte.
// CHECK-LABEL: func.func @bools(%x: tensor<4xi8>) -> tensor<4xi8>
// CHECK: arith.xori
func.func @bools(%x: tensor<4xi1>) -> tensor<4xi1> {
  %y = nn.elementwise(%x) {kind = "not"} : (tensor<4xi1>) -> tensor<4xi1>
  func.return %y : tensor<4xi1>
}
// -----
// The sign of a dtype is in the operation, not in the type.
// CHECK-LABEL: func.func @unsigned(%x: tensor<4xi8>) -> tensor<4xi8>
// CHECK: arith.maxui
func.func @unsigned(%x: tensor<4xui8>) -> tensor<4xui8> {
  %y = nn.elementwise(%x, %x) {kind = "max"} : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>
  func.return %y : tensor<4xui8>
}
// -----
// CHECK-LABEL: func.func @transpose
// CHECK: indexing_maps = [affine_map<(d0, d1, d2) -> (d1, d2, d0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>]
func.func @transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %y = nn.transpose(%x) {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  func.return %y : tensor<4x2x3xf32>
}
// -----
// What has a schedule of its own stays, and a hint goes with its op.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT: nn.softmax(%x)
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic {{.*}}attrs = {openinfer.no_fuse}
// CHECK: nn.matmul
func.func @kept(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %s = nn.softmax(%x) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = nn.elementwise(%s) {kind = "exp"} attrs {openinfer.no_fuse} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = nn.matmul(%t, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
// -----
// Kernels that compare learn that integers have no sign.
// CHECK-LABEL: func.func @kernels
// CHECK: nn.sort(%x) {axis = 0 : i64, unsigned} : (tensor<4xi8>)
// CHECK: nn.reduce(%x) {kind = "argmax", axes = array<i64: 0>, unsigned}
// CHECK: nn.matmul(%w, %w) {unsigned}
// CHECK: nn.sort(%z) {axis = 0 : i64} : (tensor<4xi8>)
func.func @kernels(%x: tensor<4xui8>, %w: tensor<4x4xui8>, %z: tensor<4xi8>) -> (tensor<4xui8>, tensor<i64>, tensor<4x4xui32>, tensor<4xi8>) {
  %v, %p = nn.sort(%x) {axis = 0 : i64} : (tensor<4xui8>) -> (tensor<4xui8>, tensor<4xi64>)
  %a = nn.reduce(%x) {kind = "argmax", axes = array<i64: 0>} : (tensor<4xui8>) -> tensor<i64>
  %m = nn.matmul(%w, %w) : (tensor<4x4xui8>, tensor<4x4xui8>) -> tensor<4x4xui32>
  %u, %q = nn.sort(%z) {axis = 0 : i64} : (tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi64>)
  func.return %v, %a, %m, %u : tensor<4xui8>, tensor<i64>, tensor<4x4xui32>, tensor<4xi8>
}
// -----
// An index becomes a buffer of one element.
// CHECK-LABEL: func.func @from_index
// CHECK: %[[N:.*]] = arith.index_cast %i : index to i64
// CHECK: %[[T:.*]] = tensor.empty() : tensor<i64>
// CHECK: linalg.fill ins(%[[N]] : i64) outs(%[[T]] : tensor<i64>)
func.func @from_index(%i: index) -> tensor<i64> {
  %t = nn.from_index %i : tensor<i64>
  func.return %t : tensor<i64>
}
// -----
// Pairs are an axis of two: an element is read with its partner, the other one of that axis.
// CHECK-LABEL: func.func @halves
// CHECK: %[[X:.*]] = nn.reshape(%x) : (tensor<3x8xf16>) -> tensor<3x2x4xf16>
// CHECK: %[[Y:.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, ((d1 * -1) + 1), d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[X]], %[[X]], %c, %s
// CHECK: linalg.index 1 : index
// CHECK: arith.select
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: nn.reshape(%[[Y]]) : (tensor<3x2x4xf16>) -> tensor<3x8xf16>
func.func @halves(%x: tensor<3x8xf16>, %c: tensor<3x4xf32>, %s: tensor<4xf32>) -> tensor<3x8xf16> {
  %y = nn.rotary(%x, %c, %s) : (tensor<3x8xf16>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x8xf16>
  func.return %y : tensor<3x8xf16>
}
// CHECK-LABEL: func.func @neighbours
// CHECK: nn.reshape(%x) : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
// CHECK: affine_map<(d0, d1, d2) -> (d0, d1, ((d2 * -1) + 1))>
// CHECK: linalg.index 2 : index
func.func @neighbours(%x: tensor<3x8xf32>, %c: tensor<4xf32>) -> tensor<3x8xf32> {
  %y = nn.rotary(%x, %c, %c) {interleaved} : (tensor<3x8xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x8xf32>
  func.return %y : tensor<3x8xf32>
}
