// RUN: openinfer-opt %s -t 'llvm-ir{target=avx512}' | filecheck %s
// RUN: openinfer-opt %s -t 'llvm-ir{target=avx2}' | filecheck %s --check-prefix=AVX2

// CHECK:       target triple = "x86_64-unknown-linux-gnu"

llvm.mlir.global internal constant @table(dense<[1.0, 0.1]> : tensor<2xf32>) {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<2 x f32>
llvm.mlir.global internal @counter(5 : i64) {addr_space = 0 : i32} : i64
llvm.mlir.global internal @space() {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<16 x i8>
// CHECK:       @table = internal constant [2 x float] [float 1.0, float 0x3FB99999A0000000], align 64
// CHECK-NEXT:  @counter = internal global i64 5
// CHECK-NEXT:  @space = internal global [16 x i8] zeroinitializer, align 64

llvm.func @outside(f64) -> f64
// CHECK:       declare double @outside(double) nounwind

// Constants stand where they are used, arguments of blocks are phis, names come from the IR.
llvm.func internal @loop(%x: !llvm.ptr {llvm.noalias, llvm.nocapture}, %n: i64) attributes {no_inline} {
  %zero = llvm.mlir.constant(0) : i64
  %one = llvm.mlir.constant(1) : i64
  %half = llvm.mlir.constant(dense<5.000000e-01> : vector<16xf32>) : vector<16xf32>
  %runs = llvm.icmp "slt" %zero, %n : i64
  llvm.cond_br %runs, ^body(%zero : i64), ^exit
^body(%i: i64):
  %p = llvm.getelementptr inbounds %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32> loc("model.oi":7:3)
  %w = llvm.intr.fma(%v, %half, %v) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>
  %u = llvm.fmul %w, %v {fastmathFlags = #llvm.fastmath<reassoc, contract>} : vector<16xf32>
  llvm.store %u, %p {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr
  %next = llvm.add %i, %one overflow<nsw> : i64
  %again = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %again, ^body(%next : i64), ^exit
^exit:
  llvm.return
}
// CHECK:       define internal void @loop(ptr noalias captures(none) %x, i64 %n) noinline #0 {
// CHECK-NEXT:  entry:
// CHECK-NEXT:    %runs = icmp slt i64 0, %n
// CHECK-NEXT:    br i1 %runs, label %bb1, label %bb2
// CHECK:       bb1:
// CHECK-NEXT:    %i = phi i64 [ 0, %entry ], [ %next, %bb1 ]
// CHECK-NEXT:    %p = getelementptr inbounds float, ptr %x, i64 %i
// CHECK-NEXT:    %v = load <16 x float>, ptr %p, align 4  ; model.oi:7
// CHECK-NEXT:    %w = call <16 x float> @llvm.fma.v16f32(<16 x float> %v, <16 x float> splat (float 0.5), <16 x float> %v)
// CHECK-NEXT:    %u = fmul reassoc contract <16 x float> %w, %v
// CHECK-NEXT:    store <16 x float> %u, ptr %p, align 64, !nontemporal !0
// CHECK-NEXT:    %next = add nsw i64 %i, 1
// CHECK:       bb2:
// CHECK-NEXT:    ret void

// Two edges from one block to another: a block between, so that the phi can tell them apart.
llvm.func @doubled(%c: i1, %a: bf16, %b: bf16) -> bf16 {
  llvm.cond_br %c, ^join(%a : bf16), ^join(%b : bf16)
^join(%r: bf16):
  llvm.return %r : bf16
}
// bf16 is its bits.
// CHECK:       define i16 @doubled(i1 %c, i16 %a, i16 %b) #0 {
// CHECK-NEXT:  entry:
// CHECK-NEXT:    br i1 %c, label %bb1, label %[[BETWEEN:entry.edge\S*]]
// CHECK:       [[BETWEEN]]:
// CHECK-NEXT:    br label %bb1
// CHECK:       bb1:
// CHECK-NEXT:    %r = phi i16 [ %a, %entry ], [ %b, %[[BETWEEN]] ]

llvm.func @masked(%p: !llvm.ptr, %m: vector<8xi1>, %v: vector<8xf16>) {
  %l = llvm.intr.masked.load %p, %m, %v {alignment = 2 : i32} : (!llvm.ptr, vector<8xi1>, vector<8xf16>) -> vector<8xf16>
  llvm.intr.masked.store %l, %p, %m {alignment = 2 : i32} : vector<8xf16>, vector<8xi1> into !llvm.ptr
  llvm.return
}
// CHECK:         %l = call <8 x half> @llvm.masked.load.v8f16.p0(ptr align 2 %p, <8 x i1> %m, <8 x half> %v)
// CHECK-NEXT:    call void @llvm.masked.store.v8f16.p0(<8 x half> %l, ptr align 2 %p, <8 x i1> %m)

// Properties of an intrinsic are its last arguments.
llvm.func @copied(%p: !llvm.ptr, %q: !llvm.ptr, %n: i64) {
  "llvm.intr.memcpy"(%p, %q, %n) <{isVolatile = true}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  "llvm.intr.prefetch"(%p) <{rw = 1 : i32, hint = 3 : i32, cache = 0 : i32}> : (!llvm.ptr) -> ()
  llvm.return
}
// CHECK:         call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 true)
// CHECK-NEXT:    call void @llvm.prefetch.p0(ptr %p, i32 1, i32 3, i32 0)

// CHECK:       declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
// CHECK-NEXT:  declare <8 x half> @llvm.masked.load.v8f16.p0(ptr, <8 x i1>, <8 x half>)
// CHECK:       attributes #0 = { nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" "target-cpu"="x86-64-v4" }
// CHECK:       !0 = !{i32 1}
// AVX2:        attributes #0 = { nounwind "min-legal-vector-width"="256" "prefer-vector-width"="256" "target-cpu"="x86-64-v3" }
