// RUN: openinfer-opt %s -p prepare-constants --split-input-file | filecheck %s

// A buffer that is filled with a constant and only read is a weight, also behind a view and inside of a
// loop; equal ones are one.
// CHECK: weights = [
// CHECK-NEXT: {variable = "W", sources = ["w"]},
// CHECK-NEXT: {variable = "", sources = [], prepare = "prepare_1"}
// CHECK-LABEL: func.func @step
// CHECK-SAME: %w: memref<8xf32> {openinfer.arg = #nn.slot<weight 0>}, %c: memref<8xf32> {openinfer.arg = #nn.slot<weight 1>}
// CHECK-NOT: linalg.fill
// CHECK-NOT: memref.alloc
// CHECK: nn.softmax(%c) outs(%y)
// CHECK: scf.for
// CHECK-NEXT: %v = nn.view %c
// CHECK-NEXT: memref.copy %v, %z
// CHECK: func.return
// CHECK-LABEL: func.func @prepare_0
// CHECK-LABEL: func.func @prepare_1(%result: memref<8xf32>)
// CHECK-NEXT: %[[HALF:\S+]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT: linalg.fill ins(%[[HALF]] : f32) outs(%result : memref<8xf32>)
// CHECK-NEXT: func.return
// CHECK-NOT: func.func
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {weights = [{variable = "W", sources = ["w"]}]}
func.func @step(%y: memref<8xf32>, %z: memref<2x4xf32>, %w: memref<8xf32> {openinfer.arg = #nn.slot<weight 0>}) {
  %half = arith.constant 0.5 : f32
  %c = memref.alloc() : memref<8xf32>
  linalg.fill ins(%half : f32) outs(%c : memref<8xf32>)
  nn.softmax(%c) outs(%y) {axis = 0 : i64} : (memref<8xf32>, memref<8xf32>) -> ()
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %d = memref.alloc() : memref<8xf32>
    linalg.fill ins(%half : f32) outs(%d : memref<8xf32>)
    %v = nn.view %d[] : memref<8xf32> to memref<2x4xf32>
    memref.copy %v, %z : memref<2x4xf32> to memref<2x4xf32>
  }
  func.return
}
func.func @prepare_0(%x: memref<8xf32>) {
  func.return
}
}
// -----
// What is written again, given as a result, of a size that the step knows, or filled with a number that
// the step computes is filled in the step. A zero of another sign is another constant.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-4: linalg.fill
// CHECK: nn.softmax(%{{\S+}}) outs(%x)
// CHECK-NEXT: nn.softmax(%{{\S+}}) outs(%x)
// CHECK-LABEL: func.func @prepare_0
// CHECK: arith.constant 0.000000e+00
// CHECK-LABEL: func.func @prepare_1
// CHECK: arith.constant -0.000000e+00
// CHECK-NOT: func.func
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {weights = []}
func.func @step(%x: memref<8xf32>, %u: memref<?xf32>, %n: index, %k: f32) {
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant -0.0 : f32
  %sum = memref.alloc() : memref<8xf32>
  linalg.fill ins(%zero : f32) outs(%sum : memref<8xf32>)
  memref.copy %x, %sum : memref<8xf32> to memref<8xf32>
  %y = memref.alloc() : memref<8xf32>
  linalg.fill ins(%zero : f32) outs(%y : memref<8xf32>)
  nn.publish %y "y" : memref<8xf32>
  %open = memref.alloc(%n) : memref<?xf32>
  linalg.fill ins(%zero : f32) outs(%open : memref<?xf32>)
  memref.copy %open, %u : memref<?xf32> to memref<?xf32>
  %late = memref.alloc() : memref<8xf32>
  linalg.fill ins(%k : f32) outs(%late : memref<8xf32>)
  nn.softmax(%late) outs(%x) {axis = 0 : i64} : (memref<8xf32>, memref<8xf32>) -> ()
  %a = memref.alloc() : memref<8xf32>
  linalg.fill ins(%zero : f32) outs(%a : memref<8xf32>)
  nn.softmax(%a) outs(%x) {axis = 0 : i64} : (memref<8xf32>, memref<8xf32>) -> ()
  %b = memref.alloc() : memref<8xf32>
  linalg.fill ins(%minus : f32) outs(%b : memref<8xf32>)
  nn.softmax(%b) outs(%x) {axis = 0 : i64} : (memref<8xf32>, memref<8xf32>) -> ()
  func.return
}
}
// -----
// What is computed of constants and places alone is a weight, too; a size or an input makes it the step's.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %powers: memref<4xf32> {openinfer.arg = #nn.slot<weight 0>}
// CHECK: nn.softmax(%powers) outs(%x)
// CHECK-NEXT: nn.size
// CHECK-NEXT: memref.alloc
// CHECK-NEXT: linalg.generic
// CHECK: linalg.generic {{.*}} ins(%powers
// CHECK: func.func @prepare_0(%result: memref<4xf32>)
// CHECK-NEXT: %[[SCALE:\S+]] = arith.constant 5.000000e-01 : f32
// CHECK-NEXT: linalg.generic {{.*}} outs(%result : memref<4xf32>)
// CHECK: linalg.index 0
// CHECK: arith.mulf %{{\S+}}, %[[SCALE]]
// CHECK-NOT: func.func
#row = affine_map<(d0) -> (d0)>
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {weights = []}
func.func @step(%x: memref<4xf32>) {
  %scale = arith.constant 0.5 : f32
  %powers = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]} outs(%powers : memref<4xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %w = arith.index_cast %i : index to i64
    %f = arith.sitofp %w : i64 to f32
    %s = arith.mulf %f, %scale : f32
    %r = math.exp %s : f32
    linalg.yield %r : f32
  }
  nn.softmax(%powers) outs(%x) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  %n = nn.size "N"
  %sized = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel"]} outs(%sized : memref<4xf32>) {
  ^bb0(%o: f32):
    %w = arith.index_cast %n : index to i64
    %f = arith.sitofp %w : i64 to f32
    linalg.yield %f : f32
  }
  nn.softmax(%sized) outs(%x) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  %y = memref.alloc() : memref<4xf32>
  linalg.generic {indexing_maps = [#row, #row, #row], iterator_types = ["parallel"]} ins(%powers, %x : memref<4xf32>, memref<4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  }
  nn.softmax(%y) outs(%x) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  func.return
}
}
// -----
// A large constant shares the arena.
// CHECK-LABEL: func.func @step
// CHECK: linalg.fill
// CHECK-NOT: func.func
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {weights = []}
func.func @step(%y: memref<5000000xf32>) {
  %half = arith.constant 0.5 : f32
  %c = memref.alloc() : memref<5000000xf32>
  linalg.fill ins(%half : f32) outs(%c : memref<5000000xf32>)
  nn.softmax(%c) outs(%y) {axis = 0 : i64} : (memref<5000000xf32>, memref<5000000xf32>) -> ()
  func.return
}
}
