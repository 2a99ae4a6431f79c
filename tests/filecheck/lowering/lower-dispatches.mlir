// RUN: openinfer-opt %s -p lower-dispatches --split-input-file | filecheck %s

// Launches and moves are words of the record; what is moved is submitted at once.
// CHECK: calls = [
// CHECK-NEXT: {kernel = "transfer to device", buffers = ["x"]}
// CHECK-NEXT: {kernel = "negate_0", buffers = ["x", "a"], writes = [1 : i64], places = [0 : i64, 1 : i64], elements = [4 : i64, 4 : i64], words = 3 : i64, groups = [1 : i64, 1 : i64, 1 : i64]}
// CHECK-NEXT: {kernel = "transfer to host", buffers = ["a"]}
// CHECK: func.func @step({{.*}}, %calls: memref<65536xi64> {openinfer.arg = #nn.slot<calls>})
// CHECK: memref.store %{{.*}}, %calls
// CHECK: %[[FAILED:.*]] = func.call @hand_over(%calls, %errors, %{{.*}}) : (memref<65536xi64>, memref<4xi64>, i64) -> i1
// CHECK-NEXT: nn.leave_if %[[FAILED]]
// CHECK: %[[USED:.*]] = memref.load %calls
// CHECK: memref.store %{{.*}}, %calls
// CHECK: func.call @hand_over
// CHECK-NOT: gpu.launch_func
// CHECK-NOT: nn.transfer
// CHECK: func.func private @hand_over
// CHECK: %[[FAILED:.*]] = func.call @openinfer_submit(%{{.*}}, %logged) : (index, i64) -> i1
// CHECK-NEXT: scf.if %[[FAILED]] {
// CHECK: memref.store %{{.*}}, %errors
// CHECK: func.return %[[FAILED]] : i1
// CHECK: func.func private @openinfer_submit(index, i64) -> i1
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"], outputs = ["y"]}
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %x_mirror = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    %a = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    %a_mirror = memref.alloc() : memref<16xf32>
    nn.transfer "to_device" %x, %x_mirror bytes <64> : memref<16xf32> to memref<16xf32>
    %n = nn.size "N"
    %one = arith.constant 1 : index
    "gpu.launch_func"(%one, %one, %one, %one, %one, %one, %x_mirror, %a, %n) <{kernel = @negate_0, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 3, 0>}> : (index, index, index, index, index, index, memref<16xf32>, memref<16xf32>, index) -> ()
    nn.transfer "to_host" %a, %a_mirror bytes <64> : memref<16xf32> to memref<16xf32>
    nn.publish %a_mirror "y" : memref<16xf32>
    func.return
  }
  func.func private @negate_0(%x: memref<16xf32>, %y: memref<16xf32>, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %v = memref.load %x[%c0] : memref<16xf32>
    memref.store %v, %y[%c0] : memref<16xf32>
    func.return
  }
}
// -----
// Moves one behind the other are submitted together.
// CHECK: func.func @step
// CHECK: scf.if
// CHECK: func.call @hand_over
// CHECK: nn.leave_if
// CHECK-NEXT: }
// CHECK: scf.if
// CHECK: func.call @hand_over
// CHECK: nn.leave_if
// CHECK-NEXT: }
// CHECK: func.call @hand_over
// CHECK-NOT: func.call @hand_over
// CHECK: func.return
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"], outputs = []}
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}, %errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %a = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    nn.transfer "to_device" %x, %a bytes <64> : memref<16xf32> to memref<16xf32>
    nn.transfer "to_device" %x, %b bytes <64> : memref<16xf32> to memref<16xf32>
    func.return
  }
}
// -----
// A step that asks for nothing has no record.
// CHECK: func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
// CHECK-NOT: openinfer_submit
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = ["x"], outputs = []}
  func.func @step(%x: memref<16xf32> {openinfer.arg = #nn.slot<input "x">}) {
    func.return
  }
}
// -----
// A kernel writes what it stores a matrix of a workgroup into.
// CHECK: {kernel = "copy_0", buffers = ["x", "y"], writes = [1 : i64]
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], outputs = []}
  func.func @step(%errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<64x64xf16>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<64x64xf16>
    %one = arith.constant 1 : index
    "gpu.launch_func"(%one, %one, %one, %one, %one, %one, %x, %y) <{kernel = @copy_0, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>}> : (index, index, index, index, index, index, memref<64x64xf16>, memref<64x64xf16>) -> ()
    func.return
  }
  func.func private @copy_0(%x: memref<64x64xf16>, %y: memref<64x64xf16>) attributes {gpu.known_block_size = array<i32: 128, 1, 1>} {
    %c0 = arith.constant 0 : index
    %m = gpu.tensor_load %x[%c0, %c0] : memref<64x64xf16> -> !gpu.mma_matrix<64x64xf16, "COp", workgroup>
    gpu.tensor_store %m, %y[%c0, %c0] : !gpu.mma_matrix<64x64xf16, "COp", workgroup>, memref<64x64xf16>
    func.return
  }
}
// -----
// Workgroups that a size of the step decides, or more than a device starts, are words of the record alone.
// CHECK: calls = [
// CHECK-NEXT: {kernel = "negate_0", {{.*}}words = 2 : i64},
// CHECK-NEXT: {kernel = "negate_1", {{.*}}words = 2 : i64}
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {inputs = [], outputs = []}
  func.func @step(%errors: memref<4xi64> {openinfer.arg = #nn.slot<errors>}) {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<16xf32>
    %n = nn.size "N"
    %one = arith.constant 1 : index
    %many = arith.constant 65536 : index
    "gpu.launch_func"(%n, %one, %one, %one, %one, %one, %x, %n) <{kernel = @negate_0, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>}> : (index, index, index, index, index, index, memref<16xf32>, index) -> ()
    "gpu.launch_func"(%many, %one, %one, %one, %one, %one, %x, %n) <{kernel = @negate_1, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>}> : (index, index, index, index, index, index, memref<16xf32>, index) -> ()
    func.return
  }
  func.func private @negate_0(%x: memref<16xf32>, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    func.return
  }
  func.func private @negate_1(%x: memref<16xf32>, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
    func.return
  }
}
