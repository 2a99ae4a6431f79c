// RUN: openinfer-opt %s -p add-cache --split-input-file | filecheck %s

// Rows of keys and values go into tables, positions go on behind those that came before.
// A step takes a single token, whatever the export was bounded by.
// CHECK: graph.size_bound L at_most 16
// CHECK-NEXT: graph.variable tokens dynamic i64 [1, L]
// CHECK: graph.variable step persistent i64
// CHECK-NEXT: graph.variable K(l, t) persistent f32 [4] {table}
// CHECK-NEXT: graph.variable V(l, t) persistent f32 [4] {table}
// CHECK: graph.op iota() -> (iota) settings {shape = [#graph.size<L>]}
// CHECK: graph.op add(iota, step) -> (add)
// CHECK: graph.op embedding(places, add) -> (p)
// CHECK: graph.op rope(h, add) -> (q) settings {heads = 2 : i64}
// CHECK: graph.cache_write reshape -> K[l, slice(step, "L + step")]
// CHECK: graph.cache_read K[l, slice(0, "L + step")] -> keys
// CHECK: graph.op attention(reshape_3, keys, values) -> (attention) settings {causal = true, heads = 2 : i64}
// CHECK-NEXT: graph.op reshape(attention) -> (a) settings {shape = [1 : i64, #graph.size<L>, 4 : i64]}
// CHECK: graph.cache_step step by L
// CHECK-NEXT: graph.return (y)
graph.size_bound L at_least 1 at_most 16
graph.variable tokens dynamic i64 [1, L]
graph.variable words constant f32 [8, 4] {ref = "words"}
graph.variable places constant f32 [16, 4] {ref = "places"}
graph.block entry {
  graph.assign e f32 [1, L, 4]
  graph.assign p f32 [L, 4]
  graph.assign h f32 [1, L, 4]
  graph.assign x f32 [1, L, 4]
  graph.assign y f32 [1, 4]
  graph.assign last f32 [1, 1, 4]
  graph.op embedding(words, tokens) -> (e)
  graph.op slice(places) -> (p) settings {axis = 0, start = 0, stop = #graph.size<L>}
  graph.op add(e, p) -> (x)
  graph.transfer x -> h
  graph.loop layers l in 0 to 2 {
    graph.assign q f32 [1, L, 4]
    graph.assign a f32 [1, L, 4]
    graph.assign n f32 [1, L, 4]
    graph.op rope(h) -> (q) settings {heads = 2}
    graph.op attention(q, q, h) -> (a) settings {causal = true, heads = 2}
    graph.op rms_norm(a) -> (n)
    graph.transfer n -> h
  }
  graph.op slice(h) -> (last) settings {axis = 1, start = #graph.size<"L - 1">, stop = #graph.size<L>}
  graph.op reshape(last) -> (y) settings {shape = [1, 4]}
  graph.return (y)
}
