// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A workgroup searches a line: the best of all, then its first place.
// CHECK-LABEL: func.func private @reduce_0
// CHECK: scf.for %k = %thread to %{{.*}} -> (f32, index)
// CHECK: gpu.shuffle xor %{{.*}} : f32
// CHECK: arith.cmpf oeq
// CHECK: gpu.shuffle xor %{{.*}} : i32
// CHECK: arith.cmpi eq, %thread
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<7xi64>
    func.call @reduce_0(%x, %y) : (memref<7x200xf32>, memref<7xi64>) -> ()
    func.return
  }
  func.func private @reduce_0(%x: memref<7x200xf32>, %y: memref<7xi64>) {
    nn.reduce(%x) outs(%y) {axes = array<i64: 1>, kind = "argmax"} : (memref<7x200xf32>, memref<7xi64>) -> ()
    func.return
  }
}
// -----
// A short line is searched by an invocation.
// CHECK-LABEL: func.func private @reduce_0
// CHECK-SAME: array<i32: 64, 1, 1>
// CHECK-NOT: gpu.shuffle
// CHECK-NOT: gpu.barrier
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<200x7xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<200x1xi64>
    func.call @reduce_0(%x, %y) : (memref<200x7xf32>, memref<200x1xi64>) -> ()
    func.return
  }
  func.func private @reduce_0(%x: memref<200x7xf32>, %y: memref<200x1xi64>) {
    nn.reduce(%x) outs(%y) {axes = array<i64: 1>, kind = "argmin", keepdims} : (memref<200x7xf32>, memref<200x1xi64>) -> ()
    func.return
  }
}
// -----
// An invocation counts what stands in front of its element: before it, then behind it.
// CHECK-LABEL: func.func private @sort_0
// CHECK: scf.for %j
// CHECK: scf.for %j
// CHECK: arith.cmpi ult
// CHECK: scf.if
// CHECK: memref.store %{{.*}}, %v
// CHECK: memref.store %{{.*}}, %p
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    %v = memref.alloc() {openinfer.memory = "device"} : memref<7x8xf32>
    %p = memref.alloc() {openinfer.memory = "device"} : memref<7x8xi64>
    func.call @sort_0(%x, %v, %p) : (memref<7x200xf32>, memref<7x8xf32>, memref<7x8xi64>) -> ()
    func.return
  }
  func.func private @sort_0(%x: memref<7x200xf32>, %v: memref<7x8xf32>, %p: memref<7x8xi64>) {
    nn.sort(%x) outs(%v, %p) {axis = 1 : i64, descending} : (memref<7x200xf32>, memref<7x8xf32>, memref<7x8xi64>) -> ()
    func.return
  }
}
// -----
// A running sum walks a line, with what its roundings take away.
// CHECK-LABEL: func.func private @cumsum_0
// CHECK: scf.for %k = %c0{{.*}} -> (f32, f32)
// CHECK: memref.load %x
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    func.call @cumsum_0(%x, %y) : (memref<7x200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
  func.func private @cumsum_0(%x: memref<7x200xf32>, %y: memref<7x200xf32>) {
    nn.cumsum(%x) outs(%y) {axis = 0 : i64} : (memref<7x200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
}
// -----
// Of integers there is nothing to take away.
// CHECK-LABEL: func.func private @cumsum_0
// CHECK: scf.for %k = %c0{{.*}} -> (i32)
// CHECK: arith.addi %{{.*}} : i32
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<7x9xi32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<7x9xi32>
    func.call @cumsum_0(%x, %y) : (memref<7x9xi32>, memref<7x9xi32>) -> ()
    func.return
  }
  func.func private @cumsum_0(%x: memref<7x9xi32>, %y: memref<7x9xi32>) {
    nn.cumsum(%x) outs(%y) {axis = 0 : i64} : (memref<7x9xi32>, memref<7x9xi32>) -> ()
    func.return
  }
}
// -----
// Nor of products.
// CHECK-LABEL: func.func private @cumprod_0
// CHECK: scf.for %k = %c0{{.*}} -> (f32)
// CHECK: arith.mulf %{{.*}} : f32
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<7x9xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<7x9xf32>
    func.call @cumprod_0(%x, %y) : (memref<7x9xf32>, memref<7x9xf32>) -> ()
    func.return
  }
  func.func private @cumprod_0(%x: memref<7x9xf32>, %y: memref<7x9xf32>) {
    nn.cumsum(%x) outs(%y) {axis = 0 : i64, product} : (memref<7x9xf32>, memref<7x9xf32>) -> ()
    func.return
  }
}
// -----
// Rows of many neighbours: an invocation copies a column of x and then updates it.
// CHECK-LABEL: func.func private @scatter_0
// CHECK: scf.for %k
// CHECK: memref.load %x
// CHECK: memref.store %{{.*}}, %y
// CHECK: scf.for %n
// CHECK: memref.load %i
// CHECK: arith.cmpi ult, %{{.*}} : i64
// CHECK: scf.if
// CHECK: memref.load %y
// CHECK: memref.load %u
// CHECK: arith.addf
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    %i = memref.alloc() {openinfer.memory = "device"} : memref<5xi64>
    %u = memref.alloc() {openinfer.memory = "device"} : memref<5x200xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<7x200xf32>
    func.call @scatter_0(%x, %i, %u, %y) : (memref<7x200xf32>, memref<5xi64>, memref<5x200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
  func.func private @scatter_0(%x: memref<7x200xf32>, %i: memref<5xi64>, %u: memref<5x200xf32>, %y: memref<7x200xf32>) {
    nn.scatter(%x, %i, %u) outs(%y) {axis = 0 : i64, mode = "add"} : (memref<7x200xf32>, memref<5xi64>, memref<5x200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
}
// -----
// Of few: it has one element, which it stores once.
// CHECK-LABEL: func.func private @scatter_0
// CHECK: memref.load %x
// CHECK: scf.for %n
// CHECK: memref.load %i
// CHECK: scf.if
// CHECK: memref.load %u
// CHECK-NOT: memref.load %y
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<200x7xf32>
    %i = memref.alloc() {openinfer.memory = "device"} : memref<5xi64>
    %u = memref.alloc() {openinfer.memory = "device"} : memref<5x7xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<200x7xf32>
    func.call @scatter_0(%x, %i, %u, %y) : (memref<200x7xf32>, memref<5xi64>, memref<5x7xf32>, memref<200x7xf32>) -> ()
    func.return
  }
  func.func private @scatter_0(%x: memref<200x7xf32>, %i: memref<5xi64>, %u: memref<5x7xf32>, %y: memref<200x7xf32>) {
    nn.scatter(%x, %i, %u) outs(%y) {axis = 0 : i64, mode = "set"} : (memref<200x7xf32>, memref<5xi64>, memref<5x7xf32>, memref<200x7xf32>) -> ()
    func.return
  }
}
// -----
// By elements: an invocation reads its own index, and the element of its line that this names.
// CHECK-LABEL: func.func private @gather_elements_0
// CHECK: memref.load %i
// CHECK: arith.cmpi ult
// CHECK: scf.if
// CHECK: memref.load %x
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<9x4xf32>
    %i = memref.alloc() {openinfer.memory = "device"} : memref<9x7xi64>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<9x7xf32>
    func.call @gather_elements_0(%x, %i, %y) : (memref<9x4xf32>, memref<9x7xi64>, memref<9x7xf32>) -> ()
    func.return
  }
  func.func private @gather_elements_0(%x: memref<9x4xf32>, %i: memref<9x7xi64>, %y: memref<9x7xf32>) {
    nn.gather_elements(%x, %i) outs(%y) {axis = 1 : i64} : (memref<9x4xf32>, memref<9x7xi64>, memref<9x7xf32>) -> ()
    func.return
  }
}
// -----
// A scatter has an invocation for each line: it is copied, then its updates come in their order. Lines
// behind those of the indices have none.
// CHECK-LABEL: func.func private @scatter_elements_0
// CHECK: scf.for %k
// CHECK: memref.load %x
// CHECK: memref.store %{{.*}}, %y
// CHECK: arith.cmpi ult, %{{.*}}, %c5
// CHECK: scf.if
// CHECK: scf.for %n
// CHECK: memref.load %i
// CHECK: scf.if
// CHECK: arith.mulf
// CHECK: memref.store %{{.*}}, %y
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<9x4xf32>
    %i = memref.alloc() {openinfer.memory = "device"} : memref<5x7xi64>
    %u = memref.alloc() {openinfer.memory = "device"} : memref<5x7xf32>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<9x4xf32>
    func.call @scatter_elements_0(%x, %i, %u, %y) : (memref<9x4xf32>, memref<5x7xi64>, memref<5x7xf32>, memref<9x4xf32>) -> ()
    func.return
  }
  func.func private @scatter_elements_0(%x: memref<9x4xf32>, %i: memref<5x7xi64>, %u: memref<5x7xf32>, %y: memref<9x4xf32>) {
    nn.scatter_elements(%x, %i, %u) outs(%y) {axis = 1 : i64, mode = "mul"} : (memref<9x4xf32>, memref<5x7xi64>, memref<5x7xf32>, memref<9x4xf32>) -> ()
    func.return
  }
}
// -----
// A kernel of the host is none of the device.
// CHECK-LABEL: func.func private @cumsum_0
// CHECK-NEXT: nn.cumsum
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() : memref<7x200xf32>
    %y = memref.alloc() : memref<7x200xf32>
    func.call @cumsum_0(%x, %y) {openinfer.place = "host"} : (memref<7x200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
  func.func private @cumsum_0(%x: memref<7x200xf32>, %y: memref<7x200xf32>) {
    nn.cumsum(%x) outs(%y) {axis = 0 : i64} : (memref<7x200xf32>, memref<7x200xf32>) -> ()
    func.return
  }
}
// -----
// Rows that lie together are copied by 16 bytes.
// CHECK-LABEL: func.func private @rows_0
// CHECK: memref.load %i
// CHECK: vector.load %x{{.*}} vector<8xf16>
// CHECK: vector.store %{{.*}}, %y{{.*}} vector<8xf16>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<9x16xf16>
    %i = memref.alloc() {openinfer.memory = "device"} : memref<5xi64>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<5x16xf16>
    func.call @rows_0(%x, %i, %y) : (memref<9x16xf16>, memref<5xi64>, memref<5x16xf16>) -> ()
    func.return
  }
  func.func private @rows_0(%x: memref<9x16xf16>, %i: memref<5xi64>, %y: memref<5x16xf16>) {
    nn.gather(%x, %i) outs(%y) {axis = 0 : i64} : (memref<9x16xf16>, memref<5xi64>, memref<5x16xf16>) -> ()
    func.return
  }
}
// -----
// Not where neighbours of the result are not neighbours in the table, or a row is no multiple of 16 bytes.
// CHECK-LABEL: func.func private @elements_0
// CHECK-NOT: vector.load
// CHECK-LABEL: func.func private @uneven_0
// CHECK-NOT: vector.load
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<9x16xf16>
    %z = memref.alloc() {openinfer.memory = "device"} : memref<9x12xf16>
    %i = memref.alloc() {openinfer.memory = "device"} : memref<8xi64>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<9x8xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<8x12xf16>
    func.call @elements_0(%x, %i, %y) : (memref<9x16xf16>, memref<8xi64>, memref<9x8xf16>) -> ()
    func.call @uneven_0(%z, %i, %w) : (memref<9x12xf16>, memref<8xi64>, memref<8x12xf16>) -> ()
    func.return
  }
  func.func private @elements_0(%x: memref<9x16xf16>, %i: memref<8xi64>, %y: memref<9x8xf16>) {
    nn.gather(%x, %i) outs(%y) {axis = 1 : i64} : (memref<9x16xf16>, memref<8xi64>, memref<9x8xf16>) -> ()
    func.return
  }
  func.func private @uneven_0(%x: memref<9x12xf16>, %i: memref<8xi64>, %y: memref<8x12xf16>) {
    nn.gather(%x, %i) outs(%y) {axis = 0 : i64} : (memref<9x12xf16>, memref<8xi64>, memref<8x12xf16>) -> ()
    func.return
  }
}
// -----
// Indices are looked at by one workgroup: each invocation has the least place of those outside that it found, the
// first one notes the least of all, unless a kernel in front of it has noted something.
// CHECK: "gpu.launch_func"(%c1, %c1_1, %c1_2, %c256, %c1_3, %c1_4, %i, %e, %{{.*}}) <{kernel = @check_indices_0_there
// CHECK-LABEL: func.func private @check_indices_0_there
// CHECK: scf.for %n = %thread to
// CHECK: memref.load %i
// CHECK: arith.cmpi ult, %{{.*}} : i64
// CHECK: arith.select
// CHECK: arith.minsi
// CHECK: gpu.shuffle xor %{{.*}} : i32
// CHECK: arith.cmpi eq, %thread
// CHECK: arith.cmpi ne, %first
// CHECK: memref.load %e
// CHECK: scf.if
// CHECK-COUNT-4: memref.store %{{.*}}, %e
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step(%e: memref<4xi64> {openinfer.arg = #nn.slot<device_errors>}) {
    %i = memref.alloc() {openinfer.memory = "device"} : memref<20x70xi64>
    func.call @check_indices_0_there(%i, %e) : (memref<20x70xi64>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0_there(%i: memref<20x70xi64>, %e: memref<4xi64>) {
    nn.check_indices(%i) outs(%e) {bound = #graph.size<"2*N">, node = 3 : i64} : (memref<20x70xi64>, memref<4xi64>) -> ()
    func.return
  }
}
// -----
// A few of them by one invocation.
// CHECK-LABEL: func.func private @check_indices_0_there
// CHECK-NOT: gpu.barrier
// CHECK-NOT: gpu.shuffle
// CHECK: scf.for %n
// CHECK: arith.cmpi ult, %{{.*}} : index
// CHECK: arith.extui %{{.*}} : i8 to i64
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step(%e: memref<4xi64> {openinfer.arg = #nn.slot<device_errors>}) {
    %i = memref.alloc() {openinfer.memory = "device"} : memref<3xi8>
    func.call @check_indices_0_there(%i, %e) : (memref<3xi8>, memref<4xi64>) -> ()
    func.return
  }
  func.func private @check_indices_0_there(%i: memref<3xi8>, %e: memref<4xi64>) {
    nn.check_indices(%i) outs(%e) {bound = #graph.size<9>, node = 3 : i64, unsigned_indices} : (memref<3xi8>, memref<4xi64>) -> ()
    func.return
  }
}
// -----
// A workgroup sorts the positions of a line whose length only the step knows: those of mirror images first,
// then those of one distance after the other.
// CHECK-LABEL: func.func private @sort_0
// CHECK: memref.store %{{.*}}, %h
// CHECK: "gpu.barrier"() {openinfer.of_device}
// CHECK: scf.for %r =
// CHECK: arith.cmpf olt
// CHECK: memref.store %{{.*}}, %h
// CHECK: scf.for %s =
// CHECK: memref.store %{{.*}}, %h
// CHECK: memref.store %{{.*}}, %v
// CHECK: memref.store %{{.*}}, %p
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step(%n: index) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<7x?xf32>
    %v = memref.alloc(%n) {openinfer.memory = "device"} : memref<7x?xf32>
    %p = memref.alloc(%n) {openinfer.memory = "device"} : memref<7x?xi64>
    %h = memref.alloc(%n) {openinfer.memory = "device"} : memref<7x?xi64>
    func.call @sort_0(%x, %v, %p, %h) : (memref<7x?xf32>, memref<7x?xf32>, memref<7x?xi64>, memref<7x?xi64>) -> ()
    func.return
  }
  func.func private @sort_0(%x: memref<7x?xf32>, %v: memref<7x?xf32>, %p: memref<7x?xi64>, %h: memref<7x?xi64>) {
    nn.sort(%x) outs(%v, %p) scratch(home = %h) {axis = 1 : i64} : (memref<7x?xf32>, memref<7x?xf32>, memref<7x?xi64>, memref<7x?xi64>) -> ()
    func.return
  }
}
