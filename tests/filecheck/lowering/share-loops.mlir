// RUN: openinfer-opt %s -p share-loops --split-input-file | filecheck %s

// A parallel loop becomes chunks that threads take by ticket; the step ends when all are done.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %team: memref<64xi64> {openinfer.arg = #nn.slot<team>}, %ticket: i64
// CHECK: %[[NEXT:\S+]] = func.call @scale_0(%x, %team, %ticket, %thread)
// CHECK-NEXT: func.call @openinfer_team_wait(%team, %[[NEXT]], %thread)
// CHECK-LABEL: func.func private @scale_0
// CHECK: func.call @openinfer_team_wait(%team{{.*}}, %ticket
// The team knows how many chunks suit its threads, and how many there are.
// CHECK: memref.load %team{{\S*}}[%c57{{\S*}}] : memref<64xi64>
// CHECK: memref.load %team{{\S*}}[%c58{{\S*}}] : memref<64xi64>
// A thread begins with the chunks of its own share, and goes round.
// CHECK: %[[FIRST:\S+]] = arith.divui
// CHECK: scf.for %turn
// CHECK-NEXT: arith.addi %[[FIRST]], %turn
// CHECK: %chunk = arith.select
// CHECK: %[[SHARE:\S+]] = arith.divui
// CHECK: %[[MINE:\S+]] = func.call @openinfer_team_take(%team{{\S*}}, %{{\S+}}, %{{\S+}}, %[[SHARE]], %thread{{\S*}})
// CHECK-NEXT: scf.if %[[MINE]] {
// CHECK: scf.for %i
// CHECK: memref.store
// CHECK: func.call @openinfer_team_done(%team{{\S*}}, %thread{{\S*}})
// CHECK: func.func private @openinfer_team_wait
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<64xf32>) {
  func.call @scale_0(%x) : (memref<64xf32>) -> ()
  func.return
}
func.func private @scale_0(%x: memref<64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    %v = memref.load %x[%i] : memref<64xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %x[%i] : memref<64xf32>
  } {openinfer.parallel}
  func.return
}
}

// -----

// What writes memory outside of a parallel loop is one chunk; the loop of the step carries the ticket.

// CHECK-LABEL: func.func @step
// CHECK: scf.for %l = {{.*}} iter_args(%[[T:\S+]] = %ticket{{\S*}})
// CHECK-NEXT: %[[N:\S+]] = func.call @set_0(%x{{\S*}}, %team{{\S*}}, %[[T]], %thread{{\S*}})
// CHECK-NEXT: scf.yield %[[N]] : i64
// CHECK-LABEL: func.func private @set_0
// CHECK-NOT: scf.for
// CHECK: func.call @openinfer_team_take
// CHECK-NEXT: scf.if
// CHECK-NEXT: memref.store
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %l = %c0 to %c3 step %c1 {
    func.call @set_0(%x) : (memref<f32>) -> ()
  }
  func.return
}
func.func private @set_0(%x: memref<f32>) {
  %v = arith.constant 1.0 : f32
  memref.store %v, %x[] : memref<f32>
  func.return
}
}

// -----

// Control flow that depends on data, and a kernel that is too small to share: the step stays as it is.

// CHECK-LABEL: func.func @step
// CHECK-NOT: openinfer_team
func.func @step(%c: memref<i8>, %x: memref<64xf32>) {
  %zero = arith.constant 0 : i8
  %v = memref.load %c[] : memref<i8>
  %yes = arith.cmpi ne, %v, %zero : i8
  scf.if %yes {
    func.call @scale_0(%x) : (memref<64xf32>) -> ()
  }
  func.return
}
func.func private @scale_0(%x: memref<64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  scf.for %i = %c0 to %c64 step %c1 {
    %v = memref.load %x[%i] : memref<64xf32>
    memref.store %v, %x[%i] : memref<64xf32>
  } {openinfer.parallel}
  func.return
}

// -----

// A large kernel of such a step is handed to the team when there are several threads; its shared
// form ends when all chunks are done.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[TEAM:team\S*]]: memref<64xi64> {openinfer.arg = #nn.slot<team>}, %[[JOB:job\S*]]: memref<6xi64> {openinfer.arg = #nn.slot<job 5>}, %[[N:threads\S*]]: index {openinfer.arg = #nn.slot<size "openinfer.threads">}
// CHECK: scf.if
// CHECK: %[[MANY:\S+]] = arith.cmpi sgt, %[[N]],
// CHECK-NEXT: scf.if %[[MANY]] {
// CHECK-NEXT: func.call @openinfer_fork_scale_0(%x{{\S*}}, %[[JOB]], %[[TEAM]])
// CHECK-NEXT: } else {
// CHECK-NEXT: func.call @scale_0(%x{{\S*}})
// CHECK: func.func private @scale_0(
// CHECK-NOT: openinfer_team
// CHECK: func.func private @scale_0_shared(
// CHECK: func.call @openinfer_team_take
// CHECK: openinfer_team_done
// CHECK: func.call @openinfer_team_wait(%{{\S+}}, %[[LAST:\S+]], %thread{{\S*}})
// CHECK-NEXT: func.return %[[LAST]]
// CHECK: func.func private @openinfer_fork_scale_0(
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%c: memref<i8>, %x: memref<65536xf32>) {
  %zero = arith.constant 0 : i8
  %v = memref.load %c[] : memref<i8>
  %yes = arith.cmpi ne, %v, %zero : i8
  scf.if %yes {
    func.call @scale_0(%x) : (memref<65536xf32>) -> ()
  }
  func.return
}
func.func private @scale_0(%x: memref<65536xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 65536 : index
  scf.for %i = %c0 to %c64 step %c1 {
    %v = memref.load %x[%i] : memref<65536xf32>
    memref.store %v, %x[%i] : memref<65536xf32>
  } {openinfer.parallel}
  func.return
}
}

// -----

// Sections become functions, and a kernel whose parallel loop calls them; serial ones follow each
// other in the step.

// CHECK-LABEL: func.func @step
// CHECK: func.call @openinfer_fork_sections_0(%x{{\S*}}, %y{{\S*}}, %section_errors
// CHECK: func.call @set_0(%x
// CHECK-NEXT: func.call @set_0(%y
// CHECK: func.func private @section_0_0(%x{{.*}}, %errors
// CHECK-NEXT: func.call @set_0(%x
// CHECK: func.func private @section_0_1(%y{{.*}}, %errors
// CHECK: func.func private @sections_0(
// CHECK: scf.for %section
// CHECK: func.call @section_0_0
// CHECK: func.call @section_0_1
// CHECK: {openinfer.parallel}
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<f32>, %y: memref<f32>) {
  nn.sections "one" {
    func.call @set_0(%x) : (memref<f32>) -> ()
    nn.end_section
  } "two" {
    func.call @set_0(%y) : (memref<f32>) -> ()
    nn.end_section
  }
  nn.sections serial "one" {
    func.call @set_0(%x) : (memref<f32>) -> ()
    nn.end_section
  } "two" {
    func.call @set_0(%y) : (memref<f32>) -> ()
    nn.end_section
  }
  func.return
}
func.func private @set_0(%x: memref<f32>) {
  %v = arith.constant 1.0 : f32
  memref.store %v, %x[] : memref<f32>
  func.return
}
}

// -----

// A choice that follows from sizes alone is made by every thread: its loops are cut up where they stand.
// The one below reads memory, which another thread may have written by then: one thread does it all.

// CHECK-LABEL: func.func private @by_size
// CHECK: %[[NEXT:\S+]] = scf.if %{{\S+}} -> (i64) {
// CHECK: scf.for %turn
// CHECK: func.call @openinfer_team_take
// CHECK: scf.yield %{{\S+}} : i64
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %ticket : i64
// CHECK: func.return %[[NEXT]] : i64
// CHECK-LABEL: func.func private @by_value
// CHECK: func.call @openinfer_team_take
// CHECK-NEXT: scf.if
// CHECK-NEXT: scf.if
// CHECK-NOT: func.call @openinfer_team_take
// CHECK: func.return
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%x: memref<?xf32>) {
  func.call @by_size(%x) : (memref<?xf32>) -> ()
  func.call @by_value(%x) : (memref<?xf32>) -> ()
  func.return
}
func.func private @by_size(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.constant 1.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  %many = arith.cmpi sgt, %n, %c1 : index
  scf.if %many {
    scf.for %i = %c0 to %n step %c1 {
      memref.store %v, %x[%i] : memref<?xf32>
    } {openinfer.parallel}
  }
  func.return
}
func.func private @by_value(%x: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.constant 1.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  %first = memref.load %x[%c0] : memref<?xf32>
  %low = arith.cmpf olt, %first, %v : f32
  scf.if %low {
    scf.for %i = %c0 to %n step %c1 {
      memref.store %v, %x[%i] : memref<?xf32>
    } {openinfer.parallel}
  }
  func.return
}
}

// -----

// The scalar code between two calls is one chunk of the lead's share, copies of one element included.
// Addresses and sizes are everybody's. A call in between ends it.

// CHECK-LABEL: func.func @step
// CHECK: func.call @openinfer_team_wait(%team, %ticket, %thread)
// CHECK: %[[MINE:\S+]] = func.call @openinfer_team_take(%team, %ticket, %[[NEXT:\S+]], %{{\S+}}, %thread)
// CHECK-NEXT: scf.if %[[MINE]] {
// CHECK-NEXT: memref.load %n[]
// CHECK-NEXT: arith.addi
// CHECK-NEXT: memref.store %{{\S+}}, %n[]
// CHECK-NEXT: memref.store %{{\S+}}, %v[]
// CHECK-NEXT: memref.copy %n, %m
// CHECK-NEXT: func.call @openinfer_team_done(%team, %thread)
// CHECK-NEXT: }
// CHECK-NEXT: %[[AFTER:\S+]] = func.call @set_0(%n, %team, %[[NEXT]], %thread)
// CHECK-NEXT: func.call @openinfer_team_wait(%team, %[[AFTER]], %thread)
// CHECK: func.call @openinfer_team_take(%team, %[[AFTER]], %[[LAST:\S+]], %{{\S+}}, %thread)
// CHECK-NEXT: scf.if
// CHECK-NEXT: memref.store
// CHECK-NOT: openinfer_team_take
// CHECK: func.return %[[LAST]]
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%n: memref<i32>, %m: memref<i32>, %arena: memref<64xi8>) {
  %k = arith.constant 1 : i32
  %a = memref.load %n[] : memref<i32>
  %b = arith.addi %a, %k : i32
  memref.store %b, %n[] : memref<i32>
  %place = arith.constant 8 : index
  %v = memref.view %arena[%place][] : memref<64xi8> to memref<i32>
  memref.store %k, %v[] : memref<i32>
  memref.copy %n, %m : memref<i32> to memref<i32>
  func.call @set_0(%n) : (memref<i32>) -> ()
  memref.store %k, %m[] : memref<i32>
  func.return
}
func.func private @set_0(%x: memref<i32>) {
  %v = arith.constant 1 : i32
  memref.store %v, %x[] : memref<i32>
  func.return
}
}

// -----

// A number that the step computes and needs elsewhere is known to one thread only: the lead runs it alone.

// CHECK-LABEL: func.func @step
// CHECK-NOT: openinfer_team
func.func @step(%n: memref<i32>, %x: memref<8xi32>) {
  %a = memref.load %n[] : memref<i32>
  %b = arith.index_cast %a : i32 to index
  func.call @set_0(%x, %b) : (memref<8xi32>, index) -> ()
  func.return
}
func.func private @set_0(%x: memref<8xi32>, %i: index) {
  %v = arith.constant 1 : i32
  memref.store %v, %x[%i] : memref<8xi32>
  func.return
}
