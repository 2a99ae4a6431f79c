// RUN: openinfer-opt %s -p choose-places --split-input-file | filecheck %s

// What is between scalars leaves the device, and so does a chain of small values that begins at an input.
// The large op stays, though it reads one of them.
// CHECK: func.func @step
// CHECK: linalg.generic {{.*}} ins(%step : tensor<i32>) {{.*}} attrs = {openinfer.place = "host"}
// CHECK: nn.softmax(%few) {axis = 0 : i64} attrs {openinfer.place = "host"}
// CHECK: nn.softmax(%x) {axis = 0 : i64} :
// CHECK: nn.concat(%{{.*}}, %{{.*}}) {axis = 0 : i64} :
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["x", "few"], held = ["step"]}
  func.func @step(%x: tensor<?xf32, #nn.dims<N>>, %few: tensor<8xf32>, %step: tensor<i32>, %w: tensor<8xf32>) -> tensor<?xf32, #nn.dims<"N + 8">> {
    %e = tensor.empty() : tensor<i32>
    %n = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%step : tensor<i32>) outs(%e : tensor<i32>) {
    ^bb0(%a: i32, %b: i32):
      linalg.yield %a : i32
    } -> tensor<i32>
    %s = nn.softmax(%few) {axis = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %l = nn.softmax(%x) {axis = 0 : i64} : (tensor<?xf32, #nn.dims<N>>) -> tensor<?xf32, #nn.dims<N>>
    %c = nn.concat(%l, %s) {axis = 0 : i64} : (tensor<?xf32, #nn.dims<N>>, tensor<8xf32>) -> tensor<?xf32, #nn.dims<"N + 8">>
    func.return %c : tensor<?xf32, #nn.dims<"N + 8">>
  }
}
// -----
// A hint sends an op to the host; what the device does not support goes there anyway. A small weight is
// not on the host, and neither is a value that the device has computed.
// CHECK: nn.softmax(%x) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}, openinfer.place = "host"}
// CHECK: nn.gather(%w, %k) {axis = 0 : i64, node = 1 : i64} attrs {openinfer.place = "host"}
// CHECK: nn.softmax(%w) {axis = 0 : i64} :
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["x", "k"]}
  func.func @step(%x: tensor<512xf32>, %k: tensor<512xi64>, %w: tensor<8xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<8xf32>) {
    %s = nn.softmax(%x) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}} : (tensor<512xf32>) -> tensor<512xf32>
    %g = nn.gather(%w, %k) {axis = 0 : i64, node = 1 : i64} : (tensor<8xf32>, tensor<512xi64>) -> tensor<512xf32>
    %t = nn.softmax(%w) {axis = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    func.return %s, %g, %t : tensor<512xf32>, tensor<512xf32>, tensor<8xf32>
  }
}
// -----
// A fill of small size is computed where it is used: with the sums that start from it.
// CHECK: linalg.fill ins(%zero : f32) outs(%{{.*}} : tensor<4xf32>) -> tensor<4xf32>
// CHECK: linalg.fill {openinfer.place = "host"} ins(%zero : f32) outs(%{{.*}} : tensor<2xf32>)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["x", "y"]}
  func.func @step(%x: tensor<4x512xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x512xf32>) outs(%f : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    %e2 = tensor.empty() : tensor<2xf32>
    %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2xf32>) -> tensor<2xf32>
    %c = nn.concat(%f2, %y) {axis = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    func.return %r, %c : tensor<4xf32>, tensor<4xf32>
  }
}
// -----
// Nothing is marked in a program for the CPU.
// CHECK: nn.softmax(%few) {axis = 0 : i64} :
builtin.module attributes {openinfer.target = "generic"} {
  nn.interface {inputs = ["few"]}
  func.func @step(%few: tensor<8xf32>) -> tensor<8xf32> {
    %s = nn.softmax(%few) {axis = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    func.return %s : tensor<8xf32>
  }
}
// -----
// What only the host reads follows its readers, where the host has what it is made of: nobody waits for
// the device. What the device reads, too, stays; so does what is made of something that it computes.
// CHECK: func.func @step
// CHECK: linalg.generic {{.*}} ins(%k : tensor<512xf32>) {{.*}} attrs = {openinfer.place = "host"}
// CHECK: nn.softmax(%{{.*}}) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}, openinfer.place = "host"}
// CHECK: %[[BOTH:.*]] = linalg.generic {{.*}} ins(%k : tensor<512xf32>) outs(%{{.*}} : tensor<512xf32>) {
// CHECK: nn.softmax(%[[BOTH]]) {axis = 0 : i64} :
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<512xf32>) outs(%{{.*}} : tensor<512xf32>) {
// CHECK: nn.softmax(%{{.*}}) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}, openinfer.place = "host"}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["k"]}
  func.func @step(%k: tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) {
    %e = tensor.empty() : tensor<512xf32>
    %a = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%k : tensor<512xf32>) outs(%e : tensor<512xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
    } -> tensor<512xf32>
    %h = nn.softmax(%a) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}} : (tensor<512xf32>) -> tensor<512xf32>
    %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%k : tensor<512xf32>) outs(%e : tensor<512xf32>) {
    ^bb0(%x: f32, %y: f32):
      %n = arith.negf %x : f32
      linalg.yield %n : f32
    } -> tensor<512xf32>
    %s = nn.softmax(%b) {axis = 0 : i64} : (tensor<512xf32>) -> tensor<512xf32>
    %i = nn.softmax(%b) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}} : (tensor<512xf32>) -> tensor<512xf32>
    %c = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%s : tensor<512xf32>) outs(%e : tensor<512xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
    } -> tensor<512xf32>
    %j = nn.softmax(%c) {axis = 0 : i64} attrs {openinfer.hints = {placement = "cpu"}} : (tensor<512xf32>) -> tensor<512xf32>
    func.return %h, %s, %i, %j : tensor<512xf32>, tensor<512xf32>, tensor<512xf32>, tensor<512xf32>
  }
}
// -----
// f64 stays where the device computes in it, exponentials too; other functions are the host's.
// CHECK: func.func @step
// CHECK: nn.cumsum(%x) {axis = 0 : i64} : (tensor<512xf64>)
// CHECK: nn.softmax(%{{.*}}) {axis = 0 : i64} : (tensor<512xf64>)
// CHECK: linalg.generic {{.*}} attrs = {{.*}}openinfer.place = "host"} {
// CHECK: math.sin
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.f64} {
  nn.interface {inputs = ["x"]}
  func.func @step(%x: tensor<512xf64>) -> (tensor<512xf64>, tensor<512xf64>) {
    %e = tensor.empty() : tensor<512xf64>
    %a = nn.cumsum(%x) {axis = 0 : i64} : (tensor<512xf64>) -> tensor<512xf64>
    %s = nn.softmax(%a) {axis = 0 : i64} : (tensor<512xf64>) -> tensor<512xf64>
    %b = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : tensor<512xf64>) outs(%e : tensor<512xf64>) {
    ^bb0(%v: f64, %o: f64):
      %n = math.sin %v : f64
      linalg.yield %n : f64
    } -> tensor<512xf64>
    func.return %s, %b : tensor<512xf64>, tensor<512xf64>
  }
}
// -----
// A device that has no f64 leaves it to the host.
// CHECK: func.func @step
// CHECK: nn.cumsum(%x) {axis = 0 : i64} attrs {openinfer.place = "host"} : (tensor<512xf64>)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"]}
  func.func @step(%x: tensor<512xf64>) -> tensor<512xf64> {
    %s = nn.cumsum(%x) {axis = 0 : i64} : (tensor<512xf64>) -> tensor<512xf64>
    func.return %s : tensor<512xf64>
  }
}
// -----
// bf16 and 8-bit floats stay: every device stores integers of 16 and 8 bits. Attention that is rounded to
// bf16 does not.
// CHECK: func.func @step
// CHECK: nn.softmax(%x) {axis = 0 : i64} : (tensor<512xbf16>)
// CHECK: nn.attention({{.*}}) {{.*}}openinfer.place = "host"
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "q"]}
  func.func @step(%x: tensor<512xbf16>, %q: tensor<1x2x40x64xbf16>) -> (tensor<512xbf16>, tensor<1x2x40x64xf32>) {
    %s = nn.softmax(%x) {axis = 0 : i64} : (tensor<512xbf16>) -> tensor<512xbf16>
    %a = nn.attention(%q, %q, %q) {scale = 0.125 : f64, precision = "bf16", layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x2x40x64xbf16>, tensor<1x2x40x64xbf16>, tensor<1x2x40x64xbf16>) -> tensor<1x2x40x64xf32>
    func.return %s, %a : tensor<512xbf16>, tensor<1x2x40x64xf32>
  }
}
// -----
// Elements that share bytes: of results where one invocation has all of a byte. Which does not hold for a line
// along the first axis, nor where the order is another one. They may be read by any kernel.
// CHECK: func.func @step
// CHECK: nn.slice(%x) {{.*}}steps = array<i64: 2>} : (tensor<1024xi4>)
// CHECK: nn.cumsum(%{{.*}}) {axis = 0 : i64} attrs {openinfer.place = "host"} : (tensor<512xi4>)
// CHECK: linalg.generic {{.*}} attrs = {{.*}}openinfer.place = "host"} {
// CHECK: nn.reduce(%m) {axes = array<i64: 1>, kind = "argmax"} : (tensor<64x32xi4>)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "m"]}
  func.func @step(%x: tensor<1024xi4>, %m: tensor<64x32xi4>) -> (tensor<512xi4>, tensor<32x64xi4>, tensor<64xi64>) {
    %s = nn.slice(%x) {starts = [#graph.size<0>], steps = array<i64: 2>} : (tensor<1024xi4>) -> tensor<512xi4>
    %c = nn.cumsum(%s) {axis = 0 : i64} : (tensor<512xi4>) -> tensor<512xi4>
    %e = tensor.empty() : tensor<32x64xi4>
    %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<64x32xi4>) outs(%e : tensor<32x64xi4>) {
    ^bb0(%v: i4, %o: i4):
      linalg.yield %v : i4
    } -> tensor<32x64xi4>
    %a = nn.reduce(%m) {axes = array<i64: 1>, kind = "argmax"} : (tensor<64x32xi4>) -> tensor<64xi64>
    func.return %c, %t, %a : tensor<512xi4>, tensor<32x64xi4>, tensor<64xi64>
  }
}
// -----
// A few elements of an input of any length are the host's, those of a weight or at places that the device
// computes are not.
// CHECK: nn.gather(%x, %i) {axis = 0 : i64, node = 0 : i64} attrs {openinfer.place = "host"}
// CHECK: nn.gather(%w, %i) {axis = 0 : i64, node = 1 : i64} :
// CHECK: nn.gather(%x, %x) {axis = 0 : i64, node = 2 : i64} :
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "i"]}
  func.func @step(%x: tensor<?xi32, #nn.dims<N>>, %i: tensor<1xi32>, %w: tensor<512xi32>) -> (tensor<1xi32>, tensor<1xi32>, tensor<?xi32, #nn.dims<N>>) {
    %g = nn.gather(%x, %i) {axis = 0 : i64, node = 0 : i64} : (tensor<?xi32, #nn.dims<N>>, tensor<1xi32>) -> tensor<1xi32>
    %h = nn.gather(%w, %i) {axis = 0 : i64, node = 1 : i64} : (tensor<512xi32>, tensor<1xi32>) -> tensor<1xi32>
    %k = nn.gather(%x, %x) {axis = 0 : i64, node = 2 : i64} : (tensor<?xi32, #nn.dims<N>>, tensor<?xi32, #nn.dims<N>>) -> tensor<?xi32, #nn.dims<N>>
    func.return %g, %h, %k : tensor<1xi32>, tensor<1xi32>, tensor<?xi32, #nn.dims<N>>
  }
}
