// RUN: openinfer-opt %s -p lower-device-kernels,cse,dce -t glsl | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels,expand-math,cse,dce,convert-to-spirv -t spirv-text | filecheck %s --check-prefix WORDS

// Kernels whose subgroups multiply matrices, as a shader to read and as the text of their words. Both have the same
// workgroup, and ask for Vulkan's memory model: the shader by its extension.

// CHECK-LABEL: // product_0
// CHECK: #extension GL_KHR_cooperative_matrix : require
// CHECK: layout(local_size_x = [[SIZE:[0-9]+]]) in;
// CHECK-DAG: shared {{.*}} left[
// CHECK-DAG: shared {{.*}} right[
// CHECK: coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0)
// CHECK: barrier();
// CHECK: coopMatLoad({{.*}}, left, {{.*}}, gl_CooperativeMatrixLayoutRowMajor);
// CHECK: coopMatMulAdd(
// CHECK: coopMatStore(

// CHECK-LABEL: // attention_0
// CHECK: coopMatMulAdd(
// CHECK: exp2(

// WORDS-LABEL: ; product_0
// WORDS: OpCapability CooperativeMatrixKHR
// WORDS: OpCapability VulkanMemoryModel
// WORDS: OpExtension "SPV_KHR_cooperative_matrix"
// WORDS: OpMemoryModel Logical Vulkan
// WORDS-NEXT: OpEntryPoint GLCompute [[MAIN:%[0-9]+]] "product_0"
// WORDS-NEXT: OpExecutionMode [[MAIN]] LocalSize
// WORDS: [[HALF:%[0-9]+]] = OpTypeFloat 16
// WORDS: OpTypeCooperativeMatrixKHR
// WORDS: OpControlBarrier
// WORDS: OpCooperativeMatrixLoadKHR {{.*}} NonPrivatePointer
// WORDS: OpCooperativeMatrixMulAddKHR
// WORDS: OpCooperativeMatrixStoreKHR {{.*}} NonPrivatePointer
// WORDS: OpFunctionEnd
// WORDS-LABEL: ; attention_0
// WORDS: OpMemoryModel Logical Vulkan
// WORDS: OpCooperativeMatrixMulAddKHR
// WORDS: OpFunctionEnd

builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.alignment = 16 : i64, openinfer.matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<96x96xf16>
    func.call @product_0(%a, %a, %a) : (memref<96x96xf16>, memref<96x96xf16>, memref<96x96xf16>) -> ()
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x4x64x64xf16>
    func.call @attention_0(%q, %q, %q, %q) : (memref<1x4x64x64xf16>, memref<1x4x64x64xf16>, memref<1x4x64x64xf16>, memref<1x4x64x64xf16>) -> ()
    func.return
  }
  func.func private @product_0(%x: memref<96x96xf16>, %w: memref<96x96xf16>, %y: memref<96x96xf16>) {
    nn.matmul(%x, %w) outs(%y) : (memref<96x96xf16>, memref<96x96xf16>, memref<96x96xf16>) -> ()
    func.return
  }
  func.func private @attention_0(%q: memref<1x4x64x64xf16>, %k: memref<1x4x64x64xf16>, %v: memref<1x4x64x64xf16>, %y: memref<1x4x64x64xf16>) {
    nn.attention(%q, %k, %v) outs(%y) {scale = 0.125 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<1x4x64x64xf16>, memref<1x4x64x64xf16>, memref<1x4x64x64xf16>, memref<1x4x64x64xf16>) -> ()
    func.return
  }
}
