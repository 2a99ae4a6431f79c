// RUN: openinfer-opt %s -p place-buffers --split-input-file | filecheck %s

// Inputs are sent once, before the first kernel that reads them; weights are at the device from the start.
// What a device kernel uses is in device memory; a result is fetched when the host publishes it.
// CHECK: func.func @step(%x: memref<?x4xf32> {openinfer.arg = #nn.slot<input "x">}, %W: memref<4x4xf32> {openinfer.arg = #nn.slot<weight 0>}, %W_mirror: memref<4x4xf32> {openinfer.arg = #nn.slot<device_weight 0>})
// CHECK-NEXT: %[[N:.*]] = nn.size "N"
// CHECK-NEXT: %x_mirror = memref.alloc(%[[N]]) {openinfer.memory = "device"} : memref<?x4xf32>
// CHECK: %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x4xf32>
// CHECK-NEXT: %a_mirror = memref.alloc(%n) : memref<?x4xf32>
// CHECK-NEXT: nn.transfer "to_device" %x, %x_mirror bytes <"16*N"> : memref<?x4xf32> to memref<?x4xf32>
// CHECK-NEXT: func.call @matmul_0(%x_mirror, %W_mirror, %a)
// CHECK-NEXT: func.call @matmul_0(%x_mirror, %W_mirror, %a)
// CHECK-NEXT: nn.transfer "to_host" %a, %a_mirror bytes <"16*N"> :
// CHECK-NEXT: nn.publish %a_mirror "y" : memref<?x4xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["x"], outputs = ["y"], variables = [{name = "x", memory = "dynamic", dtype = "f32", dims = ["N", "4"]}]}
  func.func @step(%x: memref<?x4xf32> {openinfer.arg = #nn.slot<input "x">}, %W: memref<4x4xf32> {openinfer.arg = #nn.slot<weight 0>}) {
    %n = nn.size "N"
    %a = memref.alloc(%n) : memref<?x4xf32>
    func.call @matmul_0(%x, %W, %a) : (memref<?x4xf32>, memref<4x4xf32>, memref<?x4xf32>) -> ()
    func.call @matmul_0(%x, %W, %a) : (memref<?x4xf32>, memref<4x4xf32>, memref<?x4xf32>) -> ()
    nn.publish %a "y" : memref<?x4xf32>
    func.return
  }
  func.func private @matmul_0(%x: memref<?x4xf32>, %W: memref<4x4xf32>, %a: memref<?x4xf32>) {
    nn.matmul(%x, %W) outs(%a) : (memref<?x4xf32>, memref<4x4xf32>, memref<?x4xf32>) -> ()
    func.return
  }
}
// -----
// A loop in which the device changes a buffer and the host reads it: every iteration fetches it anew, and
// what the host writes goes back. Before the first write nothing is copied; what nobody changes is
// fetched once, and a view of a buffer is a view of its mirror.
// CHECK: func.call @softmax_1(%x, %a_mirror) {openinfer.place = "host"}
// CHECK-NEXT: nn.transfer "to_device" %a_mirror, %a bytes <64> :
// CHECK-NEXT: scf.for
// CHECK-NEXT: func.call @softmax_0(%a, %b)
// CHECK-NEXT: nn.transfer "to_host" %b, %b_mirror bytes <64> :
// CHECK-NEXT: func.call @softmax_1(%b_mirror, %a_mirror) {openinfer.place = "host"}
// CHECK-NEXT: nn.transfer "to_device" %a_mirror, %a bytes <64> :
// CHECK-NEXT: }
// CHECK-NEXT: %v = nn.view %b[] : memref<16xf32> to memref<4x4xf32>
// CHECK-NEXT: %[[V:.*]] = nn.view %b_mirror[] : memref<16xf32> to memref<4x4xf32>
// CHECK-NEXT: nn.transfer "to_host" %v, %[[V]] bytes <64> :
// CHECK-NEXT: %{{.*}} = memref.load %[[V]]
// CHECK-NEXT: %{{.*}} = memref.load %b_mirror
// CHECK-NEXT: %{{.*}} = memref.load %a_mirror
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}, %n: index {openinfer.arg = #nn.slot<size "N">}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = memref.alloc() : memref<16xf32>
    %b = memref.alloc() : memref<16xf32>
    func.call @softmax_1(%x, %a) {openinfer.place = "host"} : (memref<16xf32>, memref<16xf32>) -> ()
    scf.for %i = %c0 to %n step %c1 {
      func.call @softmax_0(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
      func.call @softmax_1(%b, %a) {openinfer.place = "host"} : (memref<16xf32>, memref<16xf32>) -> ()
    }
    %v = nn.view %b[] : memref<16xf32> to memref<4x4xf32>
    %p = memref.load %v[%c0, %c0] : memref<4x4xf32>
    %q = memref.load %b[%c0] : memref<16xf32>
    %r = memref.load %a[%c0] : memref<16xf32>
    func.return
  }
  func.func private @softmax_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @softmax_1(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} attrs {openinfer.place = "host"} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
// -----
// A copy from one memory to the other is a transfer; one within device memory stays a copy.
// CHECK: nn.transfer "to_device" %x, %a bytes <64> :
// CHECK-NEXT: memref.copy %a, %b
// CHECK-NEXT: func.call @softmax_0(%a, %b)
// CHECK-NEXT: nn.transfer "to_host" %b, %c bytes <64> :
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %a = memref.alloc() : memref<16xf32>
    %b = memref.alloc() : memref<16xf32>
    %c = memref.alloc() : memref<16xf32>
    memref.copy %x, %a : memref<16xf32> to memref<16xf32>
    memref.copy %a, %b : memref<16xf32> to memref<16xf32>
    func.call @softmax_0(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    memref.copy %b, %c : memref<16xf32> to memref<16xf32>
    nn.publish %c "y" : memref<16xf32>
    func.return
  }
  func.func private @softmax_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
// -----
// A state that device kernels write and read lies with the device, and so does a persistent value that they
// compute: nothing of them is copied. What the host counts with stays with the host.
// CHECK: {name = "K", {{.*}}, marks = false, device = true},
// CHECK-NEXT: {name = "h", {{.*}}, marks = false, device = true},
// CHECK-NEXT: {name = "n", {{.*}}, marks = false}
// CHECK: %h: memref<16xf32> {openinfer.arg = #nn.slot<device_held "h">}, %n: memref<i32> {openinfer.arg = #nn.slot<held "n">}
// CHECK-SAME: %state_K: memref<?xi8> {openinfer.arg = #nn.slot<device_state "K">}
// CHECK-SAME: %device_log: memref<?xi8> {openinfer.arg = #nn.slot<device_log>}
// CHECK-NOT: nn.transfer
// CHECK: nn.state_write "K"[%i] kept [] node 3 : i64 = %a {openinfer.memory = "device"} : memref<16xf32>
// CHECK: nn.state_view "K"[%i] [] {openinfer.memory = "device"} : memref<16xf32>
// CHECK-NOT: nn.transfer
// CHECK: nn.commit %b "h" {openinfer.memory = "device"} : memref<16xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], held = ["h", "n"], states = [
    {name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false},
    {name = "h", dtype = "f32", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["16"], fixed = {}, sources = [], marks = false},
    {name = "n", dtype = "i32", axes = [], tables = 0 : i64, base = [], limits = [], entry = [], fixed = {}, sources = [], marks = false}]}
  func.func @step(%h: memref<16xf32> {openinfer.arg = #nn.slot<held "h">}, %n: memref<i32> {openinfer.arg = #nn.slot<held "n">}, %state_K: memref<?xi8> {openinfer.arg = #nn.slot<state "K">}) {
    %a = memref.alloc() : memref<16xf32>
    %b = memref.alloc() : memref<16xf32>
    %m = memref.load %n[] : memref<i32>
    %i = arith.index_cast %m : i32 to index
    func.call @softmax_0(%h, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    nn.state_write "K"[%i] kept [] node 3 : i64 = %a : memref<16xf32>
    %v = nn.state_view "K"[%i] [] : memref<16xf32>
    func.call @softmax_0(%v, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    nn.commit %b "h" : memref<16xf32>
    func.return
  }
  func.func private @softmax_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
// -----
// Packed elements stay with the host, whatever computes them: an entry of a state need not begin at a byte of its own
// there. So do those whose tensors have a type of ours (`t2`, `i2` in memory). A bool is a byte.
// CHECK: {name = "K", dtype = "t2", {{.*}}, marks = false},
// CHECK-NEXT: {name = "I", dtype = "i4", {{.*}}, marks = false},
// CHECK-NEXT: {name = "B", dtype = "bool", {{.*}}, marks = false, device = true}
// CHECK: %state_K: memref<?xi8> {openinfer.arg = #nn.slot<state "K">}, %state_I: memref<?xi8> {openinfer.arg = #nn.slot<state "I">}
// CHECK-SAME: %state_B: memref<?xi8> {openinfer.arg = #nn.slot<device_state "B">}
// CHECK: nn.transfer "to_host" %a, %a_mirror
// CHECK: nn.state_write "K"[%c0] kept [] node 3 : i64 = %a_mirror : memref<16xi2>
// CHECK: nn.transfer "to_host" %b, %b_mirror
// CHECK: nn.state_write "I"[%c0] kept [] node 3 : i64 = %b_mirror : memref<16xi4>
// CHECK: nn.state_write "B"[%c0] kept [] node 3 : i64 = %c {openinfer.memory = "device"} : memref<16xi8>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "y", "z"], states = [
    {name = "K", dtype = "t2", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false},
    {name = "I", dtype = "i4", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false},
    {name = "B", dtype = "bool", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%x: memref<16xi2> {openinfer.arg = #nn.slot<input "x">}, %y: memref<16xi4> {openinfer.arg = #nn.slot<input "y">}, %z: memref<16xi8> {openinfer.arg = #nn.slot<input "z">}, %state_K: memref<?xi8> {openinfer.arg = #nn.slot<state "K">}, %state_I: memref<?xi8> {openinfer.arg = #nn.slot<state "I">}, %state_B: memref<?xi8> {openinfer.arg = #nn.slot<state "B">}) {
    %c0 = arith.constant 0 : index
    %a = memref.alloc() : memref<16xi2>
    %b = memref.alloc() : memref<16xi4>
    %c = memref.alloc() : memref<16xi8>
    func.call @slice_0(%x, %a) : (memref<16xi2>, memref<16xi2>) -> ()
    nn.state_write "K"[%c0] kept [] node 3 : i64 = %a : memref<16xi2>
    func.call @slice_1(%y, %b) : (memref<16xi4>, memref<16xi4>) -> ()
    nn.state_write "I"[%c0] kept [] node 3 : i64 = %b : memref<16xi4>
    func.call @slice_2(%z, %c) : (memref<16xi8>, memref<16xi8>) -> ()
    nn.state_write "B"[%c0] kept [] node 3 : i64 = %c : memref<16xi8>
    func.return
  }
  func.func private @slice_0(%x: memref<16xi2>, %y: memref<16xi2>) {
    nn.slice(%x) outs(%y) {starts = [#graph.size<"15">], steps = array<i64: -1>} : (memref<16xi2>, memref<16xi2>) -> ()
    func.return
  }
  func.func private @slice_1(%x: memref<16xi4>, %y: memref<16xi4>) {
    nn.slice(%x) outs(%y) {starts = [#graph.size<"15">], steps = array<i64: -1>} : (memref<16xi4>, memref<16xi4>) -> ()
    func.return
  }
  func.func private @slice_2(%x: memref<16xi8>, %y: memref<16xi8>) {
    nn.slice(%x) outs(%y) {starts = [#graph.size<"15">], steps = array<i64: -1>} : (memref<16xi8>, memref<16xi8>) -> ()
    func.return
  }
}
// -----
// A state that the host works with as often stays where more of its work is; a value that the host reads
// stays there; and a device that holds no states (`null`) gets none.
// CHECK-NOT: device = true
// CHECK-NOT: device_state
// CHECK: nn.state_write "K"[%c0] kept [] node 3 : i64 = %{{.*}} : memref<16xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], held = ["h"], states = [
    {name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["16"], fixed = {}, sources = [], marks = false},
    {name = "h", dtype = "f32", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["16"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%h: memref<16xf32> {openinfer.arg = #nn.slot<held "h">}, %state_K: memref<?xi8> {openinfer.arg = #nn.slot<state "K">}) {
    %c0 = arith.constant 0 : index
    %a = memref.alloc() : memref<16xf32>
    %b = memref.alloc() : memref<16xf32>
    func.call @softmax_0(%h, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    nn.state_write "K"[%c0] kept [] node 3 : i64 = %a : memref<16xf32>
    %v = nn.state_view "K"[%c0] [] : memref<16xf32>
    %w = nn.state_view "K"[%c0] [] : memref<16xf32>
    func.call @softmax_1(%v, %b) {openinfer.place = "host"} : (memref<16xf32>, memref<16xf32>) -> ()
    func.call @softmax_1(%w, %b) {openinfer.place = "host"} : (memref<16xf32>, memref<16xf32>) -> ()
    %f = memref.load %h[%c0] : memref<16xf32>
    nn.commit %a "h" : memref<16xf32>
    func.return
  }
  func.func private @softmax_0(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
  func.func private @softmax_1(%x: memref<16xf32>, %y: memref<16xf32>) {
    nn.softmax(%x) outs(%y) {axis = 0 : i64} attrs {openinfer.place = "host"} : (memref<16xf32>, memref<16xf32>) -> ()
    func.return
  }
}
