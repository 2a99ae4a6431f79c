// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s
// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | openinfer-opt -p expand-math,convert-to-spirv --split-input-file | filecheck %s --check-prefix SPIRV

// A product of f16 by matrices that a workgroup holds. The sums begin as bias and residual, which are not rounded in
// between; eight times 64 steps stand in each of three turns; GELU is a function of each element. The number of
// workgroups is known: none asks whether it has a tile.
// CHECK-LABEL: func.func private @product_0
// CHECK-SAME: array<i32: 256, 1, 1>
// CHECK-NOT: scf.if
// CHECK: %[[B:.*]] = gpu.tensor_load %b[%{{.*}}] {repeated} : memref<384xf16> -> !gpu.mma_matrix<128x192xf16, "COp", workgroup>
// CHECK-NEXT: %[[B32:.*]] = gpu.matrix_convert %[[B]] : !gpu.mma_matrix<128x192xf16, "COp", workgroup> -> !gpu.mma_matrix<128x192xf32, "COp", workgroup>
// CHECK-NEXT: %[[R:.*]] = gpu.tensor_load %r[%{{.*}}, %{{.*}}] : memref<8192x384xf16>
// CHECK-NEXT: %[[R32:.*]] = gpu.matrix_convert %[[R]]
// CHECK-NEXT: %[[START:.*]] = gpu.subgroup_mma_elementwise addf %[[B32]], %[[R32]]
// CHECK: %[[SUMS:.*]] = scf.for %k = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%{{.*}} = %[[START]])
// CHECK-COUNT-8: gpu.subgroup_mma_compute
// CHECK: scf.yield
// CHECK: %[[LAST:.*]] = gpu.matrix_map %[[SUMS]] : (!gpu.mma_matrix<128x192xf32, "COp", workgroup>) -> !gpu.mma_matrix<128x192xf32, "COp", workgroup> {
// CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: f32):
// CHECK: math.erfc
// CHECK: arith.truncf
// CHECK: gpu.matrix_yield %{{.*}} : f32
// CHECK: %[[Y:.*]] = gpu.matrix_convert %[[LAST]]
// CHECK-NEXT: gpu.tensor_store %[[Y]], %y[%{{.*}}, %{{.*}}] : !gpu.mma_matrix<128x192xf16, "COp", workgroup>, memref<8192x384xf16>
// SPIRV: spirv.module @product_0 Logical Vulkan requires #spirv.vce<v1.6, [{{.*}}CooperativeMatrixPerElementOperationsNV, CooperativeMatrixTensorAddressingNV{{.*}}TensorAddressingNV{{.*}}SPV_NV_cooperative_matrix2, SPV_NV_tensor_addressing]>
// SPIRV: spirv.func @product_0_element_0(%{{.*}}: i32, %{{.*}}: i32, %{{.*}}: f32) -> f32 "None"
// SPIRV: spirv.ReturnValue
// SPIRV: spirv.func @product_0()
// SPIRV: spirv.NV.TensorLayoutSetStride %{{.*}}[%{{.*}}, %{{.*}}] : !spirv.tensor_layout<2, Undefined>
// SPIRV: spirv.NV.CooperativeMatrixLoadTensor {{.*}} -> !spirv.coopmatrix<128x64xf16, Workgroup, MatrixA>
// SPIRV: spirv.NV.CreateTensorView : !spirv.tensor_view<[1, 0]>
// SPIRV-NEXT: spirv.NV.CooperativeMatrixLoadTensor {{.*}} -> !spirv.coopmatrix<64x192xf16, Workgroup, MatrixB>
// SPIRV: spirv.KHR.CooperativeMatrixMulAdd
// SPIRV: spirv.EXT.CooperativeMatrixPerElementOp @product_0_element_0(
// SPIRV: spirv.NV.CooperativeMatrixStoreTensor
// SPIRV: spirv.EntryPoint "GLCompute" @product_0, @x_1
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<8192x1536xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384x1536xf16>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<384xf16>
    %r = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    func.call @product_0(%a, %w, %b, %r, %y) : (memref<8192x1536xf16>, memref<384x1536xf16>, memref<384xf16>, memref<8192x384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
  func.func private @product_0(%x: memref<8192x1536xf16>, %w: memref<384x1536xf16>, %b: memref<384xf16>, %r: memref<8192x384xf16>, %y: memref<8192x384xf16>) {
    nn.matmul(%x, %w) extras(%b, %r) outs(%y) {transpose_b, maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]} {
    ^bb0(%s: f32, %be: f16, %re: f16):
      %0 = arith.truncf %s : f32 to f16
      %1 = arith.extf %0 : f16 to f32
      %2 = arith.extf %be : f16 to f32
      %3 = arith.addf %1, %2 : f32
      %4 = arith.extf %re : f16 to f32
      %5 = arith.addf %3, %4 : f32
      %6 = arith.truncf %5 : f32 to f16
      %7 = arith.extf %6 : f16 to f32
      %c = arith.constant -0.707106769 : f32
      %8 = arith.mulf %7, %c : f32
      %9 = math.erfc %8 : f32
      %10 = arith.mulf %7, %9 : f32
      %11 = arith.truncf %10 : f32 to f16
      nn.yield %11 : f16
    } : (memref<8192x1536xf16>, memref<384x1536xf16>, memref<384xf16>, memref<8192x384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
}
// -----
// Tiles at an edge have code of their own; what is left of the steps is bounded everywhere.
// CHECK-LABEL: func.func private @edges_0
// CHECK: %[[INSIDE:.*]] = arith.andi
// CHECK-NEXT: scf.if %[[INSIDE]] {
// CHECK-NOT: bounded
// CHECK: scf.for %k
// CHECK-NOT: bounded
// CHECK: scf.yield
// CHECK-COUNT-2: gpu.tensor_load {{.*}}bounded
// CHECK-NOT: bounded
// CHECK: gpu.tensor_store
// CHECK: } else {
// CHECK: gpu.tensor_load {{.*}}bounded
// CHECK: gpu.tensor_store {{.*}}bounded
// SPIRV-LABEL: spirv.module @edges_0
// SPIRV: !spirv.tensor_layout<2, Constant>
// SPIRV: spirv.mlir.loop control(DontUnroll)
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<4000x2056xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<2056x2000xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<4000x2000xf16>
    func.call @edges_0(%a, %w, %y) : (memref<4000x2056xf16>, memref<2056x2000xf16>, memref<4000x2000xf16>) -> ()
    func.return
  }
  func.func private @edges_0(%x: memref<4000x2056xf16>, %w: memref<2056x2000xf16>, %y: memref<4000x2000xf16>) {
    nn.matmul(%x, %w) outs(%y) : (memref<4000x2056xf16>, memref<2056x2000xf16>, memref<4000x2000xf16>) -> ()
    func.return
  }
}
// -----
// An epilogue that multiplies by an operand is none of both parts.
// CHECK-LABEL: func.func private @scaled_0
// CHECK-NOT: gpu.tensor_load
// CHECK: gpu.subgroup_mma_load_matrix
// CHECK-NOT: gpu.tensor_load
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384x384xf16>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<384xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    func.call @scaled_0(%a, %w, %b, %y) : (memref<8192x384xf16>, memref<384x384xf16>, memref<384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
  func.func private @scaled_0(%x: memref<8192x384xf16>, %w: memref<384x384xf16>, %b: memref<384xf16>, %y: memref<8192x384xf16>) {
    nn.matmul(%x, %w) extras(%b) outs(%y) {transpose_b, maps = [affine_map<(d0, d1) -> (d1)>]} {
    ^bb0(%s: f32, %be: f16):
      %0 = arith.extf %be : f16 to f32
      %1 = arith.mulf %s, %0 : f32
      %2 = arith.truncf %1 : f32 to f16
      nn.yield %2 : f16
    } : (memref<8192x384xf16>, memref<384x384xf16>, memref<384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
}
// -----
// Few tiles leave most of a device idle: subgroups share the steps of smaller ones.
// CHECK-LABEL: func.func private @few_0
// CHECK-NOT: gpu.tensor_load
// CHECK: gpu.subgroup_mma_load_matrix
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384x384xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<128x384xf16>
    func.call @few_0(%a, %w, %y) : (memref<128x384xf16>, memref<384x384xf16>, memref<128x384xf16>) -> ()
    func.return
  }
  func.func private @few_0(%x: memref<128x384xf16>, %w: memref<384x384xf16>, %y: memref<128x384xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<128x384xf16>, memref<384x384xf16>, memref<128x384xf16>) -> ()
    func.return
  }
}
// -----
// Not with strict mathematics, which round each part of an epilogue.
// CHECK-LABEL: func.func private @strict_0
// CHECK-NOT: gpu.tensor_load
// CHECK-NOT: gpu.subgroup_mma
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices, openinfer.strict_math} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384x384xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<8192x384xf16>
    func.call @strict_0(%a, %w, %y) : (memref<8192x384xf16>, memref<384x384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
  func.func private @strict_0(%x: memref<8192x384xf16>, %w: memref<384x384xf16>, %y: memref<8192x384xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<8192x384xf16>, memref<384x384xf16>, memref<8192x384xf16>) -> ()
    func.return
  }
}
// -----
// Where only the step knows the rows, kernels for few of them are none of these; the one for all others is.
// CHECK-LABEL: func.func private @rows_0_of_
// CHECK-NOT: gpu.tensor_load
// CHECK-LABEL: func.func private @rows_0(
// CHECK: gpu.tensor_load
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %n = nn.size "M"
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384x384xf16>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x384xf16>
    func.call @rows_0(%a, %w, %y) : (memref<?x384xf16>, memref<384x384xf16>, memref<?x384xf16>) -> ()
    func.return
  }
  func.func private @rows_0(%x: memref<?x384xf16>, %w: memref<384x384xf16>, %y: memref<?x384xf16>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<?x384xf16>, memref<384x384xf16>, memref<?x384xf16>) -> ()
    func.return
  }
}
// -----
// With a residual, for which a driver would take half a minute, subgroups multiply matrices there.
// CHECK-LABEL: func.func private @rows_0(
// CHECK-NOT: gpu.tensor_load
// CHECK: gpu.subgroup_mma_compute
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices, openinfer.workgroup_matrices} {
  func.func @step() {
    %n = nn.size "M"
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x384xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<384x384xf16>
    %r = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x384xf16>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x384xf16>
    func.call @rows_0(%a, %w, %r, %y) : (memref<?x384xf16>, memref<384x384xf16>, memref<?x384xf16>, memref<?x384xf16>) -> ()
    func.return
  }
  func.func private @rows_0(%x: memref<?x384xf16>, %w: memref<384x384xf16>, %r: memref<?x384xf16>, %y: memref<?x384xf16>) {
    nn.matmul(%x, %w) extras(%r) outs(%y) {transpose_b, maps = [affine_map<(d0, d1) -> (d0, d1)>]} {
    ^bb0(%0: f32, %1: f16):
      %2 = arith.truncf %0 : f32 to f16
      %3 = arith.addf %2, %1 : f16
      nn.yield %3 : f16
    } : (memref<?x384xf16>, memref<384x384xf16>, memref<?x384xf16>, memref<?x384xf16>) -> ()
    func.return
  }
}
