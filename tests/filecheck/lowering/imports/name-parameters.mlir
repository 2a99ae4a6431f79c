// RUN: openinfer-opt %s -p name-parameters --split-input-file | filecheck %s

// Inputs first, constants in the order of their use. The shortest end of the path that no other has; weight
// and bias are letters, a table of rows has none; `LayerNorm` is a norm.
// CHECK: graph.variable tokens dynamic i64 [B]
// CHECK-NEXT: graph.variable words constant f32 [9, 4] {ref = "embeddings.words.weight"}
// CHECK-NEXT: graph.variable query_w(l) constant f32 [4, 4] {pattern = "encoder.layer.{l}.attention.self.query.weight"}
// CHECK-NEXT: graph.variable query_b(l) constant f32 [4] {pattern = "encoder.layer.{l}.attention.self.query.bias"}
// CHECK-NEXT: graph.variable attention_output_norm_w(l) constant
// CHECK-NEXT: graph.variable output_norm_w(l) constant
// CHECK: graph.op linear(x, query_w[l], query_b[l]) -> (x)
graph.variable v0(l) constant f32 [4] {pattern = "encoder.layer.{l}.output.LayerNorm.weight"}
graph.variable v1(l) constant f32 [4] {pattern = "encoder.layer.{l}.attention.output.LayerNorm.weight"}
graph.variable v2(l) constant f32 [4] {pattern = "encoder.layer.{l}.attention.self.query.bias"}
graph.variable v3(l) constant f32 [4, 4] {pattern = "encoder.layer.{l}.attention.self.query.weight"}
graph.variable v4 constant f32 [9, 4] {ref = "embeddings.words.weight"}
graph.variable tokens dynamic i64 [B]
graph.block entry {
  graph.assign x f32 [B, 4]
  graph.op embedding(v4, tokens) -> (x)
  graph.loop layers l in 0 to 2 {
    graph.op linear(x, v3[l], v2[l]) -> (x)
    graph.op mul(x, v1[l]) -> (x)
    graph.op mul(x, v0[l]) -> (x)
  }
  graph.return (x)
}
// -----
// Names of inputs and results stay; a constant that would have one gets a number.
// CHECK: graph.variable head_w dynamic f32 [2]
// CHECK: graph.variable head_w2 constant f32 [2] {ref = "head.weight"}
// CHECK: graph.op mul(head_w, head_w2) -> (y)
graph.variable head_w dynamic f32 [2]
graph.variable w constant f32 [2] {ref = "head.weight"}
graph.block entry {
  graph.assign y f32 [2]
  graph.op mul(head_w, w) -> (y)
  graph.return (y)
}
// -----
// Two stacks with modules of one name: a word of the stack in front, no more.
// CHECK-LABEL: graph.variable encoder_q_w(l)
// CHECK: graph.op linear(x, encoder_q_w[0]) -> (a)
// CHECK: graph.op linear(a, decoder_q_w[0]) -> (b)
// CHECK: graph.op linear(b, wo_w[0]) -> (c)
graph.variable x dynamic f32 [B, 8]
graph.variable v1(l) constant f32 [8, 8] {pattern = "encoder.block.{l}.layer.0.SelfAttention.q.weight"}
graph.variable v2(l) constant f32 [8, 8] {pattern = "decoder.block.{l}.layer.0.SelfAttention.q.weight"}
graph.variable v3(l) constant f32 [8, 8] {pattern = "decoder.block.{l}.layer.1.ff.wo.weight"}
graph.block entry {
  graph.assign a f32 [B, 8]
  graph.assign b f32 [B, 8]
  graph.assign c f32 [B, 8]
  graph.op linear(x, v1[0]) -> (a)
  graph.op linear(a, v2[0]) -> (b)
  graph.op linear(b, v3[0]) -> (c)
  graph.return (c)
}
