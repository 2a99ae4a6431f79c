// RUN: openinfer-opt %s -p name-values --split-input-file | filecheck %s

// The last op of a leaf module has the name of its weight, or of the module; others that of what the source
// assigns to, shortened; the rest that of the op. What goes round in a loop is h.
// CHECK: graph.op relu(x) -> (h)
// CHECK: graph.op linear(h, query_w) -> (query)
// CHECK: graph.op softmax(query) -> (scores)
// CHECK: graph.op exp(scores) -> (q)
// CHECK: graph.op sin(q) -> (act)
// CHECK: graph.op cos(act) -> (cos)
// CHECK: graph.op cos(cos) -> (cos2)
// CHECK: graph.op add(cos2, h) -> (h)
// CHECK: graph.return (y)
graph.variable x dynamic f32 [B, 4]
graph.variable query_w constant f32 [4, 4] {ref = "query.weight"}
graph.block entry {
  graph.assign v1 f32 [B, 4]
  graph.op relu(x) -> (v1)
  graph.loop layers l in 0 to 3 {
    graph.assign v2 f32 [B, 4]
    graph.op linear(v1, query_w) -> (v2) loc("layer.{l}.q|Linear|mixed|aten.linear")
    graph.assign v3 f32 [B, 4]
    graph.op softmax(v2) -> (v3) loc("layer.{l}|Layer|scores|aten.softmax")
    graph.assign v4 f32 [B, 4]
    graph.op exp(v3) -> (v4) loc("layer.{l}|Layer|query_states|aten.exp")
    graph.assign v5 f32 [B, 4]
    graph.op sin(v4) -> (v5) loc("layer.{l}.act|Sine|x|aten.sin")
    graph.assign v6 f32 [B, 4]
    graph.op cos(v5) -> (v6) loc("|||")
    graph.assign v7 f32 [B, 4]
    graph.op cos(v6) -> (v7)
    graph.op add(v7, v1) -> (v1)
  }
  graph.assign y f32 [B, 4]
  graph.op exp(v1) -> (y) loc("head|Head|z|aten.exp")
  graph.return (y)
}
// -----
// Inputs, states and results keep their names; a temporary does not take one of them.
// CHECK: graph.variable h dynamic f32 [2]
// CHECK: graph.op exp(h) -> (h2)
// CHECK: graph.op sin(h2) -> (y)
graph.variable h dynamic f32 [2]
graph.block entry {
  graph.assign t f32 [2]
  graph.op exp(h) -> (t) loc("m|M|hidden_states|aten.exp")
  graph.assign y f32 [2]
  graph.op sin(t) -> (y) loc("m|M|h|aten.sin")
  graph.return (y)
}
// -----
// What the source calls as it does an input says nothing. Parts of a split are what attention takes them for, through
// a table, too.
// CHECK: graph.op exp(x) -> (exp)
// CHECK: graph.op split(exp) -> (q, k)
// CHECK: graph.op reshape(q) -> (q2)
// CHECK: graph.op reshape(k) -> (k2)
// CHECK: graph.cache_write k2 -> K[slice(0, L)]
// CHECK: graph.op attention(q2, k3, k3) -> (y)
graph.variable x dynamic f32 [1, L, 8]
graph.variable K(t) persistent f32 [4] {table}
graph.block entry {
  graph.assign v1 f32 [1, L, 8]
  graph.assign v2 f32 [1, L, 4]
  graph.assign v3 f32 [1, L, 4]
  graph.assign v4 f32 [L, 4]
  graph.assign v5 f32 [L, 4]
  graph.assign v6 f32 [L, 4]
  graph.assign y f32 [L, 4]
  graph.op exp(x) -> (v1) loc("m|M|x|aten.exp")
  graph.op split(v1) -> (v2, v3) settings {axis = 2 : i64}
  graph.op reshape(v2) -> (v4) settings {shape = [#graph.size<L>, 4]}
  graph.op reshape(v3) -> (v5) settings {shape = [#graph.size<L>, 4]}
  graph.cache_write v5 -> K[slice(0, L)]
  graph.cache_read K[slice(0, L)] -> v6
  graph.op attention(v4, v6, v6) -> (y) settings {heads = 1 : i64}
  graph.return (y)
}
