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
// -----
// What is made of two columns half a block apart, a rotation, say, is computed by the kernel of the product: for
// both columns, each with the number of its half. The norm comes in behind it.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xf16>
// CHECK-NOT: linalg.generic
// CHECK: %q = nn.matvec(%h, %a, %w) extras(%c, %b) {halves = 8 : i64, eps = 1.000000e-05 : f64, maps = [affine_map<(d0, d1, d2) -> (0, d2)>, affine_map<(d0, d1, d2) -> (d1)>]} {
// CHECK-NEXT: ^bb0(%[[L:.*]]: f32, %[[H:.*]]: f32, %[[C:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[X:.*]] = arith.truncf %[[L]] : f32 to f16
// CHECK-NEXT: %[[Y:.*]] = arith.truncf %[[H]] : f32 to f16
// CHECK: arith.extf %[[X]]
// CHECK: arith.extf %[[Y]]
// CHECK: arith.constant 0 : index
// CHECK: %[[U:.*]] = arith.truncf
// CHECK: arith.extf %[[Y]]
// CHECK: arith.extf %[[X]]
// CHECK: arith.constant 1 : index
// CHECK: %[[V:.*]] = arith.truncf
// CHECK-NEXT: nn.yield %[[U]], %[[V]] : f16, f16
// CHECK: nn.reshape(%q) : (tensor<1x64xf16>) -> tensor<1x4x1x2x8xf16>
#own = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#other = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3 * -1 + 1, d4)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<1x128xf16>, %w: tensor<128xf16>, %a: tensor<64x128xf16>, %c: tensor<1x8xf32>, %b: tensor<4xf32>) -> tensor<1x4x1x2x8xf16> {
    %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : (tensor<1x128xf16>, tensor<128xf16>) -> tensor<1x128xf16>
    %q = nn.matmul(%n, %a) {transpose_b} : (tensor<1x128xf16>, tensor<64x128xf16>) -> tensor<1x64xf16>
    %p = nn.reshape(%q) : (tensor<1x64xf16>) -> tensor<1x4x1x16xf16>
    %r = nn.reshape(%p) : (tensor<1x4x1x16xf16>) -> tensor<1x4x1x2x8xf16>
    %e = tensor.empty() : tensor<1x4x1x2x8xf16>
    %y = linalg.generic {indexing_maps = [#own, #other, affine_map<(d0, d1, d2, d3, d4) -> (d2, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d1)>, #own], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%r, %r, %c, %b : tensor<1x4x1x2x8xf16>, tensor<1x4x1x2x8xf16>, tensor<1x8xf32>, tensor<4xf32>) outs(%e : tensor<1x4x1x2x8xf16>) {
    ^bb0(%0: f16, %1: f16, %2: f32, %3: f32, %4: f16):
      %5 = arith.extf %0 : f16 to f32
      %6 = arith.extf %1 : f16 to f32
      %7 = arith.mulf %5, %2 : f32
      %8 = arith.mulf %6, %3 : f32
      %9 = linalg.index 3 : index
      %10 = arith.constant 0 : index
      %11 = arith.cmpi eq, %9, %10 : index
      %12 = arith.select %11, %7, %8 : f32
      %13 = arith.truncf %12 : f32 to f16
      linalg.yield %13 : f16
    } -> tensor<1x4x1x2x8xf16>
    func.return %y : tensor<1x4x1x2x8xf16>
  }
}
// -----
// Columns that are neighbours: halves are interleaved. The conversion behind the rotation joins its body.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xf32>
// CHECK-NOT: linalg.generic
// CHECK: [[K:%\S+]] = nn.matvec(%h, %a) extras(%c) {halves = 16 : i64, interleaved, maps = [affine_map<(d0, d1, d2) -> (0, d2)>]} {
// CHECK: [[L:%\S+]] = arith.truncf %{{.*}} : f32 to f16
// CHECK: [[H:%\S+]] = arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT: nn.yield [[L]], [[H]] : f16, f16
// CHECK: [[Y:%\S+]] = nn.reshape([[K]]) : (tensor<1x64xf16>) -> tensor<1x64xf16>
// CHECK: func.return [[Y]]
#own = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#other = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3 * -1 + 1)>
#angle = affine_map<(d0, d1, d2, d3) -> (d0, d2)>
#id = affine_map<(d0, d1) -> (d0, d1)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<1x128xf32>, %a: tensor<64x128xf16>, %c: tensor<1x16xf32>) -> tensor<1x64xf16> {
    %e = tensor.empty() : tensor<1x2x16x2xf32>
    %f = tensor.empty() : tensor<1x64xf16>
    %k = nn.matmul(%h, %a) {transpose_b} : (tensor<1x128xf32>, tensor<64x128xf16>) -> tensor<1x64xf32>
    %r = nn.reshape(%k) : (tensor<1x64xf32>) -> tensor<1x2x16x2xf32>
    %y = linalg.generic {indexing_maps = [#own, #other, #angle, #own], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%r, %r, %c : tensor<1x2x16x2xf32>, tensor<1x2x16x2xf32>, tensor<1x16xf32>) outs(%e : tensor<1x2x16x2xf32>) {
    ^bb0(%0: f32, %1: f32, %2: f32, %3: f32):
      %4 = arith.mulf %0, %2 : f32
      %5 = arith.subf %4, %1 : f32
      linalg.yield %5 : f32
    } -> tensor<1x2x16x2xf32>
    %s = nn.reshape(%y) : (tensor<1x2x16x2xf32>) -> tensor<1x64xf32>
    %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<1x64xf32>) outs(%f : tensor<1x64xf16>) {
    ^bb0(%0: f32, %1: f16):
      %2 = arith.truncf %0 : f32 to f16
      linalg.yield %2 : f16
    } -> tensor<1x64xf16>
    func.return %z : tensor<1x64xf16>
  }
}
// -----
// A product that somebody else reads, one of two rows, an operand that follows halves, a body that asks for
// blocks: all stay.
// CHECK-LABEL: func.func @step(%h: tensor<1x128xf16>
// CHECK-NOT: nn.matvec
#own = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#other = affine_map<(d0, d1, d2) -> (d0, d1 * -1 + 1, d2)>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%h: tensor<1x128xf16>, %g: tensor<2x128xf16>, %a: tensor<64x128xf16>, %b: tensor<4x2x8xf16>) -> (tensor<1x64xf16>, tensor<4x2x8xf16>, tensor<8x2x8xf16>, tensor<4x2x8xf16>, tensor<4x2x8xf16>) {
    %e = tensor.empty() : tensor<4x2x8xf16>
    %f = tensor.empty() : tensor<8x2x8xf16>
    %q = nn.matmul(%h, %a) {transpose_b} : (tensor<1x128xf16>, tensor<64x128xf16>) -> tensor<1x64xf16>
    %r = nn.reshape(%q) : (tensor<1x64xf16>) -> tensor<4x2x8xf16>
    %y = linalg.generic {indexing_maps = [#own, #other, #own], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r, %r : tensor<4x2x8xf16>, tensor<4x2x8xf16>) outs(%e : tensor<4x2x8xf16>) {
    ^bb0(%0: f16, %1: f16, %2: f16):
      %3 = arith.subf %0, %1 : f16
      linalg.yield %3 : f16
    } -> tensor<4x2x8xf16>
    %q2 = nn.matmul(%g, %a) {transpose_b} : (tensor<2x128xf16>, tensor<64x128xf16>) -> tensor<2x64xf16>
    %r2 = nn.reshape(%q2) : (tensor<2x64xf16>) -> tensor<8x2x8xf16>
    %y2 = linalg.generic {indexing_maps = [#own, #other, #own], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r2, %r2 : tensor<8x2x8xf16>, tensor<8x2x8xf16>) outs(%f : tensor<8x2x8xf16>) {
    ^bb0(%0: f16, %1: f16, %2: f16):
      %3 = arith.subf %0, %1 : f16
      linalg.yield %3 : f16
    } -> tensor<8x2x8xf16>
    %q3 = nn.matmul(%h, %a) {transpose_b} : (tensor<1x128xf16>, tensor<64x128xf16>) -> tensor<1x64xf16>
    %r3 = nn.reshape(%q3) : (tensor<1x64xf16>) -> tensor<4x2x8xf16>
    %y3 = linalg.generic {indexing_maps = [#own, #other, #own, #own], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r3, %r3, %b : tensor<4x2x8xf16>, tensor<4x2x8xf16>, tensor<4x2x8xf16>) outs(%e : tensor<4x2x8xf16>) {
    ^bb0(%0: f16, %1: f16, %2: f16, %3: f16):
      %4 = arith.subf %0, %1 : f16
      %5 = arith.addf %4, %2 : f16
      linalg.yield %5 : f16
    } -> tensor<4x2x8xf16>
    %q4 = nn.matmul(%h, %a) {transpose_b} : (tensor<1x128xf16>, tensor<64x128xf16>) -> tensor<1x64xf16>
    %r4 = nn.reshape(%q4) : (tensor<1x64xf16>) -> tensor<4x2x8xf16>
    %y4 = linalg.generic {indexing_maps = [#own, #other, #own], iterator_types = ["parallel", "parallel", "parallel"]} ins(%r4, %r4 : tensor<4x2x8xf16>, tensor<4x2x8xf16>) outs(%e : tensor<4x2x8xf16>) {
    ^bb0(%0: f16, %1: f16, %2: f16):
      %3 = linalg.index 0 : index
      %4 = arith.index_cast %3 : index to i32
      %5 = arith.sitofp %4 : i32 to f16
      %6 = arith.subf %0, %5 : f16
      %7 = arith.subf %6, %1 : f16
      linalg.yield %7 : f16
    } -> tensor<4x2x8xf16>
    func.return %q, %y, %y2, %y3, %y4 : tensor<1x64xf16>, tensor<4x2x8xf16>, tensor<8x2x8xf16>, tensor<4x2x8xf16>, tensor<4x2x8xf16>
  }
}
