// RUN: openinfer-opt %s -p convert-to-llvm | filecheck %s

// An access is an address without casts to integers, and the alignment of one element.
func.func @access(%x: memref<?x8xf32>, %i: index, %v: f32) -> f32 {
  %c1 = arith.constant 1 : index
  %r = memref.load %x[%i, %c1] : memref<?x8xf32>
  memref.store %v, %x[%i, %c1] : memref<?x8xf32>
  func.return %r : f32
}
// CHECK-LABEL: llvm.func @access(
// CHECK-SAME:      %x{{.*}}: !llvm.ptr, %x_size0{{.*}}: i64, %i{{.*}}: i64, %v{{.*}}: f32) -> f32 {
// CHECK:         [[ROW:%\S+]] = llvm.mul %i{{\S*}}, {{%\S+}} overflow<nsw> : i64
// CHECK-NEXT:    [[AT:%\S+]] = llvm.add [[ROW]], %c1{{\S*}} overflow<nsw> : i64
// CHECK-NEXT:    [[P:%\S+]] = llvm.getelementptr inbounds %x{{\S*}}{{\[}}[[AT]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:    %r{{.*}} = llvm.load [[P]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:    llvm.store %v{{\S*}}, [[P]] {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK-NEXT:    llvm.return

// Dynamic sizes, the offset and dynamic strides follow the pointer, in this order; attributes of the
// argument stay with the pointer, the function is internal because it is private.
func.func private @parts(%x: memref<4x?xf32, strided<[?, 1], offset: ?>> {llvm.noalias}) {
  func.return
}
// CHECK-LABEL: llvm.func internal @parts(
// CHECK-SAME:      %x{{.*}}: !llvm.ptr {llvm.noalias}, %x_size1{{.*}}: i64, %x_offset{{.*}}: i64, %x_stride0{{.*}}: i64) {

// A view costs nothing when all is known: the load has one constant address.
func.func @folded(%x: memref<8x8xf32>) -> f32 {
  %c1 = arith.constant 1 : index
  %a = memref.subview %x[2, 4] [4, 4] [1, 1]
    : memref<8x8xf32> to memref<4x4xf32, strided<[8, 1], offset: 20>>
  %r = memref.load %a[%c1, %c1] : memref<4x4xf32, strided<[8, 1], offset: 20>>
  func.return %r : f32
}
// CHECK-LABEL: llvm.func @folded(
// CHECK-NOT:     llvm.mul
// CHECK-NOT:     llvm.add
// CHECK:         llvm.getelementptr inbounds %x{{\S*}}[29] : (!llvm.ptr) -> !llvm.ptr, f32

// A loop tests at its end, behind one test at the entry.
func.func @loop(%n: index, %init: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %init) -> (f32) {
    %t = arith.addf %s, %s fastmath<contract> : f32
    scf.yield %t : f32
  }
  func.return %r : f32
}
// CHECK-LABEL: llvm.func @loop(
// CHECK:         [[RUNS:%\S+]] = llvm.icmp "slt" %c0{{\S*}}, %n{{\S*}} : i64
// CHECK-NEXT:    llvm.cond_br [[RUNS]], ^[[HEAD:bb[0-9]+]](%c0{{\S*}}, %init{{\S*}} : i64, f32), ^[[EXIT:bb[0-9]+]](%init{{\S*}} : f32)
// CHECK-NEXT:  ^[[HEAD]](%i{{\S*}}: i64, %s{{\S*}}: f32):
// CHECK-NEXT:    %t{{\S*}} = llvm.fadd %s{{\S*}}, %s{{\S*}} {fastmathFlags = #llvm.fastmath<contract>} : f32
// CHECK-NEXT:    [[NEXT:%\S+]] = llvm.add %i{{\S*}}, %c1{{\S*}} overflow<nsw> : i64
// CHECK-NEXT:    [[AGAIN:%\S+]] = llvm.icmp "slt" [[NEXT]], %n{{\S*}} : i64
// CHECK-NEXT:    llvm.cond_br [[AGAIN]], ^[[HEAD]]([[NEXT]], %t{{\S*}} : i64, f32), ^[[EXIT]](%t{{\S*}} : f32)
// CHECK-NEXT:  ^[[EXIT]](%r{{\S*}}: f32):
// CHECK-NEXT:    llvm.return %r{{\S*}} : f32

// A masked access may start outside of the buffer: its address promises nothing.
func.func @masked(%x: memref<?xf32>, %i: index, %n: index) {
  %m = vector.create_mask %n : vector<16xi1>
  %v = arith.constant dense<1.0> : vector<16xf32>
  vector.maskedstore %x[%i], %m, %v : memref<?xf32>, vector<16xi1>, vector<16xf32>
  func.return
}
// CHECK-LABEL: llvm.func @masked(
// CHECK:         %m{{\S*}} = llvm.icmp "ult" {{.*}} : vector<16xi32>
// CHECK-NEXT:    [[P:%\S+]] = llvm.getelementptr %x{{\S*}}[%i{{\S*}}] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:    llvm.intr.masked.store %v{{\S*}}, [[P]], %m{{\S*}} {alignment = 4 : i32}

// A memref in a call is passed by its parts; what the C library must do is declared.
func.func @caller(%x: memref<?xf32>, %n: index, %a: f64) -> f64 {
  %v = memref.subview %x[%n] [4] [2] : memref<?xf32> to memref<4xf32, strided<[2], offset: ?>>
  func.call @callee(%v) : (memref<4xf32, strided<[2], offset: ?>>) -> ()
  %b = math.erf %a : f64
  func.return %b : f64
}
func.func private @callee(memref<4xf32, strided<[2], offset: ?>>) -> ()
// CHECK-LABEL: llvm.func @caller(
// CHECK:         llvm.call @callee(%x{{\S*}}, %n{{\S*}}) : (!llvm.ptr, i64) -> ()
// CHECK-NEXT:    llvm.call @erf(%a{{\S*}}) : (f64) -> f64
// CHECK:       llvm.func @callee(!llvm.ptr, i64)

// One part of a buffer is passed by its address.
func.func @part(%x: memref<?x4xf32>, %n: index) {
  %v = nn.subview %x[%n] : memref<?x4xf32> to memref<1x4xf32>
  func.call @takes_part(%v) : (memref<1x4xf32>) -> ()
  func.return
}
func.func private @takes_part(memref<1x4xf32>) -> ()
// CHECK-LABEL: llvm.func @part(
// CHECK:         [[N:%\S+]] = llvm.{{mul|shl}} %n{{\S*}}, %{{\S+}}
// CHECK-NEXT:    [[P:%\S+]] = llvm.getelementptr inbounds %x{{\S*}}{{.}}[[N]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:    llvm.call @takes_part([[P]]) : (!llvm.ptr) -> ()

// Static buffers keep their bytes.
memref.global "private" constant @table : memref<2x2xf32> = dense<[[1.0, 2.0], [3.0, 4.0]]>
// CHECK:       llvm.mlir.global internal constant @table(dense<{{.*}}> : tensor<2x2xf32>) {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<4 x f32>

// One of two buffers: its address, and each size that only the run knows.
func.func @choose(%c: i1, %a: memref<4x?xf32>, %b: memref<4x?xf32>, %i: index) -> f32 {
  %m = arith.select %c, %a, %b : memref<4x?xf32>
  %x = memref.load %m[%i, %i] : memref<4x?xf32>
  func.return %x : f32
}
// CHECK-LABEL: llvm.func @choose(
// CHECK-NEXT:    llvm.select %c{{\S*}}, %a{{\S*}}, %b{{\S*}} : i1, !llvm.ptr
// CHECK-NEXT:    llvm.select %c{{\S*}}, %{{\S*}}, %{{\S*}} : i1, i64

// What is llvm already is left alone.
llvm.func @untouched(%x: i64) -> i64 {
  llvm.return %x : i64
}
// CHECK:       llvm.func @untouched(%x{{\S*}}: i64) -> i64 {
// CHECK-NEXT:    llvm.return %x{{\S*}} : i64

// CHECK:       llvm.func @erf(f64) -> f64
