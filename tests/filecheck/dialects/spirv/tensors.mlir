// RUN: OI_ROUNDTRIP
// RUN: openinfer-opt %s -t spirv-text | filecheck %s --check-prefix WORDS

// A product by matrices of a workgroup (SPV_NV_cooperative_matrix2): operands come from tensors in memory, the right
// one turned by a view, and a function of each element finishes it.
!buffer = !spirv.ptr<!spirv.struct<(!spirv.rtarray<f16, stride=2> [0])>, StorageBuffer>
!left = !spirv.coopmatrix<64x32xf16, Workgroup, MatrixA>
!right = !spirv.coopmatrix<32x64xf16, Workgroup, MatrixB>
!sums = !spirv.coopmatrix<64x64xf32, Workgroup, MatrixAcc>
!half = !spirv.coopmatrix<64x64xf16, Workgroup, MatrixAcc>
spirv.module Logical Vulkan requires #spirv.vce<v1.6, [Shader, Float16, StorageBuffer16BitAccess, VulkanMemoryModel, CooperativeMatrixKHR, TensorAddressingNV, CooperativeMatrixTensorAddressingNV, CooperativeMatrixPerElementOperationsNV, CooperativeMatrixReductionsNV, CooperativeMatrixConversionsNV], [SPV_KHR_cooperative_matrix, SPV_NV_cooperative_matrix2, SPV_NV_tensor_addressing]> {
  spirv.GlobalVariable @x bind(0, 0) : !buffer
  spirv.func @layouts(%n: i32) "None" {
    // CHECK: %[[V:.*]] = spirv.NV.CreateTensorLayout : !spirv.tensor_layout<1, Undefined>
    // CHECK-NEXT: %[[V1:.*]] = spirv.NV.TensorLayoutSetDimension %[[V]][%{{.*}}] : !spirv.tensor_layout<1, Undefined>
    // CHECK-NEXT: %{{.*}} = spirv.NV.TensorLayoutSlice %[[V1]][%{{.*}}, %{{.*}}] : !spirv.tensor_layout<1, Undefined>
    %0 = spirv.NV.CreateTensorLayout : !spirv.tensor_layout<1, Undefined>
    %1 = spirv.NV.TensorLayoutSetDimension %0[%n] : !spirv.tensor_layout<1, Undefined>
    %2 = spirv.NV.TensorLayoutSlice %1[%n, %n] : !spirv.tensor_layout<1, Undefined>
    spirv.Return
  }
  spirv.func @scale(%row: i32, %column: i32, %x: f32, %by: f32) -> f32 "None" {
    %y = spirv.FMul %x, %by : f32
    spirv.ReturnValue %y : f32
  }
  spirv.func @larger(%x: f32, %y: f32) -> f32 "None" {
    %z = spirv.GL.FMax %x, %y : f32
    spirv.ReturnValue %z : f32
  }
  spirv.func @main() "None" {
    %address = spirv.mlir.addressof @x : !buffer
    %0 = spirv.Constant 0 : i32
    %1 = spirv.Constant 1 : i32
    %64 = spirv.Constant 64 : i32
    %32 = spirv.Constant 32 : i32
    %none = spirv.Constant 0.0 : f32
    %p = spirv.AccessChain %address[%0, %0] : !buffer, i32, i32
    // CHECK: %[[L:.*]] = spirv.NV.CreateTensorLayout : !spirv.tensor_layout<2, Constant>
    // CHECK-NEXT: %[[D:.*]] = spirv.NV.TensorLayoutSetDimension %[[L]][%{{.*}}, %{{.*}}] : !spirv.tensor_layout<2, Constant>
    // CHECK-NEXT: %[[S:.*]] = spirv.NV.TensorLayoutSetStride %[[D]][%{{.*}}, %{{.*}}] : !spirv.tensor_layout<2, Constant>
    // CHECK-NEXT: %[[C:.*]] = spirv.NV.TensorLayoutSetClampValue %[[S]][%{{.*}}] : !spirv.tensor_layout<2, Constant>
    // CHECK-NEXT: %[[P:.*]] = spirv.NV.TensorLayoutSlice %[[C]][%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : !spirv.tensor_layout<2, Constant>
    // CHECK-NEXT: %[[W:.*]] = spirv.NV.CreateTensorView : !spirv.tensor_view<[1, 0]>
    %l = spirv.NV.CreateTensorLayout : !spirv.tensor_layout<2, Constant>
    %d = spirv.NV.TensorLayoutSetDimension %l[%64, %32] : !spirv.tensor_layout<2, Constant>
    %s = spirv.NV.TensorLayoutSetStride %d[%32, %1] : !spirv.tensor_layout<2, Constant>
    %c = spirv.NV.TensorLayoutSetClampValue %s[%0] : !spirv.tensor_layout<2, Constant>
    %part = spirv.NV.TensorLayoutSlice %c[%0, %64, %0, %32] : !spirv.tensor_layout<2, Constant>
    %turned = spirv.NV.CreateTensorView : !spirv.tensor_view<[1, 0]>
    %oldleft = spirv.Undef : !left
    %oldright = spirv.Undef : !right
    // CHECK: spirv.NV.CooperativeMatrixLoadTensor %{{.*}}, %{{.*}}, %[[P]] : !spirv.ptr<f16, StorageBuffer>, !spirv.tensor_layout<2, Constant> -> !spirv.coopmatrix<64x32xf16, Workgroup, MatrixA>
    // CHECK-NEXT: spirv.NV.CooperativeMatrixLoadTensor %{{.*}}, %{{.*}}, %[[P]], %[[W]] access <NonPrivatePointer> : !spirv.ptr<f16, StorageBuffer>, !spirv.tensor_layout<2, Constant>, !spirv.tensor_view<[1, 0]> -> !spirv.coopmatrix<32x64xf16, Workgroup, MatrixB>
    %a = spirv.NV.CooperativeMatrixLoadTensor %p, %oldleft, %part : !spirv.ptr<f16, StorageBuffer>, !spirv.tensor_layout<2, Constant> -> !left
    %b = spirv.NV.CooperativeMatrixLoadTensor %p, %oldright, %part, %turned access <NonPrivatePointer> : !spirv.ptr<f16, StorageBuffer>, !spirv.tensor_layout<2, Constant>, !spirv.tensor_view<[1, 0]> -> !right
    %zero = spirv.CompositeConstruct %none : (f32) -> !sums
    %sums = spirv.KHR.CooperativeMatrixMulAdd %a, %b, %zero : !left, !right -> !sums
    // CHECK: spirv.EXT.CooperativeMatrixPerElementOp @scale(%{{.*}}, %{{.*}}) : (!spirv.coopmatrix<64x64xf32, Workgroup, MatrixAcc>, f32) -> !spirv.coopmatrix<64x64xf32, Workgroup, MatrixAcc>
    // CHECK-NEXT: spirv.EXT.CooperativeMatrixReduce <Row> @larger(%{{.*}}) : !spirv.coopmatrix<64x64xf32, Workgroup, MatrixAcc> -> !spirv.coopmatrix<64x32xf32, Workgroup, MatrixAcc>
    // CHECK-NEXT: spirv.FConvert
    // CHECK-NEXT: spirv.EXT.CooperativeMatrixConvertUse %{{.*}} : !spirv.coopmatrix<64x64xf16, Workgroup, MatrixAcc> to !spirv.coopmatrix<64x64xf16, Workgroup, MatrixA>
    // CHECK-NEXT: spirv.NV.CooperativeMatrixTranspose %{{.*}} : !spirv.coopmatrix<64x64xf16, Workgroup, MatrixAcc> to !spirv.coopmatrix<64x64xf16, Workgroup, MatrixB>
    %scaled = spirv.EXT.CooperativeMatrixPerElementOp @scale(%sums, %none) : (!sums, f32) -> !sums
    %most = spirv.EXT.CooperativeMatrixReduce <Row> @larger(%scaled) : !sums -> !spirv.coopmatrix<64x32xf32, Workgroup, MatrixAcc>
    %h = spirv.FConvert %scaled : !sums to !half
    %as = spirv.EXT.CooperativeMatrixConvertUse %h : !half to !spirv.coopmatrix<64x64xf16, Workgroup, MatrixA>
    %other = spirv.NV.CooperativeMatrixTranspose %h : !half to !spirv.coopmatrix<64x64xf16, Workgroup, MatrixB>
    // CHECK: spirv.NV.CooperativeMatrixStoreTensor %{{.*}}, %{{.*}}, %[[P]] : !spirv.ptr<f16, StorageBuffer>, !spirv.coopmatrix<64x64xf16, Workgroup, MatrixAcc>, !spirv.tensor_layout<2, Constant>
    spirv.NV.CooperativeMatrixStoreTensor %p, %h, %part : !spirv.ptr<f16, StorageBuffer>, !half, !spirv.tensor_layout<2, Constant>
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @x
  spirv.ExecutionMode @main "LocalSize", 128, 1, 1
}
// WORDS: %[[RANK:.*]] = OpConstant %{{.*}} 2
// WORDS: OpTypeTensorLayoutNV %[[RANK]] %{{.*}}
// WORDS: %[[OWN:.*]] = OpConstantFalse
// WORDS: OpTypeTensorViewNV %[[RANK]] %[[OWN]] %{{.*}} %{{.*}}
// WORDS: OpCooperativeMatrixLoadTensorNV %{{.*}} %{{.*}} %{{.*}} %{{.*}} None None
// WORDS: OpCooperativeMatrixLoadTensorNV %{{.*}} %{{.*}} %{{.*}} %{{.*}} NonPrivatePointer TensorView %{{.*}}
// WORDS: OpCooperativeMatrixPerElementOp
// WORDS: OpCooperativeMatrixReduce{{.*}} Row
// WORDS: OpCooperativeMatrixStoreTensorNV %{{.*}} %{{.*}} %{{.*}} None None
