// RUN: not openinfer-opt %s -p add-cache --split-input-file 2>&1 | filecheck %s

// All that stands against a cache is told at once.
// CHECK: error[OI1580]: this model cannot be given a cache
// CHECK-NEXT: attention has a mask that is more than causal in `op attention(x, x, x, m) >> a`
// CHECK-NEXT: `mean_axis` is not known to leave tokens apart in `op mean_axis(a) >> b`
// CHECK-NEXT: fix: import it without `stateful`
graph.variable x dynamic f32 [1, L, 4]
graph.variable m dynamic bool [1, L]
graph.block entry {
  graph.assign a f32 [1, L, 4]
  graph.assign b f32 [1, 4]
  graph.assign c f32 [1, L, 4]
  graph.op attention(x, x, x, m) -> (a) settings {causal = true, heads = 2}
  graph.op mean_axis(a) -> (b) settings {axes = [1]}
  graph.op attention(a, a, a) -> (c) settings {causal = true, heads = 2}
  graph.return (b, c)
}
