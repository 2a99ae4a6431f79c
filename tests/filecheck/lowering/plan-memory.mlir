// RUN: openinfer-opt %s -p plan-memory --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.target = "generic"/&, openinfer.observed/' %s | openinfer-opt - -p plan-memory --split-input-file | filecheck %s --check-prefix OBSERVE

// The third buffer takes the place of the first one; sizes are expressions, rounded up to 64.
// CHECK: offsets = {y = "0"}
// CHECK: {name = "a", offset = "0", size = "16*N", first
// CHECK-NEXT: {name = "b", offset = "64*((16*N + 63)/64)", size = "16*N", first
// CHECK-NEXT: {name = "c", offset = "0", size = "16*N", first
// CHECK: arena = "128*((16*N + 63)/64)"
// CHECK: func.func @step(%x: memref<?x4xf32> {openinfer.arg = #nn.slot<input "x">}, %arena: memref<?xi8> {openinfer.arg = #nn.slot<arena>})
// CHECK: %[[B:.*]] = nn.size "64*((16*N + 63)/64)"
// CHECK-NEXT: memref.view %arena[%[[B]]][%n] : memref<?xi8> to memref<?x4xf32>
// CHECK-NOT: memref.alloc
// CHECK: func.return

// Watched, nothing shares a place.
// OBSERVE: arena = "192*((16*N + 63)/64)"
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], outputs = ["y"]}
func.func @step(%x: memref<?x4xf32> {openinfer.arg = #nn.slot<input "x">}) {
  %n = nn.size "N"
  %a = memref.alloc(%n) : memref<?x4xf32>
  func.call @k(%x, %a) : (memref<?x4xf32>, memref<?x4xf32>) -> ()
  %b = memref.alloc(%n) : memref<?x4xf32>
  func.call @k(%a, %b) : (memref<?x4xf32>, memref<?x4xf32>) -> ()
  %c = memref.alloc(%n) : memref<?x4xf32>
  func.call @k(%b, %c) : (memref<?x4xf32>, memref<?x4xf32>) -> ()
  nn.publish %c "y" : memref<?x4xf32>
  func.return
}
func.func private @k(memref<?x4xf32>, memref<?x4xf32>)
}
// -----
// What a loop reads lives until it ends: %a is read in every round, so %t may not lie there. A
// result lives to the end, although its last reader is long gone; a view keeps its buffer alive.
// CHECK: offsets = {y = "[[Y:[0-9]+]]"}
// CHECK: {name = "a", offset = "[[A:[0-9]+]]", size = "64"
// CHECK-NEXT: {name = "y", offset = "[[Y]]", size = "64"
// CHECK-NEXT: {name = "t", offset = "128", size = "64"
// CHECK-NEXT: {name = "u", offset = "[[A]]", size = "64"
// CHECK: arena = "192"
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {inputs = ["x"], outputs = ["y"]}
func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}, %n: index {openinfer.arg = #nn.slot<size "N">}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.alloc() : memref<16xf32>
  func.call @k(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  %v = nn.view %a[] : memref<16xf32> to memref<4x4xf32>
  %y = memref.alloc() : memref<16xf32>
  func.call @k(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  nn.publish %y "y" : memref<16xf32>
  scf.for %i = %c0 to %n step %c1 {
    func.call @v(%v) : (memref<4x4xf32>) -> ()
    %t = memref.alloc() : memref<16xf32>
    func.call @k(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
  }
  %u = memref.alloc() : memref<16xf32>
  func.call @k(%x, %u) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @k(memref<16xf32>, memref<16xf32>)
func.func private @v(memref<4x4xf32>)
}
// -----
// Only the step has an arena.
// CHECK: func.func @prepare_0(%x: memref<16xf32>)
// CHECK-NEXT: memref.alloc
builtin.module attributes {openinfer.target = "generic"} {
func.func @prepare_0(%x: memref<16xf32>) {
  %a = memref.alloc() : memref<16xf32>
  func.return
}
}
// -----
// A device may run calls side by side: the third buffer does not take the place of the first one, so that its
// call waits for nobody. A large one does (%e that of %d).
// CHECK: {name = "a", offset = "{{[0-9]+}}", size = "64", first = {{[0-9]+}} : i64, last = {{[0-9]+}} : i64, memory = "device"
// CHECK: {name = "c", offset
// CHECK: {name = "d", offset = "0", size = "1048576"
// CHECK: {name = "e", offset = "0", size = "1048576"
// CHECK: device_arena = "1048768"
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
nn.interface {inputs = ["x"], outputs = []}
func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
  %a = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
  func.call @k(%a, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  %b = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
  func.call @k(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
  %c = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
  func.call @k(%b, %c) : (memref<16xf32>, memref<16xf32>) -> ()
  %d = memref.alloc() {openinfer.memory = "device"} : memref<262144xf32>
  func.call @large(%d) : (memref<262144xf32>) -> ()
  %e = memref.alloc() {openinfer.memory = "device"} : memref<262144xf32>
  func.call @large(%e) : (memref<262144xf32>) -> ()
  func.return
}
func.func private @k(memref<16xf32>, memref<16xf32>)
func.func private @large(memref<262144xf32>)
}
