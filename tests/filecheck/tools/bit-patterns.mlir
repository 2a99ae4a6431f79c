// RUN: openinfer-opt %s | filecheck %s
// RUN: openinfer-opt %s | openinfer-opt | filecheck %s

// Floats without a short decimal form print as bits, and come back as the same value.

// CHECK-LABEL: func.func @f
func.func @f() {
  // CHECK: arith.constant dense<0xff800000> : vector<4xf32>
  %a = arith.constant dense<0xff800000> : vector<4xf32>
  // CHECK: arith.constant dense<[0x7fc00000, 1.000000e+00]> : vector<2xf32>
  %b = arith.constant dense<[0x7fc00000, 1.0]> : vector<2xf32>
  // CHECK: arith.constant dense<0xfff0000000000000> : tensor<4xf64>
  %c = arith.constant dense<0xfff0000000000000> : tensor<4xf64>
  // CHECK: arith.constant dense<0xfc00> : tensor<4xf16>
  %d = arith.constant dense<0xfc00> : tensor<4xf16>
  // CHECK: arith.constant dense<16> : vector<4xi32>
  %e = arith.constant dense<0x10> : vector<4xi32>
  func.return
}
