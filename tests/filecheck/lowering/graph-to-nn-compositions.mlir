// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic | filecheck %s

// A distance and a length that are known are two slices the other way round, one that is a multiple of the
// length is nothing; of a length that the step knows a place is made for each element.
// CHECK: func.func @step(%[[X:.*]]: tensor<4x6xf32>, %r: tensor<?x6xf32
// CHECK-NEXT: %[[LAST:.*]] = nn.slice(%[[X]]) {starts = [#graph.size<3>, #graph.size<0>], {{.*}} -> tensor<1x6xf32>
// CHECK-NEXT: %[[FIRST:.*]] = nn.slice(%[[X]]) {starts = [#graph.size<0>, #graph.size<0>], {{.*}} -> tensor<3x6xf32>
// CHECK-NEXT: nn.concat(%[[LAST]], %[[FIRST]]) {axis = 0 : i64}
// CHECK-NOT: nn.slice
// CHECK-NOT: nn.concat
// CHECK: nn.elementwise({{.*}}) {kind = "floor_div"}
// CHECK: %[[PLACES:.*]] = nn.elementwise({{.*}}) {kind = "where"}
// CHECK: nn.gather(%r, %[[PLACES]]) {axis = 0 : i64

// The largest element is taken off, where it is finite, and added again.
// CHECK: %[[MOST:.*]] = nn.reduce(%[[X]]) {kind = "max", axes = array<i64: 1>, keepdims}
// CHECK-NEXT: %[[FINITE:.*]] = nn.elementwise(%[[MOST]]) {kind = "is_finite"}
// CHECK: %[[START:.*]] = nn.elementwise(%[[FINITE]], %[[MOST]], %{{.*}}) {kind = "where"}
// CHECK-NEXT: %[[LESS:.*]] = nn.elementwise(%[[X]], %[[START]]) {kind = "sub"}
// CHECK-NEXT: %[[POWER:.*]] = nn.elementwise(%[[LESS]]) {kind = "exp"}
// CHECK-NEXT: %[[TOTAL:.*]] = nn.reduce(%[[POWER]]) {kind = "sum", axes = array<i64: 1>, keepdims}
// CHECK-NEXT: %[[LOG:.*]] = nn.elementwise(%[[TOTAL]]) {kind = "log"}
// CHECK-NEXT: nn.elementwise(%[[LOG]], %[[START]]) {kind = "add"}

// A spread is divided by one less than the six elements; where nothing is left, nothing is divided.
// CHECK: %[[FIVE:.*]] = nn.fill() {value = 5.000000e+00 : f64}
// CHECK-NEXT: nn.elementwise(%{{.*}}, %[[FIVE]]) {kind = "div"}
// CHECK-NOT: kind = "div"
// CHECK: nn.elementwise(%{{.*}}) {kind = "where"}
graph.variable x dynamic f32 [4, 6]
graph.variable r dynamic f32 [N, 6]
graph.variable one dynamic f32 [4, 1]
graph.variable a volatile f32 [4, 6]
graph.variable b volatile f32 [4, 6]
graph.variable c volatile f32 [N, 6]
graph.variable d volatile f32 [4]
graph.variable e volatile f32 [4]
graph.variable f volatile f32 [4]
graph.block entry {
  graph.op roll(x) -> (a) settings {axes = [0 : i64], shifts = [-3 : i64]}
  graph.op roll(x) -> (b) settings {axes = [1 : i64], shifts = [12 : i64]}
  graph.op roll(r) -> (c) settings {axes = [0 : i64], shifts = [1 : i64]}
  graph.op logsumexp(x) -> (d) settings {axes = [1 : i64]}
  graph.op var(x) -> (e) settings {axes = [1 : i64]}
  graph.op var(one) -> (f) settings {axes = [1 : i64]}
  graph.return
}
