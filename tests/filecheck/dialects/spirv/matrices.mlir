// RUN: OI_ROUNDTRIP

// What the words of a larger module are held against MLIR with: matrices, nested loops, calls, atomics.

!buf = !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0, NonWritable])>, StorageBuffer>
!hb = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
!cA = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
!cB = !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
!cC = !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Int8, Int64, Int16, Float16, Float64, CooperativeMatrixKHR, GroupNonUniformClustered, GroupNonUniformArithmetic, GroupNonUniformBallot, GroupNonUniformShuffleRelative, DotProduct, DotProductInput4x8BitPacked, VulkanMemoryModel, StorageBuffer8BitAccess, StorageBuffer16BitAccess], [SPV_KHR_cooperative_matrix]> {
  spirv.GlobalVariable @a bind(0, 3) : !buf
  spirv.GlobalVariable @h bind(0, 4) {restrict} : !hb
  spirv.GlobalVariable @t : !spirv.ptr<!spirv.struct<(!spirv.array<64 x vector<4xf32>, stride=16> [0], i32 [1024])>, Workgroup>
  spirv.GlobalVariable @ctr bind(1, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
  spirv.GlobalVariable @lid built_in("LocalInvocationIndex") : !spirv.ptr<i32, Input>
  spirv.func @helper(%x: f32, %y : f32) -> f32 "Inline" {
    %s = spirv.FAdd %x, %y : f32
    spirv.ReturnValue %s : f32
  }
  spirv.func @main() "None" {
    %u = spirv.Undef : f32
    %u2 = spirv.Undef : f32
    %lid = spirv.mlir.addressof @lid : !spirv.ptr<i32, Input>
    %i = spirv.Load "Input" %lid : i32
    %0 = spirv.Constant 0 : i32
    %8 = spirv.Constant 8 : i32
    %b = spirv.ULessThan %i, %8 : i32
    %neg = spirv.Constant -3 : i8
    %neg16 = spirv.Constant -3 : si16
    %l = spirv.Constant 0x123456789ABC : i64
    %d = spirv.Constant 1.5 : f64
    %nan = spirv.Constant 0x7E00 : f16
    %arr = spirv.Constant [1.0 : f32, 2.0 : f32] : !spirv.array<2 x f32>
    %dv = spirv.Constant dense<7> : vector<4xi32>
    %m = spirv.mlir.addressof @h : !hb
    %p = spirv.AccessChain %m[%0, %0] : !hb, i32, i32
    %A = spirv.KHR.CooperativeMatrixLoad %p, %8, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !cA
    %B = spirv.KHR.CooperativeMatrixLoad %p, %8, <ColumnMajor>, <Volatile> : !spirv.ptr<f16, StorageBuffer>, i32 -> !cB
    %z = spirv.Constant 0.0 : f32
    %C = spirv.CompositeConstruct %z : (f32) -> !cC
    %v = spirv.Variable init(%z) : !spirv.ptr<f32, Function>
    %D = spirv.KHR.CooperativeMatrixMulAdd %A, %B, %C : !cA, !cB -> !cC
    %len = spirv.KHR.CooperativeMatrixLength : !cC
    %h16 = spirv.KHR.CooperativeMatrixLoad %p, %8, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
    spirv.KHR.CooperativeMatrixStore %p, %h16, %8, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>, i32
    %c = spirv.mlir.addressof @ctr : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
    %cp = spirv.AccessChain %c[%0, %i] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>, i32, i32
    %at = spirv.AtomicIAdd <Device> <AcquireRelease> %cp, %8 : !spirv.ptr<i32, StorageBuffer>
    %at2 = spirv.AtomicCompareExchange <Workgroup> <Release> <Acquire> %cp, %8, %i : !spirv.ptr<i32, StorageBuffer>
    %r = spirv.GroupNonUniformIAdd "Subgroup" "ClusteredReduce" %i cluster_size(%8) : i32
    %bal = spirv.GroupNonUniformBallot <Subgroup> %b : vector<4xi32>
    %dn = spirv.GroupNonUniformShuffleDown <Subgroup> %z, %i : f32, i32
    %sd = spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
    %sda = spirv.SDotAccSat %i, %i, %sd, <PackedVectorFormat4x8Bit> : i32 -> i32
    %bf = spirv.BitFieldUExtract %i, %0, %8 : i32, i32, i32
    %mul = spirv.UMulExtended %i, %8 : !spirv.struct<(i32, i32)>
    %hi = spirv.CompositeExtract %mul[1 : i32] : !spirv.struct<(i32, i32)>
    %fc = spirv.FunctionCall @helper(%z, %z) : (f32, f32) -> f32
    %ld = spirv.GL.Ldexp %z : f32, %i : i32 -> f32
    %vi = spirv.Undef : vector<4xi32>
    %vn = spirv.VectorInsertDynamic %i, %vi[%i] : vector<4xi32>, i32
    spirv.MemoryBarrier <Device>, <Acquire|UniformMemory>
    spirv.Store "StorageBuffer" %cp, %hi ["Volatile|Nontemporal"] : i32
    spirv.mlir.loop {
      spirv.Branch ^header(%0, %z : i32, f32)
    ^header(%k: i32, %acc: f32):
      %cc = spirv.SLessThan %k, %i : i32
      spirv.BranchConditional %cc, ^body, ^merge
    ^body:
      %w = spirv.FAdd %acc, %z : f32
      spirv.mlir.selection control(DontFlatten) {
        spirv.BranchConditional %b [5, 1], ^t, ^e
      ^t:
        spirv.mlir.loop control(DontUnroll) {
          spirv.Branch ^h2(%0 : i32)
        ^h2(%k2 : i32):
          %c2 = spirv.SLessThan %k2, %8 : i32
          spirv.BranchConditional %c2, ^b2, ^m2
        ^b2:
          spirv.Store "Function" %v, %w : f32
          spirv.Branch ^ct2
        ^ct2:
          %n2 = spirv.IAdd %k2, %8 : i32
          spirv.Branch ^h2(%n2 : i32)
        ^m2:
          spirv.mlir.merge
        }
        spirv.Branch ^m
      ^e:
        spirv.Store "Function" %v, %z : f32
        spirv.Branch ^m
      ^m:
        spirv.mlir.merge
      }
      spirv.Branch ^cont
    ^cont:
      %n = spirv.IAdd %k, %8 : i32
      spirv.Branch ^header(%n, %w : i32, f32)
    ^merge:
      spirv.mlir.merge
    }
    spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @lid, @a, @h, @t, @ctr
  spirv.ExecutionMode @main "LocalSize", 64, 1, 1
}

// CHECK: spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Int8, Int64, Int16, Float16, Float64, CooperativeMatrixKHR, GroupNonUniformClustered, GroupNonUniformArithmetic, GroupNonUniformBallot, GroupNonUniformShuffleRelative, DotProduct, DotProductInput4x8BitPacked, VulkanMemoryModel, StorageBuffer8BitAccess, StorageBuffer16BitAccess], [SPV_KHR_cooperative_matrix]> {
// CHECK: spirv.GlobalVariable @a bind(0, 3) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i8, stride=1> [0, NonWritable])>, StorageBuffer>
// CHECK: spirv.GlobalVariable @h bind(0, 4) {restrict} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK: spirv.GlobalVariable @t : !spirv.ptr<!spirv.struct<(!spirv.array<64 x vector<4xf32>, stride=16> [0], i32 [1024])>, Workgroup>
// CHECK: spirv.GlobalVariable @ctr bind(1, 0) : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
// CHECK: spirv.GlobalVariable @lid built_in("LocalInvocationIndex") : !spirv.ptr<i32, Input>
// CHECK: spirv.func @helper({{%.*}}: f32, {{%.*}}: f32) -> f32 "Inline" {
// CHECK: {{%.*}} = spirv.FAdd {{%.*}}, {{%.*}} : f32
// CHECK: spirv.ReturnValue {{%.*}} : f32
// CHECK: spirv.func @main() "None" {
// CHECK: {{%.*}} = spirv.Undef : f32
// CHECK: {{%.*}} = spirv.Undef : f32
// CHECK: {{%.*}} = spirv.mlir.addressof @lid : !spirv.ptr<i32, Input>
// CHECK: {{%.*}} = spirv.Load "Input" {{%.*}} : i32
// CHECK: {{%.*}} = spirv.Constant 0 : i32
// CHECK: {{%.*}} = spirv.Constant 8 : i32
// CHECK: {{%.*}} = spirv.ULessThan {{%.*}}, {{%.*}} : i32
// CHECK: {{%.*}} = spirv.Constant -3 : i8
// CHECK: {{%.*}} = spirv.Constant -3 : si16
// CHECK: {{%.*}} = spirv.Constant 20015998343868 : i64
// CHECK: {{%.*}} = spirv.Constant 1.500000e+00 : f64
// CHECK: {{%.*}} = spirv.Constant 0x7e00 : f16
// CHECK: {{%.*}} = spirv.Constant [1.000000e+00 : f32, 2.000000e+00 : f32] : !spirv.array<2 x f32>
// CHECK: {{%.*}} = spirv.Constant dense<7> : vector<4xi32>
// CHECK: {{%.*}} = spirv.mlir.addressof @h : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
// CHECK: {{%.*}} = spirv.AccessChain {{%.*}}[{{%.*}}, {{%.*}}] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>, i32, i32
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLoad {{%.*}}, {{%.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLoad {{%.*}}, {{%.*}}, <ColumnMajor>, <Volatile> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB>
// CHECK: {{%.*}} = spirv.Constant 0.000000e+00 : f32
// CHECK: {{%.*}} = spirv.CompositeConstruct {{%.*}} : (f32) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: {{%.*}} = spirv.Variable init({{%.*}}) : !spirv.ptr<f32, Function>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixMulAdd {{%.*}}, {{%.*}}, {{%.*}} : !spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLoad {{%.*}}, {{%.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>
// CHECK: spirv.KHR.CooperativeMatrixStore {{%.*}}, {{%.*}}, {{%.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x16xf16, Subgroup, MatrixAcc>, i32
// CHECK: {{%.*}} = spirv.mlir.addressof @ctr : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>
// CHECK: {{%.*}} = spirv.AccessChain {{%.*}}[{{%.*}}, {{%.*}}] : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0])>, StorageBuffer>, i32, i32
// CHECK: {{%.*}} = spirv.AtomicIAdd <Device> <AcquireRelease> {{%.*}}, {{%.*}} : !spirv.ptr<i32, StorageBuffer>
// CHECK: {{%.*}} = spirv.AtomicCompareExchange <Workgroup> <Release> <Acquire> {{%.*}}, {{%.*}}, {{%.*}} : !spirv.ptr<i32, StorageBuffer>
// CHECK: {{%.*}} = spirv.GroupNonUniformIAdd "Subgroup" "ClusteredReduce" {{%.*}} cluster_size({{%.*}}) : i32
// CHECK: {{%.*}} = spirv.GroupNonUniformBallot <Subgroup> {{%.*}} : vector<4xi32>
// CHECK: {{%.*}} = spirv.GroupNonUniformShuffleDown <Subgroup> {{%.*}}, {{%.*}} : f32, i32
// CHECK: {{%.*}} = spirv.SDot {{%.*}}, {{%.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
// CHECK: {{%.*}} = spirv.SDotAccSat {{%.*}}, {{%.*}}, {{%.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
// CHECK: {{%.*}} = spirv.BitFieldUExtract {{%.*}}, {{%.*}}, {{%.*}} : i32, i32, i32
// CHECK: {{%.*}} = spirv.UMulExtended {{%.*}}, {{%.*}} : !spirv.struct<(i32, i32)>
// CHECK: {{%.*}} = spirv.CompositeExtract {{%.*}}[1 : i32] : !spirv.struct<(i32, i32)>
// CHECK: {{%.*}} = spirv.FunctionCall @helper({{%.*}}, {{%.*}}) : (f32, f32) -> f32
// CHECK: {{%.*}} = spirv.GL.Ldexp {{%.*}} : f32, {{%.*}} : i32 -> f32
// CHECK: {{%.*}} = spirv.Undef : vector<4xi32>
// CHECK: {{%.*}} = spirv.VectorInsertDynamic {{%.*}}, {{%.*}}[{{%.*}}] : vector<4xi32>, i32
// CHECK: spirv.MemoryBarrier <Device>, <Acquire|UniformMemory>
// CHECK: spirv.Store "StorageBuffer" {{%.*}}, {{%.*}} ["Volatile|Nontemporal"] : i32
// CHECK: spirv.mlir.loop {
// CHECK: spirv.Branch {{\^.*}}({{%.*}}, {{%.*}} : i32, f32)
// CHECK: {{%.*}} = spirv.SLessThan {{%.*}}, {{%.*}} : i32
// CHECK: spirv.BranchConditional {{%.*}}, {{\^.*}}, {{\^.*}}
// CHECK: {{%.*}} = spirv.FAdd {{%.*}}, {{%.*}} : f32
// CHECK: spirv.mlir.selection control(DontFlatten) {
// CHECK: spirv.BranchConditional {{%.*}} [5, 1], {{\^.*}}, {{\^.*}}
// CHECK: spirv.mlir.loop control(DontUnroll) {
// CHECK: spirv.Branch {{\^.*}}({{%.*}} : i32)
// CHECK: {{%.*}} = spirv.SLessThan {{%.*}}, {{%.*}} : i32
// CHECK: spirv.BranchConditional {{%.*}}, {{\^.*}}, {{\^.*}}
// CHECK: spirv.Store "Function" {{%.*}}, {{%.*}} : f32
// CHECK: spirv.Branch {{\^.*}}
// CHECK: {{%.*}} = spirv.IAdd {{%.*}}, {{%.*}} : i32
// CHECK: spirv.Branch {{\^.*}}({{%.*}} : i32)
// CHECK: spirv.mlir.merge
// CHECK: spirv.Branch {{\^.*}}
// CHECK: spirv.Store "Function" {{%.*}}, {{%.*}} : f32
// CHECK: spirv.Branch {{\^.*}}
// CHECK: spirv.mlir.merge
// CHECK: spirv.Branch {{\^.*}}
// CHECK: {{%.*}} = spirv.IAdd {{%.*}}, {{%.*}} : i32
// CHECK: spirv.Branch {{\^.*}}({{%.*}}, {{%.*}} : i32, f32)
// CHECK: spirv.mlir.merge
// CHECK: spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|WorkgroupMemory>
// CHECK: spirv.Return
// CHECK: spirv.EntryPoint "GLCompute" @main, @lid, @a, @h, @t, @ctr
// CHECK: spirv.ExecutionMode @main "LocalSize", 64, 1, 1
