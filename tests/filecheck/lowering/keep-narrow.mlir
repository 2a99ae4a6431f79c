// RUN: openinfer-opt %s -p keep-narrow --split-input-file | filecheck %s

// A product and a table: the product widens the weight, what is gathered is cast.
// CHECK: {variable = "W", sources = ["w"], dtype = "f16"}
// CHECK: func.func @step(%x: tensor<2x64xf32>, %i: tensor<3xi32>, %W: tensor<8x64xf16>)
// CHECK-NEXT: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf16>) -> tensor<2x8xf32>
// CHECK-NEXT: [[R:%\S+]] = nn.gather(%W, %i) {axis = 0 : i64} : (tensor<8x64xf16>, tensor<3xi32>) -> tensor<3x64xf16>
// CHECK-NEXT: [[C:%\S+]] = nn.elementwise([[R]]) {kind = "cast"} : (tensor<3x64xf16>) -> tensor<3x64xf32>
// CHECK-NEXT: func.return %y, [[C]]
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "i"], weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]}
  func.func @step(%x: tensor<2x64xf32>, %i: tensor<3xi32>, %W: tensor<8x64xf32>) -> (tensor<2x8xf32>, tensor<3x64xf32>) {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    %r = nn.gather(%W, %i) {axis = 0 : i64} : (tensor<8x64xf32>, tensor<3xi32>) -> tensor<3x64xf32>
    func.return %y, %r : tensor<2x8xf32>, tensor<3x64xf32>
  }
}

// -----

// With q8 members in blocks, also of several formats, become f16.
// CHECK: {variable = "W", sources = ["a", "b"], members = [2 : i64], dtype = "f16"}
// CHECK: nn.member %W[%l] : tensor<2x8x64xf16> -> tensor<8x64xf16>
// CHECK-NEXT: nn.matmul(%x, %w) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf16>) -> tensor<2x8xf32>
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "vulkan", openinfer.precision = "q8"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["a", "b"], members = [2 : i64], formats = ["q8_0", "f16"]}]}
  func.func @step(%x: tensor<2x64xf32>, %W: tensor<2x8x64xf32>) -> tensor<2x8xf32> {
    %l = arith.constant 1 : index
    %w = nn.member %W[%l] : tensor<2x8x64xf32> -> tensor<8x64xf32>
    %y = nn.matmul(%x, %w) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}

// -----

// Without it they are rounded nowhere.
// CHECK: {variable = "W", sources = ["w"]}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<2x64xf32>, %W: tensor<8x64xf32>) -> tensor<2x8xf32> {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}

// -----

// One reader wants f32 values: all get them.
// CHECK: {variable = "W", sources = ["w"]}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]}
  func.func @step(%x: tensor<2x64xf32>, %W: tensor<8x64xf32>) -> (tensor<2x8xf32>, tensor<8x64xf32>) {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    %z = nn.elementwise(%W) {kind = "neg"} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    func.return %y, %z : tensor<2x8xf32>, tensor<8x64xf32>
  }
}

// -----

// A left operand is not widened, and nothing is on a machine whose kernels do not.
// CHECK: {variable = "W", sources = ["w"]}
// CHECK: nn.matmul(%W, %x) : (tensor<8x64xf32>, tensor<64x2xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]}
  func.func @step(%x: tensor<64x2xf32>, %W: tensor<8x64xf32>) -> tensor<8x2xf32> {
    %y = nn.matmul(%W, %x) : (tensor<8x64xf32>, tensor<64x2xf32>) -> tensor<8x2xf32>
    func.return %y : tensor<8x2xf32>
  }
}
// -----
// CHECK: {variable = "W", sources = ["w"]}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "null"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]}
  func.func @step(%x: tensor<2x64xf32>, %W: tensor<8x64xf32>) -> tensor<2x8xf32> {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}

// -----

// The kernel of experts widens their matrices.
// CHECK: {variable = "W", sources = ["w"], dtype = "f16"}
// CHECK: nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf16>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "c"], weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]}
  func.func @step(%x: tensor<2x1x64xf32>, %c: tensor<2x2xi32>, %W: tensor<3x8x64xf32>) -> tensor<2x2x8xf32> {
    %y = nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf32>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
    func.return %y : tensor<2x2x8xf32>
  }
}
