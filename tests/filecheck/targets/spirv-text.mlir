// RUN: openinfer-opt %s -t spirv-text | filecheck %s
// RUN: openinfer-opt %s -t spirv -o %t.spv
// RUN: python3 -c "import sys; d = open(sys.argv[1], 'rb').read(); print(d[:4].hex(), len(d) % 4, d.count(b'main'))" %t.spv | filecheck %s --check-prefix=WORDS
// RUN: openinfer-opt %s -t spirv | python3 -c "import sys; print(sys.stdin.buffer.read() == open(sys.argv[1], 'rb').read())" %t.spv | filecheck %s --check-prefix=SAME

// WORDS: 03022307 0 2
// SAME: True

spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {
  spirv.GlobalVariable @out bind(0, 1) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : i32
    %half = spirv.Constant 0.5 : f32
    %out = spirv.mlir.addressof @out : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
    %p = spirv.AccessChain %out[%zero, %zero] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32
    spirv.Store "StorageBuffer" %p, %half : f32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}

// CHECK:      ; SPIR-V
// CHECK-NEXT: ; Version: 1.3
// CHECK:      OpCapability Shader
// CHECK-NEXT: OpMemoryModel Logical GLSL450
// CHECK-NEXT: OpEntryPoint GLCompute [[MAIN:%[0-9]+]] "main"
// CHECK-NEXT: OpExecutionMode [[MAIN]] LocalSize 64 1 1
// CHECK:      OpDecorate {{%[0-9]+}} ArrayStride 4
// CHECK:      [[FLOAT:%[0-9]+]] = OpTypeFloat 32
// CHECK:      [[HALF:%[0-9]+]] = OpConstant [[FLOAT]] 0.5
// CHECK:      [[MAIN]] = OpFunction
// CHECK:      [[P:%[0-9]+]] = OpAccessChain
// CHECK-NEXT: OpStore [[P]] [[HALF]]
// CHECK-NEXT: OpReturn
// CHECK-NEXT: OpFunctionEnd
