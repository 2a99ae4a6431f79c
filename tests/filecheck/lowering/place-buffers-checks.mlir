// RUN: openinfer-opt %s -p place-buffers --split-input-file | filecheck %s

// Indices that the device computes are looked at there: no transfer of them. What is noted comes to the host
// with the results, in front of what the step commits.
// CHECK: func.func @step
// CHECK-SAME: %device_errors: memref<4xi64> {openinfer.arg = #nn.slot<device_errors>}
// CHECK: func.call @reduce_0(%x_mirror, %k)
// CHECK-NEXT: func.call @check_indices_0_there(%k, %device_errors) : (memref<5xi64>, memref<4xi64>) -> ()
// CHECK-NEXT: nn.transfer "to_device" %t, %t_mirror
// CHECK-NEXT: func.call @gather_0(%t_mirror, %k, %y)
// CHECK-NEXT: nn.transfer "to_host" %y, %y_mirror
// CHECK-NEXT: nn.publish %y_mirror "y"
// CHECK-NEXT: nn.transfer "to_host" %device_errors, %device_errors_mirror bytes <32>
// CHECK-NEXT: nn.take_errors %device_errors_mirror, %errors
// CHECK-NEXT: func.return
// CHECK-NOT: @check_indices_0(
// CHECK: func.func private @check_indices_0_there(%k: memref<5xi64>, %errors: memref<4xi64>) {
// CHECK-NEXT: nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} :
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "t"], outputs = ["y"], held = [], variables = [{name = "x", memory = "dynamic", dtype = "f32", dims = ["5", "4"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}]}
  func.func @step(%x: memref<5x4xf32> {openinfer.arg = #nn.slot<input "x">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %k = memref.alloc() : memref<5xi64>
    %y = memref.alloc() : memref<5x4xf32>
    func.call @reduce_0(%x, %k) : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    nn.publish %y "y" : memref<5x4xf32>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
// -----
// Those of an input are the host's to look at, before anything is submitted: nothing is noted on the device.
// CHECK: func.func @step
// CHECK-NOT: device_errors
// CHECK: func.call @check_indices_0(%k, %errors) {openinfer.place = "host"}
// CHECK: nn.transfer "to_device" %k, %k_mirror
// CHECK-NOT: nn.take_errors
// CHECK: func.func private @check_indices_0(%k: memref<5xi64>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["k", "t"], outputs = ["y"], held = [], variables = [{name = "k", memory = "dynamic", dtype = "i64", dims = ["5"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}]}
  func.func @step(%k: memref<5xi64> {openinfer.arg = #nn.slot<input "k">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %y = memref.alloc() : memref<5x4xf32>
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    nn.publish %y "y" : memref<5x4xf32>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
// -----
// So are those that a kernel of the host has computed, though the device gathers with them.
// CHECK: func.call @reduce_0(%x, %k_mirror) {openinfer.place = "host"}
// CHECK-NEXT: nn.transfer "to_device" %k_mirror, %k
// CHECK-NEXT: func.call @check_indices_0(%k_mirror, %errors) {openinfer.place = "host"}
// CHECK-NOT: nn.take_errors
// CHECK: func.func private @gather_0
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "t"], outputs = ["y"], held = [], variables = [{name = "x", memory = "dynamic", dtype = "f32", dims = ["5", "4"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}]}
  func.func @step(%x: memref<5x4xf32> {openinfer.arg = #nn.slot<input "x">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %k = memref.alloc() : memref<5xi64>
    %y = memref.alloc() : memref<5x4xf32>
    func.call @reduce_0(%x, %k) {openinfer.place = "host"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    nn.publish %y "y" : memref<5x4xf32>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
// -----
// A device that notes nothing: the host looks at the indices, and waits for them.
// CHECK: nn.transfer "to_host" %k, %k_mirror
// CHECK-NEXT: func.call @check_indices_0(%k_mirror, %errors) {openinfer.place = "host"}
// CHECK-NOT: device_errors
// CHECK: func.func private @gather_0
builtin.module attributes {openinfer.target = "generic", openinfer.device = "null"} {
  nn.interface {inputs = ["x", "t"], outputs = ["y"], held = [], variables = [{name = "x", memory = "dynamic", dtype = "f32", dims = ["5", "4"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}]}
  func.func @step(%x: memref<5x4xf32> {openinfer.arg = #nn.slot<input "x">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %k = memref.alloc() : memref<5xi64>
    %y = memref.alloc() : memref<5x4xf32>
    func.call @reduce_0(%x, %k) : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    nn.publish %y "y" : memref<5x4xf32>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
// -----
// Both machines have checks: the device looks only where the host has noted nothing in front of it.
// CHECK: func.call @check_indices_0(%j, %errors) {openinfer.place = "host"}
// CHECK: func.call @reduce_0
// CHECK-NEXT: %[[AT:.*]] = arith.constant 0 : index
// CHECK-NEXT: %[[WORD:.*]] = memref.load %errors[%[[AT]]]
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK-NEXT: %[[NONE:.*]] = arith.cmpi eq, %[[WORD]], %[[ZERO]] : i64
// CHECK-NEXT: scf.if %[[NONE]] {
// CHECK-NEXT: func.call @check_indices_0_there(%k, %device_errors)
// CHECK-NEXT: }
// CHECK: func.func private @check_indices_0(
// CHECK: func.func private @check_indices_0_there(
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "t", "j"], outputs = ["y"], held = [], variables = [{name = "j", memory = "dynamic", dtype = "i64", dims = ["5"]}, {name = "x", memory = "dynamic", dtype = "f32", dims = ["5", "4"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}]}
  func.func @step(%x: memref<5x4xf32> {openinfer.arg = #nn.slot<input "x">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %j: memref<5xi64> {openinfer.arg = #nn.slot<input "j">}) {
    %k = memref.alloc() : memref<5xi64>
    %y = memref.alloc() : memref<5x4xf32>
    func.call @check_indices_0(%j, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %j, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.call @reduce_0(%x, %k) : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    nn.publish %y "y" : memref<5x4xf32>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
// -----
// Indices that a step keeps for the next one stay in the memory of the device: a check counts for
// neither machine.
// CHECK: #nn.slot<device_held "h">
// CHECK: func.call @check_indices_0_there(%h, %device_errors)
// CHECK-NOT: nn.transfer "to_host" %k
// CHECK: nn.take_errors
// CHECK-NEXT: nn.commit %k "h" {openinfer.memory = "device"}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "t"], outputs = ["y"], held = ["h"], variables = [{name = "x", memory = "dynamic", dtype = "f32", dims = ["5", "4"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}], states = [{name = "h", dtype = "i64", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["5"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%x: memref<5x4xf32> {openinfer.arg = #nn.slot<input "x">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %h: memref<5xi64> {openinfer.arg = #nn.slot<held "h">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %k = memref.alloc() : memref<5xi64>
    %y = memref.alloc() : memref<5x4xf32>
    func.call @reduce_0(%x, %k) : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.call @check_indices_0(%h, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %h, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    nn.publish %y "y" : memref<5x4xf32>
    nn.commit %k "h" : memref<5xi64>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
// -----
// Indices are looked at once for one bound, until they change: in front of the first loop, and in each turn of the
// second one, which changes them.
// CHECK: func.call @check_indices_0_there(%k, %device_errors)
// CHECK: func.call @gather_0(
// CHECK-NEXT: func.call @gather_0(
// CHECK: scf.for
// CHECK-NEXT: func.call @gather_0(
// CHECK-NEXT: }
// CHECK-NEXT: scf.for
// CHECK-NEXT: func.call @check_indices_0_there(%k, %device_errors)
// CHECK-NEXT: func.call @gather_0(
// CHECK-NEXT: func.call @reduce_0(
// CHECK-NEXT: }
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x", "t"], outputs = ["y"], held = [], variables = [{name = "x", memory = "dynamic", dtype = "f32", dims = ["5", "4"]}, {name = "t", memory = "dynamic", dtype = "f32", dims = ["9", "4"]}]}
  func.func @step(%x: memref<5x4xf32> {openinfer.arg = #nn.slot<input "x">}, %t: memref<9x4xf32> {openinfer.arg = #nn.slot<input "t">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %k = memref.alloc() : memref<5xi64>
    %y = memref.alloc() : memref<5x4xf32>
    func.call @reduce_0(%x, %k) : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    scf.for %i = %c0 to %c3 step %c1 {
      func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
      func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    }
    scf.for %i = %c0 to %c3 step %c1 {
      func.call @check_indices_0(%k, %errors) {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
      func.call @gather_0(%t, %k, %y) : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
      func.call @reduce_0(%x, %k) : (memref<5x4xf32>, memref<5xi64>) -> ()
    }
    nn.publish %y "y" : memref<5x4xf32>
    func.return
  }
  func.func private @reduce_0(%x: memref<5x4xf32>, %k: memref<5xi64>) {
    nn.reduce(%x) outs(%k) {axes = array<i64: 1>, kind = "argmax"} : (memref<5x4xf32>, memref<5xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0(%k: memref<5xi64>, %errors: memref<4xi64>) {
    nn.check_indices(%k) outs(%errors) {bound = #graph.size<9>, node = 3 : i64} attrs {openinfer.place = "host"} : (memref<5xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @gather_0(%t: memref<9x4xf32>, %k: memref<5xi64>, %y: memref<5x4xf32>) {
    nn.gather(%t, %k) outs(%y) {axis = 0 : i64, node = 3 : i64} : (memref<9x4xf32>, memref<5xi64>, memref<5x4xf32>) -> ()
    func.return
  }
}
