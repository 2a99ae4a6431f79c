// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s
// RUN: not openinfer-opt %s -p no-such-pass 2>&1 | filecheck %s --check-prefix=USAGE

// USAGE: error[OI0590]: there is no pass 'no-such-pass'
// USAGE-NEXT: fix:

// Each part is read by itself; a mistake in one does not hide the others.

// CHECK: split-errors.mlir:13:3: error[OI0961]: Operation foo.bar is not registered
// CHECK-NEXT: %0 = foo.bar %a : i32
// CHECK-NEXT: {{ +\^}}
func.func @unknown(%a: i32) {
  %0 = foo.bar %a : i32
  func.return
}
// -----
// CHECK: split-errors.mlir:21:3: error[OI0963]: 'func.return'
// CHECK-SAME: (from mlp.oi:7:3)
func.func @returns(%a: i32) -> i64 {

  func.return %a : i32 loc("mlp.oi":7:3)
}
