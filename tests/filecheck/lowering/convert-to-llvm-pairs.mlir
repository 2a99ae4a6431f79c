// RUN: openinfer-opt %s -p convert-to-llvm --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p convert-to-llvm --split-input-file -t llvm-ir | filecheck %s --check-prefix TEXT

// The target has the instructions.
builtin.module attributes {openinfer.target = "avx512", openinfer.bf16_dot} {
  func.func @with(%s: vector<16xf32>, %a: vector<32xbf16>, %b: vector<32xbf16>) -> vector<16xf32> {
    %r = nn.dot_pairs %s, %a, %b : vector<32xbf16>, vector<16xf32>
    func.return %r : vector<16xf32>
  }
  func.func @round(%a: vector<16xf32>, %b: vector<16xf32>) -> vector<32xbf16> {
    %r = nn.round_pairs %a, %b : vector<16xf32>, vector<32xbf16>
    func.return %r : vector<32xbf16>
  }
}
// CHECK-LABEL: llvm.func @with
// CHECK-NEXT:    llvm.call_intrinsic "llvm.x86.avx512bf16.dpbf16ps.512"(%s, %a, %b)
// CHECK-NEXT:    llvm.return
// CHECK-LABEL: llvm.func @round
// CHECK:         [[BOTH:%\S+]] = llvm.call_intrinsic "llvm.x86.avx512bf16.cvtne2ps2bf16.512"(%b_1, %a_1)
// CHECK:         llvm.shufflevector {{.*}} [0, 16, 1, 17, 2, 18,
// TEXT: +avx512bf16

// -----

// It has not: the second of each pair first, each product exact.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @without(%s: vector<8xf32>, %a: vector<16xbf16>, %b: vector<16xbf16>) -> vector<8xf32> {
    %r = nn.dot_pairs %s, %a, %b : vector<16xbf16>, vector<8xf32>
    func.return %r : vector<8xf32>
  }
}
// CHECK-LABEL: llvm.func @without
// CHECK-NOT:     call_intrinsic
// CHECK:         llvm.bitcast %a : vector<16xbf16> to vector<8xi32>
// CHECK:         llvm.and
// CHECK:         llvm.and
// CHECK:         [[HIGH:%\S+]] = llvm.intr.fma({{%\S+, %\S+}}, %s)
// CHECK:         llvm.shl
// CHECK:         llvm.shl
// CHECK:         llvm.intr.fma({{%\S+, %\S+}}, [[HIGH]])
// TEXT-NOT: +avx512bf16

// -----

// Nor has it fused multiply-adds.
builtin.module attributes {openinfer.target = "generic"} {
  func.func @generic(%s: vector<4xf32>, %a: vector<8xbf16>, %b: vector<8xbf16>) -> vector<4xf32> {
    %r = nn.dot_pairs %s, %a, %b : vector<8xbf16>, vector<4xf32>
    func.return %r : vector<4xf32>
  }
}
// CHECK-LABEL: llvm.func @generic
// CHECK:         llvm.fmul
// CHECK:         llvm.fadd
// CHECK:         llvm.fmul
// CHECK:         llvm.fadd
