// RUN: openinfer-opt %s -p block-sums --split-input-file | filecheck %s

// A sum whose length only the run knows: the loop as it was where it is short, else blocks of 56 additions,
// whose sums wait in f64.
// CHECK-LABEL: func.func @unknown
// CHECK: %[[ROOM:\S+]] = memref.alloca() {alignment = 64 : i64} : memref<1xf64>
// CHECK: %[[SHORT:\S+]] = arith.cmpi sle, %n, %c64 : index
// CHECK-NEXT: %[[WHOLE:\S+]] = scf.if %[[SHORT]] -> (f32)
// CHECK-NEXT: %[[SUM:\S+]] = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32)
// CHECK: scf.yield %[[SUM]] : f32
// CHECK-NEXT: } else {
// CHECK: %[[SPAN:\S+]] = arith.constant 56 : index
// CHECK: %[[V:\S+]] = scf.for %[[BLOCK:\S+]] = %{{\S+}} to %n step %[[SPAN]] iter_args(%[[START:\S+]] = %zero) -> (f32)
// CHECK: %[[NEXT:\S+]] = arith.addi %[[BLOCK]]
// CHECK-NEXT: %[[END:\S+]] = arith.minsi %[[NEXT]], %n
// CHECK-NEXT: %[[PART:\S+]] = scf.for %{{\S+}} = %[[BLOCK]] to %[[END]] step %one iter_args(%[[OLD:\S+]] = %[[START]]) -> (f32)
// CHECK: arith.addf %[[OLD]]
// CHECK: %[[MORE:\S+]] = arith.cmpi slt, %[[END]], %n
// CHECK-NEXT: scf.if %[[MORE]]
// CHECK: arith.extf %[[PART]] : f32 to f64
// CHECK: memref.load %[[ROOM]]
// CHECK: arith.select
// CHECK: %[[ALL:\S+]] = arith.addf %{{\S+}}, %{{\S+}} : f64
// CHECK: memref.store %[[ALL]], %[[ROOM]]
// CHECK: arith.constant -0.000000e+00 : f32
// CHECK: else
// CHECK-NEXT: scf.yield %[[PART]] : f32
// CHECK: arith.truncf %{{\S+}} : f64 to f32
// CHECK: func.return %[[WHOLE]]
func.func @unknown(%x: memref<?xf32>, %n: index) -> f32 {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  }
  func.return %s : f32
}

// -----

// Sums that are known to be short stay one loop, and so does what is no sum of floats; the notes of
// schedules go.
// CHECK-LABEL: func.func @short
// CHECK-NOT: f64
// CHECK-NOT: openinfer.rounds
// CHECK-COUNT-4: scf.for
// CHECK-NOT: scf.for
func.func @short(%x: memref<?xf32>, %n: index) -> (f32, f32, f32, i32) {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %many = arith.constant 64 : index
  %zero = arith.constant 0.000000e+00 : f32
  %izero = arith.constant 0 : i32
  %s = scf.for %k = %none to %many step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  }
  %few = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  } {openinfer.rounds = 3 : index}
  // Something else looks at the sum on the way.
  %m = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    %top = arith.maximumf %new, %old : f32
    scf.yield %top : f32
  }
  %i = scf.for %k = %none to %n step %one iter_args(%old = %izero) -> (i32) {
    %new = arith.addi %old, %old : i32
    scf.yield %new : i32
  }
  func.return %s, %few, %m, %i : f32, f32, f32, i32
}

// -----

// Known lengths: 65 additions go in two blocks. The largest element, which the loop carries as well,
// goes through all blocks.
// CHECK-LABEL: func.func @known
// CHECK: scf.for %{{\S+}} = %{{\S+}} to %c65 step %c56 iter_args(%{{\S+}} = %zero, %[[TOP:\S+]] = %zero) -> (vector<4xf32>, vector<4xf32>)
// CHECK: %[[ONE:\S+]], %[[TOPS:\S+]] = scf.for %k = %{{\S+}} to %{{\S+}} step %one iter_args(%old = %{{\S+}}, %top = %[[TOP]])
// CHECK: %[[KEPT:\S+]] = scf.if
// CHECK: vector.store %{{\S+}}, %{{\S+}}[%{{\S+}}] : memref<4xf64>, vector<4xf64>
// CHECK: scf.yield %[[KEPT]], %[[TOPS]]
// CHECK-NOT: scf.if
func.func @known(%x: memref<?xf32>) -> (vector<4xf32>, vector<4xf32>) {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %many = arith.constant 65 : index
  %zero = arith.constant dense<0.000000e+00> : vector<4xf32>
  %s, %t = scf.for %k = %none to %many step %one iter_args(%old = %zero, %top = %zero) -> (vector<4xf32>, vector<4xf32>) {
    %v = vector.load %x[%k] : memref<?xf32>, vector<4xf32>
    %new = vector.fma %v, %v, %old : vector<4xf32>
    %max = arith.maximumf %v, %top : vector<4xf32>
    scf.yield %new, %max : vector<4xf32>, vector<4xf32>
  }
  func.return %s, %t : vector<4xf32>, vector<4xf32>
}

// -----

// Products have as many accumulators as registers: up to 8192 of them stay one loop, more go in blocks of 128.
// Parts of a sum side by side count together.
// CHECK-LABEL: func.func @products
// CHECK: %c2048 = arith.constant 2048 : index
// CHECK: %[[SHORT:\S+]] = arith.cmpi sle, %n, %c2048 : index
// CHECK-NEXT: scf.if %[[SHORT]]
// CHECK-NEXT: scf.for %k
// CHECK: } else {
// CHECK: %[[SPAN:\S+]] = arith.constant 128 : index
// CHECK: scf.for %{{\S+}} = %{{\S+}} to %n step %[[SPAN]]
// CHECK: scf.for %k
// CHECK: %t = scf.for %{{\S+}} = %none to %many step
// CHECK-NOT: openinfer.sums
func.func @products(%x: memref<?xf32>, %n: index) -> (f32, f32) {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %many = arith.constant 8192 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  } {openinfer.sums = "products", openinfer.beside = 4 : index}
  %t = scf.for %k = %none to %many step %one iter_args(%old = %zero) -> (f32) {
    %v = memref.load %x[%k] : memref<?xf32>
    %new = arith.addf %old, %v : f32
    scf.yield %new : f32
  } {openinfer.sums = "products"}
  func.return %s, %t : f32, f32
}

// -----

// Around a loop whose rounds only the run knows, additions are counted: when there are 64 the sum is
// put away. The inner loop goes in blocks itself.
// CHECK-LABEL: func.func @nested
// CHECK: scf.for %i = %none to %m step %one iter_args(%old = %zero, %[[COUNT:\S+]] = %{{\S+}}, %[[BLOCKS:\S+]] = %{{\S+}}) -> (f32, index, index)
// CHECK: scf.for
// CHECK: scf.for %k
// CHECK: %[[HERE:\S+]] = arith.addi %[[COUNT]]
// CHECK: %[[FULL:\S+]] = arith.cmpi sge, %[[HERE]]
// CHECK-NEXT: scf.if %[[FULL]] -> (f32, index, index)
// CHECK: arith.cmpi eq, %[[BLOCKS]]
func.func @nested(%x: memref<?x?xf32>, %m: index, %n: index) -> f32 {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.000000e+00 : f32
  %s = scf.for %i = %none to %m step %one iter_args(%old = %zero) -> (f32) {
    %row = scf.for %k = %none to %n step %one iter_args(%sum = %old) -> (f32) {
      %v = memref.load %x[%i, %k] : memref<?x?xf32>
      %new = arith.addf %sum, %v : f32
      scf.yield %new : f32
    }
    scf.yield %row : f32
  }
  func.return %s : f32
}

// -----

// Sums of f64 wait with what rounding took from them.
// CHECK-LABEL: func.func @wide
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<2xf64>
// CHECK: %[[OLD:\S+]] = arith.select
// CHECK-NEXT: %[[SUM:\S+]] = arith.addf %[[OLD]], %[[NEW:\S+]] : f64
// CHECK-NEXT: %[[OF_NEW:\S+]] = arith.subf %[[SUM]], %[[OLD]]
// CHECK: arith.subf %[[NEW]], %[[OF_NEW]]
func.func @wide(%x: memref<?xf64>, %n: index) -> f64 {
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %zero = arith.constant 0.000000e+00 : f64
  %s = scf.for %k = %none to %n step %one iter_args(%old = %zero) -> (f64) {
    %v = memref.load %x[%k] : memref<?xf64>
    %new = arith.addf %old, %v : f64
    scf.yield %new : f64
  }
  func.return %s : f64
}
