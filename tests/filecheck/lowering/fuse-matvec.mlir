// RUN: openinfer-opt %s -p fuse-matvec --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.device = "vulkan"/openinfer.device = "cpu"/' %s | openinfer-opt - -p fuse-matvec --split-input-file | filecheck %s --check-prefix CPU

// CPU-NOT: nn.matvec

// A gated layer of one row: norm, both products, and what joins them.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xf16>
// CHECK-NOT: nn.rms_norm
// CHECK-NOT: nn.matmul
// CHECK: %g = nn.matvec(%h, %gate, %up, %w) {pair, eps = 1.000000e-05 : f64, maps = []} {
// CHECK-NEXT: ^bb0(%[[G:.*]]: f32, %[[U:.*]]: f32):
// CHECK-NEXT: %[[R:.*]] = arith.truncf %[[U]] : f32 to f16
// CHECK-NEXT: %[[S:.*]] = arith.truncf %[[G]] : f32 to f16
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[S]], %[[R]] : f16
// CHECK-NEXT: nn.yield %[[P]] : f16
#id = affine_map<(d0, d1) -> (d0, d1)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<1x128xf16>, %w: tensor<128xf16>, %gate: tensor<64x128xf16>, %up: tensor<64x128xf16>) -> tensor<1x64xf16> {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xf16>, tensor<128xf16>) -> tensor<1x128xf16>
    %u = nn.matmul(%n, %up) {transpose_b} : (tensor<1x128xf16>, tensor<64x128xf16>) -> tensor<1x64xf16>
    %g = nn.matmul(%n, %gate) extras(%u) {transpose_b, maps = [#id]} {
    ^bb0(%0: f32, %1: f16):
      %2 = arith.truncf %0 : f32 to f16
      %3 = arith.mulf %2, %1 : f16
      nn.yield %3 : f16
    } : (tensor<1x128xf16>, tensor<64x128xf16>, tensor<1x64xf16>) -> tensor<1x64xf16>
    func.return %g : tensor<1x64xf16>
  }
}
// -----
// Products of one norm: each computes it. Bodies stay; the second one has its operand between two others.
// CHECK-LABEL: func.func @step(%h: tensor<3x128xf32>
// CHECK-NOT: nn.rms_norm
// CHECK: nn.matvec(%h, %a, %w) {eps = 1.000000e-05 : f64}
// CHECK: nn.matvec(%h, %a, %b, %w) extras(%x, %y, %z) {pair, eps = 1.000000e-05 : f64, maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]} {
// CHECK-NEXT: ^bb0(%[[A:.*]]: f32, %[[B:.*]]: f32, %[[X:.*]]: f32, %[[Y:.*]]: f32, %[[Z:.*]]: f32):
// CHECK-NEXT: %[[V:.*]] = arith.addf %[[B]], %[[X]]
// CHECK-NEXT: %[[P:.*]] = arith.mulf %[[A]], %[[Y]]
// CHECK-NEXT: %[[Q:.*]] = arith.addf %[[P]], %[[V]]
// CHECK-NEXT: arith.subf %[[Q]], %[[Z]]
#id = affine_map<(d0, d1) -> (d0, d1)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<3x128xf32>, %w: tensor<128xf32>, %a: tensor<64x128xf16>, %b: tensor<64x128xf16>, %x: tensor<64xf32>, %y: tensor<3x64xf32>, %z: tensor<3xf32>) -> (tensor<3x64xf32>, tensor<3x64xf32>) {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<3x128xf32>, tensor<128xf32>) -> tensor<3x128xf32>
    %q = nn.matmul(%n, %a) {transpose_b} : (tensor<3x128xf32>, tensor<64x128xf16>) -> tensor<3x64xf32>
    %v = nn.matmul(%n, %b) extras(%x) {transpose_b, maps = [affine_map<(d0, d1) -> (d1)>]} {
    ^bb0(%0: f32, %1: f32):
      %2 = arith.addf %0, %1 : f32
      nn.yield %2 : f32
    } : (tensor<3x128xf32>, tensor<64x128xf16>, tensor<64xf32>) -> tensor<3x64xf32>
    %g = nn.matmul(%n, %a) extras(%y, %v, %z) {transpose_b, maps = [#id, #id, affine_map<(d0, d1) -> (d0)>]} {
    ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
      %4 = arith.mulf %0, %1 : f32
      %5 = arith.addf %4, %2 : f32
      %6 = arith.subf %5, %3 : f32
      nn.yield %6 : f32
    } : (tensor<3x128xf32>, tensor<64x128xf16>, tensor<3x64xf32>, tensor<3x64xf32>, tensor<3xf32>) -> tensor<3x64xf32>
    func.return %q, %g : tensor<3x64xf32>, tensor<3x64xf32>
  }
}
// -----
// A norm that somebody else reads, a second product with two readers: all stay.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xf32>
// CHECK: nn.rms_norm
// CHECK: nn.matmul
// CHECK: nn.matmul
// CHECK-NOT: nn.matvec
#id = affine_map<(d0, d1) -> (d0, d1)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<1x128xf32>, %w: tensor<128xf32>, %a: tensor<64x128xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x128xf32>) {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xf32>, tensor<128xf32>) -> tensor<1x128xf32>
    %u = nn.matmul(%n, %a) {transpose_b} : (tensor<1x128xf32>, tensor<64x128xf32>) -> tensor<1x64xf32>
    %g = nn.matmul(%n, %a) extras(%u) {transpose_b, maps = [#id]} {
    ^bb0(%0: f32, %1: f32):
      %2 = arith.mulf %0, %1 : f32
      nn.yield %2 : f32
    } : (tensor<1x128xf32>, tensor<64x128xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
    func.return %u, %g, %n : tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x128xf32>
  }
}
// -----
// So do rows that only the step counts, matrices of columns, short sums, and what a barrier is in front of.
// CHECK-LABEL: func.func @step(%h: tensor<?x128xf32
// CHECK-NOT: nn.matvec
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<?x128xf32, #nn.dims<T, 128>>, %s: tensor<1x128xf32>, %r: tensor<1x32xf32>, %w: tensor<128xf32>, %v: tensor<32xf32>, %a: tensor<64x128xf32>, %b: tensor<128x64xf32>, %c: tensor<64x32xf32>) -> (tensor<?x64xf32, #nn.dims<T, 64>>, tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>) {
    %0 = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<?x128xf32, #nn.dims<T, 128>>, tensor<128xf32>) -> tensor<?x128xf32, #nn.dims<T, 128>>
    %1 = nn.matmul(%0, %a) {transpose_b} : (tensor<?x128xf32, #nn.dims<T, 128>>, tensor<64x128xf32>) -> tensor<?x64xf32, #nn.dims<T, 64>>
    %2 = nn.rms_norm(%s, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xf32>, tensor<128xf32>) -> tensor<1x128xf32>
    %3 = nn.matmul(%2, %b) : (tensor<1x128xf32>, tensor<128x64xf32>) -> tensor<1x64xf32>
    %4 = nn.rms_norm(%r, %v) {eps = 1.0e-05 : f64} : (tensor<1x32xf32>, tensor<32xf32>) -> tensor<1x32xf32>
    %5 = nn.matmul(%4, %c) {transpose_b} : (tensor<1x32xf32>, tensor<64x32xf32>) -> tensor<1x64xf32>
    %6 = nn.rms_norm(%s, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xf32>, tensor<128xf32>) -> tensor<1x128xf32>
    nn.barrier
    %7 = nn.matmul(%6, %a) {transpose_b} : (tensor<1x128xf32>, tensor<64x128xf32>) -> tensor<1x64xf32>
    func.return %1, %3, %5, %7 : tensor<?x64xf32, #nn.dims<T, 64>>, tensor<1x64xf32>, tensor<1x64xf32>, tensor<1x64xf32>
  }
}
// -----
// Strict mathematics round what the program rounds.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xf32>
// CHECK-NOT: nn.matvec
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.strict_math} {
  func.func @step(%h: tensor<1x128xf32>, %w: tensor<128xf32>, %a: tensor<64x128xf32>) -> tensor<1x64xf32> {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xf32>, tensor<128xf32>) -> tensor<1x128xf32>
    %u = nn.matmul(%n, %a) {transpose_b} : (tensor<1x128xf32>, tensor<64x128xf32>) -> tensor<1x64xf32>
    func.return %u : tensor<1x64xf32>
  }
}
// -----
// Of bf16 the norm stays: what it rounds would show.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xbf16>
// CHECK: nn.rms_norm
// CHECK-NOT: nn.matvec
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<1x128xbf16>, %w: tensor<128xbf16>, %gate: tensor<64x128xbf16>) -> tensor<1x64xbf16> {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xbf16>, tensor<128xbf16>) -> tensor<1x128xbf16>
    %u = nn.matmul(%n, %gate) {transpose_b} : (tensor<1x128xbf16>, tensor<64x128xbf16>) -> tensor<1x64xbf16>
    func.return %u : tensor<1x64xbf16>
  }
}
