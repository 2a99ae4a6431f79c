// RUN: openinfer-opt %s -p lower-device-kernels --split-input-file | filecheck %s

// Bytes that are added up in 32 bits: four steps of a row and a column at once, from words of shared memory.
// CHECK-LABEL: func.func private @tiles_0
// CHECK-DAG: %left = memref.alloca() : memref<32x9xvector<4xi8>, #gpu.address_space<workgroup>>
// CHECK-DAG: %right = memref.alloca() : memref<32x9xvector<4xi8>, #gpu.address_space<workgroup>>
// CHECK: scf.for %d =
// CHECK-DAG: %[[A:.*]] = memref.load %left{{.*}}vector<4xi8>
// CHECK-DAG: %[[B:.*]] = memref.load %right{{.*}}vector<4xi8>
// CHECK: nn.dot_bytes %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi8>
// CHECK-NOT: arith.muli
// CHECK: scf.yield
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<70x96xi8>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<80x96xi8>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x80xi32>
    func.call @tiles_0(%x, %w, %y) : (memref<70x96xi8>, memref<80x96xi8>, memref<70x80xi32>) -> ()
    func.return
  }
  func.func private @tiles_0(%x: memref<70x96xi8>, %w: memref<80x96xi8>, %y: memref<70x80xi32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x96xi8>, memref<80x96xi8>, memref<70x80xi32>) -> ()
    func.return
  }
}
// -----
// One row, without signs: sixteen steps are an access.
// CHECK-LABEL: func.func private @row_0
// CHECK: vector.load %w{{.*}}vector<16xi8>
// CHECK: vector.load %x{{.*}}vector<16xi8>
// CHECK-COUNT-4: nn.dot_bytes unsigned
// CHECK-NOT: nn.dot_bytes
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<1x512xi8>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<70x512xi8>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<1x70xi32>
    func.call @row_0(%x, %w, %y) : (memref<1x512xi8>, memref<70x512xi8>, memref<1x70xi32>) -> ()
    func.return
  }
  func.func private @row_0(%x: memref<1x512xi8>, %w: memref<70x512xi8>, %y: memref<1x70xi32>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b, unsigned} : (memref<1x512xi8>, memref<70x512xi8>, memref<1x70xi32>) -> ()
    func.return
  }
}
// -----
// Not where steps of the right operand do not lie side by side, nor for sums of a byte.
// CHECK-LABEL: func.func private @other_0
// CHECK-NOT: nn.dot_bytes
// CHECK-LABEL: func.func private @narrow_0
// CHECK-NOT: nn.dot_bytes
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  func.func @step() {
    %x = memref.alloc() {openinfer.memory = "device"} : memref<70x96xi8>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<96x96xi8>
    %y = memref.alloc() {openinfer.memory = "device"} : memref<70x96xi32>
    %z = memref.alloc() {openinfer.memory = "device"} : memref<70x96xi8>
    func.call @other_0(%x, %w, %y) : (memref<70x96xi8>, memref<96x96xi8>, memref<70x96xi32>) -> ()
    func.call @narrow_0(%x, %w, %z) : (memref<70x96xi8>, memref<96x96xi8>, memref<70x96xi8>) -> ()
    func.return
  }
  func.func private @other_0(%x: memref<70x96xi8>, %w: memref<96x96xi8>, %y: memref<70x96xi32>) {
    nn.matmul(%x, %w) outs(%y) : (memref<70x96xi8>, memref<96x96xi8>, memref<70x96xi32>) -> ()
    func.return
  }
  func.func private @narrow_0(%x: memref<70x96xi8>, %w: memref<96x96xi8>, %y: memref<70x96xi8>) {
    nn.matmul(%x, %w) outs(%y) {transpose_b} : (memref<70x96xi8>, memref<96x96xi8>, memref<70x96xi8>) -> ()
    func.return
  }
}
