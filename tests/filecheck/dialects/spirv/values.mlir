// RUN: OI_ROUNDTRIP

// Each form of an op that computes a value.

!p = !spirv.ptr<i32, StorageBuffer>
!ph = !spirv.ptr<f32, PhysicalStorageBuffer>
!cA = !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>
!cB = !spirv.coopmatrix<8x16xf16, Subgroup, MatrixB>
!cC = !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
func.func @f(%i: i32, %l: i64, %x: f32, %h: f16, %v: vector<4xi32>, %vf: vector<4xf32>, %b: i1, %p: !p, %ph : !ph, %a: !cA, %bb: !cB, %c: !cC, %s8: vector<4xi8>, %pf: !spirv.ptr<f16, StorageBuffer>, %pw: !spirv.ptr<f32, Workgroup>) {
  %0 = spirv.GroupNonUniformBallot <Subgroup> %b : vector<4xi32>
  %k8 = spirv.Constant 8 : i32
  %1 = spirv.GroupNonUniformIAdd "Subgroup" "ClusteredReduce" %i cluster_size(%k8) : i32
  %2 = spirv.GroupNonUniformShuffle <Subgroup> %x, %i : f32, i32
  %3 = spirv.GroupNonUniformShuffleDown <Subgroup> %x, %i : f32, i32
  %4 = spirv.GroupNonUniformShuffleUp <Subgroup> %x, %i : f32, i32
  %7 = spirv.AtomicIAdd <Device> <None> %p, %i : !p
  %8 = spirv.AtomicUMax <Device> <AcquireRelease> %p, %i : !p
  %9 = spirv.AtomicExchange <Workgroup> <Release> %p, %i : !p
  %10 = spirv.AtomicCompareExchange <Workgroup> <Release> <Acquire> %p, %i, %i : !p
  %11 = spirv.EXT.AtomicFAdd <Device> <None> %pw, %x : !spirv.ptr<f32, Workgroup>
  %12 = spirv.BitFieldInsert %i, %i, %i, %i : i32, i32, i32
  %13 = spirv.BitFieldSExtract %i, %i, %i : i32, i32, i32
  %14 = spirv.BitCount %i : i32
  %15 = spirv.BitReverse %i : i32
  %16 = spirv.Not %i : i32
  %17 = spirv.SDot %i, %i, <PackedVectorFormat4x8Bit> : i32 -> i32
  %18 = spirv.SDotAccSat %s8, %s8, %i : vector<4xi8> -> i32
  %19 = spirv.KHR.CooperativeMatrixMulAdd %a, %bb, %c : !cA, !cB -> !cC
  %21 = spirv.KHR.CooperativeMatrixLength : !cA
  %22 = spirv.KHR.CooperativeMatrixLoad %pf, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !cA
  %23 = spirv.KHR.CooperativeMatrixLoad %pf, %i, <ColumnMajor>, <Volatile> : !spirv.ptr<f16, StorageBuffer>, i32 -> !cA
  spirv.KHR.CooperativeMatrixStore %pf, %a, %i, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !cA, i32
  %24 = spirv.PtrAccessChain %ph[%i] : !ph, i32
  %25 = spirv.ConvertUToPtr %l : i64 to !ph
  %26 = spirv.ConvertPtrToU %ph : !ph to i64
  %27 = spirv.IsNan %x : f32
  %28 = spirv.IsInf %x : f32
  %30 = spirv.LogicalNot %b : i1
  %31 = spirv.LogicalAnd %b, %b : i1
  %32 = spirv.LogicalEqual %b, %b : i1
  %33 = spirv.Undef : f32
  %34 = spirv.UConvert %i : i32 to i64
  %35 = spirv.FConvert %x : f32 to f16
  %36 = spirv.FNegate %x : f32
  %37 = spirv.SNegate %i : i32
  %38 = spirv.Dot %vf, %vf : vector<4xf32> -> f32
  %39 = spirv.GL.FClamp %x, %x, %x : f32
  %40 = spirv.GL.Ldexp %x : f32, %i : i32 -> f32
  %41 = spirv.GL.RoundEven %x : f32
  %42 = spirv.GL.Pow %x, %x : f32
  %43 = spirv.VectorInsertDynamic %x, %vf[%i] : vector<4xf32>, i32
  %44 = spirv.IAddCarry %i, %i : !spirv.struct<(i32, i32)>
  %45 = spirv.UMulExtended %i, %i : !spirv.struct<(i32, i32)>
  %46 = spirv.InBoundsPtrAccessChain %ph[%i] : !ph, i32
  %47 = spirv.SUDot %s8, %s8 : vector<4xi8> -> i32
  %48 = spirv.GL.FMix %x : f32, %x : f32, %x : f32 -> f32
  %49 = spirv.GL.FindUMsb %i : i32
  spirv.MemoryBarrier <Device>, <Acquire|UniformMemory>
  spirv.Store "Workgroup" %pw, %x ["Volatile"] : f32
  spirv.Store "PhysicalStorageBuffer" %ph, %x ["Aligned", 4] : f32
  %50 = spirv.Load "PhysicalStorageBuffer" %ph ["Aligned|Nontemporal", 4] : f32
  %51 = spirv.MatrixTimesScalar %c, %x : !cC, f32
  %52 = spirv.CompositeConstruct %x : (f32) -> !cC
  %53 = spirv.FAdd %c, %c : !cC
  return
}

// CHECK: {{%.*}} = spirv.GroupNonUniformBallot <Subgroup> {{%.*}} : vector<4xi32>
// CHECK: {{%.*}} = spirv.Constant 8 : i32
// CHECK: {{%.*}} = spirv.GroupNonUniformIAdd "Subgroup" "ClusteredReduce" {{%.*}} cluster_size({{%.*}}) : i32
// CHECK: {{%.*}} = spirv.GroupNonUniformShuffle <Subgroup> {{%.*}}, {{%.*}} : f32, i32
// CHECK: {{%.*}} = spirv.GroupNonUniformShuffleDown <Subgroup> {{%.*}}, {{%.*}} : f32, i32
// CHECK: {{%.*}} = spirv.GroupNonUniformShuffleUp <Subgroup> {{%.*}}, {{%.*}} : f32, i32
// CHECK: {{%.*}} = spirv.AtomicIAdd <Device> <None> {{%.*}}, {{%.*}} : !spirv.ptr<i32, StorageBuffer>
// CHECK: {{%.*}} = spirv.AtomicUMax <Device> <AcquireRelease> {{%.*}}, {{%.*}} : !spirv.ptr<i32, StorageBuffer>
// CHECK: {{%.*}} = spirv.AtomicExchange <Workgroup> <Release> {{%.*}}, {{%.*}} : !spirv.ptr<i32, StorageBuffer>
// CHECK: {{%.*}} = spirv.AtomicCompareExchange <Workgroup> <Release> <Acquire> {{%.*}}, {{%.*}}, {{%.*}} : !spirv.ptr<i32, StorageBuffer>
// CHECK: {{%.*}} = spirv.EXT.AtomicFAdd <Device> <None> {{%.*}}, {{%.*}} : !spirv.ptr<f32, Workgroup>
// CHECK: {{%.*}} = spirv.BitFieldInsert {{%.*}}, {{%.*}}, {{%.*}}, {{%.*}} : i32, i32, i32
// CHECK: {{%.*}} = spirv.BitFieldSExtract {{%.*}}, {{%.*}}, {{%.*}} : i32, i32, i32
// CHECK: {{%.*}} = spirv.BitCount {{%.*}} : i32
// CHECK: {{%.*}} = spirv.BitReverse {{%.*}} : i32
// CHECK: {{%.*}} = spirv.Not {{%.*}} : i32
// CHECK: {{%.*}} = spirv.SDot {{%.*}}, {{%.*}}, <PackedVectorFormat4x8Bit> : i32 -> i32
// CHECK: {{%.*}} = spirv.SDotAccSat {{%.*}}, {{%.*}}, {{%.*}} : vector<4xi8> -> i32
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixMulAdd {{%.*}}, {{%.*}}, {{%.*}} : !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>, !spirv.coopmatrix<8x16xf16, Subgroup, MatrixB> -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLoad {{%.*}}, {{%.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>
// CHECK: {{%.*}} = spirv.KHR.CooperativeMatrixLoad {{%.*}}, {{%.*}}, <ColumnMajor>, <Volatile> : !spirv.ptr<f16, StorageBuffer>, i32 -> !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>
// CHECK: spirv.KHR.CooperativeMatrixStore {{%.*}}, {{%.*}}, {{%.*}}, <RowMajor> : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>, i32
// CHECK: {{%.*}} = spirv.PtrAccessChain {{%.*}}[{{%.*}}] : !spirv.ptr<f32, PhysicalStorageBuffer>, i32
// CHECK: {{%.*}} = spirv.ConvertUToPtr {{%.*}} : i64 to !spirv.ptr<f32, PhysicalStorageBuffer>
// CHECK: {{%.*}} = spirv.ConvertPtrToU {{%.*}} : !spirv.ptr<f32, PhysicalStorageBuffer> to i64
// CHECK: {{%.*}} = spirv.IsNan {{%.*}} : f32
// CHECK: {{%.*}} = spirv.IsInf {{%.*}} : f32
// CHECK: {{%.*}} = spirv.LogicalNot {{%.*}} : i1
// CHECK: {{%.*}} = spirv.LogicalAnd {{%.*}}, {{%.*}} : i1
// CHECK: {{%.*}} = spirv.LogicalEqual {{%.*}}, {{%.*}} : i1
// CHECK: {{%.*}} = spirv.Undef : f32
// CHECK: {{%.*}} = spirv.UConvert {{%.*}} : i32 to i64
// CHECK: {{%.*}} = spirv.FConvert {{%.*}} : f32 to f16
// CHECK: {{%.*}} = spirv.FNegate {{%.*}} : f32
// CHECK: {{%.*}} = spirv.SNegate {{%.*}} : i32
// CHECK: {{%.*}} = spirv.Dot {{%.*}}, {{%.*}} : vector<4xf32> -> f32
// CHECK: {{%.*}} = spirv.GL.FClamp {{%.*}}, {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = spirv.GL.Ldexp {{%.*}} : f32, {{%.*}} : i32 -> f32
// CHECK: {{%.*}} = spirv.GL.RoundEven {{%.*}} : f32
// CHECK: {{%.*}} = spirv.GL.Pow {{%.*}}, {{%.*}} : f32
// CHECK: {{%.*}} = spirv.VectorInsertDynamic {{%.*}}, {{%.*}}[{{%.*}}] : vector<4xf32>, i32
// CHECK: {{%.*}} = spirv.IAddCarry {{%.*}}, {{%.*}} : !spirv.struct<(i32, i32)>
// CHECK: {{%.*}} = spirv.UMulExtended {{%.*}}, {{%.*}} : !spirv.struct<(i32, i32)>
// CHECK: {{%.*}} = spirv.InBoundsPtrAccessChain {{%.*}}[{{%.*}}] : !spirv.ptr<f32, PhysicalStorageBuffer>, i32
// CHECK: {{%.*}} = spirv.SUDot {{%.*}}, {{%.*}} : vector<4xi8> -> i32
// CHECK: {{%.*}} = spirv.GL.FMix {{%.*}} : f32, {{%.*}} : f32, {{%.*}} : f32 -> f32
// CHECK: {{%.*}} = spirv.GL.FindUMsb {{%.*}} : i32
// CHECK: spirv.MemoryBarrier <Device>, <Acquire|UniformMemory>
// CHECK: spirv.Store "Workgroup" {{%.*}}, {{%.*}} ["Volatile"] : f32
// CHECK: spirv.Store "PhysicalStorageBuffer" {{%.*}}, {{%.*}} ["Aligned", 4] : f32
// CHECK: {{%.*}} = spirv.Load "PhysicalStorageBuffer" {{%.*}} ["Aligned|Nontemporal", 4] : f32
// CHECK: {{%.*}} = spirv.MatrixTimesScalar {{%.*}}, {{%.*}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>, f32
// CHECK: {{%.*}} = spirv.CompositeConstruct {{%.*}} : (f32) -> !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
// CHECK: {{%.*}} = spirv.FAdd {{%.*}}, {{%.*}} : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>
