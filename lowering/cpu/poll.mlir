// Whether the host was interrupted, as long loops of a step ask. A step has two words for it:
//
//     0  due     the cycle counter at which the host is asked again
//     1  thread  which thread called the step: no other one may ask the host; 0: it was interrupted, and
//                what other threads do for the step ends, too
//
// Between two questions lie 2^27 cycles of the counter, some hundredths of a second: a round of a loop
// costs a look at the counter.

// 1 when the step has to leave; the host knows why.
llvm.func @openinfer_interrupted() -> i32

// Notes which thread runs the step.
llvm.func internal @openinfer_poll_begin(%words: !llvm.ptr) {
  %thread_at = llvm.getelementptr inbounds %words[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %self = llvm.call_intrinsic "llvm.thread.pointer"() : () -> !llvm.ptr
  %own = llvm.ptrtoint %self : !llvm.ptr to i64
  "llvm.store"(%own, %thread_at) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.return
}

llvm.func internal @openinfer_poll(%words: !llvm.ptr) -> i1 {
  %span = llvm.mlir.constant(134217728 : i64) : i64
  %zero = llvm.mlir.constant(0 : i32) : i32
  %none = llvm.mlir.constant(0 : i64) : i64
  %no = llvm.mlir.constant(0 : i1) : i1
  %yes = llvm.mlir.constant(1 : i1) : i1
  %due = "llvm.load"(%words) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %now = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %left = llvm.sub %due, %now : i64
  // Also where the counter has jumped back.
  %late = llvm.icmp "ugt" %left, %span : i64
  llvm.cond_br %late, ^look, ^go_on
^look:
  %thread_at = llvm.getelementptr inbounds %words[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %caller = "llvm.load"(%thread_at) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %told = llvm.icmp "eq" %caller, %none : i64
  llvm.cond_br %told, ^leave, ^compare
^compare:
  %self = llvm.call_intrinsic "llvm.thread.pointer"() : () -> !llvm.ptr
  %own = llvm.ptrtoint %self : !llvm.ptr to i64
  %same = llvm.icmp "eq" %own, %caller : i64
  llvm.cond_br %same, ^ask, ^go_on
^ask:
  %next = llvm.add %now, %span : i64
  "llvm.store"(%next, %words) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  %answer = llvm.call @openinfer_interrupted() : () -> i32
  %interrupted = llvm.icmp "ne" %answer, %zero : i32
  llvm.cond_br %interrupted, ^tell, ^go_on
^tell:
  "llvm.store"(%none, %thread_at) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  "llvm.store"(%none, %words) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.br ^leave
^leave:
  llvm.return %yes : i1
^go_on:
  llvm.return %no : i1
}
