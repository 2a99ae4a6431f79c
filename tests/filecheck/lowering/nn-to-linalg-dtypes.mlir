// RUN: openinfer-opt %s -p nn-to-linalg --split-input-file | filecheck %s

// Packed integers keep their width in memory, are computed in bytes and wrap once.
// CHECK-LABEL: func.func @packed(%x: tensor<5xi4>, %z: tensor<5xi4>) -> tensor<5xi4>
// CHECK: ^bb0(%[[A:\S+]]: i4, %[[B:\S+]]: i4
// CHECK-NEXT: arith.extui %[[A]] : i4 to i8
// CHECK-NEXT: arith.extui %[[B]] : i4 to i8
// CHECK-NEXT: %[[S:\S+]] = arith.addi %{{.*}} : i8
// CHECK-NEXT: %[[R:\S+]] = arith.trunci %[[S]] : i8 to i4
// CHECK-NEXT: linalg.yield %[[R]] : i4
func.func @packed(%x: tensor<5xui4>, %z: tensor<5xui4>) -> tensor<5xui4> {
  %y = nn.elementwise(%x, %z) {kind = "add"} : (tensor<5xui4>, tensor<5xui4>) -> tensor<5xui4>
  func.return %y : tensor<5xui4>
}
// -----
// One signed bit is -1 or 0; it is no truth value, and a truth value is a byte.
// CHECK-LABEL: func.func @one_bit(%x: tensor<5xi1>) -> tensor<5xi8>
// CHECK: arith.extsi %{{\S+}} : i1 to i8
// CHECK: arith.cmpi ne, %{{.*}} : i8
// CHECK-NEXT: arith.extui %{{\S+}} : i1 to i8
func.func @one_bit(%x: tensor<5xsi1>) -> tensor<5xi1> {
  %y = nn.elementwise(%x) {kind = "cast"} : (tensor<5xsi1>) -> tensor<5xi1>
  func.return %y : tensor<5xi1>
}
// -----
// The bit 0 of t1 is -1, the bit 1 is 1; what is not above 0 becomes -1. A t1 that starts with
// nothing is -1.
// CHECK-LABEL: func.func @ternary(%x: tensor<5xi1>) -> (tensor<5xi2>, tensor<5xi1>, tensor<5xi1>)
// CHECK: %[[W:\S+]] = arith.extui %{{\S+}} : i1 to i8
// CHECK-NEXT: %[[D:\S+]] = arith.addi %[[W]], %[[W]] : i8
// CHECK: arith.subi %[[D]]
// CHECK: arith.trunci %{{\S+}} : i8 to i2
// CHECK: arith.cmpi sgt
// CHECK: arith.constant false
// CHECK-NEXT: linalg.fill
func.func @ternary(%x: tensor<5x!nn.dtype<t1>>) -> (tensor<5x!nn.dtype<t2>>, tensor<5x!nn.dtype<t1>>, tensor<5x!nn.dtype<t1>>) {
  %y = nn.elementwise(%x) {kind = "cast"} : (tensor<5x!nn.dtype<t1>>) -> tensor<5x!nn.dtype<t2>>
  %z = nn.elementwise(%y) {kind = "cast"} : (tensor<5x!nn.dtype<t2>>) -> tensor<5x!nn.dtype<t1>>
  %f = nn.fill() {value = 0 : i64} : () -> tensor<5x!nn.dtype<t1>>
  func.return %y, %z, %f : tensor<5x!nn.dtype<t2>>, tensor<5x!nn.dtype<t1>>, tensor<5x!nn.dtype<t1>>
}
// -----
// Sums of packed integers are added up in 32 bits and cut once.
// CHECK-LABEL: func.func @sum
// CHECK: arith.extsi %{{\S+}} : i4 to i8
// CHECK: arith.extsi %{{\S+}} : i8 to i32
// CHECK-NEXT: arith.addi %{{.*}} : i32
// CHECK: arith.trunci %{{\S+}} : i8 to i4
func.func @sum(%x: tensor<9xi4>) -> tensor<i4> {
  %y = nn.reduce(%x) {kind = "sum", axes = array<i64: 0>} : (tensor<9xi4>) -> tensor<i4>
  func.return %y : tensor<i4>
}
// -----
// An 8-bit float is computed in f32, as narrow floats are.
// CHECK-LABEL: func.func @f8
// CHECK: arith.extf %{{\S+}} : f8E5M2 to f32
// CHECK: arith.addf %{{.*}} : f32
// CHECK-NEXT: arith.truncf %{{\S+}} : f32 to f8E5M2
func.func @f8(%x: tensor<5xf8E5M2>) -> tensor<5xf8E5M2> {
  %y = nn.elementwise(%x, %x) {kind = "add"} : (tensor<5xf8E5M2>, tensor<5xf8E5M2>) -> tensor<5xf8E5M2>
  func.return %y : tensor<5xf8E5M2>
}
// -----
// Kernels that keep their op learn who has no sign: operands here, indices there.
// CHECK-LABEL: func.func @signs
// CHECK: nn.reduce(%x) {{.*}}, unsigned} : (tensor<9xi4>) -> tensor<i64>
// CHECK: nn.gather(%x, %i) {{.*}}, unsigned_indices} :
// CHECK: nn.gather(%x, %j) {axis = 0 : i64} :
func.func @signs(%x: tensor<9xui4>, %i: tensor<3xui8>, %j: tensor<3xi8>) -> (tensor<i64>, tensor<3xui4>, tensor<3xui4>) {
  %a = nn.reduce(%x) {kind = "argmax", axes = array<i64: 0>} : (tensor<9xui4>) -> tensor<i64>
  %b = nn.gather(%x, %i) {axis = 0 : i64} : (tensor<9xui4>, tensor<3xui8>) -> tensor<3xui4>
  %c = nn.gather(%x, %j) {axis = 0 : i64} : (tensor<9xui4>, tensor<3xi8>) -> tensor<3xui4>
  func.return %a, %b, %c : tensor<i64>, tensor<3xui4>, tensor<3xui4>
}
