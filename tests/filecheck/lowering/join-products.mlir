// RUN: openinfer-opt %s -p join-products --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.device = "vulkan"/openinfer.device = "cpu"/' %s | openinfer-opt - -p join-products --split-input-file | filecheck %s --check-prefix CPU

// CPU-NOT: nn.row_matmul

// Three members of a layer's families, each with a bias; the residual is the same for all. Members lie side by
// side; a weight that somebody else reads stays, too.
// CHECK: {variable = "K", sources = ["0.k", "1.k"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"},
// CHECK-NEXT: {variable = "b", sources = ["0.b", "0.c", "0.b", "1.b", "1.c", "1.b"], members = [2 : i64, 3 : i64]},
// CHECK-NEXT: {variable = "Q", sources = ["0.q", "0.k", "0.v", "1.q", "1.k", "1.v"], members = [2 : i64, 3 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"}
// CHECK-LABEL: func.func @step(%h: tensor<128x384xf16>, %i: index, %K: tensor<2x24x24x256xf16>, %b_and_others: tensor<2x3x384xf16>, %Q_and_others: tensor<2x3x24x24x256xf16>)
// CHECK-NEXT: %[[B:.*]] = nn.member %b_and_others[%i] : tensor<2x3x384xf16> -> tensor<3x384xf16>
// CHECK-NEXT: %[[W:.*]] = nn.member %Q_and_others[%i] : tensor<2x3x24x24x256xf16> -> tensor<3x24x24x256xf16>
// CHECK: %q, %k, %v = nn.row_matmul(%h, %[[W]]) extras(%[[B]], %h) {layout = #nn.tiles<16>, maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>], parts = 3 : i64} {
// CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f16, %{{.*}}: f16):
// CHECK: (tensor<128x384xf16>, tensor<3x24x24x256xf16>, tensor<3x384xf16>, tensor<128x384xf16>) -> (tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>)
// CHECK-NOT: nn.matmul(%h
// CHECK: nn.matmul(%q, %{{.*}}) {layout
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  nn.interface {inputs = ["h", "i"], weights = [
    {variable = "Q", sources = ["0.q", "1.q"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"},
    {variable = "K", sources = ["0.k", "1.k"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"},
    {variable = "V", sources = ["0.v", "1.v"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"},
    {variable = "b", sources = ["0.b", "1.b"], members = [2 : i64]},
    {variable = "c", sources = ["0.c", "1.c"], members = [2 : i64]}
  ]}
  func.func @step(%h: tensor<128x384xf16>, %i: index, %Q: tensor<2x24x24x256xf16>, %K: tensor<2x24x24x256xf16>, %V: tensor<2x24x24x256xf16>, %b: tensor<2x384xf16>, %c: tensor<2x384xf16>) -> (tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>) {
    %bq = nn.member %b[%i] : tensor<2x384xf16> -> tensor<384xf16>
    %wq = nn.member %Q[%i] : tensor<2x24x24x256xf16> -> tensor<24x24x256xf16>
    %q = nn.matmul(%h, %wq) extras(%bq, %h) {layout = #nn.tiles<16>, maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>]} {
    ^bb0(%0: f32, %1: f16, %2: f16):
      %3 = arith.addf %1, %2 : f16
      nn.yield %3 : f16
    } : (tensor<128x384xf16>, tensor<24x24x256xf16>, tensor<384xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    %bk = nn.member %c[%i] : tensor<2x384xf16> -> tensor<384xf16>
    %wk = nn.member %K[%i] : tensor<2x24x24x256xf16> -> tensor<24x24x256xf16>
    %k = nn.matmul(%h, %wk) extras(%bk, %h) {layout = #nn.tiles<16>, maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>]} {
    ^bb0(%0: f32, %1: f16, %2: f16):
      %3 = arith.addf %1, %2 : f16
      nn.yield %3 : f16
    } : (tensor<128x384xf16>, tensor<24x24x256xf16>, tensor<384xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    %y = nn.matmul(%q, %wk) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %wv = nn.member %V[%i] : tensor<2x24x24x256xf16> -> tensor<24x24x256xf16>
    %v = nn.matmul(%h, %wv) extras(%bq, %h) {layout = #nn.tiles<16>, maps = [affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>]} {
    ^bb0(%0: f32, %1: f16, %2: f16):
      %3 = arith.addf %1, %2 : f16
      nn.yield %3 : f16
    } : (tensor<128x384xf16>, tensor<24x24x256xf16>, tensor<384xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    func.return %k, %v, %y : tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>
  }
}
// -----
// Weights that are no families.
// CHECK: {variable = "Q", sources = ["q", "k"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"}
// CHECK-LABEL: func.func @step(%h: tensor<2x64x384xf16>, %Q_and_others: tensor<2x24x24x256xf16>)
// CHECK-NEXT: %q, %k = nn.row_matmul(%h, %Q_and_others) {layout = #nn.tiles<16>, parts = 2 : i64}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  nn.interface {inputs = ["h"], weights = [
    {variable = "Q", sources = ["q"], layout = #nn.tiles<16>, prepare = "prepare_0"},
    {variable = "K", sources = ["k"], layout = #nn.tiles<16>, prepare = "prepare_0"}
  ]}
  func.func @step(%h: tensor<2x64x384xf16>, %Q: tensor<24x24x256xf16>, %K: tensor<24x24x256xf16>) -> (tensor<2x64x384xf16>, tensor<2x64x384xf16>) {
    %q = nn.matmul(%h, %Q) {layout = #nn.tiles<16>} : (tensor<2x64x384xf16>, tensor<24x24x256xf16>) -> tensor<2x64x384xf16>
    %k = nn.matmul(%h, %K) {layout = #nn.tiles<16>} : (tensor<2x64x384xf16>, tensor<24x24x256xf16>) -> tensor<2x64x384xf16>
    func.return %q, %k : tensor<2x64x384xf16>, tensor<2x64x384xf16>
  }
}
// -----
// Different bodies; what one product reads of another; other members; a barrier in between; other rows; without a
// layout: all stay.
// CHECK-LABEL: func.func @step(%h: tensor<128x384xf16>, %g: tensor<128x384xf16>
// CHECK-NOT: nn.row_matmul
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  nn.interface {inputs = ["h", "g", "i", "j", "w"], weights = [{variable = "Q", sources = ["0.q", "1.q"], members = [2 : i64], layout = #nn.tiles<16>, prepare = "prepare_0"}, {variable = "K", sources = ["k"]}, {variable = "L", sources = ["l"]}]}
  func.func @step(%h: tensor<128x384xf16>, %g: tensor<128x384xf16>, %i: index, %j: index, %w: tensor<24x24x256xf16>, %Q: tensor<2x24x24x256xf16>, %K: tensor<384x384xf16>, %L: tensor<384x384xf16>) -> (tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>) {
    %wi = nn.member %Q[%i] : tensor<2x24x24x256xf16> -> tensor<24x24x256xf16>
    %wj = nn.member %Q[%j] : tensor<2x24x24x256xf16> -> tensor<24x24x256xf16>
    %0 = nn.matmul(%h, %wi) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %1 = nn.matmul(%h, %wi) extras(%0) {layout = #nn.tiles<16>, maps = [affine_map<(m, n) -> (m, n)>]} {
    ^bb0(%a: f32, %b: f16):
      nn.yield %b : f16
    } : (tensor<128x384xf16>, tensor<24x24x256xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    %2 = nn.matmul(%h, %wj) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %3 = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %4 = nn.matmul(%g, %wi) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    nn.barrier
    %5 = nn.matmul(%h, %wi) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
    %6 = nn.matmul(%h, %K) : (tensor<128x384xf16>, tensor<384x384xf16>) -> tensor<128x384xf16>
    %7 = nn.matmul(%h, %L) extras(%6) {maps = [affine_map<(m, n) -> (m, n)>]} {
    ^bb0(%a: f32, %b: f16):
      nn.yield %b : f16
    } : (tensor<128x384xf16>, tensor<384x384xf16>, tensor<128x384xf16>) -> tensor<128x384xf16>
    func.return %0, %1, %2, %3, %4, %5, %7 : tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>, tensor<128x384xf16>
  }
}
