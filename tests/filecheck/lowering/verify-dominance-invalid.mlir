// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: verify-dominance-invalid.mlir:5:3: error[OI0963]: operand 1 of 'arith.addi' is %c
func.func @later(%a: i32) -> i32 {
  %b = arith.addi %a, %c : i32
  %c = arith.addi %a, %b : i32
  func.return %b : i32
}
// -----
// CHECK: verify-dominance-invalid.mlir:17:3: error[OI0963]: operand 0 of 'func.return' is %s
func.func @other_path(%c: i1, %a: i32) -> i32 {
  cf.cond_br %c, ^left, ^join
^left:
  %s = arith.addi %a, %a : i32
  cf.br ^join
^join:
  func.return %s : i32
}
