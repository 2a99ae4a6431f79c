// RUN: openinfer-opt %s -p lower-state --split-input-file | filecheck %s

// Extents at the start are noted, growth is checked against the bound and the memory, what is
// overwritten is kept first, and the value goes to its place with one copy.
// CHECK: func.func @step
// CHECK: %[[NOW:.*]] = memref.load %cells[%c0
// CHECK: memref.store %[[NOW]], %cells[%c1
// CHECK: memref.store %{{.*}}, %cells[%c2
// CHECK: %[[MORE:.*]] = arith.cmpi sgt, %n,
// CHECK: scf.if %[[MORE]] {
// CHECK: arith.constant 6 : index
// CHECK: func.call @fail(%errors
// CHECK: nn.leave_if
// CHECK: nn.size "capacity.K.0"
// CHECK: nn.leave_if
// CHECK: memref.store %{{.*}}, %cells[%c0
// CHECK: %[[LIVE:.*]] = arith.cmpi slt, %i,
// CHECK: scf.if %[[LIVE]] {
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<?xi8> to memref<?xi8>
// CHECK: %[[TO:.*]] = memref.view %state_K[%{{.*}}][%{{.*}}] : memref<?xi8> to memref<?xf32>
// CHECK: memref.copy %{{.*}}, %[[TO]]
// CHECK: func.func private @fail
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = ["6"], entry = ["4"], fixed = {}, sources = [], marks = false}]
}
func.func @step(%i: index, %n: index, %v: memref<4xf32>, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %cells: memref<3xi64> {openinfer.arg = #nn.slot<cells>}, %state_K: memref<?xi8> {openinfer.arg = #nn.slot<state "K">}, %log: memref<?xi8> {openinfer.arg = #nn.slot<log>}) {
  %g = nn.grow "K"[] axis 0 : i64 to %n node 3 : i64
  nn.state_write "K"[%i] kept [] node 3 : i64 = %v : memref<4xf32>
  func.return
}
}
// -----
// A place that a kernel writes: what was there is kept first, and nothing is copied to it.
// CHECK: %[[LIVE:.*]] = arith.cmpi slt, %i,
// CHECK: scf.if %[[LIVE]] {
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<?xi8> to memref<?xi8>
// CHECK-NOT: memref.copy
// CHECK: %[[AT:.*]] = memref.view %state_K[%{{.*}}][%n] : memref<?xi8> to memref<?x4xf32>
// CHECK-NEXT: nn.softmax(%v) outs(%[[AT]])
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["4"], fixed = {}, sources = [], marks = false}]
}
func.func @step(%i: index, %n: index, %v: memref<?x4xf32>, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %cells: memref<3xi64> {openinfer.arg = #nn.slot<cells>}, %state_K: memref<?xi8> {openinfer.arg = #nn.slot<state "K">}, %log: memref<?xi8> {openinfer.arg = #nn.slot<log>}) {
  %p = nn.state_place "K"[%i] [%n] node 3 : i64 : memref<?x4xf32>
  nn.softmax(%v) outs(%p) {axis = 1 : i64} : (memref<?x4xf32>, memref<?x4xf32>) -> ()
  func.return
}
}
// -----
// A dynamic size is checked against what the plan allowed for it, then noted.
// CHECK: arith.cmpi sge, %n
// CHECK: nn.leave_if
// CHECK: nn.size "bound.n.0"
// CHECK: nn.leave_if
// CHECK: memref.store %{{.*}}, %cells
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {
  dynamic_sizes = ["n.0"],
  states = []
}
func.func @step(%n: index, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %cells: memref<2xi64> {openinfer.arg = #nn.slot<cells>}) {
  nn.define_size "n.0" = %n node 3 : i64
  func.return
}
}
// -----
// Persistent values are copied to their place, where no failure was recorded.
// CHECK: %[[E:.*]] = memref.load %errors
// CHECK: nn.leave_if
// CHECK: memref.copy %v, %held_s
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "s", dtype = "f32", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["4"], fixed = {}, sources = [], marks = false}]
}
func.func @step(%v: memref<4xf32>, %held_s: memref<4xf32> {openinfer.arg = #nn.slot<held "s">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i64
  memref.store %one, %errors[%c0] : memref<4xi64>
  nn.commit %v "s" : memref<4xf32>
  func.return
}
}
// -----
// A step without state stays as it is.
// CHECK: func.func @step(%x: memref<4xf32>) {
// CHECK-NEXT: "test.op"(%x)
// CHECK-NEXT: func.return
func.func @step(%x: memref<4xf32>) {
  "test.op"(%x) : (memref<4xf32>) -> ()
  func.return
}
// -----
// An extent that is set is compared with the memory, then noted: it may become less.
// CHECK: %[[ROOM:.*]] = nn.size "capacity.P.1"
// CHECK-NEXT: arith.cmpi sle, %n, %[[ROOM]]
// CHECK: nn.leave_if
// CHECK-NEXT: %[[WORD:.*]] = arith.index_cast %n
// CHECK: memref.store %[[WORD]], %cells
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "P", dtype = "f32", axes = ["settled", "0"], tables = 0 : i64, base = ["0", "0"], limits = ["1", ""], entry = [], fixed = {}, open = true, sources = [], marks = false}]
}
func.func @step(%n: index, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %cells: memref<5xi64> {openinfer.arg = #nn.slot<cells>}, %state_P: memref<?xi8> {openinfer.arg = #nn.slot<state "P">}, %log: memref<?xi8> {openinfer.arg = #nn.slot<log>}) {
  nn.set_extent "P" axis 1 : i64 to %n node 3 : i64
  func.return
}
}
// -----
// Facts stand behind the extents: their cells are set without a look at the memory, and are noted at
// the start like extents.
// CHECK: func.func @step
// CHECK: %[[OLD:.*]] = memref.load %cells[%c6
// CHECK: memref.store %[[OLD]], %cells[%c8
// CHECK: %[[OLDER:.*]] = memref.load %cells[%c7
// CHECK: memref.store %[[OLDER]], %cells[%c9
// CHECK: %[[NOW:.*]] = memref.load %cells[%c6
// CHECK-NEXT: %[[TOUCHED:.*]] = arith.index_cast %[[NOW]]
// CHECK-NEXT: "test.op"(%[[TOUCHED]])
// CHECK-NEXT: %[[WORD:.*]] = arith.index_cast %n
// CHECK-NEXT: %{{.*}} = arith.constant 7 : index
// CHECK-NEXT: memref.store %[[WORD]], %cells[%c7
// CHECK-NEXT: func.return
builtin.module attributes {openinfer.target = "generic"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "P", dtype = "f32", axes = ["settled", "0", "1"], tables = 0 : i64, base = ["0", "0", "4"], limits = ["1", "", "4"], entry = [], open = true, dynamic_axes = [0], fixed = {}, sources = [], marks = false}]
}
func.func @step(%n: index, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %cells: memref<11xi64> {openinfer.arg = #nn.slot<cells>}, %state_P: memref<?xi8> {openinfer.arg = #nn.slot<state "P">}, %log: memref<?xi8> {openinfer.arg = #nn.slot<log>}) {
  %touched = nn.extent "P"[] axis 3 : i64
  "test.op"(%touched) : (index) -> ()
  nn.set_extent "P" axis 4 : i64 to %n node 3 : i64
  func.return
}
}
// -----
// A state of the device is moved there, as buffers of elements: what is overwritten goes to the log of the
// device, whose place the log of the host says. A reset fills.
// CHECK: scf.if %{{.*}} {
// CHECK: memref.store %{{.*}}, %{{.*}} : memref<3xi64>
// CHECK: %[[OLD:.*]] = memref.view %device_state_K[%{{.*}}][%{{.*}}] : memref<?xi8> to memref<?xf32>
// CHECK: %[[SAVED:.*]] = memref.view %device_log[%{{.*}}][%{{.*}}] : memref<?xi8> to memref<?xf32>
// CHECK: memref.copy %[[OLD]], %[[SAVED]] : memref<?xf32> to memref<?xf32>
// CHECK: %[[TO:.*]] = memref.view %device_state_K[%{{.*}}][] : memref<?xi8> to memref<4xf32>
// CHECK: memref.copy %v, %[[TO]] : memref<4xf32> to memref<4xf32>
// CHECK: linalg.fill ins(%{{.*}} : f32) outs(%{{.*}} : memref<?xf32>)
// CHECK: memref.copy %v, %device_held_h : memref<4xf32> to memref<4xf32>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = ["6"], entry = ["4"], fixed = {}, sources = [], marks = false, device = true}, {name = "h", dtype = "f32", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["4"], fixed = {}, sources = [], marks = false, device = true}]
}
func.func @step(%i: index, %v: memref<4xf32>, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %cells: memref<3xi64> {openinfer.arg = #nn.slot<cells>}, %device_state_K: memref<?xi8> {openinfer.arg = #nn.slot<device_state "K">}, %log: memref<?xi8> {openinfer.arg = #nn.slot<log>}, %device_log: memref<?xi8> {openinfer.arg = #nn.slot<device_log>}, %device_held_h: memref<4xf32> {openinfer.arg = #nn.slot<device_held "h">}) {
  nn.state_write "K"[%i] kept [] node 3 : i64 = %v {openinfer.memory = "device"} : memref<4xf32>
  nn.state_reset "K"[] node 4 : i64 {openinfer.memory = "device"}
  nn.commit %v "h" {openinfer.memory = "device"} : memref<4xf32>
  func.return
}
}
// -----
// Where kernels of the device note errors, a value of its memory is committed if they have noted none, in front
// of the moves of results; a value of the host behind them, if the record of the step says so.
// CHECK: linalg.generic
// CHECK-SAME: affine_map<(d0) -> (0)>
// CHECK-SAME: ins(%v, %device_errors : memref<4xf32>, memref<4xi64>) outs(%device_held_h : memref<4xf32>)
// CHECK: arith.cmpi eq, %{{.*}} : i64
// CHECK-NEXT: arith.select
// CHECK: nn.transfer "to_host" %v, %y
// CHECK-NEXT: nn.transfer "to_host" %device_errors, %noted
// CHECK-NEXT: nn.take_errors %noted, %errors
// CHECK: memref.load %errors
// CHECK: nn.leave_if
// CHECK-NEXT: memref.copy %w, %held_g
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
nn.interface {
  dynamic_sizes = [],
  states = [{name = "h", dtype = "f32", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["4"], fixed = {}, sources = [], marks = false, device = true}, {name = "g", dtype = "f32", axes = [], tables = 0 : i64, base = [], limits = [], entry = ["4"], fixed = {}, sources = [], marks = false}]
}
func.func @step(%errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}, %device_errors: memref<4xi64> {openinfer.arg = #nn.slot<device_errors>}, %device_held_h: memref<4xf32> {openinfer.arg = #nn.slot<device_held "h">}, %held_g: memref<4xf32> {openinfer.arg = #nn.slot<held "g">}) {
  %v = memref.alloc() {openinfer.memory = "device"} : memref<4xf32>
  %y = memref.alloc() : memref<4xf32>
  %w = memref.alloc() : memref<4xf32>
  %noted = memref.alloc() : memref<4xi64>
  nn.transfer "to_host" %v, %y bytes <16> : memref<4xf32> to memref<4xf32>
  nn.transfer "to_host" %device_errors, %noted bytes <32> : memref<4xi64> to memref<4xi64>
  nn.take_errors %noted, %errors : memref<4xi64>, memref<4xi64>
  nn.commit %v "h" {openinfer.memory = "device"} : memref<4xf32>
  nn.commit %w "g" : memref<4xf32>
  func.return
}
}
