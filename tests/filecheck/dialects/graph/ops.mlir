// RUN: OI_ROUNDTRIP

// CHECK: graph.variable x dynamic f32 [B, D]
graph.variable x dynamic f32 [B, D]
// CHECK-NEXT: graph.variable W(l) constant f32 [D, "3*D"] {pattern = "W.{l}"}
graph.variable W(l) constant f32 [D, "D + 2*D"] {pattern = "W.{l}"}
// CHECK-NEXT: graph.variable K(l, t) persistent f16 [H] {table, fixed = {t = 4 : i64}}
graph.variable K(l, t) persistent f16 [H] {table, fixed = {t = 4 : i64}}
// CHECK-NEXT: graph.variable y volatile f32 {init = 5.000000e+00 : f64}
graph.variable y volatile f32 {init = 5.0 : f64}
// CHECK-NEXT: graph.variable r volatile f32 {ref = "\CE\B1"}
graph.variable r volatile f32 {ref = "\CE\B1"}

// CHECK-NEXT: graph.size_bound B at_least 1
graph.size_bound B at_least 1
// CHECK-NEXT: graph.size_bound "B*D" at_least "D + 1" at_most 64
graph.size_bound "D*B" at_least "D + 1" at_most 64
// CHECK-NEXT: graph.size_bound B at_most D
graph.size_bound B at_most D

// CHECK-NEXT: graph.package_size "B" = 4
graph.package_size "B" = 4
// CHECK-NEXT: graph.package_tensor "W.0" f32 [384, 384]
graph.package_tensor "W.0" f32 [384, 384]
// CHECK-NEXT: graph.package_tensor "rope" f32 absent
graph.package_tensor "rope" f32 absent
// CHECK-NEXT: graph.package_tensor "blk.0.w" q4_k [8, 256]
graph.package_tensor "blk.0.w" q4_k [8, 256]
// CHECK-NEXT: graph.package_value "eps" = 1.000000e-12 : f64
graph.package_value "eps" = 1.0e-12 : f64

// CHECK-NEXT: graph.block entry with {no_reorder = true} {
graph.block entry with {no_reorder = true} {
  // CHECK-NEXT: graph.assign h f32 [B, "D/2"]
  graph.assign h f32 [B, "D / 2"]
  // CHECK-NEXT: graph.assign c bool
  graph.assign c bool
  // CHECK-NEXT: graph.loop layers l in 0 to "n - 1" with {fuse = false} {
  graph.loop layers l in 0 to "n - 1" with {fuse = false} {
    // CHECK-NEXT: graph.op matmul(x, W[l]) -> (h) settings {transpose_b = true} with {group = "g"}
    graph.op matmul(x, W[l]) -> (h) settings {transpose_b = true} with {group = "g"}
    // CHECK-NEXT: graph.op fma(x, -0.5, 1.0e-09) -> (h)
    graph.op fma(x, -0.5, 1.0e-09) -> (h)
    // CHECK-NEXT: graph.op where("true", true, -inf) -> (h)
    graph.op where("true", true, -inf) -> (h)
    // CHECK-NEXT: graph.op cast(h) -> (h) settings {to = #graph.name<f16>}
    graph.op cast(h) -> (h) settings {to = #graph.name<f16>}
    // CHECK-NEXT: graph.op reshape(h) -> (h) settings {shape = [#graph.size<"B*D">, -1 : i64]}
    graph.op reshape(h) -> (h) settings {shape = [#graph.size<"B*D">, -1 : i64]}
  }
  // CHECK: graph.scope "tail" {
  graph.scope "tail" {
    // CHECK-NEXT: graph.op split(h) -> (x, y)
    graph.op split(h) -> (x, y)
  }
  // CHECK: graph.branch if c then good else bad
  graph.branch if c then good else bad
  // CHECK-NEXT: graph.branch good
  graph.branch good
  // A block that is called like a word of the syntax.
  // CHECK-NEXT: graph.branch "if"
  graph.branch "if"
  // CHECK-NEXT: graph.barrier
  graph.barrier
  // CHECK-NEXT: graph.dep after "matmul" before "cache.write"
  graph.dep after "matmul" before "cache.write"
  // CHECK-NEXT: graph.transfer x -> h
  graph.transfer x -> h
  // CHECK-NEXT: graph.cache_read K[l, slice(0, "n + 1")] -> h
  graph.cache_read K[l, slice(0, "n + 1")] -> h
  // CHECK-NEXT: graph.cache_read K[slice(none, -3), slice(none, none)] -> h
  graph.cache_read K[slice(none, -3), slice(none, none)] -> h
  // Sizes that are called like words of the syntax.
  // CHECK-NEXT: graph.cache_read K["slice", slice("none", none)] -> h
  graph.cache_read K["slice", slice("none", none)] -> h
  // CHECK-NEXT: graph.cache_write h -> K[]
  graph.cache_write h -> K[]
  // CHECK-NEXT: graph.cache_step n by -2
  graph.cache_step n by -2
  // CHECK-NEXT: graph.cache_reset K[0]
  graph.cache_reset K[0]
  // CHECK-NEXT: graph.yield x, h
  graph.yield x, h
  // CHECK-NEXT: graph.await x, h
  graph.await x, h
  // CHECK-NEXT: graph.return (h, y)
  graph.return (h, y)
}
// CHECK: graph.block if {
graph.block if {
  // CHECK-NEXT: graph.return
  graph.return
}
