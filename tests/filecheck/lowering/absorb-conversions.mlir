// RUN: openinfer-opt %s -p absorb-conversions --split-input-file | filecheck %s
// RUN: openinfer-opt %s --strict-math -p absorb-conversions --split-input-file | filecheck %s --check-prefix STRICT

// Weights of i8 with a scale for each column: the sums are scaled.
// CHECK-LABEL: func.func @columns
// CHECK-NEXT: [[P:%\S+]] = nn.matmul(%x, %w) : (tensor<2x8xf32>, tensor<8x4xi8>) -> tensor<2x4xf32>
// CHECK-NEXT: {{%\S+}} = nn.elementwise([[P]], %s) {kind = "mul"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: func.return
// STRICT-LABEL: func.func @columns
// STRICT: %d = nn.elementwise({{.*}}) {kind = "mul"}
// STRICT-NEXT: nn.matmul(%x, %d) : (tensor<2x8xf32>, tensor<8x4xf32>)
func.func @columns(%x: tensor<2x8xf32>, %w: tensor<8x4xi8>, %s: tensor<4xf32>) -> tensor<2x4xf32> {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %d = nn.elementwise(%c, %s) {kind = "mul"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %y = nn.matmul(%x, %d) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// Rows of a transposed weight are columns of the product.
// CHECK-LABEL: func.func @rows_of_a_transposed_weight
// CHECK: [[S:%\S+]] = nn.reshape(%s) : (tensor<4x1xf32>) -> tensor<4xf32>
// CHECK-NEXT: [[P:%\S+]] = nn.matmul(%x, %w) {transpose_b} : (tensor<2x8xf32>, tensor<4x8xui8>) -> tensor<2x4xf32>
// CHECK-NEXT: nn.elementwise([[P]], [[S]]) {kind = "mul"}
func.func @rows_of_a_transposed_weight(%x: tensor<2x8xf32>, %w: tensor<4x8xui8>, %s: tensor<4x1xf32>) -> tensor<2x4xf32> {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<4x8xui8>) -> tensor<4x8xf32>
  %d = nn.elementwise(%s, %c) {kind = "mul"} : (tensor<4x1xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = nn.matmul(%x, %d) {transpose_b} : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// A scale for each row of the weight belongs to the left operand.
// CHECK-LABEL: func.func @rows
// CHECK: [[S:%\S+]] = nn.reshape(%s) : (tensor<8x1xf32>) -> tensor<8xf32>
// CHECK-NEXT: [[X:%\S+]] = nn.elementwise(%x, [[S]]) {kind = "mul"} : (tensor<2x8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: nn.matmul([[X]], %w) : (tensor<2x8xf32>, tensor<8x4xi8>) -> tensor<2x4xf32>
func.func @rows(%x: tensor<2x8xf32>, %w: tensor<8x4xi8>, %s: tensor<8x1xf32>) -> tensor<2x4xf32> {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %d = nn.elementwise(%c, %s) {kind = "mul"} : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  %y = nn.matmul(%x, %d) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// A widening changes no sum, so it goes under strict math as well.
// CHECK-LABEL: func.func @widened
// CHECK-NEXT: nn.matmul(%x, %w) : (tensor<2x8xf32>, tensor<8x4xf16>) -> tensor<2x4xf32>
// STRICT-LABEL: func.func @widened
// STRICT-NEXT: nn.matmul(%x, %w) : (tensor<2x8xf32>, tensor<8x4xf16>) -> tensor<2x4xf32>
func.func @widened(%x: tensor<2x8xf32>, %w: tensor<8x4xf16>) -> tensor<2x4xf32> {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xf16>) -> tensor<8x4xf32>
  %y = nn.matmul(%x, %c) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
// -----
// Cached keys of f16 are read as such, through a reshape.
// CHECK-LABEL: func.func @cached_keys
// CHECK: [[K:%\S+]] = nn.reshape(%k) : (tensor<6x2x16xf16>) -> tensor<1x6x2x16xf16>
// CHECK: nn.attention(%q, [[K]], {{%\S+}})
// CHECK-SAME: (tensor<1x2x1x16xf32>, tensor<1x6x2x16xf16>, tensor<1x6x2x16xf16>) -> tensor<1x2x1x16xf32>
func.func @cached_keys(%q: tensor<1x2x1x16xf32>, %k: tensor<6x2x16xf16>, %v: tensor<6x2x16xf16>) -> tensor<1x2x1x16xf32> {
  %kc = nn.elementwise(%k) {kind = "cast"} : (tensor<6x2x16xf16>) -> tensor<6x2x16xf32>
  %vc = nn.elementwise(%v) {kind = "cast"} : (tensor<6x2x16xf16>) -> tensor<6x2x16xf32>
  %k4 = nn.reshape(%kc) : (tensor<6x2x16xf32>) -> tensor<1x6x2x16xf32>
  %v4 = nn.reshape(%vc) : (tensor<6x2x16xf32>) -> tensor<1x6x2x16xf32>
  %o = nn.attention(%q, %k4, %v4) {scale = 0.25 : f64, layouts = ["bhld", "blhd", "blhd", "bhld"]} : (tensor<1x2x1x16xf32>, tensor<1x6x2x16xf32>, tensor<1x6x2x16xf32>) -> tensor<1x2x1x16xf32>
  func.return %o : tensor<1x2x1x16xf32>
}
// -----
// i32 does not fit into f32, and a narrowing rounds.
// CHECK-LABEL: func.func @inexact
// CHECK: nn.matmul(%x, %c)
// CHECK: nn.matmul(%x, %n)
func.func @inexact(%x: tensor<2x8xf32>, %w: tensor<8x4xi32>, %u: tensor<8x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xi32>) -> tensor<8x4xf32>
  %y = nn.matmul(%x, %c) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %n = nn.elementwise(%u) {kind = "cast"} : (tensor<8x4xf32>) -> tensor<8x4xf16>
  %z = nn.matmul(%x, %n) : (tensor<2x8xf32>, tensor<8x4xf16>) -> tensor<2x4xf32>
  func.return %y, %z : tensor<2x4xf32>, tensor<2x4xf32>
}
// -----
// Somebody else reads the widened weight, or a barrier keeps it apart.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: nn.matmul(%x, %c)
// CHECK: nn.matmul(%x, %b)
func.func @read_elsewhere(%x: tensor<2x8xf32>, %w: tensor<8x4xi8>, %v: tensor<8x4xi8>) -> (tensor<2x4xf32>, tensor<8x4xf32>, tensor<2x4xf32>) {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %y = nn.matmul(%x, %c) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %b = nn.elementwise(%v) {kind = "cast"} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  nn.barrier
  %z = nn.matmul(%x, %b) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  func.return %y, %c, %z : tensor<2x4xf32>, tensor<8x4xf32>, tensor<2x4xf32>
}
// -----
// A scale for each element stays where it is; so does one of a float weight, whose sums may overflow.
// CHECK-LABEL: func.func @other_scales
// CHECK: nn.matmul(%x, %d)
// CHECK: nn.matmul(%x, %f)
func.func @other_scales(%x: tensor<2x8xf32>, %w: tensor<8x4xi8>, %s: tensor<8x4xf32>, %u: tensor<8x4xf16>, %t: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %c = nn.elementwise(%w) {kind = "cast"} : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %d = nn.elementwise(%c, %s) {kind = "mul"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = nn.matmul(%x, %d) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %e = nn.elementwise(%u) {kind = "cast"} : (tensor<8x4xf16>) -> tensor<8x4xf32>
  %f = nn.elementwise(%e, %t) {kind = "mul"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %z = nn.matmul(%x, %f) : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  func.return %y, %z : tensor<2x4xf32>, tensor<2x4xf32>
}
// -----
// Keys in blocks are read as they lie; values that somebody else reads, too, are unpacked.
// CHECK-LABEL: func.func @blocks
// CHECK-NEXT: [[V:%\S+]] = nn.dequantize_blocks(%v)
// CHECK-NEXT: [[W:%\S+]] = nn.reshape([[V]]) : (tensor<9x64xf32>) -> tensor<1x9x2x32xf32>
// CHECK-NEXT: [[K:%\S+]] = nn.reshape(%k) : (tensor<9x68xi8>) -> tensor<1x9x2x34xi8>
// CHECK-NEXT: nn.attention(%q, [[K]], [[W]]) {{.*}}block = "q8_0"
func.func @blocks(%q: tensor<1x3x2x32xf32>, %k: tensor<9x68xi8>, %v: tensor<9x68xi8>) -> (tensor<1x3x2x32xf32>, tensor<9x64xf32>) {
  %a = nn.dequantize_blocks(%k) {block = "q8_0"} : (tensor<9x68xi8>) -> tensor<9x64xf32>
  %b = nn.dequantize_blocks(%v) {block = "q8_0"} : (tensor<9x68xi8>) -> tensor<9x64xf32>
  %c = nn.reshape(%a) : (tensor<9x64xf32>) -> tensor<1x9x2x32xf32>
  %d = nn.reshape(%b) : (tensor<9x64xf32>) -> tensor<1x9x2x32xf32>
  %y = nn.attention(%q, %c, %d) {scale = 0.5 : f64, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (tensor<1x3x2x32xf32>, tensor<1x9x2x32xf32>, tensor<1x9x2x32xf32>) -> tensor<1x3x2x32xf32>
  func.return %y, %b : tensor<1x3x2x32xf32>, tensor<9x64xf32>
}
// -----
// Heads of 48 are no whole blocks.
// CHECK-LABEL: func.func @other_heads
// CHECK: nn.dequantize_blocks(%k)
func.func @other_heads(%q: tensor<1x3x2x48xf32>, %k: tensor<9x102xi8>, %v: tensor<1x9x2x48xf32>) -> tensor<1x3x2x48xf32> {
  %a = nn.dequantize_blocks(%k) {block = "q8_0"} : (tensor<9x102xi8>) -> tensor<9x96xf32>
  %c = nn.reshape(%a) : (tensor<9x96xf32>) -> tensor<1x9x2x48xf32>
  %y = nn.attention(%q, %c, %v) {scale = 0.5 : f64, layouts = ["blhd", "blhd", "blhd", "blhd"]} : (tensor<1x3x2x48xf32>, tensor<1x9x2x48xf32>, tensor<1x9x2x48xf32>) -> tensor<1x3x2x48xf32>
  func.return %y : tensor<1x3x2x48xf32>
}
