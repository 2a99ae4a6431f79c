// RUN: openinfer-opt %s -p expand-math | filecheck %s

// The argument is clamped, split into a whole power of two and a rest, and the power is made of bits.
func.func @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  func.return %y : vector<16xf32>
}
// CHECK-LABEL: func.func @exp
// CHECK-DAG:     [[HIGH:%\S+]] = arith.constant dense<8.900000e+01> : vector<16xf32>
// CHECK-DAG:     [[LOG2E:%\S+]] = arith.constant dense<1.44269502> : vector<16xf32>
// CHECK-DAG:     [[SHIFT:%\S+]] = arith.constant dense<23> : vector<16xi32>
// CHECK:         [[OVER:%\S+]] = arith.cmpf olt, [[HIGH]], %x : vector<16xf32>
// CHECK-NEXT:    [[X1:%\S+]] = arith.select [[OVER]], [[HIGH]], %x : vector<16xi1>, vector<16xf32>
// CHECK:         arith.mulf {{%\S+}}, [[LOG2E]] fastmath<contract> : vector<16xf32>
// CHECK:         arith.bitcast {{%\S+}} : vector<16xf32> to vector<16xi32>
// CHECK-NEXT:    arith.shli {{%\S+}}, [[SHIFT]] : vector<16xi32>
// CHECK-NEXT:    arith.bitcast {{%\S+}} : vector<16xi32> to vector<16xf32>
// CHECK-NOT:     math.exp
// CHECK:         %y = arith.mulf
// CHECK-NEXT:    func.return %y

// Two uses share their constants, which stand at the start of the function.
func.func @shared(%x: memref<?xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %x[%i] : memref<?xf32>
    %b = math.exp %a : f32
    %c = math.exp %b : f32
    memref.store %c, %x[%i] : memref<?xf32>
  }
  func.return
}
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-1: arith.constant 8.900000e+01 : f32
// CHECK:         scf.for
// CHECK-NOT:     arith.constant
// CHECK-NOT:     math.exp
// CHECK:         memref.store

// A half-width float is computed as f32.
func.func @half(%x: f16) -> f16 {
  %y = math.tanh %x : f16
  func.return %y : f16
}
// CHECK-LABEL: func.func @half
// CHECK:         [[W:%\S+]] = arith.extf %x : f16 to f32
// CHECK-NEXT:    math.absf [[W]] : f32
// CHECK:         arith.divf
// CHECK:         math.copysign
// CHECK-NEXT:    %y = arith.truncf {{%\S+}} : f32 to f16

// f64 and what the machine or the library does stay.
func.func @kept(%x: f64, %y: vector<8xf32>) -> (f64, vector<8xf32>) {
  %a = math.exp %x : f64
  %b = math.sqrt %y : vector<8xf32>
  %c = math.acos %b : vector<8xf32>
  %d = math.tan %x : f64
  %e = math.atan2 %d, %x : f64
  func.return %a, %c : f64, vector<8xf32>
}
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    %a = math.exp %x : f64
// CHECK-NEXT:    %b = math.sqrt %y : vector<8xf32>
// CHECK-NEXT:    %c = math.acos %b : vector<8xf32>
// CHECK-NEXT:    %d = math.tan %x : f64
// CHECK-NEXT:    %e = math.atan2 %d, %x : f64
// CHECK-NEXT:    func.return

// Sine and cosine are computed in f64, and by the library where an argument is too large for that.
func.func @circular(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.sin %x : vector<16xf32>
  func.return %y : vector<16xf32>
}
// CHECK-LABEL: func.func @circular
// CHECK:         arith.extf %x : vector<16xf32> to vector<16xf64>
// CHECK:         [[NEAR:%\S+]] = arith.select {{.*}} : vector<16xi1>, vector<16xf32>
// CHECK:         [[MOST:%\S+]] = vector.reduction <maxnumf>, {{.*}} : vector<16xf32> into f32
// CHECK-NEXT:    [[ANY:%\S+]] = arith.cmpf ogt, [[MOST]], {{%\S+}} : f32
// CHECK-NEXT:    %y = scf.if [[ANY]] -> (vector<16xf32>) {
// CHECK-NEXT:      math.sin %x : vector<16xf32>
// CHECK:         } else {
// CHECK-NEXT:      scf.yield [[NEAR]] : vector<16xf32>

// The tangent is their quotient, of half-width floats too.
func.func @tangent(%x: vector<16xf32>, %h: f16) -> (vector<16xf32>, f16) {
  %y = math.tan %x : vector<16xf32>
  %z = math.tan %h : f16
  func.return %y, %z : vector<16xf32>, f16
}
// CHECK-LABEL: func.func @tangent
// CHECK-NOT:     math.tan
// CHECK:         math.sin %x : vector<16xf32>
// CHECK:         math.cos %x : vector<16xf32>
// CHECK:         %y = arith.divf {{%\S+}}, {{%\S+}} : vector<16xf32>
// CHECK:         [[WIDE:%\S+]] = arith.extf %h : f16 to f32
// CHECK:         [[TAN:%\S+]] = arith.divf {{%\S+}}, {{%\S+}} : f32
// CHECK-NEXT:    %z = arith.truncf [[TAN]] : f32 to f16

// The angle of a point: one division, a polynomial, and signs at the end.
func.func @angle(%y: vector<16xf32>, %x: vector<16xf32>) -> vector<16xf32> {
  %a = math.atan2 %y, %x : vector<16xf32>
  func.return %a : vector<16xf32>
}
// CHECK-LABEL: func.func @angle
// CHECK-NOT:     math.atan2
// CHECK-COUNT-1: arith.divf
// CHECK-NOT:     arith.divf
// CHECK:         %a = math.copysign {{%\S+}}, %y : vector<16xf32>

// A kernel of a device has neither f64 nor the library: bits of 2/pi times the significand.
func.func @on_device(%x: f32, %h: f16) -> (f32, f16) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %y = math.cos %x : f32
  %z = math.sin %h : f16
  func.return %y, %z : f32, f16
}
// CHECK-LABEL: func.func @on_device
// CHECK-NOT:     f64
// CHECK-NOT:     math.
// CHECK:         arith.bitcast %x : f32 to i32
// CHECK:         arith.muli %{{.*}} : i64
// CHECK:         arith.sitofp %{{.*}} : i32 to f32
// CHECK:         [[WIDE:%\S+]] = arith.extf %h : f16 to f32
// CHECK:         arith.bitcast [[WIDE]] : f32 to i32
// CHECK:         [[SINE:%\S+]] = arith.truncf %{{.*}} : f32 to f16
// CHECK-NOT:     math.
// CHECK:         func.return %{{.*}}, [[SINE]] : f32, f16

// A kernel of a device that is content with the device's own function has it; the processor has none.
func.func private @fast(%x: f32) -> (f32, f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %y = math.exp2 %x fastmath<afn> : f32
  %z = math.exp2 %x : f32
  func.return %y, %z : f32, f32
}
// CHECK-LABEL: func.func private @fast
// CHECK:         [[FAST:%\S+]] = math.exp2 %x fastmath<afn> : f32
// CHECK-NOT:     math.exp2
// CHECK:         func.return [[FAST]],
func.func @on_the_processor(%x: f32) -> f32 {
  %y = math.exp2 %x fastmath<afn> : f32
  func.return %y : f32
}
// CHECK-LABEL: func.func @on_the_processor
// CHECK-NOT:     math.exp2

// What becomes a half-width float needs a shorter polynomial and the device's own power of two.
func.func private @of_half(%x: f32) -> f16 attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %y = math.erfc %x : f32
  %z = arith.mulf %y, %x : f32
  %h = arith.truncf %z : f32 to f16
  func.return %h : f16
}
// CHECK-LABEL: func.func private @of_half
// CHECK-COUNT-5: arith.addf %{{.*}} fastmath<contract> : f32
// CHECK-NOT:     fastmath<contract>
// CHECK:         [[FAST:%\S+]] = math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK:         [[Y:%\S+]] = arith.select %{{.*}}, %{{.*}}, [[FAST]] : f32
// CHECK:         arith.mulf [[Y]], %x : f32

// Not where f32 is made of it as well, nor on the processor.
func.func private @of_both(%x: f32) -> (f16, f32) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %y = math.erfc %x : f32
  %z = arith.mulf %y, %x : f32
  %h = arith.truncf %z : f32 to f16
  func.return %h, %z : f16, f32
}
// CHECK-LABEL: func.func private @of_both
// CHECK-NOT:     math.exp2
// CHECK:         func.return
func.func @of_half_there(%x: f32) -> f16 {
  %y = math.erfc %x : f32
  %h = arith.truncf %y : f32 to f16
  func.return %h : f16
}
// CHECK-LABEL: func.func @of_half_there
// CHECK-NOT:     math.exp2
// CHECK:         func.return
