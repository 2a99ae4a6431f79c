// RUN: OI_ROUNDTRIP
// RUN: openinfer-opt %s -t spirv-text | filecheck %s --check-prefix WORDS

// A selection by a number. MLIR has `spirv.Switch` since its version 22; its text is that of it.

spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {
  spirv.func @main() "None" {
    %n = spirv.Constant 3 : i32
    %x = spirv.Constant 2.0 : f32
    %v = spirv.Variable : !spirv.ptr<f32, Function>
    spirv.mlir.selection {
      spirv.Switch %n : i32, [
        default: ^merge,
        0: ^first,
        2147483647: ^first,
        -7: ^second(%x : f32)
      ]
    ^first:
      // It falls through.
      spirv.Branch ^second(%x : f32)
    ^second(%y: f32):
      spirv.Store "Function" %v, %y : f32
      spirv.Branch ^merge
    ^merge:
      spirv.mlir.merge
    }
    spirv.mlir.selection {
      spirv.Switch %n : i32, [
        default: ^merge
      ]
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 1, 1, 1
}

// CHECK: spirv.mlir.selection {
// CHECK-NEXT: spirv.Switch {{%.*}} : i32, [
// CHECK-NEXT: default: [[MERGE:\^.*]],
// CHECK-NEXT: 0: [[FIRST:\^[^(,]*]],
// CHECK-NEXT: 2147483647: [[FIRST]],
// CHECK-NEXT: -7: [[SECOND:\^[^(,]*]]({{%.*}} : f32)
// CHECK-NEXT: ]
// CHECK: spirv.Branch [[SECOND]]({{%.*}} : f32)
// CHECK: spirv.mlir.merge
// CHECK: spirv.Switch {{%.*}} : i32, [
// CHECK-NEXT: default: {{\^.*}}
// CHECK-NEXT: ]
// WORDS: [[N:%[0-9]+]] = OpConstant {{%[0-9]+}} 3
// WORDS: OpSelectionMerge [[MERGE:%[0-9]+]] None
// WORDS-NEXT: OpSwitch [[N]] [[MERGE]] 0 [[FIRST:%[0-9]+]] 2147483647 [[FIRST]] 4294967289 [[SECOND:%[0-9]+]]
// WORDS: [[FIRST]] = OpLabel
// WORDS-NEXT: OpBranch [[SECOND]]
// WORDS-NEXT: [[SECOND]] = OpLabel
// WORDS: OpPhi
// WORDS: OpSwitch [[N]] %{{[0-9]+$}}
