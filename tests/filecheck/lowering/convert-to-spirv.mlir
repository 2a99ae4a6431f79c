// RUN: openinfer-opt %s -p convert-to-spirv --split-input-file | filecheck %s

// Buffers are bindings; where they begin and what their types leave open are words that the host passes. What a
// kernel only reads says so.
// CHECK: spirv.module @scale_0 Logical GLSL450 requires #spirv.vce<v1.3, [Shader, SignedZeroInfNanPreserve], [SPV_KHR_float_controls]>
// CHECK: spirv.GlobalVariable @x_1 bind(0, 1) {aliased} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0])>, StorageBuffer>
// CHECK: spirv.GlobalVariable @first : !spirv.ptr<!spirv.struct<(i32 [0])>, PushConstant>
// CHECK: spirv.GlobalVariable @parameters bind(0, 0) {aliased} : !spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0, NonWritable])>, StorageBuffer>
// CHECK: spirv.func @scale_0() "None"
// CHECK: spirv.mlir.selection {
// CHECK: spirv.mlir.loop {
// CHECK: spirv.FMul %{{.*}}, %{{.*}} {no_contraction} : f32
// CHECK: spirv.Store "Function"
// CHECK: spirv.mlir.merge
// CHECK: spirv.Store "StorageBuffer" %{{.*}}, %{{.*}} : f32
// CHECK: spirv.Return
// CHECK: spirv.EntryPoint "GLCompute" @scale_0, @LocalInvocationId
// CHECK: spirv.ExecutionMode @scale_0 "LocalSize", 64, 1, 1
// CHECK: spirv.ExecutionMode @scale_0 "SignedZeroInfNanPreserve", 32
func.func private @scale_0(%x: memref<?x8xf32>, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = memref.dim %x, %c0 : memref<?x8xf32>
  %inside = arith.cmpi ult, %i, %rows : index
  scf.if %inside {
    %one = memref.load %x[%i, %c0] : memref<?x8xf32>
    %all = scf.for %k = %c0 to %n step %c1 iter_args(%v = %one) -> (f32) {
      %w = arith.mulf %v, %one : f32
      scf.yield %w : f32
    }
    memref.store %all, %x[%i, %c1] : memref<?x8xf32>
  }
  func.return
}
// -----
// What an element needs is declared.
// CHECK: spirv.module @narrow_0 {{.*}}[Int64, Int8, Shader, SignedZeroInfNanPreserve, StorageBuffer8BitAccess], [SPV_KHR_8bit_storage, SPV_KHR_float_controls]>
// CHECK: spirv.SConvert %{{.*}} : i8 to i64
// CHECK: spirv.Select %{{.*}}, %{{.*}}, %{{.*}} : i1, i64
func.func private @narrow_0(%x: memref<4xi8>, %y: memref<4xi64>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<4xi8>
  %w = arith.extsi %v : i8 to i64
  %zero = arith.constant 0 : i64
  %negative = arith.cmpi slt, %w, %zero : i64
  %sign = arith.extui %negative : i1 to i64
  memref.store %sign, %y[%c0] : memref<4xi64>
  func.return
}
// -----
// What was rounded to f16 and is an f32 again keeps the rounding, which a driver may otherwise take for nothing; one
// that comes from memory is converted as it is.
// CHECK-LABEL: spirv.func @rounded_0
// CHECK: %[[SIGN:.*]] = spirv.ShiftRightLogical %{{.*}}, %{{.*}} : i32
// CHECK: spirv.Bitcast
// CHECK: spirv.BitwiseOr %{{.*}}, %[[SIGN]] : i32
// CHECK: spirv.UConvert %{{.*}} : i32 to i16
// CHECK: %[[KEPT:.*]] = spirv.Bitcast %{{.*}} : i16 to f16
// CHECK-NEXT: spirv.FConvert %[[KEPT]] : f16 to f32
// CHECK: spirv.Return
// CHECK-LABEL: spirv.func @stored_0
// CHECK-NOT: spirv.Bitcast
// CHECK: spirv.Return
func.func private @rounded_0(%x: memref<4xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<4xf32>
  %h = arith.truncf %v : f32 to f16
  %w = arith.extf %h : f16 to f32
  memref.store %w, %x[%c0] : memref<4xf32>
  func.return
}
func.func private @stored_0(%x: memref<4xf16>, %y: memref<4xf16>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<4xf16>
  %w = arith.extf %v : f16 to f32
  %h = arith.truncf %w : f32 to f16
  memref.store %h, %y[%c0] : memref<4xf16>
  func.return
}
// -----
// f64 is declared, and so is that its infinities and NaN are kept.
// CHECK: spirv.module @double_0 {{.*}}[Float64, Shader, SignedZeroInfNanPreserve], [SPV_KHR_float_controls]>
// CHECK: spirv.FMul %{{.*}}, %{{.*}} {no_contraction} : f64
// CHECK: spirv.ExecutionMode @double_0 "SignedZeroInfNanPreserve", 64
func.func private @double_0(%x: memref<4xf64>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<4xf64>
  %w = arith.mulf %v, %v : f64
  memref.store %w, %x[%c0] : memref<4xf64>
  func.return
}
// -----
// Functions of the host are not touched.
// CHECK: func.func @host
// CHECK-NOT: spirv.
func.func @host(%x: memref<4xf32>) {
  func.return
}
// -----
// A product and a sum that the program writes are rounded each; those of a function's polynomial need not be.
// CHECK-LABEL: spirv.module @rounded_0
// CHECK: [[A:%\S+]] = spirv.FMul %{{.*}}, %{{.*}} {no_contraction} : f32
// CHECK: [[B:%\S+]] = spirv.FAdd [[A]], %{{.*}} {no_contraction} : f32
// CHECK: [[C:%\S+]] = spirv.FMul [[B]], %{{\S+}} : f32
// CHECK: spirv.FAdd [[C]], %{{\S+}} : f32
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func private @rounded_0(%x: memref<16xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    %i = "gpu.thread_id"() <{dimension = #gpu<dim x>}> : () -> index
    %v = memref.load %x[%i] : memref<16xf32>
    %a = arith.mulf %v, %v : f32
    %b = arith.addf %a, %v : f32
    %c = arith.mulf %b, %v fastmath<contract> : f32
    %d = arith.addf %c, %v fastmath<contract> : f32
    memref.store %d, %x[%i] : memref<16xf32>
    func.return
  }
}
// -----
// Four bytes at once are an integer dot product; words of shared memory hold them.
// CHECK: spirv.module @bytes_0 {{.*}}DotProduct, DotProductInput4x8Bit{{.*}}SPV_KHR_integer_dot_product
// CHECK: spirv.GlobalVariable @memory_shared_0 : !spirv.ptr<!spirv.array<8 x i32>, Workgroup>
// CHECK: %[[A:.*]] = spirv.CompositeConstruct {{.*}} -> vector<4xi8>
// CHECK: %[[D:.*]] = spirv.UDot %{{.*}}, %{{.*}} : vector<4xi8> -> i32
// CHECK: spirv.IAdd %{{.*}}, %[[D]] : i32
func.func private @bytes_0(%x: memref<8xi32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %memory = memref.alloca() : memref<8xvector<4xi8>, #gpu.address_space<workgroup>>
  %c0 = arith.constant 0 : index
  %a = memref.load %memory[%c0] : memref<8xvector<4xi8>, #gpu.address_space<workgroup>>
  %s = memref.load %x[%c0] : memref<8xi32>
  %d = nn.dot_bytes unsigned %s, %a, %a : vector<4xi8>
  memref.store %d, %x[%c0] : memref<8xi32>
  func.return
}
// -----
// A buffer that is called like the kernel gets another name.
// CHECK: spirv.GlobalVariable @v_slice_1 bind(0, 1)
// CHECK: spirv.func @slice_1() "None"
// CHECK: spirv.EntryPoint "GLCompute" @slice_1
func.func private @slice_1(%slice: memref<4xf32>, %y: memref<4xf32>) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %slice[%c0] : memref<4xf32>
  memref.store %v, %y[%c0] : memref<4xf32>
  func.return
}
// -----
// Workgroups count each other, and read what others of them have written: a buffer that is written is coherent, the
// barrier orders accesses of the device.
// CHECK-LABEL: spirv.module @counted_0
// CHECK: spirv.GlobalVariable @x_1 bind(0, 1) {aliased} :
// CHECK: spirv.GlobalVariable @n_2 bind(0, 2) {aliased, coherent} :
// CHECK: spirv.ControlBarrier <Workgroup>, <Device>, <AcquireRelease|UniformMemory|WorkgroupMemory>
// CHECK: spirv.AtomicIAdd <Device> <AcquireRelease|UniformMemory> %{{.*}}, %{{.*}} : !spirv.ptr<i32, StorageBuffer>
func.func private @counted_0(%x: memref<8xi32>, %n: memref<4xi32>) attributes {openinfer.exact = array<i64: 0, 1>, gpu.known_block_size = array<i32: 64, 1, 1>} {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<8xi32>
  "gpu.barrier"() {openinfer.of_device} : () -> ()
  %before = memref.atomic_rmw addi %v, %n[%c0] : (i32, memref<4xi32>) -> i32
  %c1 = arith.constant 1 : index
  memref.store %before, %n[%c1] : memref<4xi32>
  func.return
}
