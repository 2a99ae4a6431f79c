// RUN: openinfer-opt %s -p choose-layouts --split-input-file | filecheck %s

// A table that is a head, too: rows of bytes for the one, panels for the other.
// CHECK: {variable = "W", sources = ["w"], block = "q8_0"},
// CHECK-NEXT: {variable = "W", sources = ["w"], layout = #nn.blocks<q8_0, 8>, prepare = "prepare_0", block = "q8_0"}
// CHECK: func.func @step(%x: tensor<2x64xf32>, %i: tensor<3xi32>, %W: tensor<12x68xi8>, %W_blocks: tensor<2x2x272xi8>)
// CHECK-NEXT: nn.matmul(%x, %W_blocks) {layout = #nn.blocks<q8_0, 8>} : (tensor<2x64xf32>, tensor<2x2x272xi8>) -> tensor<2x12xf32>
// CHECK-NEXT: nn.gather(%W, %i) {axis = 0 : i64, block = "q8_0"} : (tensor<12x68xi8>, tensor<3xi32>) -> tensor<3x64xf32>
// CHECK: func.func @prepare_0(%source: tensor<12x68xi8>) -> tensor<2x2x272xi8>
// CHECK-NEXT: nn.pack(%source) {layout = #nn.blocks<q8_0, 8>, transposed = "transposed"}
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "i"], weights = [{variable = "W", sources = ["w"], block = "q8_0"}]}
  func.func @step(%x: tensor<2x64xf32>, %i: tensor<3xi32>, %W: tensor<12x64x!nn.block<q8_0>>) -> (tensor<2x12xf32>, tensor<3x64xf32>) {
    %y = nn.matmul(%x, %W) {transpose_b} : (tensor<2x64xf32>, tensor<12x64x!nn.block<q8_0>>) -> tensor<2x12xf32>
    %r = nn.gather(%W, %i) {axis = 0 : i64} : (tensor<12x64x!nn.block<q8_0>>, tensor<3xi32>) -> tensor<3x64xf32>
    func.return %y, %r : tensor<2x12xf32>, tensor<3x64xf32>
  }
}

// -----

// Each expert's matrix has panels of its own. Matrices of f32 stay as they stand.
// CHECK: layout = #nn.blocks<q8_0, 8>, prepare = "prepare_0", block = "q8_0"}
// CHECK: nn.expert_matmul(%x, %W_blocks, %c) {layout = #nn.blocks<q8_0, 8>} : (tensor<2x1x64xf32>, tensor<3x2x2x272xi8>, tensor<2x2xi32>) -> tensor<2x2x12xf32>
// CHECK-NEXT: nn.expert_matmul(%x, %U, %c) : (tensor<2x1x64xf32>, tensor<3x12x64xf32>
// CHECK: func.func @prepare_0(%source: tensor<3x12x68xi8>) -> tensor<3x2x2x272xi8>
builtin.module attributes {openinfer.target = "avx2"} {
  nn.interface {inputs = ["x", "c"], weights = [{variable = "W", sources = ["w"], block = "q8_0"}, {variable = "U", sources = ["u"]}]}
  func.func @step(%x: tensor<2x1x64xf32>, %c: tensor<2x2xi32>, %W: tensor<3x12x64x!nn.block<q8_0>>, %U: tensor<3x12x64xf32>) -> (tensor<2x2x12xf32>, tensor<2x2x12xf32>) {
    %y = nn.expert_matmul(%x, %W, %c) : (tensor<2x1x64xf32>, tensor<3x12x64x!nn.block<q8_0>>, tensor<2x2xi32>) -> tensor<2x2x12xf32>
    %z = nn.expert_matmul(%x, %U, %c) : (tensor<2x1x64xf32>, tensor<3x12x64xf32>, tensor<2x2xi32>) -> tensor<2x2x12xf32>
    func.return %y, %z : tensor<2x2x12xf32>, tensor<2x2x12xf32>
  }
}

// -----

// A device: both matrices of a gated layer, and what is unpacked for others, lie in panels of 16 columns.
// CHECK: func.func @step(%x: tensor<1x64xf32>, %W_blocks: tensor<1x2x544xi8>, %V_blocks: tensor<1x2x544xi8>)
// CHECK-NEXT: nn.matvec(%x, %W_blocks, %V_blocks) {pair, maps = [], layout = #nn.blocks<q8_0, 16>} {
// CHECK: nn.unpack_blocks(%W_blocks) {layout = #nn.blocks<q8_0, 16>} : (tensor<1x2x544xi8>) -> tensor<12x64xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["w"], block = "q8_0"}, {variable = "V", sources = ["v"], block = "q8_0"}]}
  func.func @step(%x: tensor<1x64xf32>, %W: tensor<12x64x!nn.block<q8_0>>, %V: tensor<12x64x!nn.block<q8_0>>) -> (tensor<1x12xf32>, tensor<12x64xf16>) {
    %y = nn.matvec(%x, %W, %V) {pair, maps = []} {
    ^bb0(%0: f32, %1: f32):
      %2 = arith.mulf %0, %1 : f32
      nn.yield %2 : f32
    } : (tensor<1x64xf32>, tensor<12x64x!nn.block<q8_0>>, tensor<12x64x!nn.block<q8_0>>) -> tensor<1x12xf32>
    %u = nn.unpack_blocks(%W) : (tensor<12x64x!nn.block<q8_0>>) -> tensor<12x64xf16>
    func.return %y, %u : tensor<1x12xf32>, tensor<12x64xf16>
  }
}
