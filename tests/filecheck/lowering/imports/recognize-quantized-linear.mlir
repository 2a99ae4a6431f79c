// RUN: openinfer-opt %s -p recognize-quantized-linear --split-input-file | filecheck %s

// Codes of u8 become codes of i8; the bias takes the zero point times the sums of the weight.
// CHECK: graph.variable w_bias constant i32 [2] {ref = "w.bias"}
// CHECK: graph.op quantize(x, 0.5, -125) -> ([[Q:.*]]) settings {dtype = #graph.name<i8>}
// CHECK-NEXT: graph.assign
// CHECK-NEXT: graph.op linear([[Q]], w, w_bias) -> ([[N:.*]]) settings {acc = #graph.name<i32>}
// CHECK-NEXT: graph.assign
// CHECK-NEXT: graph.op cast([[N]]) -> ([[F:.*]]) settings {to = #graph.name<f32>}
// CHECK-NEXT: graph.op mul([[F]], 0.03125) -> (u)
// CHECK-NEXT: graph.op quantize(u, 1.0, 3) -> (p) settings {dtype = #graph.name<u8>}
graph.variable x dynamic f32 [B, 4]
graph.variable s constant f32 {init = 0.5}
graph.variable t constant f32 {init = 0.25}
graph.variable r constant f32 {init = 4.0}
graph.variable z constant u8 {init = 3 : i64}
graph.variable k constant f32 {init = 0.125}
graph.variable b constant i32 [2] {init = 7 : i64}
graph.variable w constant i8 [2, 4] {init = 5 : i64}
graph.block entry {
  graph.assign q u8 [B, 4]
  graph.assign d f32 [B, 4]
  graph.assign v f32 [2, 4]
  graph.assign c f32 [2]
  graph.assign u f32 [B, 2]
  graph.assign p u8 [B, 2]
  graph.op quantize(x, s, z) -> (q) settings {dtype = #graph.name<u8>}
  graph.op dequantize(q, s, z) -> (d)
  graph.op dequantize(w, t) -> (v)
  graph.op dequantize(b, k) -> (c)
  graph.op linear(d, v, c) -> (u)
  graph.op quantize(u, r, z) -> (p) settings {dtype = #graph.name<u8>}
  graph.return (p)
}
// -----
// Integers that are centred already; the zero point is known to the run alone.
// CHECK: graph.op mul({{.*}}, w_sums) -> ([[M:.*]])
// CHECK: graph.op matmul(x, w) -> ([[P:.*]]) settings {acc = #graph.name<i32>}
// CHECK-NEXT: graph.op sub([[P]], [[M]]) -> (y)
graph.variable x dynamic i8 [B, 4]
graph.variable z dynamic i8
graph.variable w constant i8 [4, 2] {init = 5 : i64}
graph.block entry {
  graph.assign q i32 [B, 4]
  graph.assign o i32
  graph.assign d i32 [B, 4]
  graph.assign v i32 [4, 2]
  graph.assign y i32 [B, 2]
  graph.op cast(x) -> (q) settings {to = #graph.name<i32>}
  graph.op cast(z) -> (o) settings {to = #graph.name<i32>}
  graph.op sub(q, o) -> (d)
  graph.op cast(w) -> (v) settings {to = #graph.name<i32>}
  graph.op matmul(d, v) -> (y)
  graph.return (y)
}
// -----
// What is dequantised and quantised again is as it was.
// CHECK: graph.op reshape(x) -> (y)
// CHECK-NEXT: graph.return
graph.variable x dynamic i8 [2, 4]
graph.variable s constant f32 {init = 0.5}
graph.block entry {
  graph.assign d f32 [2, 4]
  graph.assign m f32 [4, 2]
  graph.assign y i8 [4, 2]
  graph.op dequantize(x, s) -> (d)
  graph.op reshape(d) -> (m) settings {shape = [4, 2]}
  graph.op quantize(m, s) -> (y) settings {dtype = #graph.name<i8>}
  graph.return (y)
}
// -----
// Two activations, a scale for each column of a sum, a scale that is no constant, another scale behind.
// CHECK: graph.op matmul(d, e) -> (a)
// CHECK: graph.op matmul(d, v) -> (b)
// CHECK: graph.op matmul(f, h) -> (c)
// CHECK: graph.op quantize(d, t) -> (g)
graph.variable x dynamic i8 [4, 4]
graph.variable o dynamic f32
graph.variable s constant f32 {init = 0.5}
graph.variable t constant f32 {init = 0.25}
graph.variable r constant f32 [4] {init = 0.25}
graph.variable w constant i8 [4, 4] {init = 5 : i64}
graph.block entry {
  graph.assign d f32 [4, 4]
  graph.assign e f32 [4, 4]
  graph.assign v f32 [4, 4]
  graph.assign f f32 [4, 4]
  graph.assign h f32 [4, 4]
  graph.assign a f32 [4, 4]
  graph.assign b f32 [4, 4]
  graph.assign c f32 [4, 4]
  graph.assign g i8 [4, 4]
  graph.op dequantize(x, s) -> (d)
  graph.op dequantize(x, t) -> (e)
  graph.op dequantize(w, r) -> (v) settings {axis = 0}
  graph.op dequantize(x, o) -> (f)
  graph.op dequantize(w, s) -> (h)
  graph.op matmul(d, e) -> (a)
  graph.op matmul(d, v) -> (b)
  graph.op matmul(f, h) -> (c)
  graph.op quantize(d, t) -> (g) settings {dtype = #graph.name<i8>}
  graph.return (a, b, c, g)
}
