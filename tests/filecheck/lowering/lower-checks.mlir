// RUN: openinfer-opt %s -p lower-checks --split-input-file | filecheck %s

// The first failure of a step stays recorded: node + 1, index, bound. The index becomes 0.
// CHECK: func.func @step
// CHECK: %[[BOUND:.*]] = arith.constant 6 : index
// CHECK: %[[IN:.*]] = arith.cmpi ult, %i, %[[BOUND]] : index
// CHECK: scf.if
// CHECK: arith.cmpi eq
// CHECK: scf.if
// CHECK: arith.constant 4 : i64
// CHECK: memref.store %{{.*}}, %errors
// CHECK: arith.index_cast %i : index to i64
// CHECK: memref.store %{{.*}}, %errors
// CHECK: memref.store %{{.*}}, %errors
// CHECK: %[[J:.*]] = arith.select %[[IN]], %i, %{{.*}} : index
// CHECK-NEXT: "test.op"(%[[J]])
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%i: index {openinfer.arg = #nn.slot<size "i">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %j = nn.check_index %i below 6 : i64 node 3 : i64
  "test.op"(%j) : (index) -> ()
  func.return
}
}
// -----
// What the device has noted is what the step fails with; where it has noted nothing, the record stays.
// CHECK: %[[FIRST:.*]] = memref.load %noted[%c0] : memref<4xi64>
// CHECK: %[[SOME:.*]] = arith.cmpi ne, %[[FIRST]], %{{.*}} : i64
// CHECK-NEXT: scf.if %[[SOME]] {
// CHECK-COUNT-4: memref.store %{{.*}}, %errors[%{{.*}}] : memref<4xi64>
// CHECK-NEXT: }
// CHECK-NEXT: func.return
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %noted = memref.alloc() : memref<4xi64>
  nn.take_errors %noted, %errors : memref<4xi64>, memref<4xi64>
  func.return
}
}
// -----
// Names of watched values are numbered, each once; the function of the host is declared.
// CHECK: watched = ["h", "y"]
// CHECK: %[[P:.*]] = "memref.extract_aligned_pointer_as_index"(%x)
// CHECK: func.call @openinfer_observe(%c2, %c0, %[[P]])
// CHECK: func.call @openinfer_observe(%c3, %c1,
// CHECK: func.call @openinfer_observe(%c4, %c0
// CHECK: func.func private @openinfer_observe(index, index, index)
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<4xf32>, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  nn.observe %x 2 : i64 "h" : memref<4xf32>
  nn.observe %x 3 : i64 "y" : memref<4xf32>
  nn.observe %x 4 : i64 "h" : memref<4xf32>
  func.return
}
}
// -----
// Barriers have done their work; nothing else changes.
// CHECK: func.func @step
// CHECK-NEXT: "test.op"(%x)
// CHECK-NEXT: "test.op"(%x)
// CHECK-NOT: openinfer_observe
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<4xf32>) {
  "test.op"(%x) : (memref<4xf32>) -> ()
  nn.barrier
  "test.op"(%x) : (memref<4xf32>) -> ()
  func.return
}
}
