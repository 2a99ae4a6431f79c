// RUN: openinfer-opt %s -p expand-f8 | filecheck %s

// Memory holds bytes. f8E5M2 is the upper half of an f16, which the machine widens.
// CHECK-LABEL: func.func @widen(%x: memref<?xi8>, %i: index) -> vector<16xf32>
// CHECK-NEXT: %a = vector.load %x[%i] : memref<?xi8>, vector<16xi8>
// CHECK-NEXT: %[[S:\S+]] = arith.extui %a : vector<16xi8> to vector<16xi16>
// CHECK-NEXT: %[[C:\S+]] = arith.constant dense<8> : vector<16xi16>
// CHECK-NEXT: %[[U:\S+]] = arith.shli %[[S]], %[[C]] : vector<16xi16>
// CHECK-NEXT: %[[H:\S+]] = arith.bitcast %[[U]] : vector<16xi16> to vector<16xf16>
// CHECK-NEXT: %b = arith.extf %[[H]] : vector<16xf16> to vector<16xf32>
// CHECK-NEXT: func.return %b
func.func @widen(%x: memref<?xf8E5M2>, %i: index) -> vector<16xf32> {
  %a = vector.load %x[%i] : memref<?xf8E5M2>, vector<16xf8E5M2>
  %b = arith.extf %a : vector<16xf8E5M2> to vector<16xf32>
  func.return %b : vector<16xf32>
}

// f8E4M3FN has no infinity: what is too large becomes the one code of NaN, as the least of two does.
// CHECK-LABEL: func.func @narrow(%x: f32) -> i8
// CHECK: arith.bitcast %x : f32 to i32
// CHECK: arith.addf
// CHECK: arith.cmpi ult
// CHECK: arith.select
// CHECK: %[[MOST:\S+]] = arith.constant 127 : i32
// CHECK-NEXT: arith.minui %{{\S+}}, %[[MOST]] : i32
// CHECK-NOT: arith.truncf
// CHECK: arith.trunci %{{\S+}} : i32 to i8
func.func @narrow(%x: f32) -> f8E4M3FN {
  %a = arith.truncf %x : f32 to f8E4M3FN
  func.return %a : f8E4M3FN
}

// Arithmetic is done in f32 and rounded once; constants are their bits; what moves a value moves a byte.
// CHECK-LABEL: func.func @compute(%x: i8, %c: i1) -> i8
// CHECK: %[[ONE:\S+]] = arith.constant 60 : i8
// CHECK-COUNT-2: arith.extf {{.*}} : f16 to f32
// CHECK: arith.addf %{{\S+}}, %{{\S+}} : f32
// CHECK: %[[B:\S+]] = arith.trunci
// CHECK: arith.select %c, %[[B]], %x : i8
func.func @compute(%x: f8E5M2, %c: i1) -> f8E5M2 {
  %one = arith.constant 1.0 : f8E5M2
  %a = arith.addf %x, %one : f8E5M2
  %b = arith.select %c, %a, %x : f8E5M2
  func.return %b : f8E5M2
}

// From f64 by way of an f32 whose last bit says that something was cut off: one rounding.
// CHECK-LABEL: func.func @once
// CHECK: arith.truncf %x : f64 to f32
// CHECK: arith.cmpf ueq
// CHECK: arith.ori
// CHECK-NOT: f8
func.func @once(%x: f64) -> f8E5M2 {
  %a = arith.truncf %x : f64 to f8E5M2
  func.return %a : f8E5M2
}

// Other floats stay as they are.
// CHECK-LABEL: func.func @others(%x: f16, %y: bf16) -> f32
// CHECK-NEXT: arith.extf %x : f16 to f32
// CHECK-NEXT: arith.extf %y : bf16 to f32
// CHECK-NEXT: arith.addf
// CHECK-NEXT: func.return
func.func @others(%x: f16, %y: bf16) -> f32 {
  %a = arith.extf %x : f16 to f32
  %b = arith.extf %y : bf16 to f32
  %c = arith.addf %a, %b : f32
  func.return %c : f32
}
