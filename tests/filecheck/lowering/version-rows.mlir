// RUN: openinfer-opt %s -p version-rows --split-input-file | filecheck %s
// RUN: sed -e 's/openinfer.device = "vulkan"/openinfer.device = "cpu"/' %s | openinfer-opt - -p version-rows --split-input-file | filecheck %s --check-prefix CPU

// CPU-NOT: nn.cast_dims %tokens

// One row of one sequence: sizes are numbers, the loop over sequences is gone, so are the slice and its checks. The
// first row is asked to be row 0, their number to be 1; what checks the number of rows that are written stands
// where that size was.
// CHECK-LABEL: func.func @step
// CHECK: nn.size "N"
// CHECK: nn.size "S"
// CHECK: [[SIZES:%\S+]] = arith.andi
// CHECK: [[FLAG:%\S+]] = scf.if [[SIZES]] -> (tensor<i64>) {
// CHECK-NEXT: nn.cast_dims %firsts
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: [[FIRST:%\S+]] = tensor.extract
// CHECK-NEXT: [[ZERO:%\S+]] = arith.constant 0 : i32
// CHECK-NEXT: arith.cmpi eq, [[FIRST]], [[ZERO]]
// CHECK-NEXT: nn.cast_dims %counts
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: [[COUNT:%\S+]] = tensor.extract
// CHECK-NEXT: [[ONE:%\S+]] = arith.constant 1 : i32
// CHECK-NEXT: arith.cmpi eq, [[COUNT]], [[ONE]]
// CHECK: } else {
// CHECK: [[NUMBER:%\S+]] = tensor.extract [[FLAG]][]
// CHECK: [[CHOSEN:%\S+]] = arith.cmpi eq
// CHECK-NEXT: scf.if [[CHOSEN]] -> (tensor<?x8xf32, #nn.dims<N, 8>>) {
// CHECK: %tokens_1 = nn.cast_dims %tokens : tensor<?xi32, #nn.dims<N>> to tensor<1xi32>
// CHECK: [[H:%\S+]] = nn.gather(%w, %tokens_1) {{.*}} -> tensor<1x8xf32>
// CHECK-NOT: scf.for
// CHECK-NOT: nn.slice
// CHECK-NOT: nn.define_size
// CHECK: [[WRITTEN:%\S+]] = arith.subi
// CHECK: [[SAME:%\S+]] = arith.cmpi eq, [[WRITTEN]]
// CHECK-NEXT: nn.require [[SAME]] else "shape" [[WRITTEN]], {{%\S+}} node 7
// CHECK: nn.state_write "K"[{{.*}}] kept [0] node 6 : i64 = [[H]] : tensor<1x8xf32>
// CHECK: [[OUT:%\S+]] = nn.cast_dims [[H]] : tensor<1x8xf32> to tensor<?x8xf32, #nn.dims<N, 8>>
// CHECK-NEXT: scf.yield [[OUT]]
// CHECK-NEXT: } else {
// CHECK: scf.for
// CHECK: nn.slice
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {sizes = ["N", "S"], inputs = ["tokens", "firsts", "counts"], dynamic_sizes = ["count.0", "K.1"], states = [{name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["8"], sources = [], marks = false, touched = "never"}]}
  func.func @step(%tokens: tensor<?xi32, #nn.dims<N>>, %firsts: tensor<?xi32, #nn.dims<S>>, %counts: tensor<?xi32, #nn.dims<S>>, %w: tensor<20x8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %h = nn.gather(%w, %tokens) {axis = 0 : i64, node = 1 : i64} : (tensor<20x8xf32>, tensor<?xi32, #nn.dims<N>>) -> tensor<?x8xf32, #nn.dims<N, 8>>
    %s = nn.size "S"
    scf.for %i = %c0 to %s step %c1 {
      %at = nn.from_index %i : tensor<i64>
      %none = nn.iota() {axis = 0 : i64} : () -> tensor<i64>
      %number = nn.elementwise(%none, %at) {kind = "add"} : (tensor<i64>, tensor<i64>) -> tensor<i64>
      %here = nn.elementwise(%number) {kind = "cast", settings = {to = "i32"}} : (tensor<i64>) -> tensor<i32>
      %first = nn.gather(%firsts, %here) {axis = 0 : i64, node = 2 : i64} : (tensor<?xi32, #nn.dims<S>>, tensor<i32>) -> tensor<i32>
      %count = nn.gather(%counts, %here) {axis = 0 : i64, node = 3 : i64} : (tensor<?xi32, #nn.dims<S>>, tensor<i32>) -> tensor<i32>
      %token = nn.gather(%tokens, %first) {axis = 0 : i64, node = 4 : i64} : (tensor<?xi32, #nn.dims<N>>, tensor<i32>) -> tensor<i32>
      %f = tensor.extract %first[] : tensor<i32>
      %start = arith.index_cast %f : i32 to index
      nn.define_size "start.0" = %start node 5 : i64
      %c = tensor.extract %count[] : tensor<i32>
      %n = arith.index_cast %c : i32 to index
      nn.define_size "count.0" = %n node 5 : i64
      %part = nn.slice(%h) {starts = [#graph.size<start.0>, #graph.size<0>], steps = array<i64: 1, 1>} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?x8xf32, #nn.dims<count.0, 8>>
      %t = tensor.extract %token[] : tensor<i32>
      %past = arith.index_cast %t : i32 to index
      %end = arith.addi %past, %n : index
      %to = nn.grow "K"[] axis 0 : i64 to %end node 6 : i64
      %room = arith.subi %to, %past : index
      nn.define_size "K.1" = %room node 6 : i64
      %given = nn.size "K.1"
      %asked = nn.size "count.0"
      %same = arith.cmpi eq, %given, %asked : index
      nn.require %same else "shape" %given, %asked node 7 : i64
      scf.if %same {
        %v = nn.cast_dims %part : tensor<?x8xf32, #nn.dims<count.0, 8>> to tensor<?x8xf32, #nn.dims<K.1, 8>>
        nn.state_write "K"[%past] kept [0] node 6 : i64 = %v : tensor<?x8xf32, #nn.dims<K.1, 8>>
      }
    }
    func.return %h : tensor<?x8xf32, #nn.dims<N, 8>>
  }
}
// -----
// Nothing grows: no step of a language model.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.if
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {sizes = ["N"], inputs = ["tokens"], states = []}
  func.func @step(%tokens: tensor<?xi32, #nn.dims<N>>, %w: tensor<20x8xf32>) -> tensor<?x8xf32, #nn.dims<N, 8>> {
    %h = nn.gather(%w, %tokens) {axis = 0 : i64, node = 1 : i64} : (tensor<20x8xf32>, tensor<?xi32, #nn.dims<N>>) -> tensor<?x8xf32, #nn.dims<N, 8>>
    func.return %h : tensor<?x8xf32, #nn.dims<N, 8>>
  }
}
// -----
// An input that is no list of integers.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.if
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {sizes = ["N"], inputs = ["x"], states = [{name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["8"], sources = [], marks = false, touched = "never"}]}
  func.func @step(%x: tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?x8xf32, #nn.dims<N, 8>> {
    %h = nn.softmax(%x) {axis = 1 : i64} : (tensor<?x8xf32, #nn.dims<N, 8>>) -> tensor<?x8xf32, #nn.dims<N, 8>>
    func.return %h : tensor<?x8xf32, #nn.dims<N, 8>>
  }
}
// -----
// A size that is no length of a list.
// CHECK-LABEL: func.func @step
// CHECK-NOT: scf.if
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {sizes = ["M", "N"], inputs = ["tokens"], states = [{name = "K", dtype = "f32", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["8"], sources = [], marks = false, touched = "never"}]}
  func.func @step(%tokens: tensor<?xi32, #nn.dims<N>>) -> tensor<?xi32, #nn.dims<N>> {
    func.return %tokens : tensor<?xi32, #nn.dims<N>>
  }
}
