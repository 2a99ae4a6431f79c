// RUN: openinfer-opt %s --split-input-file --verify-diagnostics -t spirv-text | filecheck %s
// RUN: openinfer-opt %s -t spirv --verify-diagnostics | filecheck %s --check-prefix=TWO
// TWO: OI0762{{.*}}2 'spirv.module'
// RUN: not openinfer-opt %s --split-input-file -t spirv 2>&1 | filecheck %s --check-prefix=EACH

// EACH: OI0762{{.*}}does not say which version
// EACH: OI0762{{.*}}0 'spirv.module'
// CHECK: OI0762{{.*}}does not say which version
// CHECK: requires #spirv.vce
spirv.module Logical GLSL450 {
  spirv.SpecConstant @sc = 5 : i32
}

// -----

// CHECK: OI0762{{.*}}0 'spirv.module'
func.func private @f()

// -----

// A module without an entry point is none that a driver takes.
// CHECK: OI0761{{.*}}0 OpEntryPoint
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {
  spirv.SpecConstant @sc = 5 : i32
}
