// RUN: openinfer-opt %s -p keep-blocks --split-input-file | filecheck %s

// A product along the rows and a table: both read the blocks.
// CHECK: {variable = "W", sources = ["w"], block = "q8_0"}
// CHECK: func.func @step(%x: tensor<2x64xf32>, %i: tensor<3xi32>, %W: tensor<8x64x!nn.block<q8_0>>)
// CHECK-NEXT: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64x!nn.block<q8_0>>) -> tensor<2x8xf32>
// CHECK-NEXT: nn.gather(%W, %i) {axis = 0 : i64} : (tensor<8x64x!nn.block<q8_0>>, tensor<3xi32>) -> tensor<3x64xf32>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "i"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<2x64xf32>, %i: tensor<3xi32>, %W: tensor<8x64xf32>) -> (tensor<2x8xf32>, tensor<3x64xf32>) {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    %r = nn.gather(%W, %i) {axis = 0 : i64} : (tensor<8x64xf32>, tensor<3xi32>) -> tensor<3x64xf32>
    func.return %y, %r : tensor<2x8xf32>, tensor<3x64xf32>
  }
}

// -----

// Members of a family.
// CHECK: {variable = "W", sources = ["a", "b"], members = [2 : i64], block = "q4_k"}
// CHECK: nn.member %W[%l] : tensor<2x8x256x!nn.block<q4_k>> -> tensor<8x256x!nn.block<q4_k>>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["a", "b"], members = [2 : i64], formats = ["q4_k"]}]}
  func.func @step(%x: tensor<2x256xf32>, %W: tensor<2x8x256xf32>) -> tensor<2x8xf32> {
    %l = arith.constant 1 : index
    %w = nn.member %W[%l] : tensor<2x8x256xf32> -> tensor<8x256xf32>
    %y = nn.matmul(%x, %w) {transpose_b} : (tensor<2x256xf32>, tensor<8x256xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}

// -----

// One reader wants the values: all get them.
// CHECK: {variable = "W", sources = ["w"], formats = ["q8_0"]}
// CHECK: func.func @step(%x: tensor<2x32xf32>, %W: tensor<32x32xf32>)
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<2x32xf32>, %W: tensor<32x32xf32>) -> (tensor<2x32xf32>, tensor<2x32xf32>) {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x32xf32>, tensor<32x32xf32>) -> tensor<2x32xf32>
    %z = nn.matmul(%x, %W) : (tensor<2x32xf32>, tensor<32x32xf32>) -> tensor<2x32xf32>
    func.return %y, %z : tensor<2x32xf32>, tensor<2x32xf32>
  }
}

// -----

// No kernel reads the format; strict mathematics add up in the order of the definition.
// CHECK: {variable = "W", sources = ["w"], formats = ["q2_k"]}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<2x256xf32>, tensor<8x256xf32>)
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["q2_k"]}]}
  func.func @step(%x: tensor<2x256xf32>, %W: tensor<8x256xf32>) -> tensor<2x8xf32> {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x256xf32>, tensor<8x256xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}
// -----
// CHECK: {variable = "W", sources = ["w"], formats = ["q8_0"]}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2", openinfer.strict_math} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<2x64xf32>, %W: tensor<8x64xf32>) -> tensor<2x8xf32> {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}

// -----

// Values of f16 are no blocks.
// CHECK: {variable = "W", sources = ["w"], formats = ["f16"]}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>)
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], formats = ["f16"]}]}
  func.func @step(%x: tensor<2x64xf32>, %W: tensor<8x64xf32>) -> tensor<2x8xf32> {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<8x64xf32>) -> tensor<2x8xf32>
    func.return %y : tensor<2x8xf32>
  }
}

// -----

// Matrices that indices choose among.
// CHECK: {variable = "W", sources = ["w"], block = "q8_0"}
// CHECK: nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x8x64x!nn.block<q8_0>>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "c"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<2x1x64xf32>, %c: tensor<2x2xi32>, %W: tensor<3x8x64xf32>) -> tensor<2x2x8xf32> {
    %y = nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x8x64xf32>, tensor<2x2xi32>) -> tensor<2x2x8xf32>
    func.return %y : tensor<2x2x8xf32>
  }
}

// -----

// Sums in f64 have no kernel that reads blocks.
// CHECK: {variable = "W", sources = ["w"], formats = ["q8_0"]}
// CHECK: nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf64>, tensor<3x8x64xf32>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "c"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<2x1x64xf64>, %c: tensor<2x2xi32>, %W: tensor<3x8x64xf32>) -> tensor<2x2x8xf64> {
    %y = nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf64>, tensor<3x8x64xf32>, tensor<2x2xi32>) -> tensor<2x2x8xf64>
    func.return %y : tensor<2x2x8xf64>
  }
}

// -----

// A device: the product of one row reads blocks, one of many rows has the weight unpacked in front of it, in f16 where
// products may be rounded.
// CHECK: {variable = "W", sources = ["w"], block = "q8_0"}
// CHECK: nn.matmul(%x, %W) {transpose_b} : (tensor<1x64xf32>, tensor<8x64x!nn.block<q8_0>>) -> tensor<1x8xf32>
// CHECK-NEXT: [[V:%\S+]] = nn.unpack_blocks(%W) : (tensor<8x64x!nn.block<q8_0>>) -> tensor<8x64xf16>
// CHECK-NEXT: nn.matmul(%y, [[V]]) {transpose_b} : (tensor<?x64xf32, #nn.dims<N, 64>>, tensor<8x64xf16>)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.precision = "q8"} {
  nn.interface {inputs = ["x", "y"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}]}
  func.func @step(%x: tensor<1x64xf32>, %y: tensor<?x64xf32, #nn.dims<N, 64>>, %W: tensor<8x64xf32>) -> (tensor<1x8xf32>, tensor<?x8xf32, #nn.dims<N, 8>>) {
    %a = nn.matmul(%x, %W) {transpose_b} : (tensor<1x64xf32>, tensor<8x64xf32>) -> tensor<1x8xf32>
    %b = nn.matmul(%y, %W) {transpose_b} : (tensor<?x64xf32, #nn.dims<N, 64>>, tensor<8x64xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
    func.return %a, %b : tensor<1x8xf32>, tensor<?x8xf32, #nn.dims<N, 8>>
  }
}

// -----

// Exact ones are unpacked to f32.
// CHECK: nn.unpack_blocks(%W) : (tensor<8x64x!nn.block<q4_0>>) -> tensor<8x64xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  nn.interface {inputs = ["x", "y"], weights = [{variable = "W", sources = ["w"], formats = ["q4_0"]}]}
  func.func @step(%x: tensor<1x64xf32>, %y: tensor<9x64xf32>, %W: tensor<8x64xf32>) -> (tensor<1x8xf32>, tensor<9x8xf32>) {
    %a = nn.matmul(%x, %W) {transpose_b} : (tensor<1x64xf32>, tensor<8x64xf32>) -> tensor<1x8xf32>
    %b = nn.matmul(%y, %W) {transpose_b} : (tensor<9x64xf32>, tensor<8x64xf32>) -> tensor<9x8xf32>
    func.return %a, %b : tensor<1x8xf32>, tensor<9x8xf32>
  }
}

// -----

// A product of many rows alone gains nothing by blocks, and no kernel of the device reads q4_k.
// CHECK: {variable = "W", sources = ["w"], formats = ["q8_0"]},
// CHECK-NEXT: {variable = "V", sources = ["v"], formats = ["q4_k"]}
// CHECK-NOT: nn.unpack_blocks
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  nn.interface {inputs = ["y", "x"], weights = [{variable = "W", sources = ["w"], formats = ["q8_0"]}, {variable = "V", sources = ["v"], formats = ["q4_k"]}]}
  func.func @step(%y: tensor<9x64xf32>, %x: tensor<1x256xf32>, %W: tensor<8x64xf32>, %V: tensor<8x256xf32>) -> (tensor<9x8xf32>, tensor<1x8xf32>) {
    %a = nn.matmul(%y, %W) {transpose_b} : (tensor<9x64xf32>, tensor<8x64xf32>) -> tensor<9x8xf32>
    %b = nn.matmul(%x, %V) {transpose_b} : (tensor<1x256xf32>, tensor<8x256xf32>) -> tensor<1x8xf32>
    func.return %a, %b : tensor<9x8xf32>, tensor<1x8xf32>
  }
}
