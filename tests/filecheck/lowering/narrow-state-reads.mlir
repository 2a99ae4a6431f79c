// RUN: openinfer-opt %s -p narrow-state-reads --split-input-file | filecheck %s

// The slice of the first axis was checked to hold one entry: it is that entry, behind the check.
// CHECK-LABEL: func.func @one_layer
// CHECK: nn.require
// CHECK: [[K:%\S+]] = nn.state_read "K"[%l, %t] kept [1] : tensor<?x8xf32, #nn.dims<K.2, 8>>
// CHECK-NEXT: [[C:%\S+]] = nn.cast_dims [[K]] : tensor<?x8xf32, #nn.dims<K.2, 8>> to tensor<?x8xf32, #nn.dims<T, 8>>
// CHECK-NEXT: [[R:%\S+]] = nn.reshape([[C]]) : (tensor<?x8xf32, #nn.dims<T, 8>>) -> tensor<1x?x8xf32, #nn.dims<1, T, 8>>
// CHECK-NEXT: func.return [[R]]
func.func @one_layer(%l: index, %t: index, %n: index) -> tensor<1x?x8xf32, #nn.dims<1, T, 8>> {
  %a = nn.state_read "K"[%l, %t] kept [0, 1] : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>>
  %one = arith.constant 1 : index
  %1 = nn.size "K.1"
  %2 = arith.cmpi eq, %1, %one : index
  nn.require %2 else "shape" %1, %one node 3 : i64
  %k = nn.cast_dims %a : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>> to tensor<1x?x8xf32, #nn.dims<1, T, 8>>
  func.return %k : tensor<1x?x8xf32, #nn.dims<1, T, 8>>
}
// -----
// Several layers do not lie together, and the last axis is a view with whatever length.
// CHECK-LABEL: func.func @others
// CHECK: nn.state_read "K"[%l, %t] kept [0, 1]
// CHECK: nn.state_read "K"[%l, %t] kept [1]
// CHECK: nn.cast_dims %c
func.func @others(%l: index, %t: index) -> (tensor<2x?x8xf32, #nn.dims<2, T, 8>>, tensor<1x8xf32>) {
  %a = nn.state_read "K"[%l, %t] kept [0, 1] : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>>
  %b = nn.cast_dims %a : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>> to tensor<2x?x8xf32, #nn.dims<2, T, 8>>
  %c = nn.state_read "K"[%l, %t] kept [1] : tensor<?x8xf32, #nn.dims<K.2, 8>>
  %d = nn.cast_dims %c : tensor<?x8xf32, #nn.dims<K.2, 8>> to tensor<1x8xf32>
  func.return %b, %d : tensor<2x?x8xf32, #nn.dims<2, T, 8>>, tensor<1x8xf32>
}
// -----
// The state changes before the read could stand behind the check.
// CHECK-LABEL: func.func @written_in_between
// CHECK-NEXT: nn.state_read "K"[%l, %t] kept [0, 1]
func.func @written_in_between(%l: index, %t: index, %v: tensor<8xf32>) -> tensor<1x?x8xf32, #nn.dims<1, T, 8>> {
  %a = nn.state_read "K"[%l, %t] kept [0, 1] : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>>
  nn.state_write "K"[%l, %t] kept [] node 2 : i64 = %v : tensor<8xf32>
  %k = nn.cast_dims %a : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>> to tensor<1x?x8xf32, #nn.dims<1, T, 8>>
  func.return %k : tensor<1x?x8xf32, #nn.dims<1, T, 8>>
}
