// RUN: not openinfer-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK: 'flag' is not a valid SlotKind
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<flag>}) { func.return }
// -----
// CHECK: a slot input has no name
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<input>}) { func.return }
// -----
// CHECK: a slot errors has a name
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<errors "x">}) { func.return }
// -----
// CHECK: a slot weight has no number
func.func @step(%x: memref<4xf32> {openinfer.arg = #nn.slot<weight>}) { func.return }
// -----
// CHECK: openinfer.arg is "weight 0", expected #nn.slot<…>
module attributes {openinfer.target = "generic"} {
  nn.interface {weights = [{sources = ["W"], variable = "W"}]}
  func.func @step(%W: memref<4xf32> {openinfer.arg = "weight 0"}) { func.return }
}
