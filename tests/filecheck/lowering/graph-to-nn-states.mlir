// RUN: openinfer-opt %s -p bind-model,graph-to-nn --target-cpu generic --split-input-file | filecheck %s

// An entry is written where its index says, growing first; a slice is read with its length as a
// size of its own, compared with the declared one. Plain values are carried and committed at the end.
// CHECK: held = ["step", "s"],
// CHECK-NEXT: dynamic_sizes = ["size.0", "K.1"],
// CHECK: func.func @step(%x: tensor<4xf32>, %step: tensor<i32>, %s: tensor<4xf32>)
// CHECK: nn.define_size "size.0" =
// CHECK: %[[G:.*]] = nn.grow "K"[] axis 0 : i64 to
// CHECK: %[[O:.*]] = arith.subi %[[G]]
// CHECK: nn.state_write "K"[%[[O]]] kept [] node 1 : i64 = %x : tensor<4xf32>
// CHECK: %[[END:.*]] = nn.grow "K"[] axis 0 : i64 to
// CHECK: nn.define_size "K.1" =
// CHECK-NEXT: %[[V:.*]] = nn.state_read "K"[%{{.*}}] kept [0] : tensor<?x4xf32, #nn.dims<K.1, 4>>
// CHECK: nn.require %{{.*}} else "shape"
// CHECK: %ks = nn.cast_dims %[[V]] : tensor<?x4xf32, #nn.dims<K.1, 4>> to tensor<?x4xf32, #nn.dims<size.0, 4>>
// CHECK: nn.commit %{{.*}} "step" : tensor<i32>
// CHECK-NEXT: nn.commit %{{.*}} "s" : tensor<4xf32>
graph.variable x dynamic f32 [4]
graph.variable step persistent i32
graph.variable s persistent f32 [4]
graph.variable K(t) persistent f32 [4] {table}
graph.block entry {
  graph.assign ks f32 ["step + 1", 4]
  graph.cache_write x -> K[step]
  graph.cache_read K[slice(0, "step + 1")] -> ks
  graph.op sum_axis(ks) -> (s2) settings {axes = [0 : i64]}
  graph.cache_write s2 -> s
  graph.cache_step step by 1
  graph.return
}
graph.variable s2 volatile f32 [4]
// -----
// Consumers of a yielded value are sections; each starts from the value as it was yielded.
// CHECK: %[[H:.*]] = nn.elementwise(%x) {kind = "neg"}
// CHECK: %{{.*}}, %{{.*}} = nn.sections -> (tensor<4xf32>, tensor<4xf32>) "a" {
// CHECK-NEXT: nn.elementwise(%[[H]]) {kind = "exp"}
// CHECK-NEXT: nn.end_section
// CHECK-NEXT: } "b" {
// CHECK-NEXT: nn.elementwise(%[[H]]) {kind = "abs"}
graph.variable x dynamic f32 [4]
graph.variable h volatile f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.op neg(x) -> (h)
  graph.yield h
  graph.await h
  graph.return
}
graph.block a {
  graph.await h
  graph.op exp(h) -> (h)
  graph.yield h
}
graph.block b {
  graph.await h
  graph.op abs(h) -> (y)
  graph.yield h
}
// -----
// Where nothing survives a step and no size is dynamic, nothing of it shows.
// CHECK: held = [],
// CHECK-NEXT: dynamic_sizes = [],
// CHECK-NOT: nn.commit
// CHECK-NOT: nn.define_size
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.assign t f32 [4]
  graph.op neg(x) -> (t)
  graph.op abs(t) -> (y)
  graph.return
}
// -----
// A write gives an open dimension its extent; a read asks whether there was one, and takes all of it.
// CHECK: %[[N:.*]] = nn.size "B"
// CHECK-NEXT: nn.set_extent "P" axis 1 : i64 to %[[N]] node 0 : i64
// CHECK: nn.grow "P"[] axis 0 : i64 to
// CHECK-NEXT: nn.state_write "P"[%{{.*}}, %{{.*}}, %{{.*}}] kept [1, 2] node 0 : i64 = %x
// CHECK: nn.require %{{.*}} else "unwritten"
// CHECK: %[[E:.*]] = nn.extent "P"[] axis 1 : i64
// CHECK-NEXT: nn.define_size "P.0" = %[[E]] node 1 : i64
// CHECK: nn.state_read "P"[%{{.*}}] kept [1, 2] : tensor<?x4xf32, #nn.dims<P.0, 4>>
graph.variable x dynamic f32 [B, 4]
graph.variable P persistent f32 ["_", 4]
graph.variable y volatile f32 ["_", 4]
graph.block entry {
  graph.cache_write x -> P
  graph.op neg(P) -> (y)
  graph.return
}
// -----
// A variable that has another shape in each round is handed on with its size beside it, and with
// whether it has a value: the loop may not run at all.
// CHECK: nn.define_size "y.bound.0" =
// CHECK: %[[START:.*]] = nn.loosen %{{.*}} : tensor<0xf32> to tensor<?xf32, #nn.dims<y.bound.0>>
// CHECK: scf.for %i = {{.*}} iter_args(%{{.*}} = %[[START]], %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (tensor<?xf32, #nn.dims<y.bound.0>>, tensor<i64>, tensor<i64>)
// CHECK: nn.settle %{{.*}} : tensor<?xf32, #nn.dims<y.bound.0>> to
// CHECK: nn.loosen %{{.*}} : tensor<?xf32, #nn.dims<slice.{{.*}}>> to tensor<?xf32, #nn.dims<y.bound.0>>
// CHECK: scf.yield
// CHECK: %[[END:.*]] = nn.settle %y : tensor<?xf32, #nn.dims<y.bound.0>> to
// CHECK: nn.require %{{.*}} else "unwritten"
// CHECK: func.return %[[END]]
graph.variable n dynamic i32
graph.variable x dynamic f32 [B]
graph.variable y volatile f32 ["_"]
graph.block entry {
  graph.loop l i in 0 to n {
    graph.op slice(x) -> (y) settings {starts = [0 : i64], stops = [#graph.size<"i + 1">]}
  }
  graph.return
}
// -----
// One shape in all rounds: the value is handed on as it is.
// CHECK: scf.for %i = {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (tensor<?xf32, #nn.dims<B>>)
// CHECK-NOT: nn.loosen
// CHECK: func.return
graph.variable n dynamic i32
graph.variable x dynamic f32 [B]
graph.variable y volatile f32 ["_"]
graph.block entry {
  graph.op neg(x) -> (y)
  graph.loop l i in 0 to n {
    graph.op neg(y) -> (y)
  }
  graph.return
}
// -----
// A round that leaves the block says so: later rounds and what follows the loop do nothing then.
// CHECK: %{{.*}}, %[[LEFT:.*]] = scf.for %i = {{.*}} -> (tensor<4xf32>, tensor<i64>)
// CHECK: arith.cmpi eq
// CHECK: scf.if %{{.*}} -> (tensor<4xf32>, tensor<i64>) {
// CHECK: scf.if %{{.*}} -> (tensor<4xf32>, tensor<i64>) {
// CHECK: } else {
// CHECK: tensor.extract %[[LEFT]][] : tensor<i64>
// CHECK: scf.if
// CHECK: func.return
graph.variable n dynamic i32
graph.variable x dynamic f32 [4]
graph.variable y volatile f32 [4]
graph.block entry {
  graph.loop l i in 0 to n {
    graph.op add(x, y) -> (y)
    graph.loop m j in i to n {
      graph.op mul(x, y) -> (y)
      graph.return
    }
    graph.op sub(x, y) -> (y)
  }
  graph.op neg(y) -> (y)
  graph.return
}
// -----
// Index expressions over scalars divide: a divisor that is not 0 is required, and the division itself is
// safe wherever it is moved to. A constant divisor needs neither.
// CHECK: func.func @step
// CHECK: nn.require %{{.*}} else "division" %[[N:.*]], %[[M:.*]] node 0 : i64
// CHECK: %[[SAFE:.*]] = arith.select %{{.*}}, %[[M]], %{{.*}} : index
// CHECK-NEXT: arith.floordivsi %[[N]], %[[SAFE]] : index
// CHECK: arith.maxsi
// CHECK: scf.for
// CHECK-NOT: "division"
// CHECK: %[[TWO:.*]] = arith.constant 2 : index
// CHECK-NEXT: arith.floordivsi %{{.*}}, %[[TWO]] : index
// CHECK: nn.state_write "K"
graph.variable n dynamic i32
graph.variable m dynamic i32
graph.variable x dynamic f32 [4]
graph.variable K(t) persistent f32 [4] {table}
graph.block entry {
  graph.loop l i in 0 to "max(floordiv(n, m), 2)" {
    graph.cache_write x -> K["floordiv(i, 2)"]
  }
  graph.return
}
// -----
// Numbers of 64 bits are checked, and so is a product of them: the step fails before one wraps around.
// Narrow numbers are simply added.
// CHECK: func.func @step
// CHECK: nn.require %{{.*}} else "number" %[[M:.*]], %[[M]] node 0 : i64
// CHECK: nn.require %{{.*}} else "number" %[[N:.*]], %[[N]] node 0 : i64
// CHECK: %[[LOW:.*]], %[[HIGH:.*]] = arith.mulsi_extended %[[M]], %[[N]] : index
// CHECK: nn.require %{{.*}} else "number" %[[LOW]], %[[LOW]] node 0 : i64
// CHECK: scf.for %i = %{{.*}} to %[[LOW]] step
// CHECK-NOT: nn.require
// CHECK: arith.addi %{{.*}}, %{{.*}} : index
// CHECK-NEXT: arith.constant 1 : index
// CHECK-NEXT: scf.for
// CHECK: func.return
graph.variable n dynamic i64
graph.variable m dynamic i64
graph.variable k dynamic i32
graph.variable y volatile f32
graph.block entry {
  graph.loop l i in 0 to "n*m" {
    graph.op neg(y) -> (y)
  }
  graph.loop l i in 0 to "k + 1" {
    graph.op neg(y) -> (y)
  }
  graph.return
}
// -----
// A dimension that names a scalar is compared with what the first step made it, and fixed where none
// has. The second use of the same scalar asks nothing.
// CHECK: dynamic_axes = [0 : i64]
// CHECK: func.func @step
// CHECK: %[[N:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK: nn.require %{{.*}} else "negative-size"
// CHECK: %[[TOUCHED:.*]] = nn.extent "K"[] axis 3 : i64
// CHECK: %[[FRESH:.*]] = arith.cmpi eq, %[[TOUCHED]]
// CHECK: %[[HELD:.*]] = nn.extent "K"[] axis 4 : i64
// CHECK: arith.cmpi eq, %[[HELD]]
// CHECK: nn.require %{{.*}} else "resized"
// CHECK: nn.set_extent "K" axis 4 : i64 to
// CHECK: nn.set_extent "K" axis 3 : i64 to
// CHECK: nn.set_extent "K" axis 1 : i64 to
// CHECK: nn.set_extent "K" axis 0 : i64 to
// CHECK: nn.define_size "n.0" =
// CHECK: nn.state_read "K"[%{{.*}}] kept [1, 2] : tensor<?x4xf32, #nn.dims<n.0, 4>>
// CHECK-NOT: "resized"
// CHECK: nn.state_write "K"
graph.variable n dynamic i32
graph.variable K persistent f32 [n, 4]
graph.variable y volatile f32 ["_", 4]
graph.block entry {
  graph.op neg(K) -> (y)
  graph.cache_write y -> K
  graph.return
}
// -----
// What has no shape on any way to a node fails there; where the step goes is not known before.
// CHECK: scf.if %{{.*}} {
// CHECK: nn.require %{{.*}} else "unwritten" %{{.*}}, %{{.*}} node 3 : i64
// CHECK-NEXT: scf.yield
// CHECK: } else {
// CHECK-NOT: nn.require
// CHECK: func.return
graph.variable c dynamic bool
graph.variable y volatile f32 [2]
graph.block entry {
  graph.assign h f32 ["_"]
  graph.branch if c then a else b
  graph.return
}
graph.block a {
  graph.op neg(h) -> (y)
  graph.op abs(h) -> (y)
  graph.return
}
graph.block b {
  graph.return
}
// -----
// The dimensions of a temporary outlive the loop whose index they name, where a write must fit them.
// CHECK: scf.for %i = {{.*}} -> (tensor<?xf32, #nn.dims<t.bound.{{.*}}>>, tensor<i64>, tensor<i64>)
// CHECK: nn.require %{{.*}} else "unassigned"
// CHECK: nn.require %{{.*}} else "shape"
graph.variable n dynamic i32
graph.variable P persistent f32 ["_"]
graph.variable y volatile f32 ["_"]
graph.block entry {
  graph.assign o f32 ["_"]
  graph.cache_read P -> o
  graph.loop l i in 0 to n {
    graph.assign t f32 ["i + 1"]
  }
  graph.op neg(o) -> (t)
  graph.op abs(t) -> (y)
  graph.return
}
// -----
// What the program itself says needs no check, whatever its dtype.
// CHECK-NOT: nn.require
// CHECK: %[[K:.*]] = arith.constant 5 : index
// CHECK: scf.for %i = %[[K]] to
// CHECK-NOT: nn.require
graph.variable y volatile i64
graph.variable k constant i64 {init = 5 : i64}
graph.block entry {
  graph.loop l i in k to 9 {
    graph.op fill(y) -> (y) settings {value = 1 : i64}
  }
  graph.return
}
