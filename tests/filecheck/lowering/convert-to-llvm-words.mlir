// RUN: openinfer-opt %s -p convert-to-llvm --split-input-file | filecheck %s

// The target adds up four products of bytes in one instruction, where those of one side have no sign.
builtin.module attributes {openinfer.target = "avx512", openinfer.features = "+avx512vl,+avx512vnni"} {
  func.func @dot(%s: vector<16xi32>, %a: vector<16xi32>, %b: vector<16xi32>) -> vector<16xi32> {
    %r = nn.dot_words unsigned %s, %a, %b : vector<16xi32>
    func.return %r : vector<16xi32>
  }
}
// CHECK-LABEL: llvm.func @dot
// CHECK-NEXT:    llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"(%s, %a, %b)
// CHECK-NEXT:    llvm.return

// -----

// It does not: small bytes in pairs, and bytes with a sign as their absolute value.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @small(%s: vector<8xi32>, %a: vector<8xi32>, %b: vector<8xi32>) -> vector<8xi32> {
    %r = nn.dot_words unsigned small %s, %a, %b : vector<8xi32>
    func.return %r : vector<8xi32>
  }
  func.func @signed(%s: vector<8xi32>, %a: vector<8xi32>, %b: vector<8xi32>) -> vector<8xi32> {
    %r = nn.dot_words %s, %a, %b : vector<8xi32>
    func.return %r : vector<8xi32>
  }
}
// CHECK-LABEL: llvm.func @small
// CHECK:         llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// CHECK:         llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// CHECK-LABEL: llvm.func @signed
// CHECK:         llvm.call_intrinsic "llvm.x86.avx2.psign.b"
// CHECK:         llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"

// -----

// Every x86-64 multiplies pairs of 16 bits.
builtin.module attributes {openinfer.target = "generic"} {
  func.func @plain(%s: vector<4xi32>, %a: vector<4xi32>, %b: vector<4xi32>) -> vector<4xi32> {
    %r = nn.dot_words unsigned %s, %a, %b : vector<4xi32>
    func.return %r : vector<4xi32>
  }
}
// CHECK-LABEL: llvm.func @plain
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.x86.sse2.pmadd.wd"
// CHECK-NOT:   ssse3

// -----

// One table for each 16 bytes; where there is no instruction, one code after the other.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @table(%w: vector<8xi32>) -> vector<8xi32> {
    %r = nn.look_up_bytes %w in [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] : vector<8xi32>
    func.return %r : vector<8xi32>
  }
  func.func @wide(%w: vector<16xi32>) -> vector<16xi32> {
    %r = nn.look_up_bytes %w in [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12] : vector<16xi32>
    func.return %r : vector<16xi32>
  }
}
// CHECK-LABEL: llvm.func @table
// CHECK:         llvm.call_intrinsic "llvm.x86.avx2.pshuf.b"
// CHECK-LABEL: llvm.func @wide
// CHECK-NOT:     call_intrinsic
// CHECK-COUNT-15: llvm.icmp
