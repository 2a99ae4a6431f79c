// RUN: openinfer-opt %s | openinfer-opt - -f mlir | filecheck %s

// CHECK-LABEL: func.func @step
func.func @step(%l: index, %c: i1, %x: tensor<8xf32>) {
  // CHECK-NEXT: nn.define_size "step.0" = %l node 3 : i64
  nn.define_size "step.0" = %l node 3 : i64
  // CHECK-NEXT: nn.require %c else "bound" %l, %l node 2 : i64
  nn.require %c else "bound" %l, %l node 2 : i64
  // CHECK-NEXT: %e = nn.extent "K"[] axis 1 : i64
  %e = nn.extent "K"[] axis 1 : i64
  // CHECK-NEXT: %e2 = nn.extent "C"[%l] axis 1 : i64
  %e2 = nn.extent "C"[%l] axis 1 : i64
  // CHECK-NEXT: %g = nn.grow "K"[] axis 1 : i64 to %e node 3 : i64
  %g = nn.grow "K"[] axis 1 : i64 to %e node 3 : i64
  // CHECK-NEXT: %k = nn.state_read "K"[%l, %g] kept [1] : tensor<?x8xf32, #nn.dims<step.0, 8>>
  %k = nn.state_read "K"[%l, %g] kept [1] : tensor<?x8xf32, #nn.dims<step.0, 8>>
  // CHECK-NEXT: nn.state_write "K"[%l, %g] kept [] node 4 : i64 = %x : tensor<8xf32>
  nn.state_write "K"[%l, %g] kept [] node 4 : i64 = %x : tensor<8xf32>
  // CHECK-NEXT: nn.state_reset "K"[] node 5 : i64
  nn.state_reset "K"[] node 5 : i64
  // CHECK-NEXT: nn.commit %x "P" : tensor<8xf32>
  nn.commit %x "P" : tensor<8xf32>
  // CHECK-NEXT: %v = nn.cast_dims %k : tensor<?x8xf32, #nn.dims<step.0, 8>> to tensor<?x8xf32, #nn.dims<n, 8>>
  %v = nn.cast_dims %k : tensor<?x8xf32, #nn.dims<step.0, 8>> to tensor<?x8xf32, #nn.dims<n, 8>>
  // CHECK-NEXT: %a, %b = nn.sections -> (tensor<8xf32>, tensor<8xf32>) "one" {
  // CHECK-NEXT:   nn.end_section %x : tensor<8xf32>
  // CHECK-NEXT: } "two" {
  // CHECK-NEXT:   %y = nn.elementwise(%x) {kind = "neg"}
  // CHECK-NEXT:   nn.end_section %y : tensor<8xf32>
  // CHECK-NEXT: } "three" {
  // CHECK-NEXT:   nn.end_section
  // CHECK-NEXT: }
  %a, %b = nn.sections -> (tensor<8xf32>, tensor<8xf32>) "one" {
    nn.end_section %x : tensor<8xf32>
  } "two" {
    %y = nn.elementwise(%x) {kind = "neg"} : (tensor<8xf32>) -> tensor<8xf32>
    nn.end_section %y : tensor<8xf32>
  } "three" {
    nn.end_section
  }
  func.return
}

// CHECK-LABEL: func.func @buffers
func.func @buffers(%l: index, %n: index, %b: memref<?x8xf32>, %c: i1) {
  // CHECK-NEXT: %v = nn.state_view "K"[%l, %n] [%n] : memref<?x8xf32>
  %v = nn.state_view "K"[%l, %n] [%n] : memref<?x8xf32>
  // CHECK-NEXT: %p = nn.state_place "K"[%l, %n] [%n] node 3 : i64 : memref<?x8xf32>
  %p = nn.state_place "K"[%l, %n] [%n] node 3 : i64 : memref<?x8xf32>
  // CHECK-NEXT: nn.state_load "K"[%l, %n] kept [0] to %b : memref<?x8xf32>
  nn.state_load "K"[%l, %n] kept [0] to %b : memref<?x8xf32>
  // CHECK-NEXT: nn.leave_if %c
  nn.leave_if %c
  func.return
}
