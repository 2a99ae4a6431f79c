// RUN: openinfer-opt %s -p verify-dominance | filecheck %s

// Uses below the definition, in nested regions and in dominated blocks are accepted.

// CHECK-LABEL: func.func @straight
func.func @straight(%a: i32) -> i32 {
  // CHECK: %b = arith.addi %a, %a : i32
  %b = arith.addi %a, %a : i32
  %c = arith.muli %b, %a : i32
  func.return %c : i32
}

// CHECK-LABEL: func.func @nested
func.func @nested(%n: index, %x: f32) -> f32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %sum = scf.for %i = %zero to %n step %one iter_args(%s = %x) -> (f32) {
    %t = arith.addf %s, %x : f32
    scf.yield %t : f32
  }
  func.return %sum : f32
}

// CHECK-LABEL: func.func @branches
func.func @branches(%c: i1, %a: i32) -> i32 {
  %b = arith.addi %a, %a : i32
  cf.cond_br %c, ^left(%b : i32), ^right
^left(%p: i32):
  %l = arith.addi %p, %b : i32
  cf.br ^join(%l : i32)
^right:
  cf.br ^left(%a : i32)
^join(%j: i32):
  %k = arith.addi %j, %l : i32
  func.return %k : i32
}
