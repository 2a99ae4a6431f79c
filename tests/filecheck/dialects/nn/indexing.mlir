// RUN: OI_ROUNDTRIP

// CHECK: func.func @indexing
func.func @indexing(%x: tensor<?x4xf32, #nn.dims<N, 4>>, %i: tensor<?xi64, #nn.dims<M>>, %u: tensor<?x4xf32, #nn.dims<M, 4>>, %j: tensor<?x4xi8, #nn.dims<M, 4>>, %n: index) {
  // CHECK: %s = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "add", node = 3 : i64} : (tensor<?x4xf32, #nn.dims<N, 4>>, tensor<?xi64, #nn.dims<M>>, tensor<?x4xf32, #nn.dims<M, 4>>) -> tensor<?x4xf32, #nn.dims<N, 4>>
  %s = nn.scatter(%x, %i, %u) {axis = 0 : i64, mode = "add", node = 3 : i64} : (tensor<?x4xf32, #nn.dims<N, 4>>, tensor<?xi64, #nn.dims<M>>, tensor<?x4xf32, #nn.dims<M, 4>>) -> tensor<?x4xf32, #nn.dims<N, 4>>
  // CHECK: %v, %p = nn.sort(%s) {axis = 1 : i64, descending} : (tensor<?x4xf32, #nn.dims<N, 4>>) -> (tensor<?x2xf32, #nn.dims<N, 2>>, tensor<?x2xi64, #nn.dims<N, 2>>)
  %v, %p = nn.sort(%s) {axis = 1 : i64, descending} : (tensor<?x4xf32, #nn.dims<N, 4>>) -> (tensor<?x2xf32, #nn.dims<N, 2>>, tensor<?x2xi64, #nn.dims<N, 2>>)
  // CHECK: %c = nn.cumsum(%v) {axis = 0 : i64, exclusive, reverse} : (tensor<?x2xf32, #nn.dims<N, 2>>) -> tensor<?x2xf32, #nn.dims<N, 2>>
  %c = nn.cumsum(%v) {axis = 0 : i64, exclusive, reverse} : (tensor<?x2xf32, #nn.dims<N, 2>>) -> tensor<?x2xf32, #nn.dims<N, 2>>
  // CHECK: %g = nn.gather_elements(%x, %j) {axis = 0 : i64, node = 3 : i64, unsigned_indices}
  %g = nn.gather_elements(%x, %j) {axis = 0 : i64, node = 3 : i64, unsigned_indices} : (tensor<?x4xf32, #nn.dims<N, 4>>, tensor<?x4xi8, #nn.dims<M, 4>>) -> tensor<?x4xf32, #nn.dims<M, 4>>
  // CHECK: %h = nn.scatter_elements(%x, %j, %g) {axis = 0 : i64, mode = "mul"}
  %h = nn.scatter_elements(%x, %j, %g) {axis = 0 : i64, mode = "mul"} : (tensor<?x4xf32, #nn.dims<N, 4>>, tensor<?x4xi8, #nn.dims<M, 4>>, tensor<?x4xf32, #nn.dims<M, 4>>) -> tensor<?x4xf32, #nn.dims<N, 4>>
  // CHECK: %t = nn.from_index %n : tensor<i64>
  %t = nn.from_index %n : tensor<i64>
  func.return
}

// CHECK: func.func @on_buffers
func.func @on_buffers(%x: memref<?x4xf32>, %i: memref<?xi64>, %u: memref<?x4xf32>, %y: memref<?x4xf32>, %p: memref<?x4xi64>, %e: memref<4xi64>) {
  // CHECK: nn.scatter(%x, %i, %u) outs(%y) scratch(errors = %e) {axis = 0 : i64, mode = "set"}
  nn.scatter(%x, %i, %u) outs(%y) scratch(errors = %e) {axis = 0 : i64, mode = "set"} : (memref<?x4xf32>, memref<?xi64>, memref<?x4xf32>, memref<?x4xf32>, memref<4xi64>) -> ()
  // CHECK: nn.sort(%x) outs(%y, %p) scratch(home = %p, away = %p) {axis = 1 : i64}
  nn.sort(%x) outs(%y, %p) scratch(home = %p, away = %p) {axis = 1 : i64} : (memref<?x4xf32>, memref<?x4xf32>, memref<?x4xi64>, memref<?x4xi64>, memref<?x4xi64>) -> ()
  // CHECK: nn.cumsum(%x) outs(%y) {axis = 1 : i64, product}
  nn.cumsum(%x) outs(%y) {axis = 1 : i64, product} : (memref<?x4xf32>, memref<?x4xf32>) -> ()
  func.return
}
