// RUN: openinfer-opt %s -p split-concats --split-input-file | filecheck %s

// A kernel of the device has up to 29 buffers: 30 values are joined as 28, 2, and both.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[FIRST:[0-9]+]] = nn.concat(%a0, {{.*}}, %a27) {axis = 0 : i64} : {{.*}} -> tensor<56xf32>
// CHECK-NEXT: %[[LAST:[0-9]+]] = nn.concat(%a28, %a29) {axis = 0 : i64} : {{.*}} -> tensor<4xf32>
// CHECK-NEXT: %y = nn.concat(%[[FIRST]], %[[LAST]]) {axis = 0 : i64} : (tensor<56xf32>, tensor<4xf32>) -> tensor<60xf32>
// CHECK-NEXT: func.return %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "a16", "a17", "a18", "a19", "a20", "a21", "a22", "a23", "a24", "a25", "a26", "a27", "a28", "a29"]}
  func.func @step(%a0: tensor<2xf32>, %a1: tensor<2xf32>, %a2: tensor<2xf32>, %a3: tensor<2xf32>, %a4: tensor<2xf32>, %a5: tensor<2xf32>, %a6: tensor<2xf32>, %a7: tensor<2xf32>, %a8: tensor<2xf32>, %a9: tensor<2xf32>, %a10: tensor<2xf32>, %a11: tensor<2xf32>, %a12: tensor<2xf32>, %a13: tensor<2xf32>, %a14: tensor<2xf32>, %a15: tensor<2xf32>, %a16: tensor<2xf32>, %a17: tensor<2xf32>, %a18: tensor<2xf32>, %a19: tensor<2xf32>, %a20: tensor<2xf32>, %a21: tensor<2xf32>, %a22: tensor<2xf32>, %a23: tensor<2xf32>, %a24: tensor<2xf32>, %a25: tensor<2xf32>, %a26: tensor<2xf32>, %a27: tensor<2xf32>, %a28: tensor<2xf32>, %a29: tensor<2xf32>) -> tensor<60xf32> {
    %y = nn.concat(%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28, %a29) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<60xf32>
    func.return %y : tensor<60xf32>
  }
}
// -----
// A result and 28 values are 29 buffers. A value that comes several times is one.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %y = nn.concat(%a0, {{.*}}, %a27, %a0, %a1) {axis = 0 : i64}
// CHECK-NEXT: func.return %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "a16", "a17", "a18", "a19", "a20", "a21", "a22", "a23", "a24", "a25", "a26", "a27"]}
  func.func @step(%a0: tensor<2xf32>, %a1: tensor<2xf32>, %a2: tensor<2xf32>, %a3: tensor<2xf32>, %a4: tensor<2xf32>, %a5: tensor<2xf32>, %a6: tensor<2xf32>, %a7: tensor<2xf32>, %a8: tensor<2xf32>, %a9: tensor<2xf32>, %a10: tensor<2xf32>, %a11: tensor<2xf32>, %a12: tensor<2xf32>, %a13: tensor<2xf32>, %a14: tensor<2xf32>, %a15: tensor<2xf32>, %a16: tensor<2xf32>, %a17: tensor<2xf32>, %a18: tensor<2xf32>, %a19: tensor<2xf32>, %a20: tensor<2xf32>, %a21: tensor<2xf32>, %a22: tensor<2xf32>, %a23: tensor<2xf32>, %a24: tensor<2xf32>, %a25: tensor<2xf32>, %a26: tensor<2xf32>, %a27: tensor<2xf32>) -> tensor<60xf32> {
    %y = nn.concat(%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a0, %a1) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<60xf32>
    func.return %y : tensor<60xf32>
  }
}
// -----
// The CPU has any number. The last axis may be named from the end.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %y = nn.concat(%a0, {{.*}}, %a29) {axis = -1 : i64}
// CHECK-NEXT: func.return %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "cpu"} {
  nn.interface {inputs = ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "a16", "a17", "a18", "a19", "a20", "a21", "a22", "a23", "a24", "a25", "a26", "a27", "a28", "a29"]}
  func.func @step(%a0: tensor<2xf32>, %a1: tensor<2xf32>, %a2: tensor<2xf32>, %a3: tensor<2xf32>, %a4: tensor<2xf32>, %a5: tensor<2xf32>, %a6: tensor<2xf32>, %a7: tensor<2xf32>, %a8: tensor<2xf32>, %a9: tensor<2xf32>, %a10: tensor<2xf32>, %a11: tensor<2xf32>, %a12: tensor<2xf32>, %a13: tensor<2xf32>, %a14: tensor<2xf32>, %a15: tensor<2xf32>, %a16: tensor<2xf32>, %a17: tensor<2xf32>, %a18: tensor<2xf32>, %a19: tensor<2xf32>, %a20: tensor<2xf32>, %a21: tensor<2xf32>, %a22: tensor<2xf32>, %a23: tensor<2xf32>, %a24: tensor<2xf32>, %a25: tensor<2xf32>, %a26: tensor<2xf32>, %a27: tensor<2xf32>, %a28: tensor<2xf32>, %a29: tensor<2xf32>) -> tensor<60xf32> {
    %y = nn.concat(%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a17, %a18, %a19, %a20, %a21, %a22, %a23, %a24, %a25, %a26, %a27, %a28, %a29) {axis = -1 : i64} : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<60xf32>
    func.return %y : tensor<60xf32>
  }
}
