// The threads of an executor: tickets, waiting, and the loop of a worker.
//
// A team is an array of 64-bit words; words that different threads write lie on lines of their own.
//
//     0  ticket    the next chunk that may be taken; counts through all steps
//     8  done      how many chunks were finished
//    16  sequence  odd: no step is open; even: a step is open, its frame stands at word 64
//    24  stop      not 0: workers leave
//    32  sleepers  workers that wait in the kernel for the sequence to change
//    40  active    workers that are inside a step, or about to find out whether it is still open
//    48  next      the ticket at which the next step starts
//    49  lost      cycles that somebody waited for a chunk in long waits of the open step
//    50  alone     the lead runs steps alone until the cycle counter gets here
//    51  patience  how many times the time it lost the lead stays alone; doubles while it goes on
//    52  solo      cycles that the last step took that the lead ran alone; 0 before the first
//    56  words     length of a frame, its last two words being the first ticket and the thread
//    57  chunks    how many chunks a loop is cut into at most; never changes
//    64  frame     what the open step was called with
//
// The lead opens a step, runs it, and closes it; it waits for chunks, not for workers. A worker that
// comes late finds its tickets taken and runs through without touching anything; the host keeps all
// memory of a step until `active` is 0 after the step was closed.
//
// A worker that loses its processor while it holds a chunk makes everybody wait for a time slice.
// Where such waits take more than a third of a step, the machine may be busy with something else: the
// lead then runs alone for a while, unless it is known that this takes longer still (a kernel that one
// thread has to do by itself makes the others wait as well). A while is at most 2^30 cycles, less than
// half a second: after that it tries again.

llvm.func @syscall(i64, i64, i64, i64, i64, i64, i64) -> i64
llvm.func @sched_yield() -> i32

llvm.func @openinfer_team_wait(%team: !llvm.ptr, %ticket: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %patience = llvm.mlir.constant(4000 : i64) : i64
  %done = llvm.getelementptr inbounds %team[64] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.br ^look(%zero, %zero : i64, i64)
^look(%spins: i64, %since: i64):
  %now = "llvm.load"(%done) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %ready = llvm.icmp "sge" %now, %ticket : i64
  llvm.cond_br %ready, ^over, ^wait
^wait:
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  %more = llvm.add %spins, %one : i64
  %tired = llvm.icmp "sge" %more, %patience : i64
  llvm.cond_br %tired, ^yield, ^look(%more, %since : i64, i64)
^yield:
  %first = llvm.icmp "eq" %since, %zero : i64
  %clock = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %begin = llvm.select %first, %clock, %since : i1, i64
  // Whoever holds the chunk may be waiting for this processor.
  %ignored = llvm.call @sched_yield() : () -> i32
  llvm.br ^look(%zero, %begin : i64, i64)
^over:
  %short = llvm.icmp "eq" %since, %zero : i64
  llvm.cond_br %short, ^leave, ^note
^note:
  %lost = llvm.getelementptr inbounds %team[392] : (!llvm.ptr) -> !llvm.ptr, i8
  %end = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %span = llvm.sub %end, %since : i64
  %before = llvm.atomicrmw add %lost, %span acq_rel : !llvm.ptr, i64
  llvm.br ^leave
^leave:
  llvm.return
}

llvm.func @openinfer_team_take(%team: !llvm.ptr, %ticket: i64) -> i1 {
  %one = llvm.mlir.constant(1 : i64) : i64
  %no = llvm.mlir.constant(0 : i1) : i1
  %now = "llvm.load"(%team) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %free = llvm.icmp "eq" %now, %ticket : i64
  llvm.cond_br %free, ^try, ^leave(%no : i1)
^try:
  %next = llvm.add %ticket, %one : i64
  %pair = llvm.cmpxchg %team, %ticket, %next acq_rel monotonic : !llvm.ptr, i64
  %mine = llvm.extractvalue %pair[1] : !llvm.struct<(i64, i1)>
  llvm.br ^leave(%mine : i1)
^leave(%taken: i1):
  llvm.return %taken : i1
}

llvm.func @openinfer_team_done(%team: !llvm.ptr) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %done = llvm.getelementptr inbounds %team[64] : (!llvm.ptr) -> !llvm.ptr, i8
  %old = llvm.atomicrmw add %done, %one acq_rel : !llvm.ptr, i64
  llvm.return
}

// Runs one step: opens it to the workers, takes part, and closes it.
llvm.func @openinfer_lead(%frame: !llvm.ptr, %team: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %two = llvm.mlir.constant(2 : i64) : i64
  %three = llvm.mlir.constant(3 : i64) : i64
  %eight = llvm.mlir.constant(8 : i64) : i64
  %most = llvm.mlir.constant(256 : i64) : i64
  %sequence = llvm.getelementptr inbounds %team[128] : (!llvm.ptr) -> !llvm.ptr, i8
  %sleepers = llvm.getelementptr inbounds %team[256] : (!llvm.ptr) -> !llvm.ptr, i8
  %next = llvm.getelementptr inbounds %team[384] : (!llvm.ptr) -> !llvm.ptr, i8
  %lost = llvm.getelementptr inbounds %team[392] : (!llvm.ptr) -> !llvm.ptr, i8
  %alone = llvm.getelementptr inbounds %team[400] : (!llvm.ptr) -> !llvm.ptr, i8
  %patience = llvm.getelementptr inbounds %team[408] : (!llvm.ptr) -> !llvm.ptr, i8
  %solo = llvm.getelementptr inbounds %team[416] : (!llvm.ptr) -> !llvm.ptr, i8
  %words = llvm.getelementptr inbounds %team[448] : (!llvm.ptr) -> !llvm.ptr, i8
  %open = llvm.getelementptr inbounds %team[512] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%words) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %ticket = "llvm.load"(%next) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %place = llvm.sub %count, %two : i64
  %first = llvm.getelementptr inbounds %frame[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %ticket, %first : i64, !llvm.ptr
  %after = llvm.getelementptr inbounds %frame[%count] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %until = "llvm.load"(%alone) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %begin = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %share = llvm.icmp "sge" %begin, %until : i64
  llvm.cond_br %share, ^copy(%zero : i64), ^solo
^solo:
  llvm.call @openinfer_step(%frame) : (!llvm.ptr) -> ()
  %solo_last = "llvm.load"(%after) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.store %solo_last, %next : i64, !llvm.ptr
  %solo_end = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %solo_took = llvm.sub %solo_end, %begin : i64
  llvm.store %solo_took, %solo : i64, !llvm.ptr
  llvm.return
^copy(%i: i64):
  %from = llvm.getelementptr inbounds %frame[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %to = llvm.getelementptr inbounds %open[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %word = "llvm.load"(%from) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  "llvm.store"(%word, %to) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  %j = llvm.add %i, %one : i64
  %again = llvm.icmp "slt" %j, %count : i64
  llvm.cond_br %again, ^copy(%j : i64), ^begin
^begin:
  "llvm.store"(%zero, %lost) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  %closed = llvm.atomicrmw add %sequence, %one acq_rel : !llvm.ptr, i64
  %asleep = "llvm.load"(%sleepers) <{ordering = 7 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %wake = llvm.icmp "sgt" %asleep, %zero : i64
  llvm.cond_br %wake, ^call, ^run
^call:
  %futex = llvm.mlir.constant(202 : i64) : i64
  %operation = llvm.mlir.constant(129 : i64) : i64
  %all = llvm.mlir.constant(1024 : i64) : i64
  %address = llvm.ptrtoint %sequence : !llvm.ptr to i64
  %woken = llvm.call @syscall(%futex, %address, %operation, %all, %zero, %zero, %zero) : (i64, i64, i64, i64, i64, i64, i64) -> i64
  llvm.br ^run
^run:
  llvm.call @openinfer_step(%frame) : (!llvm.ptr) -> ()
  %last = "llvm.load"(%after) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.store %last, %next : i64, !llvm.ptr
  %opened = llvm.atomicrmw add %sequence, %one acq_rel : !llvm.ptr, i64
  %gone = "llvm.load"(%lost) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %none = llvm.icmp "eq" %gone, %zero : i64
  llvm.cond_br %none, ^good, ^judge
^judge:
  %end = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %took = llvm.sub %end, %begin : i64
  %tripled = llvm.mul %gone, %three : i64
  %waits = llvm.icmp "sgt" %tripled, %took : i64
  llvm.cond_br %waits, ^compare, ^good
^compare:
  %known = "llvm.load"(%solo) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  // Alone has to be slower by an eighth at least to be out of the question; unknown, it is 0.
  %part = llvm.udiv %known, %eight : i64
  %clearly = llvm.sub %known, %part : i64
  %bad = llvm.icmp "sgt" %took, %clearly : i64
  llvm.cond_br %bad, ^busy, ^good
^busy:
  %factor = "llvm.load"(%patience) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %double = llvm.mul %factor, %two : i64
  %low = llvm.icmp "slt" %double, %eight : i64
  %atleast = llvm.select %low, %eight, %double : i1, i64
  %high = llvm.icmp "sgt" %atleast, %most : i64
  %times = llvm.select %high, %most, %atleast : i1, i64
  llvm.store %times, %patience : i64, !llvm.ptr
  %wanted = llvm.mul %gone, %times : i64
  %longest = llvm.mlir.constant(1073741824 : i64) : i64
  %long = llvm.icmp "sgt" %wanted, %longest : i64
  %pause = llvm.select %long, %longest, %wanted : i1, i64
  %deadline = llvm.add %end, %pause : i64
  llvm.store %deadline, %alone : i64, !llvm.ptr
  llvm.return
^good:
  llvm.store %zero, %patience : i64, !llvm.ptr
  llvm.return
}

// A worker: takes part in every step that it finds open, until it is told to stop.
llvm.func @openinfer_worker(%team: !llvm.ptr, %frame: !llvm.ptr, %thread: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %minus = llvm.mlir.constant(-1 : i64) : i64
  %patience = llvm.mlir.constant(20000 : i64) : i64
  %sequence = llvm.getelementptr inbounds %team[128] : (!llvm.ptr) -> !llvm.ptr, i8
  %stop = llvm.getelementptr inbounds %team[192] : (!llvm.ptr) -> !llvm.ptr, i8
  %sleepers = llvm.getelementptr inbounds %team[256] : (!llvm.ptr) -> !llvm.ptr, i8
  %active = llvm.getelementptr inbounds %team[320] : (!llvm.ptr) -> !llvm.ptr, i8
  %words = llvm.getelementptr inbounds %team[448] : (!llvm.ptr) -> !llvm.ptr, i8
  %open = llvm.getelementptr inbounds %team[512] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%words) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.br ^look(%zero, %minus : i64, i64)
^look(%spins: i64, %seen: i64):
  %over = "llvm.load"(%stop) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %leave = llvm.icmp "ne" %over, %zero : i64
  llvm.cond_br %leave, ^end, ^check
^check:
  %now = "llvm.load"(%sequence) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %low = llvm.and %now, %one : i64
  %is_open = llvm.icmp "eq" %low, %zero : i64
  %is_new = llvm.icmp "ne" %now, %seen : i64
  %join = llvm.and %is_open, %is_new : i1
  llvm.cond_br %join, ^enter, ^wait
^wait:
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  %more = llvm.add %spins, %one : i64
  %tired = llvm.icmp "sge" %more, %patience : i64
  llvm.cond_br %tired, ^sleep, ^look(%more, %seen : i64, i64)
^sleep:
  // The kernel lets a worker sleep only while the sequence is still `now`.
  %up = llvm.atomicrmw add %sleepers, %one seq_cst : !llvm.ptr, i64
  %futex = llvm.mlir.constant(202 : i64) : i64
  %operation = llvm.mlir.constant(128 : i64) : i64
  %address = llvm.ptrtoint %sequence : !llvm.ptr to i64
  %slept = llvm.call @syscall(%futex, %address, %operation, %now, %zero, %zero, %zero) : (i64, i64, i64, i64, i64, i64, i64) -> i64
  %down = llvm.atomicrmw add %sleepers, %minus seq_cst : !llvm.ptr, i64
  llvm.br ^look(%zero, %seen : i64, i64)
^enter:
  %inside = llvm.atomicrmw add %active, %one seq_cst : !llvm.ptr, i64
  llvm.br ^copy(%zero : i64)
^copy(%i: i64):
  %from = llvm.getelementptr inbounds %open[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %to = llvm.getelementptr inbounds %frame[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %word = "llvm.load"(%from) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.store %word, %to : i64, !llvm.ptr
  %j = llvm.add %i, %one : i64
  %again = llvm.icmp "slt" %j, %count : i64
  llvm.cond_br %again, ^copy(%j : i64), ^confirm
^confirm:
  llvm.fence seq_cst
  %still = "llvm.load"(%sequence) <{ordering = 7 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %same = llvm.icmp "eq" %still, %now : i64
  llvm.cond_br %same, ^run, ^out
^run:
  %place = llvm.sub %count, %one : i64
  %own = llvm.getelementptr inbounds %frame[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %thread, %own : i64, !llvm.ptr
  llvm.call @openinfer_step(%frame) : (!llvm.ptr) -> ()
  llvm.br ^out
^out:
  %gone = llvm.atomicrmw add %active, %minus seq_cst : !llvm.ptr, i64
  llvm.br ^look(%zero, %now : i64, i64)
^end:
  llvm.return
}
