// The threads of an executor: shares, tickets, waiting, and the loop of a worker.
//
// A team is an array of 64-bit words; words that different threads write lie on lines of their own.
//
//     0  done      how many chunks were reported as finished; counts through all steps
//    16  sequence  odd: no step is open; even: a step is open, its frame stands at word 64
//    17  first     the ticket at which the open step starts
//    24  stop      not 0: workers leave
//    32  sleepers  workers that wait in the kernel for the sequence to change
//    48  next      the ticket at which the next step starts
//    49  lost      cycles that somebody waited for a chunk in long waits of the open step
//    50  alone     the lead runs steps alone until the cycle counter gets here
//    51  patience  how many times the time it lost the lead stays alone; doubles while it goes on
//    56  words     length of a frame, its last two words being the first ticket and the thread
//    57  chunks    how many chunks a loop is cut into at most; never changes
//    58  threads   how many threads there are; never changes
//    59  records   where the threads' own records begin, in words from here; never changes
//    60  tallies   where the tallies of steps or jobs begin; never changes
//    61  mask      what is left of a frame's first word is the number of its tally; never changes
//    64  frame     what the open step was called with, but for ticket and thread
//
// Each thread has a record of 16 words, two lines:
//
//     0  taken     the ticket behind the last one that was taken of this thread's share
//     1  finished  chunks that this thread finished and did not report yet
//     8  joined    the sequence of the last step that this thread entered
//     9  left      it is in no step up to this one; a large number while it sleeps
//
// Each chunk of a loop belongs to the share of one thread, always the same one: what a thread reads
// and writes stays in its own caches. A thread goes through its own share first, on a counter that
// nobody else touches as a rule; then it reports what it finished, and helps with other shares when
// their threads are not there, or are late. A line that two threads write costs each of them the way
// from core to core (60 to 300 ns), so a loop costs one such line, `done`.
//
// All threads take the tickets of a share in order, so whoever finds `taken` at or below a ticket may
// take it, and a stale thread finds all its tickets behind `taken`.
//
// The lead opens a step, runs it, and closes it; it waits for chunks, not for workers. A worker that
// comes late finds its tickets taken and runs through without touching anything; the host keeps all
// memory of a step until each worker `left` it.
//
// A worker that loses its processor while it holds a chunk makes everybody wait for a time slice.
// Where such waits take more than a third of a step, the machine may be busy with something else: the
// lead then runs alone for a while, unless it is known that this takes longer still (a kernel that one
// thread has to do by itself makes the others wait as well). A while is at most 2^30 cycles, less than
// half a second: after that it tries again.
//
// Whether sharing pays depends on the step, and on how far apart the processors are at the moment.
// The lead finds out: a tally, of 8 words, holds what a step, or the job of a kernel, took lately.
//
//     0  solo      cycles alone; 0: not known
//     1  both      cycles with the workers; 0: not known
//     2  left      how many shared runs come before the next two that the lead tries alone
//     3  until     the lead runs it alone until the cycle counter gets here: that was faster
//     4  settled   nothing is tried alone before: workers that slept have to come back first
//     5  stay      how long it was run alone the last time; 0 when sharing was faster since
//
// Alone it stays for 2^24 cycles, about 6 ms, the first time, for others may have been busy in the
// machine, and twice as long each time after, up to 2^27 cycles. Then it is shared at least 16 times,
// and for 2^20 cycles, and compared again. What takes longer than 2^19 cycles is always shared.

llvm.func @syscall(i64, i64, i64, i64, i64, i64, i64) -> i64
llvm.func @sched_yield() -> i32

// Takes a measured time into a tally, as a value that a fifth of the times lie below.
llvm.func internal @openinfer_team_learn(%place: !llvm.ptr, %took: i64) attributes {no_inline} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %two = llvm.mlir.constant(2 : i64) : i64
  %eight = llvm.mlir.constant(8 : i64) : i64
  %known = "llvm.load"(%place) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %unknown = llvm.icmp "eq" %known, %zero : i64
  %less = llvm.sub %known, %took : i64
  %lower = llvm.icmp "sgt" %less, %zero : i64
  %half = llvm.sdiv %less, %two : i64
  %down = llvm.sub %known, %half : i64
  %more = llvm.sub %took, %known : i64
  // A thread that lost its processor says nothing about the step.
  %far = llvm.icmp "sgt" %more, %known : i64
  %most = llvm.select %far, %known, %more : i1, i64
  %part = llvm.sdiv %most, %eight : i64
  %up = llvm.add %known, %part : i64
  %moved = llvm.select %lower, %down, %up : i1, i64
  %now = llvm.select %unknown, %took, %moved : i1, i64
  llvm.store %now, %place : i64, !llvm.ptr
  llvm.return
}

// Adds what a thread finished to what is done.
llvm.func internal @openinfer_team_report(%team: !llvm.ptr, %thread: i64) {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %mine = llvm.call @openinfer_team_record(%team, %thread) : (!llvm.ptr, i64) -> !llvm.ptr
  %finished = llvm.getelementptr inbounds %mine[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%finished) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %some = llvm.icmp "ne" %count, %zero : i64
  llvm.cond_br %some, ^report, ^leave
^report:
  llvm.store %zero, %finished : i64, !llvm.ptr
  %old = llvm.atomicrmw add %team, %count acq_rel : !llvm.ptr, i64
  llvm.br ^leave
^leave:
  llvm.return
}

llvm.func internal @openinfer_team_record(%team: !llvm.ptr, %thread: i64) -> !llvm.ptr {
  %words = llvm.mlir.constant(16 : i64) : i64
  %where = llvm.getelementptr inbounds %team[472] : (!llvm.ptr) -> !llvm.ptr, i8
  %records = "llvm.load"(%where) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %offset = llvm.mul %thread, %words : i64
  %place = llvm.add %records, %offset : i64
  %record = llvm.getelementptr inbounds %team[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.return %record : !llvm.ptr
}

// Waits until all tickets below one are done.
llvm.func @openinfer_team_wait(%team: !llvm.ptr, %ticket: i64, %thread: i64) attributes {no_inline} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %patience = llvm.mlir.constant(4000 : i64) : i64
  llvm.call @openinfer_team_report(%team, %thread) : (!llvm.ptr, i64) -> ()
  llvm.br ^look(%zero, %zero : i64, i64)
^look(%spins: i64, %since: i64):
  %now = "llvm.load"(%team) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
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

// Whether `%thread` may do the chunk `%ticket` of the share of another thread, or of its own; `%next` is
// the ticket behind the loop.
llvm.func @openinfer_team_take(%team: !llvm.ptr, %ticket: i64, %next: i64, %share: i64, %thread: i64) -> i1 attributes {no_inline} {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %no = llvm.mlir.constant(0 : i1) : i1
  // Who is inside is a moment late at most: looking at its tickets would cost it more than that.
  %grace = llvm.mlir.constant(16 : i64) : i64
  %record = llvm.call @openinfer_team_record(%team, %share) : (!llvm.ptr, i64) -> !llvm.ptr
  %own = llvm.icmp "eq" %share, %thread : i64
  llvm.cond_br %own, ^claim, ^other
^other:
  llvm.call @openinfer_team_report(%team, %thread) : (!llvm.ptr, i64) -> ()
  %sequence = llvm.getelementptr inbounds %team[128] : (!llvm.ptr) -> !llvm.ptr, i8
  %open = "llvm.load"(%sequence) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %entered = llvm.getelementptr inbounds %record[64] : (!llvm.ptr) -> !llvm.ptr, i8
  %joined = "llvm.load"(%entered) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %inside = llvm.icmp "eq" %joined, %open : i64
  llvm.cond_br %inside, ^look(%zero : i64), ^claim
^look(%spins: i64):
  %done = "llvm.load"(%team) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %over = llvm.icmp "sge" %done, %next : i64
  llvm.cond_br %over, ^leave(%no : i1), ^wait
^wait:
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  %more = llvm.add %spins, %one : i64
  %late = llvm.icmp "sge" %more, %grace : i64
  llvm.cond_br %late, ^claim, ^look(%more : i64)
^claim:
  %now = "llvm.load"(%record) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %free = llvm.icmp "sle" %now, %ticket : i64
  llvm.cond_br %free, ^try, ^leave(%no : i1)
^try:
  %behind = llvm.add %ticket, %one : i64
  %pair = llvm.cmpxchg %record, %now, %behind acq_rel monotonic : !llvm.ptr, i64
  %mine = llvm.extractvalue %pair[1] : !llvm.struct<(i64, i1)>
  llvm.br ^leave(%mine : i1)
^leave(%taken: i1):
  llvm.return %taken : i1
}

llvm.func @openinfer_team_done(%team: !llvm.ptr, %thread: i64) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %mine = llvm.call @openinfer_team_record(%team, %thread) : (!llvm.ptr, i64) -> !llvm.ptr
  %finished = llvm.getelementptr inbounds %mine[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%finished) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %more = llvm.add %count, %one : i64
  llvm.store %more, %finished : i64, !llvm.ptr
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
  %start = llvm.getelementptr inbounds %team[136] : (!llvm.ptr) -> !llvm.ptr, i8
  %sleepers = llvm.getelementptr inbounds %team[256] : (!llvm.ptr) -> !llvm.ptr, i8
  %next = llvm.getelementptr inbounds %team[384] : (!llvm.ptr) -> !llvm.ptr, i8
  %lost = llvm.getelementptr inbounds %team[392] : (!llvm.ptr) -> !llvm.ptr, i8
  %alone = llvm.getelementptr inbounds %team[400] : (!llvm.ptr) -> !llvm.ptr, i8
  %patience = llvm.getelementptr inbounds %team[408] : (!llvm.ptr) -> !llvm.ptr, i8
  %words = llvm.getelementptr inbounds %team[448] : (!llvm.ptr) -> !llvm.ptr, i8
  %open = llvm.getelementptr inbounds %team[512] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%words) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %ticket = "llvm.load"(%next) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %place = llvm.sub %count, %two : i64
  %first = llvm.getelementptr inbounds %frame[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  llvm.store %ticket, %first : i64, !llvm.ptr
  %after = llvm.getelementptr inbounds %frame[%count] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %tallies_at = llvm.getelementptr inbounds %team[480] : (!llvm.ptr) -> !llvm.ptr, i8
  %mask_at = llvm.getelementptr inbounds %team[488] : (!llvm.ptr) -> !llvm.ptr, i8
  %tallies = "llvm.load"(%tallies_at) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %mask = "llvm.load"(%mask_at) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %head = "llvm.load"(%frame) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %number = llvm.and %head, %mask : i64
  %distance = llvm.mul %number, %eight : i64
  %tally_at = llvm.add %tallies, %distance : i64
  %solo = llvm.getelementptr inbounds %team[%tally_at] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %both = llvm.getelementptr inbounds %solo[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %left = llvm.getelementptr inbounds %solo[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %until = llvm.getelementptr inbounds %solo[24] : (!llvm.ptr) -> !llvm.ptr, i8
  %settled = llvm.getelementptr inbounds %solo[32] : (!llvm.ptr) -> !llvm.ptr, i8
  %stay = llvm.getelementptr inbounds %solo[40] : (!llvm.ptr) -> !llvm.ptr, i8
  %no = llvm.mlir.constant(0 : i1) : i1
  %yes = llvm.mlir.constant(1 : i1) : i1
  %busy_until = "llvm.load"(%alone) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %slow_until = "llvm.load"(%until) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %begin = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %free = llvm.icmp "sge" %begin, %busy_until : i64
  %pays = llvm.icmp "sge" %begin, %slow_until : i64
  %share = llvm.and %free, %pays : i1
  llvm.cond_br %share, ^consider, ^solo(%no : i1)
^consider:
  %runs = "llvm.load"(%left) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %fewer = llvm.sub %runs, %one : i64
  llvm.store %fewer, %left : i64, !llvm.ptr
  %due = llvm.icmp "slt" %fewer, %zero : i64
  llvm.cond_br %due, ^try, ^copy(%zero : i64)
^try:
  %longest_tried = llvm.mlir.constant(524288 : i64) : i64
  %shared_time = "llvm.load"(%both) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %steady_at = "llvm.load"(%settled) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %steady = llvm.icmp "sge" %begin, %steady_at : i64
  %measured = llvm.icmp "ne" %shared_time, %zero : i64
  %brief = llvm.icmp "slt" %shared_time, %longest_tried : i64
  %sensible = llvm.and %measured, %brief : i1
  %trial_now = llvm.and %sensible, %steady : i1
  llvm.cond_br %trial_now, ^solo(%yes : i1), ^not_now
^not_now:
  llvm.store %zero, %left : i64, !llvm.ptr
  llvm.br ^copy(%zero : i64)
^solo(%trial: i1):
  llvm.call @openinfer_step(%frame) : (!llvm.ptr) -> ()
  %solo_last = "llvm.load"(%after) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.store %solo_last, %next : i64, !llvm.ptr
  %solo_end = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %solo_took = llvm.sub %solo_end, %begin : i64
  llvm.call @openinfer_team_learn(%solo, %solo_took) : (!llvm.ptr, i64) -> ()
  llvm.cond_br %trial, ^tried, ^over
^over:
  llvm.return
^tried:
  // The first of two finds the other processor's part of the data far away.
  %minus_two = llvm.mlir.constant(-2 : i64) : i64
  %tries = "llvm.load"(%left) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %second = llvm.icmp "sle" %tries, %minus_two : i64
  llvm.cond_br %second, ^choose, ^over
^choose:
  %apart = "llvm.load"(%solo) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %together = "llvm.load"(%both) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %better = llvm.icmp "slt" %apart, %together : i64
  llvm.cond_br %better, ^remain, ^go_on
^go_on:
  %many = llvm.mlir.constant(256 : i64) : i64
  llvm.store %many, %left : i64, !llvm.ptr
  llvm.store %zero, %stay : i64, !llvm.ptr
  llvm.return
^remain:
  %sixteen = llvm.mlir.constant(16 : i64) : i64
  %shortest = llvm.mlir.constant(16777216 : i64) : i64
  %longest_stay = llvm.mlir.constant(134217728 : i64) : i64
  %stayed = "llvm.load"(%stay) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %doubled = llvm.mul %stayed, %two : i64
  %too_short = llvm.icmp "slt" %doubled, %shortest : i64
  %long_enough = llvm.select %too_short, %shortest, %doubled : i1, i64
  %too_long = llvm.icmp "sgt" %long_enough, %longest_stay : i64
  %rest = llvm.select %too_long, %longest_stay, %long_enough : i1, i64
  llvm.store %rest, %stay : i64, !llvm.ptr
  %waking = llvm.mlir.constant(1048576 : i64) : i64
  %back = llvm.add %solo_end, %rest : i64
  %awake = llvm.add %back, %waking : i64
  llvm.store %back, %until : i64, !llvm.ptr
  llvm.store %awake, %settled : i64, !llvm.ptr
  llvm.store %sixteen, %left : i64, !llvm.ptr
  llvm.store %zero, %both : i64, !llvm.ptr
  llvm.return
^copy(%i: i64):
  %from = llvm.getelementptr inbounds %frame[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %to = llvm.getelementptr inbounds %open[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %word = "llvm.load"(%from) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %there = "llvm.load"(%to) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %changed = llvm.icmp "ne" %word, %there : i64
  // Workers keep the lines of a frame that stays as it is.
  llvm.cond_br %changed, ^write, ^skip
^write:
  "llvm.store"(%word, %to) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.br ^skip
^skip:
  %j = llvm.add %i, %one : i64
  %again = llvm.icmp "slt" %j, %place : i64
  llvm.cond_br %again, ^copy(%j : i64), ^begin
^begin:
  "llvm.store"(%zero, %lost) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  "llvm.store"(%ticket, %start) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  %closed = "llvm.load"(%sequence) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %now_open = llvm.add %closed, %one : i64
  "llvm.store"(%now_open, %sequence) <{ordering = 5 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  // Who falls asleep at this moment may be missed: it sleeps through this step, and no longer.
  %asleep = "llvm.load"(%sleepers) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
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
  %end = llvm.call_intrinsic "llvm.readcyclecounter"() : () -> i64
  %took = llvm.sub %end, %begin : i64
  llvm.call @openinfer_team_learn(%both, %took) : (!llvm.ptr, i64) -> ()
  %gone = "llvm.load"(%lost) <{ordering = 4 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %none = llvm.icmp "eq" %gone, %zero : i64
  llvm.cond_br %none, ^good, ^judge
^judge:
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
  %start = llvm.getelementptr inbounds %team[136] : (!llvm.ptr) -> !llvm.ptr, i8
  %asleep = llvm.mlir.constant(4611686018427387904 : i64) : i64
  %two = llvm.mlir.constant(2 : i64) : i64
  %record = llvm.call @openinfer_team_record(%team, %thread) : (!llvm.ptr, i64) -> !llvm.ptr
  %joined = llvm.getelementptr inbounds %record[64] : (!llvm.ptr) -> !llvm.ptr, i8
  %left = llvm.getelementptr inbounds %record[72] : (!llvm.ptr) -> !llvm.ptr, i8
  %words = llvm.getelementptr inbounds %team[448] : (!llvm.ptr) -> !llvm.ptr, i8
  %open = llvm.getelementptr inbounds %team[512] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%words) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %place = llvm.sub %count, %two : i64
  %own_ticket = llvm.getelementptr inbounds %frame[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %behind = llvm.add %place, %one : i64
  %own = llvm.getelementptr inbounds %frame[%behind] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  "llvm.store"(%zero, %left) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.fence seq_cst
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
  llvm.cond_br %join, ^copy(%zero : i64), ^apart
^apart:
  // A step that was over before this thread came: it is in none up to here.
  %behind_it = llvm.icmp "sgt" %now, %seen : i64
  llvm.cond_br %behind_it, ^tell, ^wait
^tell:
  "llvm.store"(%now, %left) <{ordering = 5 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.br ^wait
^wait:
  llvm.call_intrinsic "llvm.x86.sse2.pause"() : () -> ()
  %more = llvm.add %spins, %one : i64
  %tired = llvm.icmp "sge" %more, %patience : i64
  llvm.cond_br %tired, ^sleep, ^look(%more, %now : i64, i64)
^sleep:
  // The kernel lets a worker sleep only while the sequence is still `now`.
  "llvm.store"(%asleep, %left) <{ordering = 5 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  %up = llvm.atomicrmw add %sleepers, %one seq_cst : !llvm.ptr, i64
  %futex = llvm.mlir.constant(202 : i64) : i64
  %operation = llvm.mlir.constant(128 : i64) : i64
  %address = llvm.ptrtoint %sequence : !llvm.ptr to i64
  %slept = llvm.call @syscall(%futex, %address, %operation, %now, %zero, %zero, %zero) : (i64, i64, i64, i64, i64, i64, i64) -> i64
  "llvm.store"(%now, %left) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  // Before the sequence is looked at again, the host must see that this thread may enter a step.
  %down = llvm.atomicrmw add %sleepers, %minus seq_cst : !llvm.ptr, i64
  llvm.br ^look(%zero, %now : i64, i64)
^copy(%i: i64):
  %from = llvm.getelementptr inbounds %open[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %to = llvm.getelementptr inbounds %frame[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %word = "llvm.load"(%from) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.store %word, %to : i64, !llvm.ptr
  %j = llvm.add %i, %one : i64
  %again = llvm.icmp "slt" %j, %place : i64
  llvm.cond_br %again, ^copy(%j : i64), ^confirm
^confirm:
  %ticket = "llvm.load"(%start) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  llvm.fence acquire
  %still = "llvm.load"(%sequence) <{ordering = 2 : i64, alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %same = llvm.icmp "eq" %still, %now : i64
  llvm.cond_br %same, ^run, ^look(%zero, %seen : i64, i64)
^run:
  "llvm.store"(%now, %joined) <{ordering = 2 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.store %ticket, %own_ticket : i64, !llvm.ptr
  llvm.store %thread, %own : i64, !llvm.ptr
  llvm.call @openinfer_step(%frame) : (!llvm.ptr) -> ()
  "llvm.store"(%now, %left) <{ordering = 5 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.br ^look(%zero, %now : i64, i64)
^end:
  "llvm.store"(%asleep, %left) <{ordering = 5 : i64, alignment = 8 : i64}> : (i64, !llvm.ptr) -> ()
  llvm.return
}
