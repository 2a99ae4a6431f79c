// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// A kernel of the device becomes what one invocation does, its call a launch with enough workgroups.
// CHECK: func.func @step
// CHECK: %[[X:.*]] = memref.alloc
// CHECK: %[[N:.*]] = memref.dim %[[X]]
// CHECK: arith.muli %[[N]], %{{.*}}
// CHECK: arith.divui %{{.*}}, %c64
// CHECK: %[[DOWN:.*]] = arith.divui %{{.*}}, %c65535
// CHECK: %[[SOME:.*]] = arith.maxsi %[[DOWN]], %c1
// CHECK: %[[ACROSS:.*]] = arith.divui %{{.*}}, %[[SOME]]
// CHECK: "gpu.launch_func"(%[[ACROSS]], %[[DOWN]], {{.*}}kernel = @softmax_0
// CHECK-NOT: func.call @softmax_0
// CHECK: func.func private @softmax_0{{.*}} attributes {gpu.known_block_size = array<i32: 64, 1, 1>}
// CHECK: "gpu.grid_dim"() <{dimension = #gpu<dim x>}>
// CHECK: "gpu.block_id"() <{dimension = #gpu<dim y>}>
// CHECK: "gpu.thread_id"() <{dimension = #gpu<dim x>}>
// CHECK: %[[INSIDE:.*]] = arith.cmpi ult
// CHECK: scf.if %[[INSIDE]]
// CHECK: scf.for
// CHECK: arith.cmpf ogt
// CHECK: scf.for
// CHECK: math.exp
// CHECK: scf.for
// CHECK: memref.store
// CHECK-NOT: nn.softmax
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%x: memref<?x8x4xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %n = arith.constant 4 : index
    %a = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x8x4xf32>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?x8x4xf32>
    func.call @softmax_0(%a, %y) : (memref<?x8x4xf32>, memref<?x8x4xf32>) -> ()
    func.return
  }
  func.func private @softmax_0(%x: memref<?x8x4xf32>, %y: memref<?x8x4xf32>) {
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x8x4xf32>, memref<?x8x4xf32>) -> ()
    func.return
  }
}
// -----
// A size that a kernel asks for is an argument of it.
// CHECK: %[[SIZE:.*]] = nn.size "N"
// CHECK: "gpu.launch_func"({{.*}}, %[[SIZE]]) <{kernel = @elementwise_0
// CHECK: func.func private @elementwise_0(%x: memref<100xi32>, %y: memref<100xi32>, %{{.*}}: index)
// CHECK: arith.addi
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<100xi32>
    func.call @elementwise_0(%a, %a) : (memref<100xi32>, memref<100xi32>) -> ()
    func.return
  }
  func.func private @elementwise_0(%x: memref<100xi32>, %y: memref<100xi32>) {
    %n = nn.size "N"
    %m = arith.index_cast %n : index to i32
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : memref<100xi32>) outs(%y : memref<100xi32>) {
    ^bb0(%v: i32, %o: i32):
      %r = arith.addi %v, %m : i32
      linalg.yield %r : i32
    }
    func.return
  }
}
// -----
// A kernel of the host stays a call, and its op stays as it is.
// CHECK: func.call @softmax_0
// CHECK-NOT: gpu.
// CHECK: nn.softmax
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%x: memref<8x4xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %y = memref.alloc() : memref<8x4xf32>
    func.call @softmax_0(%x, %y) {openinfer.place = "host"} : (memref<8x4xf32>, memref<8x4xf32>) -> ()
    func.return
  }
  func.func private @softmax_0(%x: memref<8x4xf32>, %y: memref<8x4xf32>) {
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<8x4xf32>, memref<8x4xf32>) -> ()
    func.return
  }
}
// -----
// Elements that share bytes: an invocation has the eight of a word, one after the other, and clears what
// stands behind the last one in its byte.
// CHECK-LABEL: func.func private @negate_packed_0
// CHECK: scf.for %e = %{{\S+}} to %{{\S+}} step
// CHECK: %[[IN:\S+]] = arith.cmpi ult, %e, %{{\S+}} : index
// CHECK: scf.if %[[IN]] {
// CHECK: memref.load %x[%e] : memref<?xi4>
// CHECK: memref.store %{{\S+}}, %y[%e] : memref<?xi4>
// CHECK: } else {
// CHECK: memref.store %{{\S+}}, %y[%e] : memref<?xi4>
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%n: index) {
    %x = memref.alloc(%n) {openinfer.memory = "device"} : memref<?xi4>
    %y = memref.alloc(%n) {openinfer.memory = "device"} : memref<?xi4>
    func.call @negate_packed_0(%x, %y) : (memref<?xi4>, memref<?xi4>) -> ()
    func.return
  }
  func.func private @negate_packed_0(%x: memref<?xi4>, %y: memref<?xi4>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : memref<?xi4>) outs(%y : memref<?xi4>) {
    ^bb0(%v: i4, %o: i4):
      linalg.yield %v : i4
    }
    func.return
  }
}
// -----
// Where the types say how many workgroups there are, a kernel does not ask, and all of them have work.
// CHECK-LABEL: func.func private @known_0
// CHECK-NOT: gpu.grid_dim
// CHECK: %[[GROUP:.*]] = "gpu.block_id"() <{dimension = #gpu<dim x>}>
// CHECK-NOT: arith.cmpi ult, %[[GROUP]]
// CHECK-NOT: gpu.grid_dim
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step(%x: memref<32x700xf32> {openinfer.arg = #nn.slot<input "x">}) {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<32x700xf32>
    func.call @known_0(%a, %a) : (memref<32x700xf32>, memref<32x700xf32>) -> ()
    func.return
  }
  func.func private @known_0(%x: memref<32x700xf32>, %y: memref<32x700xf32>) {
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<32x700xf32>, memref<32x700xf32>) -> ()
    func.return
  }
}
