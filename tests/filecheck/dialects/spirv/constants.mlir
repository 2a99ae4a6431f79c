// RUN: OI_ROUNDTRIP

// Constants, calls, specialization constants, named structs.

!cA = !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>
!cB = !spirv.coopmatrix<32x16xi8, Subgroup, MatrixB>
!cC = !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
func.func @f(%a: !cA, %b: !cB, %c: !cC, %pp : !spirv.ptr<!spirv.struct<foo, (f32 [0, NonWritable], !spirv.array<4 x f32, stride=4> [4])>, StorageBuffer>, %i: i32) {
  %20 = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned|BSigned|AccSat> : !cA, !cB -> !cC
  %k = spirv.Constant [dense<1.0> : vector<2xf32>, dense<2.0> : vector<2xf32>] : !spirv.array<2 x vector<2xf32>>
  %k2 = spirv.Constant [1.0 : f32, 2.0 : f32] : !spirv.array<2 x f32>
  %x = spirv.CompositeExtract %k2[1 : i32] : !spirv.array<2xf32>
  return
}
spirv.module PhysicalStorageBuffer64 Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel], []> {
  spirv.SpecConstant @sc spec_id(3) = 5 : i32
  spirv.SpecConstant @sd = 1.5 : f32
  spirv.GlobalVariable @g initializer(@sd) : !spirv.ptr<f32, Private>
  spirv.func @h(%a : f32) -> f32 "Inline|Pure" {
    %1 = spirv.Constant 1 : i32
    spirv.ReturnValue %a : f32
  }
  spirv.func @m() "None" {
    %f = spirv.Constant 0x7FC00000 : f32
    %0 = spirv.FunctionCall @h(%f) : (f32) -> f32
    %b = spirv.Constant true
    spirv.BranchConditional %b [3, 4], ^a, ^c
  ^a:
    spirv.Branch ^c
  ^c:
    spirv.Unreachable
  }
}

// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixMulAdd {{%.*}}, {{%.*}}, {{%.*}}, <ASigned|BSigned|AccSat> : !spirv.coopmatrix<16x32xi8, Subgroup, MatrixA>, !spirv.coopmatrix<32x16xi8, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xi32, Subgroup, MatrixAcc>
// CHECK: {{%.*}} = spirv.Constant [dense<1.000000e+00> : vector<2xf32>, dense<2.000000e+00> : vector<2xf32>] : !spirv.array<2 x vector<2xf32>>
// CHECK: {{%.*}} = spirv.Constant [1.000000e+00 : f32, 2.000000e+00 : f32] : !spirv.array<2 x f32>
// CHECK: {{%.*}} = spirv.CompositeExtract {{%.*}}[1 : i32] : !spirv.array<2 x f32>
// CHECK: spirv.module PhysicalStorageBuffer64 Vulkan requires #spirv.vce<v1.6, [Shader, VulkanMemoryModel], []> {
// CHECK: spirv.SpecConstant @sc spec_id(3) = 5 : i32
// CHECK: spirv.SpecConstant @sd = 1.500000e+00 : f32
// CHECK: spirv.GlobalVariable @g initializer(@sd) : !spirv.ptr<f32, Private>
// CHECK: spirv.func @h({{%.*}}: f32) -> f32 "Inline|Pure" {
// CHECK: {{%.*}} = spirv.Constant 1 : i32
// CHECK: spirv.ReturnValue {{%.*}} : f32
// CHECK: spirv.func @m() "None" {
// CHECK: {{%.*}} = spirv.Constant 0x7fc00000 : f32
// CHECK: {{%.*}} = spirv.FunctionCall @h({{%.*}}) : (f32) -> f32
// CHECK: {{%.*}} = spirv.Constant true
// CHECK: spirv.BranchConditional {{%.*}} [3, 4], {{\^.*}}, {{\^.*}}
// CHECK: spirv.Branch {{\^.*}}
// CHECK: spirv.Unreachable
