// RUN: openinfer-opt %s -p delay-norms --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.device = "vulkan"/openinfer.device = "cpu"/' %s | openinfer-opt - -p delay-norms --split-input-file | filecheck %s --check-prefix SAME
// RUN: sed -e 's/openinfer.matrices/openinfer.matrices, openinfer.traced/' %s | openinfer-opt - -p delay-norms --split-input-file | filecheck %s --check-prefix SAME

// The first round stands in front of the loop, which carries what was normed; its norm is that of the round
// before, and behind the loop that of the last one.
// CHECK-LABEL: func.func @step(%x: tensor<128x384xf16>
// CHECK: %[[W0:.*]] = nn.member %W[%zero]
// CHECK-NEXT: %s = nn.matmul(%x, %[[W0]])
// CHECK-NEXT: nn.member %G[%zero]
// CHECK-NEXT: %[[FIRST:.*]] = arith.constant 1 : index
// CHECK-NEXT: %[[R:.*]] = scf.for %l = %[[FIRST]] to %six step %one iter_args(%[[H:.*]] = %s)
// CHECK-NEXT: %[[B:.*]] = arith.constant -1 : index
// CHECK-NEXT: %[[L:.*]] = arith.addi %l, %[[B]] : index
// CHECK-NEXT: %[[G:.*]] = nn.member %G[%[[L]]]
// CHECK-NEXT: %[[N:.*]] = nn.layer_norm(%[[H]], %[[G]], %c) {eps = 1.000000e-12 : f64, has_weight, has_bias}
// CHECK-NEXT: %[[W:.*]] = nn.member %W[%l]
// CHECK-NEXT: %[[S:.*]] = nn.matmul(%[[N]], %[[W]])
// CHECK-NEXT: nn.member %G[%l]
// CHECK-NEXT: scf.yield %[[S]]
// CHECK: %[[LAST:.*]] = arith.constant 5 : index
// CHECK-NEXT: %[[GL:.*]] = nn.member %G[%[[LAST]]]
// CHECK-NEXT: %[[Y:.*]] = nn.layer_norm(%[[R]], %[[GL]], %c)
// CHECK-NEXT: func.return %[[Y]]
// SAME-LABEL: func.func @step(%x: tensor<128x384xf16>
// SAME: scf.for %l = %zero to %six step %one iter_args(%h = %x)
// SAME: nn.layer_norm
// SAME-NEXT: scf.yield
// SAME-NOT: nn.layer_norm
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%x: tensor<128x384xf16>, %W: tensor<6x24x24x256xf16>, %G: tensor<6x384xf16>, %c: tensor<384xf16>) -> tensor<128x384xf16> {
    %zero = arith.constant 0 : index
    %six = arith.constant 6 : index
    %one = arith.constant 1 : index
    %r = scf.for %l = %zero to %six step %one iter_args(%h = %x) -> (tensor<128x384xf16>) {
      %w = nn.member %W[%l] : tensor<6x24x24x256xf16> -> tensor<24x24x256xf16>
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<128x384xf16>, tensor<24x24x256xf16>) -> tensor<128x384xf16>
      %g = nn.member %G[%l] : tensor<6x384xf16> -> tensor<384xf16>
      %n = nn.layer_norm(%s, %g, %c) {eps = 1.0e-12 : f64, has_weight, has_bias} : (tensor<128x384xf16>, tensor<384xf16>, tensor<384xf16>) -> tensor<128x384xf16>
      scf.yield %n : tensor<128x384xf16>
    }
    func.return %r : tensor<128x384xf16>
  }
}
// -----
// The result and another carried value; both rounds.
// CHECK-LABEL: func.func @step(%x: tensor<64x128xf16>, %o: tensor<64x128xf16>
// CHECK: %[[F:.*]] = nn.matmul(%x, %w)
// CHECK: %[[R:.*]], %{{.*}} = scf.for %l = %{{.*}} to %five step %three iter_args(%[[H:.*]] = %[[F]], %{{.*}} = %x)
// CHECK: %[[N:.*]] = nn.rms_norm(%[[H]])
// CHECK: %[[S:.*]] = nn.matmul(%[[N]], %w)
// CHECK: scf.yield %[[S]], %[[N]]
// CHECK: nn.rms_norm(%[[R]])
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%x: tensor<64x128xf16>, %o: tensor<64x128xf16>, %w: tensor<8x8x256xf16>) -> (tensor<64x128xf16>, tensor<64x128xf16>) {
    %one = arith.constant 1 : index
    %five = arith.constant 5 : index
    %three = arith.constant 3 : index
    %r, %q = scf.for %l = %one to %five step %three iter_args(%h = %x, %p = %o) -> (tensor<64x128xf16>, tensor<64x128xf16>) {
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<64x128xf16>, tensor<8x8x256xf16>) -> tensor<64x128xf16>
      %n = nn.rms_norm(%s) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      scf.yield %n, %h : tensor<64x128xf16>, tensor<64x128xf16>
    }
    func.return %r, %q : tensor<64x128xf16>, tensor<64x128xf16>
  }
}
// -----
// Loops that stay: of one round; of rounds that only the step counts; with a barrier; whose norm somebody else of
// the round reads; whose factor is computed in the round; that no product begins with.
// CHECK-LABEL: func.func @step(%a: tensor<64x128xf16>
// CHECK-COUNT-6: scf.yield %n
// CHECK-NOT: nn.rms_norm
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.matrices} {
  func.func @step(%a: tensor<64x128xf16>, %w: tensor<8x8x256xf16>, %g: tensor<128xf16>, %count: index) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %0 = scf.for %l = %zero to %one step %one iter_args(%h = %a) -> (tensor<64x128xf16>) {
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<64x128xf16>, tensor<8x8x256xf16>) -> tensor<64x128xf16>
      %n = nn.rms_norm(%s) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      scf.yield %n : tensor<64x128xf16>
    }
    %1 = scf.for %l = %zero to %count step %one iter_args(%h = %a) -> (tensor<64x128xf16>) {
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<64x128xf16>, tensor<8x8x256xf16>) -> tensor<64x128xf16>
      %n = nn.rms_norm(%s) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      scf.yield %n : tensor<64x128xf16>
    }
    %2 = scf.for %l = %zero to %two step %one iter_args(%h = %a) -> (tensor<64x128xf16>) {
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<64x128xf16>, tensor<8x8x256xf16>) -> tensor<64x128xf16>
      nn.barrier
      %n = nn.rms_norm(%s) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      scf.yield %n : tensor<64x128xf16>
    }
    %3, %4 = scf.for %l = %zero to %two step %one iter_args(%h = %a, %p = %a) -> (tensor<64x128xf16>, tensor<64x128xf16>) {
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<64x128xf16>, tensor<8x8x256xf16>) -> tensor<64x128xf16>
      %n = nn.rms_norm(%s) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      %t = nn.softmax(%n) {axis = 1 : i64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      scf.yield %n, %t : tensor<64x128xf16>, tensor<64x128xf16>
    }
    %5 = scf.for %l = %zero to %two step %one iter_args(%h = %a) -> (tensor<64x128xf16>) {
      %s = nn.matmul(%h, %w) {layout = #nn.tiles<16>} : (tensor<64x128xf16>, tensor<8x8x256xf16>) -> tensor<64x128xf16>
      %f = nn.softmax(%g) {axis = 0 : i64} : (tensor<128xf16>) -> tensor<128xf16>
      %n = nn.rms_norm(%s, %f) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>, tensor<128xf16>) -> tensor<64x128xf16>
      scf.yield %n : tensor<64x128xf16>
    }
    %6 = scf.for %l = %zero to %two step %one iter_args(%h = %a) -> (tensor<64x128xf16>) {
      %s = nn.softmax(%h) {axis = 1 : i64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      %n = nn.rms_norm(%s) {eps = 1.0e-12 : f64} : (tensor<64x128xf16>) -> tensor<64x128xf16>
      scf.yield %n : tensor<64x128xf16>
    }
    func.return
  }
}
