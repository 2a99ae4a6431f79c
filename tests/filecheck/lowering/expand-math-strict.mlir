// RUN: openinfer-opt %s -p expand-math --strict-math | filecheck %s

// Nothing is approximated: the library computes in f64, and the result is rounded.
func.func @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  func.return %y : vector<16xf32>
}
// CHECK-LABEL: func.func @exp
// CHECK-NEXT:    [[W:%\S+]] = arith.extf %x : vector<16xf32> to vector<16xf64>
// CHECK-NEXT:    [[E:%\S+]] = math.exp [[W]] : vector<16xf64>
// CHECK-NEXT:    %y = arith.truncf [[E]] : vector<16xf64> to vector<16xf32>

// A half-width float is rounded to f32 first, as always.
func.func @half(%x: f16, %z: f16) -> f16 {
  %y = math.powf %x, %z : f16
  func.return %y : f16
}
// CHECK-LABEL: func.func @half
// CHECK:         math.powf {{%\S+}}, {{%\S+}} : f64
// CHECK-NEXT:    [[N:%\S+]] = arith.truncf {{%\S+}} : f64 to f32
// CHECK-NEXT:    %y = arith.truncf [[N]] : f32 to f16

// What is exact, and f64, stays.
func.func @kept(%x: f64, %y: vector<8xf32>) -> (f64, vector<8xf32>) {
  %a = math.exp %x : f64
  %b = math.sqrt %y : vector<8xf32>
  func.return %a, %b : f64, vector<8xf32>
}
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    %a = math.exp %x : f64
// CHECK-NEXT:    %b = math.sqrt %y : vector<8xf32>
