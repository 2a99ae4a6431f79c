// RUN: openinfer-opt %s -p write-states --split-input-file | filecheck %s

// The kernel writes into the state, through a view of another shape, too. What says where moves in front of
// all kernels: what is copied into the undo log waits for nobody.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.softmax
// CHECK: %[[N:.*]] = nn.grow "K"[] axis 0 : i64 to %n node 3 : i64
// CHECK: %[[P:.*]] = nn.state_place "K"[%[[N]]] [] node 3 : i64 : memref<16xf32>
// CHECK-NEXT: %[[A:.*]] = nn.view %[[P]][] : memref<16xf32> to memref<2x8xf32>
// CHECK: nn.softmax(%x) outs(%b)
// CHECK-NEXT: nn.softmax(%b) outs(%[[A]])
// CHECK-NOT: nn.state_write
// CHECK: func.return
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {states = [
    {name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%x: memref<2x8xf32>, %n: index) {
    %a = memref.alloc() : memref<2x8xf32>
    %b = memref.alloc() : memref<2x8xf32>
    nn.softmax(%x) outs(%b) {axis = 1 : i64} : (memref<2x8xf32>, memref<2x8xf32>) -> ()
    nn.softmax(%b) outs(%a) {axis = 1 : i64} : (memref<2x8xf32>, memref<2x8xf32>) -> ()
    %v = nn.view %a[] : memref<2x8xf32> to memref<16xf32>
    %g = nn.grow "K"[] axis 0 : i64 to %n node 3 : i64
    nn.state_write "K"[%g] kept [] node 3 : i64 = %v : memref<16xf32>
    func.return
  }
}
// -----
// Several entries, as many as the step says, in a loop.
// CHECK-LABEL: func.func @step
// CHECK: scf.for
// CHECK: nn.require
// CHECK-NEXT: %[[S:.*]] = nn.size "B"
// CHECK: %[[P:.*]] = nn.state_place "K"[%i] [%[[S]]] node 3 : i64 : memref<?x16xf32>
// CHECK: nn.softmax(%x) outs(%{{.*}}) {axis = 1 : i64}
// CHECK-NOT: nn.state_write
// CHECK: func.return
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {states = [
    {name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%x: memref<?x16xf32>, %n: index, %c: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %s = nn.size "B"
      %a = memref.alloc(%s) : memref<?x16xf32>
      nn.softmax(%x) outs(%a) {axis = 1 : i64} : (memref<?x16xf32>, memref<?x16xf32>) -> ()
      nn.require %c else "negative" %n, %i node 3 : i64
      nn.state_write "K"[%i] kept [0] node 3 : i64 = %a : memref<?x16xf32>
    }
    func.return
  }
}
// -----
// The copy stays where somebody else reads the value, or reads the state in between; where the kernel reads
// it; where a check of the step, or a size that is fixed, stands in between; and of a part with gaps.
// CHECK-LABEL: func.func @step
// CHECK-NOT: nn.state_place
// CHECK-COUNT-6: nn.state_write
// CHECK-NOT: nn.state_place
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {states = [
    {name = "K", dtype = "f32", axes = ["t", "u"], tables = 2 : i64, base = ["0", "0"], limits = ["", ""], entry = ["16"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%x: memref<16xf32>, %n: index, %y: memref<2x16xf32>, %i: memref<1xi64>, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %a = memref.alloc() : memref<16xf32>
    nn.softmax(%x) outs(%a) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.state_write "K"[%n, %n] kept [] node 1 : i64 = %a : memref<16xf32>
    nn.publish %a "y" : memref<16xf32>
    %b = memref.alloc() : memref<16xf32>
    %t = memref.alloc() : memref<16xf32>
    %v = nn.state_view "K"[%n, %n] [] : memref<16xf32>
    nn.softmax(%x) outs(%b) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.softmax(%v) outs(%t) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.state_write "K"[%n, %n] kept [] node 2 : i64 = %b : memref<16xf32>
    %d = memref.alloc() : memref<16xf32>
    %w = nn.state_view "K"[%n, %n] [] : memref<16xf32>
    nn.softmax(%w) outs(%d) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.state_write "K"[%n, %n] kept [] node 3 : i64 = %d : memref<16xf32>
    %e = memref.alloc() : memref<16xf32>
    nn.softmax(%x) outs(%e) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.check_indices(%i) outs(%errors) {bound = #graph.size<4>, node = 3 : i64} : (memref<1xi64>, memref<4xi64>) -> ()
    nn.state_write "K"[%n, %n] kept [] node 4 : i64 = %e : memref<16xf32>
    %f = memref.alloc() : memref<16xf32>
    nn.softmax(%x) outs(%f) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.define_size "B" = %n node 5 : i64
    nn.state_write "K"[%n, %n] kept [] node 5 : i64 = %f : memref<16xf32>
    %h = memref.alloc() : memref<2x16xf32>
    nn.softmax(%y) outs(%h) {axis = 1 : i64} : (memref<2x16xf32>, memref<2x16xf32>) -> ()
    nn.state_write "K"[%n, %n] kept [0] node 6 : i64 = %h : memref<2x16xf32>
    func.return
  }
}
// -----
// So does that of a machine that keeps no states.
// CHECK-LABEL: func.func @step
// CHECK: nn.state_write
builtin.module attributes {openinfer.target = "generic", openinfer.device = "cpu"} {
  nn.interface {states = [
    {name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%x: memref<16xf32>, %n: index) {
    %a = memref.alloc() : memref<16xf32>
    nn.softmax(%x) outs(%a) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    nn.state_write "K"[%n] kept [] node 1 : i64 = %a : memref<16xf32>
    func.return
  }
}
