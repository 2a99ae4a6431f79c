// RUN: OI_ROUNDTRIP

// CHECK: nn.interface {
// CHECK-NEXT:   inputs = ["x"],
// CHECK-NEXT:   weights = [
// CHECK-NEXT:     {sources = ["W1"], variable = "W1"},
// CHECK-NEXT:     {sources = ["W2"], variable = "W2"}
// CHECK-NEXT:   ]
// CHECK-NEXT: }
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], weights = [{sources = ["W1"], variable = "W1"}, {sources = ["W2"], variable = "W2"}]}

// CHECK: func.func @tensors(%x: tensor<?x8xf32, #nn.dims<N, 8>>, %w: tensor<8x8xf32>, %V: tensor<3x8x8xf32>, %i: tensor<5xi64>, %c: tensor<8xi1>)
func.func @tensors(%x: tensor<?x8xf32, #nn.dims<N, 8>>, %w: tensor<8x8xf32>, %V: tensor<3x8x8xf32>, %i: tensor<5xi64>, %c: tensor<8xi1>) {
  // CHECK: %n = nn.size "2*N + 1"
  %n = nn.size "2*N + 1"
  // CHECK: %k = nn.check_index %n below 3 : i64 node 7 : i64
  %k = nn.check_index %n below 3 : i64 node 7 : i64
  // CHECK: %m = nn.member %V[%k] : tensor<3x8x8xf32> -> tensor<8x8xf32>
  %m = nn.member %V[%k] : tensor<3x8x8xf32> -> tensor<8x8xf32>
  // CHECK: %e = nn.elementwise(%w, %w) {kind = "add"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = nn.elementwise(%w, %w) {kind = "add"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %r = nn.elementwise(%e) {kind = "relu", settings = {negative_slope = 1.000000e-01 : f64}} attrs {openinfer.no_fuse} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = nn.elementwise(%e) {kind = "relu", settings = {negative_slope = 1.000000e-01 : f64}} attrs {openinfer.no_fuse} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %h = nn.elementwise(%c, %w, %e) {kind = "where"} : (tensor<8xi1>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %h = nn.elementwise(%c, %w, %e) {kind = "where"} : (tensor<8xi1>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %fill = nn.fill() {value = 0.000000e+00 : f64} : () -> tensor<8x8xf32>
  %fill = nn.fill() {value = 0.000000e+00 : f64} : () -> tensor<8x8xf32>
  // CHECK: %iota = nn.iota() {axis = 1 : i64} : () -> tensor<2x3xi64>
  %iota = nn.iota() {axis = 1 : i64} : () -> tensor<2x3xi64>
  // CHECK: %s = nn.reshape(%x) : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?xf32, #nn.dims<"8*N">>
  %s = nn.reshape(%x) : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?xf32, #nn.dims<"8*N">>
  // CHECK: %t = nn.transpose(%x) {permutation = array<i64: 1, 0>} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<8x?xf32, #nn.dims<8, N>>
  %t = nn.transpose(%x) {permutation = array<i64: 1, 0>} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<8x?xf32, #nn.dims<8, N>>
  // CHECK: %b = nn.broadcast(%w) : (tensor<8x8xf32>) -> tensor<2x8x8xf32>
  %b = nn.broadcast(%w) : (tensor<8x8xf32>) -> tensor<2x8x8xf32>
  // CHECK: %cut = nn.slice(%x) {starts = [#graph.size<"N - 1">, #graph.size<0>], steps = array<i64: 1, 2>} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<1x4xf32>
  %cut = nn.slice(%x) {starts = [#graph.size<"N - 1">, #graph.size<0>], steps = array<i64: 1, 2>} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<1x4xf32>
  // CHECK: %cat = nn.concat(%w, %w, %w) {axis = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %cat = nn.concat(%w, %w, %w) {axis = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  // CHECK: %g = nn.gather(%w, %i) {axis = 0 : i64, node = 3 : i64} : (tensor<8x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  %g = nn.gather(%w, %i) {axis = 0 : i64, node = 3 : i64} : (tensor<8x8xf32>, tensor<5xi64>) -> tensor<5x8xf32>
  // CHECK: %p = nn.pack(%w) {layout = #nn.panels<16>, transposed = "transposed"} : (tensor<8x8xf32>) -> tensor<1x8x16xf32>
  %p = nn.pack(%w) {layout = #nn.panels<16>, transposed = "transposed"} : (tensor<8x8xf32>) -> tensor<1x8x16xf32>
  // CHECK: %mm = nn.matmul(%x, %w) {transpose_b} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  %mm = nn.matmul(%x, %w) {transpose_b} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<8x8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  // CHECK: %pa, %pb, %pc = nn.products(%x, %p, %p, %p) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<1x8x16xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<?x8xf32, #nn.dims<N, 8>>, tensor<?x8xf32, #nn.dims<N, 8>>)
  %pa, %pb, %pc = nn.products(%x, %p, %p, %p) {parts = [{layout = #nn.panels<16>}, {layout = #nn.panels<16>}, {layout = #nn.panels<16>}]} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<1x8x16xf32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<?x8xf32, #nn.dims<N, 8>>, tensor<?x8xf32, #nn.dims<N, 8>>)
  // CHECK: %pk = nn.matmul(%x, %p) {layout = #nn.panels<16>} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<1x8x16xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  %pk = nn.matmul(%x, %p) {layout = #nn.panels<16>} : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<1x8x16xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  // CHECK: %sum = nn.reduce(%w) {kind = "sum", axes = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<f32>
  %sum = nn.reduce(%w) {kind = "sum", axes = array<i64: 0, 1>} : (tensor<8x8xf32>) -> tensor<f32>
  // CHECK: %am = nn.reduce(%w) {kind = "argmax", axes = array<i64: 0>, keepdims, select_last} : (tensor<8x8xf32>) -> tensor<1x8xi64>
  %am = nn.reduce(%w) {kind = "argmax", axes = array<i64: 0>, keepdims, select_last} : (tensor<8x8xf32>) -> tensor<1x8xi64>
  // CHECK: %sm = nn.softmax(%w) {axis = 1 : i64, log} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %sm = nn.softmax(%w) {axis = 1 : i64, log} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %ln = nn.layer_norm(%w, %m1) {eps = 1.000000e-05 : f64, has_weight} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %m1 = "test.op"() : () -> tensor<8xf32>
  %ln = nn.layer_norm(%w, %m1) {eps = 1.000000e-05 : f64, has_weight} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  // CHECK: %rn = nn.rms_norm(%w, %m1) {eps = 1.000000e-05 : f64} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %rn = nn.rms_norm(%w, %m1) {eps = 1.000000e-05 : f64} : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  // CHECK: %at = nn.attention(%q, %k4, %q) {scale = 2.500000e-01 : f64, causal, window = 3 : i64, layouts = ["bhld", "blhd", "bhld", "blhd"]} : (tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  %q, %k4, %mask = "test.op"() : () -> (tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32>, tensor<1x1x5x5xf32>)
  %at = nn.attention(%q, %k4, %q) {scale = 2.500000e-01 : f64, causal, window = 3 : i64, layouts = ["bhld", "blhd", "bhld", "blhd"]} : (tensor<1x2x5x4xf32>, tensor<1x5x2x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x5x2x4xf32>
  // CHECK: %am4 = nn.attention(%q, %q, %q, %mask) {scale = 1.000000e+00 : f64, masked, nan_rows, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x1x5x5xf32>) -> tensor<1x2x5x4xf32>
  %am4 = nn.attention(%q, %q, %q, %mask) {scale = 1.000000e+00 : f64, masked, nan_rows, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x1x5x5xf32>) -> tensor<1x2x5x4xf32>
  // CHECK: nn.observe %w 3 : i64 "h" : tensor<8x8xf32>
  nn.observe %w 3 : i64 "h" : tensor<8x8xf32>
  // CHECK: nn.barrier
  nn.barrier
  // CHECK: nn.stamp "enter" "entry" []
  nn.stamp "enter" "entry" []
  // CHECK: nn.stamp "begin" "matmul_0" [4, 5]
  nn.stamp "begin" "matmul_0" [4, 5]
  // CHECK: %ep = nn.matmul(%x, %w) extras(%m1) {maps = [affine_map<(d0, d1) -> (d1)>]} {
  // CHECK-NEXT: ^bb0(%[[P:.*]]: f32, %[[B:.*]]: f32):
  // CHECK-NEXT:   %[[S:.*]] = arith.addf %[[P]], %[[B]]
  // CHECK-NEXT:   nn.yield %[[S]] : f32
  // CHECK-NEXT: } : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  %ep = nn.matmul(%x, %w) extras(%m1) {maps = [affine_map<(d0, d1) -> (d1)>]} {
  ^bb0(%one: f32, %two: f32):
    %three = arith.addf %one, %two : f32
    nn.yield %three : f32
  } : (tensor<?x8xf32, #nn.dims<N, 8>>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>>
  func.return
}

func.func @buffers(%x: memref<?x8xf32>, %y: memref<?x8xf32>, %n: index, %e: memref<4xi64>, %i: memref<5xi64>, %z: memref<5x8xf32>) {
  // CHECK: nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x8xf32>, memref<?x8xf32>) -> ()
  nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x8xf32>, memref<?x8xf32>) -> ()
  // CHECK: nn.gather(%x, %i) outs(%z) scratch(errors = %e) {axis = 0 : i64, node = 3 : i64} : (memref<?x8xf32>, memref<5xi64>, memref<5x8xf32>, memref<4xi64>) -> ()
  nn.gather(%x, %i) outs(%z) scratch(errors = %e) {axis = 0 : i64, node = 3 : i64} : (memref<?x8xf32>, memref<5xi64>, memref<5x8xf32>, memref<4xi64>) -> ()
  // CHECK: nn.check_indices(%i) outs(%e) {bound = #graph.size<"2*N">, node = 3 : i64, unsigned_indices} : (memref<5xi64>, memref<4xi64>) -> ()
  nn.check_indices(%i) outs(%e) {bound = #graph.size<"2*N">, node = 3 : i64, unsigned_indices} : (memref<5xi64>, memref<4xi64>) -> ()
  // CHECK: nn.take_errors %e, %e : memref<4xi64>, memref<4xi64>
  nn.take_errors %e, %e : memref<4xi64>, memref<4xi64>
  // CHECK: %part = nn.subview %x[%n] : memref<?x8xf32> to memref<1x8xf32>
  %part = nn.subview %x[%n] : memref<?x8xf32> to memref<1x8xf32>
  // CHECK: %v = nn.view %x[%n] : memref<?x8xf32> to memref<?xf32>
  %v = nn.view %x[%n] : memref<?x8xf32> to memref<?xf32>
  // CHECK: nn.transfer "to_host" %x, %y bytes <"32*N"> : memref<?x8xf32> to memref<?x8xf32>
  nn.transfer "to_host" %x, %y bytes <"32*N"> : memref<?x8xf32> to memref<?x8xf32>
  // CHECK: nn.publish %y "y" : memref<?x8xf32>
  nn.publish %y "y" : memref<?x8xf32>
  // CHECK: nn.stamp "turn" "l" [3] value %n thread %n
  nn.stamp "turn" "l" [3] value %n thread %n
  // CHECK: nn.stamp "pass" "" [3] thread %n
  nn.stamp "pass" "" [3] thread %n
  func.return
}
}
