// RUN: openinfer-opt %s -p lift-index-functions --split-input-file | filecheck %s

// A causal mask is a setting; positions are the first rows of a table; one type is one row.
// CHECK-LABEL: graph.variable table
// CHECK: graph.op slice(table) -> (slice) settings {axis = 0 : i64, start = 0 : i64, stop = #graph.size<L>}
// CHECK: graph.op add(x, slice) -> (h)
// CHECK-NOT: iota
// CHECK: graph.op attention(h, h, h) -> (a) settings {causal = true}
graph.variable table constant f32 [64, 8] {ref = "table"}
graph.variable x dynamic f32 [B, L, 8]
graph.block entry {
  graph.assign q i64 [L]
  graph.assign r i64 [L, 1]
  graph.assign m bool [L, L]
  graph.assign p f32 [L, 8]
  graph.assign h f32 [B, L, 8]
  graph.assign a f32 [B, L, 8]
  graph.op iota() -> (q) settings {shape = [#graph.size<L>]}
  graph.op unsqueeze(q) -> (r) settings {axes = [1]}
  graph.op le(q, r) -> (m)
  graph.op gather(table, q) -> (p)
  graph.op add(x, p) -> (h)
  graph.op attention(h, h, h, m) -> (a)
  graph.return (a)
}
// -----
// The part of a mask that inputs say stays: `cast` and `reshape`. The other part is a window.
// CHECK-LABEL: graph.variable given
// CHECK: graph.op cast(given) -> (cast) settings {to = #graph.name<bool>}
// CHECK: graph.op reshape(cast) -> (reshape) settings {shape = [#graph.size<B>, 1 : i64, 1 : i64, #graph.size<L>]}
// CHECK-NOT: graph.op and
// CHECK: graph.op attention(x, x, x, reshape) -> (a) settings {causal = true, window = 3 : i64}
graph.variable given dynamic i64 [B, L]
graph.variable x dynamic f32 [B, 2, L, 8]
graph.block entry {
  graph.assign q i64 [L, 1]
  graph.assign k i64 [L]
  graph.assign d i64 [L, L]
  graph.assign near bool [L, L]
  graph.assign past bool [L, L]
  graph.assign n bool [B, L]
  graph.assign n4 bool [B, 1, 1, L]
  graph.assign m bool [L, L]
  graph.assign seen bool [B, 1, L, L]
  graph.assign a f32 [B, 2, L, 8]
  graph.op iota() -> (q) settings {shape = [#graph.size<L>, 1], axis = 0}
  graph.op iota() -> (k) settings {shape = [#graph.size<L>]}
  graph.op sub(q, k) -> (d)
  graph.op lt(d, 3) -> (near)
  graph.op ge(d, 0) -> (past)
  graph.op and(near, past) -> (m)
  graph.op ne(given, 0) -> (n)
  graph.op reshape(n) -> (n4) settings {shape = [#graph.size<B>, 1, 1, #graph.size<L>]}
  graph.op and(n4, m) -> (seen)
  graph.op attention(x, x, x, seen) -> (a)
  graph.return (a)
}
// -----
// Almost: the diagonal itself is hidden, positions come from outside, a finite number hides what may be all.
// CHECK-LABEL: graph.variable positions
// CHECK: graph.op embedding(table, positions) -> (p)
// CHECK: graph.op attention(h, h, h, m) -> (a)
// CHECK-NOT: settings
// CHECK: graph.op attention(a, a, a, low) -> (b)
// CHECK-NOT: settings
// CHECK: graph.return
graph.variable positions dynamic i64 [L]
graph.variable table constant f32 [64, 8] {ref = "table"}
graph.variable zero constant f32 {init = 0.0}
graph.variable x dynamic f32 [L, 8]
graph.block entry {
  graph.assign q i64 [L]
  graph.assign r i64 [L, 1]
  graph.assign m bool [L, L]
  graph.assign p f32 [L, 8]
  graph.assign h f32 [L, 8]
  graph.assign a f32 [L, 8]
  graph.assign n bool [L]
  graph.assign low f32 [L]
  graph.assign b f32 [L, 8]
  graph.op iota() -> (q) settings {shape = [#graph.size<L>]}
  graph.op unsqueeze(q) -> (r) settings {axes = [1]}
  graph.op lt(q, r) -> (m)
  graph.op gather(table, positions) -> (p)
  graph.op add(x, p) -> (h)
  graph.op attention(h, h, h, m) -> (a)
  graph.op ne(positions, 0) -> (n)
  graph.op filter(zero, -3.0e+38, n) -> (low)
  graph.op attention(a, a, a, low) -> (b)
  graph.return (b)
}
// -----
// An element of a mask that is read as one of a single axis: row * L + column.
// CHECK: graph.op reshape(given) -> ([[M:[a-z0-9_]+]]) settings {shape = [#graph.size<B>, 1 : i64, 1 : i64, #graph.size<L>]}
// CHECK-NEXT: graph.op attention(x, x, x, [[M]]) -> (a)
// CHECK-NEXT: graph.return
graph.variable given dynamic bool [B, L]
graph.variable x dynamic f32 [B, 2, L, 8]
graph.block entry {
  graph.assign f bool ["B*L"]
  graph.assign r i64 [B, 1, 1, 1]
  graph.assign c i64 [L]
  graph.assign n i64 [1]
  graph.assign s i64 [B, 1, 1, 1]
  graph.assign i i64 [B, 1, 1, L]
  graph.assign m bool [B, 1, 1, L]
  graph.assign a f32 [B, 2, L, 8]
  graph.op reshape(given) -> (f) settings {shape = [#graph.size<"B*L">]}
  graph.op iota() -> (r) settings {shape = [#graph.size<B>, 1, 1, 1], axis = 0}
  graph.op iota() -> (c) settings {shape = [#graph.size<L>]}
  graph.op iota() -> (n) settings {shape = [1], start = #graph.name<L>}
  graph.op mul(r, n) -> (s)
  graph.op add(s, c) -> (i)
  graph.op gather(f, i) -> (m)
  graph.op attention(x, x, x, m) -> (a)
  graph.return (a)
}
// -----
// A condition is said shorter, also where the number that hides is finite.
// CHECK: graph.op where([[C:[a-z0-9_]+]], 0.0, -3.0e+38) -> ([[W:[a-z0-9_]+]])
// CHECK-NOT: iota
// CHECK: graph.op attention(x, x, x, [[W]]) -> (a)
graph.variable given dynamic bool [B, L]
graph.variable zero constant f32 {init = 0.0}
graph.variable x dynamic f32 [B, 2, L, 8]
graph.block entry {
  graph.assign g bool [B, 1, 1, L]
  graph.assign r i64 [L, 1]
  graph.assign p bool [L, 1]
  graph.assign c bool [B, 1, L, L]
  graph.assign w f32 [B, 1, L, L]
  graph.assign a f32 [B, 2, L, 8]
  graph.op reshape(given) -> (g) settings {shape = [#graph.size<B>, 1, 1, #graph.size<L>]}
  graph.op iota() -> (r) settings {shape = [#graph.size<L>, 1], axis = 0}
  graph.op ge(r, 0) -> (p)
  graph.op and(p, g) -> (c)
  graph.op where(c, zero, -3.0e+38) -> (w)
  graph.op attention(x, x, x, w) -> (a)
  graph.return (a)
}
// -----
// Lengths of another dtype than places: compared as i64, where that is shorter.
// CHECK-LABEL: graph.variable count
// CHECK: graph.op attention(x, x, x, seen4) -> (y)
graph.variable count dynamic i32 [B]
graph.variable x dynamic f32 [B, L, 8]
graph.block entry {
  graph.assign places i32 [L]
  graph.assign counts i32 [B, 1]
  graph.assign seen bool [B, L]
  graph.assign seen4 bool [B, 1, 1, L]
  graph.assign y f32 [B, L, 8]
  graph.op iota() -> (places) settings {shape = [#graph.size<L>], dtype = #graph.name<i32>}
  graph.op unsqueeze(count) -> (counts) settings {axes = [1]}
  graph.op lt(places, counts) -> (seen)
  graph.op unsqueeze(seen) -> (seen4) settings {axes = [1, 2]}
  graph.op attention(x, x, x, seen4) -> (y) settings {heads = 2}
  graph.return (y)
}
// -----
// A mask that hides nothing is none; one that hides a key stays.
// CHECK-LABEL: graph.variable some
// CHECK: graph.op attention(x, x, x) -> (y)
// CHECK: graph.op attention(y, x, x, some) -> (z)
graph.variable zeros constant f32 {init = 0.0}
graph.variable some dynamic bool [L, L]
graph.variable x dynamic f32 [B, L, 8]
graph.block entry {
  graph.assign y f32 [B, L, 8]
  graph.assign z f32 [B, L, 8]
  graph.op attention(x, x, x, zeros) -> (y) settings {heads = 2}
  graph.op attention(y, x, x, some) -> (z) settings {heads = 2}
  graph.return (z)
}
