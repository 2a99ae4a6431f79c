// RUN: openinfer-opt %s -p bufferize --split-input-file | filecheck %s

// The keys of one query may be divided among workgroups of the device: they leave what they find in scratch.
// CHECK-LABEL: func.func @step
// CHECK: %[[SCRATCH:.*]] = memref.alloc() : memref<1x8x16x66xf32>
// CHECK: nn.attention({{.*}}) outs({{.*}}) scratch(parts = %[[SCRATCH]])
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step(%q: tensor<1x8x1x64xf16>, %k: tensor<1x2x4096x64xf16>) {
    %o = nn.attention(%q, %k, %k) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x8x1x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x2x4096x64xf16>) -> tensor<1x8x1x64xf16>
    %p = nn.attention(%o, %k, %k) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x8x1x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x2x4096x64xf16>) -> tensor<1x8x1x64xf16>
    func.return
  }
}
// -----
// Not few keys, not those of several queries, and not where heads keep the device busy.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-3: nn.attention
// CHECK-NOT: scratch
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64} {
  func.func @step(%q: tensor<1x8x1x64xf16>, %k: tensor<1x2x512x64xf16>, %r: tensor<1x8x2x64xf16>, %l: tensor<1x2x4096x64xf16>, %s: tensor<64x8x1x64xf16>, %m: tensor<64x2x4096x64xf16>) {
    %o = nn.attention(%q, %k, %k) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x8x1x64xf16>, tensor<1x2x512x64xf16>, tensor<1x2x512x64xf16>) -> tensor<1x8x1x64xf16>
    %p = nn.attention(%r, %l, %l) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<1x8x2x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x2x4096x64xf16>) -> tensor<1x8x2x64xf16>
    %t = nn.attention(%s, %m, %m) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (tensor<64x8x1x64xf16>, tensor<64x2x4096x64xf16>, tensor<64x2x4096x64xf16>) -> tensor<64x8x1x64xf16>
    func.return
  }
}
