// RUN: OI_ROUNDTRIP

// Global variables, loads and stores, structured loops and selections.

!buffer = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
spirv.module @m Logical GLSL450 requires #spirv.vce<v1.3, [Shader, Float16, Int64, GroupNonUniformArithmetic, GroupNonUniformBallot, GroupNonUniformShuffle], [SPV_KHR_8bit_storage]> {
  spirv.GlobalVariable @in bind(0, 0) {aliased} : !buffer
  spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
  spirv.GlobalVariable @push : !spirv.ptr<!spirv.struct<(i32 [0], i32 [4])>, PushConstant>
  spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>
  spirv.SpecConstant @sc spec_id(3) = 5 : i32
  spirv.SpecConstant @sd spec_id(4) = true
  spirv.SpecConstant @se = 0.5 : f32
  spirv.SpecConstantComposite @pair (@sc, @sc) : vector<2xi32>
  spirv.SpecConstantComposite @list (@se, @se, @se) : !spirv.array<3 x f32>
  spirv.SpecConstantComposite @mixed (@sc, @sd, @se) : !spirv.struct<(i32, i1, f32)>
  spirv.func @main() "None" {
    %var = spirv.Variable : !spirv.ptr<f32, Function>
    %p = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
    %v = spirv.Load "Input" %p : vector<3xi32>
    %i = spirv.CompositeExtract %v[0 : i32] : vector<3xi32>
    %zero = spirv.Constant 0 : i32
    %t = spirv.Constant true
    %vec = spirv.Constant dense<[1.0, 2.0]> : vector<2xf32>
    %spec = spirv.mlir.referenceof @sc : i32
    %pair = spirv.mlir.referenceof @pair : vector<2xi32>
    %in = spirv.mlir.addressof @in : !buffer
    %a = spirv.AccessChain %in[%zero, %i] : !buffer, i32, i32
    %x = spirv.Load "StorageBuffer" %a ["Aligned", 4] : f32
    %y = spirv.FAdd %x, %x {no_contraction}: f32
    %z = spirv.FOrdLessThan %x, %y : f32
    %s = spirv.Select %z, %x, %y : i1, f32
    %e = spirv.GL.Exp %s : f32
    %fm = spirv.GL.Fma %s, %e, %e : f32
    %bc = spirv.Bitcast %s : f32 to i32
    %cv = spirv.ConvertSToF %bc : i32 to f32
    %ins = spirv.CompositeInsert %bc, %v[1 : i32] : i32 into vector<3xi32>
    %con = spirv.CompositeConstruct %s, %e : (f32, f32) -> vector<2xf32>
    %sh = spirv.VectorShuffle [1: i32, 0: i32] %con, %con : vector<2xf32>, vector<2xf32> -> vector<2xf32>
    %dy = spirv.VectorExtractDynamic %con[%zero] : vector<2xf32>, i32
    %vts = spirv.VectorTimesScalar %con, %s : (vector<2xf32>, f32) -> vector<2xf32>
    %sl = spirv.ShiftLeftLogical %zero, %i : i32, i32
    %g = spirv.GroupNonUniformFAdd "Subgroup" "Reduce" %s : f32
    %el = spirv.GroupNonUniformElect <Subgroup> : i1
    %b = spirv.GroupNonUniformBroadcast <Subgroup> %s, %zero : f32, i32
    %shx = spirv.GroupNonUniformShuffleXor <Subgroup> %s, %zero : f32, i32
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    %at = spirv.AccessChain %in[%zero, %i] : !buffer, i32, i32
    spirv.mlir.selection {
      spirv.BranchConditional %z, ^then, ^merge
    ^then:
      spirv.Store "StorageBuffer" %a, %s : f32
      spirv.Branch ^merge
    ^merge:
      spirv.mlir.merge
    }
    spirv.mlir.loop control(Unroll) {
      spirv.Branch ^header(%zero : i32)
    ^header(%k: i32):
      %c = spirv.SLessThan %k, %i : i32
      spirv.BranchConditional %c, ^body, ^merge
    ^body:
      spirv.Branch ^cont
    ^cont:
      %n = spirv.IAdd %k, %bc : i32
      spirv.Branch ^header(%n : i32)
    ^merge:
      spirv.mlir.merge
    }
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}

// CHECK: spirv.module @m Logical GLSL450 requires #spirv.vce<v1.3, [Shader, Float16, Int64, GroupNonUniformArithmetic, GroupNonUniformBallot, GroupNonUniformShuffle], [SPV_KHR_8bit_storage]> {
// CHECK: spirv.GlobalVariable @in bind(0, 0) {aliased} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK: spirv.GlobalVariable @id built_in("GlobalInvocationId") : !spirv.ptr<vector<3xi32>, Input>
// CHECK: spirv.GlobalVariable @push : !spirv.ptr<!spirv.struct<(i32 [0], i32 [4])>, PushConstant>
// CHECK: spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<256 x f32>, Workgroup>
// CHECK: spirv.SpecConstant @sc spec_id(3) = 5 : i32
// CHECK: spirv.SpecConstant @sd spec_id(4) = true
// CHECK: spirv.SpecConstant @se = 5.000000e-01 : f32
// CHECK: spirv.SpecConstantComposite @pair (@sc, @sc) : vector<2xi32>
// CHECK: spirv.SpecConstantComposite @list (@se, @se, @se) : !spirv.array<3 x f32>
// CHECK: spirv.SpecConstantComposite @mixed (@sc, @sd, @se) : !spirv.struct<(i32, i1, f32)>
// CHECK: spirv.func @main() "None" {
// CHECK: {{%.*}} = spirv.Variable : !spirv.ptr<f32, Function>
// CHECK: {{%.*}} = spirv.mlir.addressof @id : !spirv.ptr<vector<3xi32>, Input>
// CHECK: {{%.*}} = spirv.Load "Input" {{%.*}} : vector<3xi32>
// CHECK: {{%.*}} = spirv.CompositeExtract {{%.*}}[0 : i32] : vector<3xi32>
// CHECK: {{%.*}} = spirv.Constant 0 : i32
// CHECK: {{%.*}} = spirv.Constant true
// CHECK: {{%.*}} = spirv.Constant dense<[1.000000e+00, 2.000000e+00]> : vector<2xf32>
// CHECK: {{%.*}} = spirv.mlir.referenceof @sc : i32
// CHECK: {{%.*}} = spirv.mlir.referenceof @pair : vector<2xi32>
// CHECK: {{%.*}} = spirv.mlir.addressof @in : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK: {{%.*}} = spirv.AccessChain {{%.*}}[{{%.*}}, {{%.*}}] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32
// CHECK: {{%.*}} = spirv.Load "StorageBuffer" {{%.*}} ["Aligned", 4] : f32
// CHECK: {{%.*}} = spirv.FAdd {{%.*}}, {{%.*}} {no_contraction} : f32
// CHECK: {{%.*}} = spirv.FOrdLessThan {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = spirv.Select {{%.*}}, {{%.*}}, {{%.*}} : i1, f32
// CHECK: {{%.*}} = spirv.GL.Exp {{%.*}} : f32
// CHECK: {{%.*}} = spirv.GL.Fma {{%.*}}, {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = spirv.Bitcast {{%.*}} : f32 to i32
// CHECK: {{%.*}} = spirv.ConvertSToF {{%.*}} : i32 to f32
// CHECK: {{%.*}} = spirv.CompositeInsert {{%.*}}, {{%.*}}[1 : i32] : i32 into vector<3xi32>
// CHECK: {{%.*}} = spirv.CompositeConstruct {{%.*}}, {{%.*}} : (f32, f32) -> vector<2xf32>
// CHECK: {{%.*}} = spirv.VectorShuffle [1 : i32, 0 : i32] {{%.*}}, {{%.*}} : vector<2xf32>, vector<2xf32> -> vector<2xf32>
// CHECK: {{%.*}} = spirv.VectorExtractDynamic {{%.*}}[{{%.*}}] : vector<2xf32>, i32
// CHECK: {{%.*}} = spirv.VectorTimesScalar {{%.*}}, {{%.*}} : (vector<2xf32>, f32) -> vector<2xf32>
// CHECK: {{%.*}} = spirv.ShiftLeftLogical {{%.*}}, {{%.*}} : i32, i32
// CHECK: {{%.*}} = spirv.GroupNonUniformFAdd "Subgroup" "Reduce" {{%.*}} : f32
// CHECK: {{%.*}} = spirv.GroupNonUniformElect <Subgroup> : i1
// CHECK: {{%.*}} = spirv.GroupNonUniformBroadcast <Subgroup> {{%.*}}, {{%.*}} : f32, i32
// CHECK: {{%.*}} = spirv.GroupNonUniformShuffleXor <Subgroup> {{%.*}}, {{%.*}} : f32, i32
// CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
// CHECK: {{%.*}} = spirv.AccessChain {{%.*}}[{{%.*}}, {{%.*}}] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>, i32, i32
// CHECK: spirv.mlir.selection {
// CHECK: spirv.BranchConditional {{%.*}}, {{\^.*}}, {{\^.*}}
// CHECK: spirv.Store "StorageBuffer" {{%.*}}, {{%.*}} : f32
// CHECK: spirv.Branch {{\^.*}}
// CHECK: spirv.mlir.merge
// CHECK: spirv.mlir.loop control(Unroll) {
// CHECK: spirv.Branch {{\^.*}}({{%.*}} : i32)
// CHECK: {{%.*}} = spirv.SLessThan {{%.*}}, {{%.*}} : i32
// CHECK: spirv.BranchConditional {{%.*}}, {{\^.*}}, {{\^.*}}
// CHECK: spirv.Branch {{\^.*}}
// CHECK: {{%.*}} = spirv.IAdd {{%.*}}, {{%.*}} : i32
// CHECK: spirv.Branch {{\^.*}}({{%.*}} : i32)
// CHECK: spirv.mlir.merge
// CHECK: spirv.Return
// CHECK: spirv.EntryPoint "GLCompute" @main, @id
// CHECK: spirv.ExecutionMode @main "LocalSize", 64, 1, 1
