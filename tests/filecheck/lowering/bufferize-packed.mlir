// RUN: openinfer-opt %s -p bufferize,plan-memory | filecheck %s

// Buffers of packed elements take whole bytes, rounded up once at the end.
// CHECK: {name = "z", offset = "0", size = "{{.*}}(4*N + 7)/8{{.*}}", first
// CHECK: arena = "{{.*}}/8
// Each member of a family begins with a byte: two bytes for three elements of four bits, five times.
// CHECK: func.func @step(%x: memref<?x3xi4> {openinfer.arg = #nn.slot<input "x">}, %W: memref<10xi8> {openinfer.arg = #nn.slot<weight 0>}
// CHECK: %[[TWO:\S+]] = arith.constant 2 : index
// CHECK-NEXT: %[[AT:\S+]] = arith.muli %i, %[[TWO]] : index
// CHECK-NEXT: memref.view %W[%[[AT]]][] : memref<10xi8> to memref<3xi4>
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], outputs = ["y"]}
func.func @step(%x: tensor<?x3xi4, #nn.dims<N, 3>>, %W: tensor<5x3xi4>) -> tensor<?x3xi4, #nn.dims<N, 3>> {
  %i = arith.constant 4 : index
  %w = nn.member %W[%i] : tensor<5x3xi4> -> tensor<3xi4>
  %z = nn.broadcast(%w) : (tensor<3xi4>) -> tensor<?x3xi4, #nn.dims<N, 3>>
  func.return %z : tensor<?x3xi4, #nn.dims<N, 3>>
}
}
