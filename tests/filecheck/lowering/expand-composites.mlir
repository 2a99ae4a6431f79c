// RUN: openinfer-opt %s -p expand-composites --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p expand-composites,recognize-attention,recognize-layer-norm --split-input-file | filecheck %s --check-prefix BACK
// RUN: sed -e 's/device = "null"/device = "cpu"/' %s | openinfer-opt - -p expand-composites --split-input-file | filecheck %s --check-prefix WHOLE

// The CPU wants all of it whole.
// WHOLE-NOT: nn.softmax
// WHOLE-NOT: nn.elementwise
// WHOLE-NOT: nn.reduce

// As programs write it, and as it is recognised again.
// CHECK-LABEL: func.func @step(%q: tensor<1x2x8x16xf32>
// CHECK-NEXT: [[S:%\S+]] = nn.matmul(%q, %k) {transpose_b}
// CHECK-NEXT: [[C:%\S+]] = nn.fill() {value = 2.500000e-01 : f64}
// CHECK-NEXT: [[T:%\S+]] = nn.elementwise([[S]], [[C]]) {kind = "mul"}
// CHECK-NEXT: [[A:%\S+]] = nn.elementwise([[T]], %m) {kind = "add"}
// CHECK-NEXT: [[P:%\S+]] = nn.softmax([[A]]) {axis = 3 : i64}
// CHECK-NEXT: [[O:%\S+]] = nn.matmul([[P]], %k)
// CHECK-NEXT: func.return [[O]]
// BACK: nn.attention(%q, %k, %k, {{%\S+}}) {scale = 2.500000e-01 : f64, masked, nan_rows
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%q: tensor<1x2x8x16xf32>, %k: tensor<1x2x8x16xf32>, %m: tensor<8x8xf32>) -> tensor<1x2x8x16xf32> {
    %o = nn.attention(%q, %k, %k, %m) {scale = 0.25 : f64, masked, nan_rows, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>, tensor<8x8xf32>) -> tensor<1x2x8x16xf32>
    func.return %o : tensor<1x2x8x16xf32>
  }
}

// -----

// Groups of heads are rows of one product, heads come to the front and go back, the place of a query
// among run-time keys is computed, narrow operands are widened and the result is rounded once. What
// keeps the op apart keeps its parts apart.
// CHECK-LABEL: func.func @step(%q: tensor<1x?x4x8xf16
// CHECK-NEXT: [[H:%\S+]] = nn.transpose(%q) {permutation = array<i64: 0, 2, 1, 3>} attrs {openinfer.no_fuse}
// CHECK-NEXT: [[W:%\S+]] = nn.elementwise([[H]]) {kind = "cast"}
// CHECK-NEXT: [[R:%\S+]] = nn.reshape([[W]]){{.*}} -> tensor<1x2x?x8xf32, #nn.dims<1, 2, "2*L", 8>>
// CHECK-NEXT: [[S:%\S+]] = nn.matmul([[R]], %k) {transpose_b}
// CHECK-NEXT: [[Q:%\S+]] = nn.reshape([[S]]){{.*}} -> tensor<1x4x?x?xf32, #nn.dims<1, 4, L, T>>
// CHECK-NEXT: nn.size "-L + T"
// CHECK:      [[D:%\S+]] = nn.elementwise({{.*}}) {kind = "ge"}
// CHECK:      nn.elementwise([[D]], [[Q]], {{%\S+}}) {kind = "where"}
// CHECK:      nn.softmax
// CHECK:      nn.reduce({{.*}}) {kind = "max"
// CHECK:      nn.elementwise({{.*}}) {kind = "is_finite"}
// CHECK:      nn.transpose({{.*}}) {permutation = array<i64: 0, 2, 1, 3>}
// CHECK-NEXT: [[O:%\S+]] = nn.elementwise({{.*}}) {kind = "cast"} {{.*}} -> tensor<1x?x4x8xf16
// CHECK-NEXT: func.return [[O]]
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%q: tensor<1x?x4x8xf16, #nn.dims<1, L, 4, 8>>, %k: tensor<1x2x?x8xf32, #nn.dims<1, 2, T, 8>>) -> tensor<1x?x4x8xf16, #nn.dims<1, L, 4, 8>> {
    %o = nn.attention(%q, %k, %k) {scale = 1.0 : f64, causal, layouts = ["blhd", "bhld", "bhld", "blhd"]} attrs {openinfer.no_fuse} : (tensor<1x?x4x8xf16, #nn.dims<1, L, 4, 8>>, tensor<1x2x?x8xf32, #nn.dims<1, 2, T, 8>>, tensor<1x2x?x8xf32, #nn.dims<1, 2, T, 8>>) -> tensor<1x?x4x8xf16, #nn.dims<1, L, 4, 8>>
    func.return %o : tensor<1x?x4x8xf16, #nn.dims<1, L, 4, 8>>
  }
}

// -----

// Norms; the one of them that programs write out is recognised again.
// CHECK-LABEL: func.func @step(%x: tensor<4x8xf32>
// CHECK-NEXT: [[M:%\S+]] = nn.reduce(%x) {kind = "mean", axes = array<i64: 1>, keepdims}
// CHECK-NEXT: [[D:%\S+]] = nn.elementwise(%x, [[M]]) {kind = "sub"}
// CHECK-NEXT: [[Q:%\S+]] = nn.elementwise([[D]], [[D]]) {kind = "mul"}
// CHECK-NEXT: [[V:%\S+]] = nn.reduce([[Q]]) {kind = "mean", axes = array<i64: 1>, keepdims}
// CHECK-NEXT: [[E:%\S+]] = nn.fill()
// CHECK-NEXT: [[P:%\S+]] = nn.elementwise([[V]], [[E]]) {kind = "add"}
// CHECK-NEXT: [[R:%\S+]] = nn.elementwise([[P]]) {kind = "sqrt"}
// CHECK-NEXT: [[N:%\S+]] = nn.elementwise([[D]], [[R]]) {kind = "div"}
// CHECK-NEXT: [[Y:%\S+]] = nn.elementwise([[N]], %w) {kind = "add"}
// CHECK-NEXT: [[T:%\S+]] = nn.elementwise([[Y]], [[Y]]) {kind = "mul"}
// CHECK:      [[Z:%\S+]] = nn.elementwise({{%\S+}}, %w) {kind = "mul"}
// CHECK-NEXT: func.return [[Z]]
// BACK: nn.layer_norm(%x) {eps = {{.*}}}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
    %y = nn.layer_norm(%x, %w) {eps = 1.0e-05 : f64, has_bias} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %z = nn.rms_norm(%y, %w) {eps = 1.0e-05 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    func.return %z : tensor<4x8xf32>
  }
}

// -----

// These stay: heads in groups whose number only the step knows, and what is rounded already.
// CHECK-LABEL: func.func @step(%q: tensor<1x?x8x16xf32
// CHECK-NEXT: nn.attention(%q, %k, %k)
// CHECK-NEXT: nn.attention(%b, %b, %b) {scale = 1.000000e+00 : f64, precision = "bf16"
// CHECK-NEXT: func.return
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%q: tensor<1x?x8x16xf32, #nn.dims<1, H, 8, 16>>, %k: tensor<1x2x8x16xf32>, %b: tensor<1x2x8x16xbf16>) -> (tensor<1x?x8x16xf32, #nn.dims<1, H, 8, 16>>, tensor<1x2x8x16xf32>) {
    %o = nn.attention(%q, %k, %k) {scale = 1.0 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x?x8x16xf32, #nn.dims<1, H, 8, 16>>, tensor<1x2x8x16xf32>, tensor<1x2x8x16xf32>) -> tensor<1x?x8x16xf32, #nn.dims<1, H, 8, 16>>
    %p = nn.attention(%b, %b, %b) {scale = 1.0 : f64, precision = "bf16", layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>, tensor<1x2x8x16xbf16>) -> tensor<1x2x8x16xf32>
    func.return %o, %p : tensor<1x?x8x16xf32, #nn.dims<1, H, 8, 16>>, tensor<1x2x8x16xf32>
  }
}

// -----

// Pairs are taken apart along their axis of two. The CPU wants halves whole: they lie in vectors.
// CHECK-LABEL: func.func @step(%x: tensor<3x8xf16>
// CHECK: %[[X:.*]] = nn.reshape(%x) : (tensor<3x8xf16>) -> tensor<3x4x2xf16>
// CHECK: nn.slice(%[[X]]) {starts = [#graph.size<0>, #graph.size<0>, #graph.size<0>], steps = array<i64: 1, 1, 1>} : (tensor<3x4x2xf16>) -> tensor<3x4x1xf16>
// CHECK: nn.slice(%[[X]]) {starts = [#graph.size<0>, #graph.size<0>, #graph.size<1>]
// CHECK: %[[A:.*]] = nn.elementwise(%{{.*}}, %{{.*}}) {kind = "sub"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK: %[[B:.*]] = nn.elementwise(%{{.*}}, %{{.*}}) {kind = "add"} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
// CHECK: nn.elementwise(%[[A]]) {kind = "cast"} : (tensor<3x4xf32>) -> tensor<3x4xf16>
// CHECK: nn.concat(%{{.*}}, %{{.*}}) {axis = 2 : i64} : (tensor<3x4x1xf16>, tensor<3x4x1xf16>) -> tensor<3x4x2xf16>
// WHOLE-LABEL: func.func @step(%x: tensor<3x8xf16>
// WHOLE: nn.concat
// WHOLE: nn.rotary(%x, %c, %c) : (tensor<3x8xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%x: tensor<3x8xf16>, %c: tensor<4xf32>) -> (tensor<3x8xf16>, tensor<3x8xf16>) {
    %y = nn.rotary(%x, %c, %c) {interleaved} : (tensor<3x8xf16>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x8xf16>
    %z = nn.rotary(%x, %c, %c) : (tensor<3x8xf16>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x8xf16>
    func.return %y, %z : tensor<3x8xf16>, tensor<3x8xf16>
  }
}
