; The threads of an executor: shares, tickets, waiting, and the loop of a worker.
;
; A team is an array of 64-bit words; words that different threads write lie on lines of their own.
;
;     0  done      how many chunks were reported as finished; counts through all steps
;    16  sequence  odd: no step is open; even: a step is open, its frame stands at word 64
;    17  first     the ticket at which the open step starts
;    24  stop      not 0: workers leave
;    32  sleepers  workers that wait in the kernel for the sequence to change
;    48  next      the ticket at which the next step starts
;    49  lost      cycles that somebody waited for a chunk in long waits of the open step
;    50  alone     the lead runs steps alone until the cycle counter gets here
;    51  patience  how many times the time it lost the lead stays alone; doubles while it goes on
;    56  words     length of a frame, its last two words being the first ticket and the thread
;    57  chunks    how many chunks a loop is cut into at most; never changes
;    58  threads   how many threads there are; never changes
;    59  records   where the threads' own records begin, in words from here; never changes
;    60  tallies   where the tallies of steps or jobs begin; never changes
;    61  mask      what is left of a frame's first word is the number of its tally; never changes
;    64  frame     what the open step was called with, but for ticket and thread
;
; Each thread has a record of 16 words, two lines:
;
;     0  taken     the ticket behind the last one that was taken of this thread's share
;     1  finished  chunks that this thread finished and did not report yet
;     8  joined    the sequence of the last step that this thread entered
;     9  left      it is in no step up to this one; a large number while it sleeps
;
; Each chunk of a loop belongs to the share of one thread, always the same one: what a thread reads
; and writes stays in its own caches. A thread goes through its own share first, on a counter that
; nobody else touches as a rule; then it reports what it finished, and helps with other shares when
; their threads are not there, or are late. A line that two threads write costs each of them the way
; from core to core (60 to 300 ns), so a loop costs one such line, `done`.
;
; All threads take the tickets of a share in order, so whoever finds `taken` at or below a ticket may
; take it, and a stale thread finds all its tickets behind `taken`.
;
; The lead opens a step, runs it, and closes it; it waits for chunks, not for workers. A worker that
; comes late finds its tickets taken and runs through without touching anything; the host keeps all
; memory of a step until each worker `left` it.
;
; A worker that loses its processor while it holds a chunk makes everybody wait for a time slice.
; Where such waits take more than a third of a step, the machine may be busy with something else: the
; lead then runs alone for a while, unless it is known that this takes longer still (a kernel that one
; thread has to do by itself makes the others wait as well). A while is 8 times what was lost, twice as much
; each time that this goes on, and at most 2^30 cycles, less than half a second: after that it tries again.
; A step above 2^24 cycles, 6 ms, is longer than time slices: alone it gains little, and loses a processor
; that is there again. Its first while is what was lost, so that one step is alone.
;
; Whether sharing pays depends on the step, and on how far apart the processors are at the moment.
; The lead finds out: a tally, of 8 words, holds what a step, or the job of a kernel, took lately.
;
;     0  solo      cycles alone; 0: not known
;     1  both      cycles with the workers; 0: not known
;     2  left      how many shared runs come before the next two that the lead tries alone
;     3  until     the lead runs it alone until the cycle counter gets here: that was faster
;     4  settled   nothing is tried alone before: workers that slept have to come back first
;     5  stay      how long it was run alone the last time; 0 when sharing was faster since
;
; Alone it stays for 2^24 cycles, about 6 ms, the first time, for others may have been busy in the
; machine, and twice as long each time after, up to 2^27 cycles. Then it is shared at least 16 times,
; and for 2^20 cycles, and compared again. What takes longer than 2^19 cycles is always shared.

declare hidden void @openinfer_step(ptr)
declare i64 @syscall(i64, i64, i64, i64, i64, i64, i64) nounwind
declare i32 @sched_yield() nounwind
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()

; Takes a measured time into a tally, as a value that a fifth of the times lie below.
define internal void @openinfer_team_learn(ptr %place, i64 %took) noinline #0 {
entry:
  %known = load i64, ptr %place, align 8
  %unknown = icmp eq i64 %known, 0
  %less = sub i64 %known, %took
  %lower = icmp sgt i64 %less, 0
  %half = sdiv i64 %less, 2
  %down = sub i64 %known, %half
  %more = sub i64 %took, %known
  ; A thread that lost its processor says nothing about the step.
  %far = icmp sgt i64 %more, %known
  %most = select i1 %far, i64 %known, i64 %more
  %part = sdiv i64 %most, 8
  %up = add i64 %known, %part
  %moved = select i1 %lower, i64 %down, i64 %up
  %now = select i1 %unknown, i64 %took, i64 %moved
  store i64 %now, ptr %place
  ret void
}

; Adds what a thread finished to what is done.
define internal void @openinfer_team_report(ptr %team, i64 %thread) #0 {
entry:
  %mine = call ptr @openinfer_team_record(ptr %team, i64 %thread)
  %finished = getelementptr inbounds i8, ptr %mine, i32 8
  %count = load i64, ptr %finished, align 8
  %some = icmp ne i64 %count, 0
  br i1 %some, label %report, label %leave

report:
  store i64 0, ptr %finished
  %old = atomicrmw add ptr %team, i64 %count acq_rel
  br label %leave

leave:
  ret void
}

define internal ptr @openinfer_team_record(ptr %team, i64 %thread) #0 {
entry:
  %where = getelementptr inbounds i8, ptr %team, i32 472
  %records = load i64, ptr %where, align 8
  %offset = mul i64 %thread, 16
  %place = add i64 %records, %offset
  %record = getelementptr inbounds i64, ptr %team, i64 %place
  ret ptr %record
}

; Waits until all tickets below one are done.
define hidden void @openinfer_team_wait(ptr %team, i64 %ticket, i64 %thread) noinline #0 {
entry:
  call void @openinfer_team_report(ptr %team, i64 %thread)
  br label %look

look:
  %spins = phi i64 [ 0, %entry ], [ %more, %wait ], [ 0, %yield ]
  %since = phi i64 [ 0, %entry ], [ %since, %wait ], [ %begin, %yield ]
  %now = load atomic i64, ptr %team acquire, align 8
  %ready = icmp sge i64 %now, %ticket
  br i1 %ready, label %over, label %wait

wait:
  call void @llvm.x86.sse2.pause()
  %more = add i64 %spins, 1
  %tired = icmp sge i64 %more, 4000
  br i1 %tired, label %yield, label %look

yield:
  %first = icmp eq i64 %since, 0
  %clock = call i64 @llvm.readcyclecounter()
  %begin = select i1 %first, i64 %clock, i64 %since
  ; Whoever holds the chunk may be waiting for this processor.
  %ignored = call i32 @sched_yield()
  br label %look

over:
  %short = icmp eq i64 %since, 0
  br i1 %short, label %leave, label %note

note:
  %lost = getelementptr inbounds i8, ptr %team, i32 392
  %end = call i64 @llvm.readcyclecounter()
  %span = sub i64 %end, %since
  %before = atomicrmw add ptr %lost, i64 %span acq_rel
  br label %leave

leave:
  ret void
}

; Whether `%thread` may do the chunk `%ticket` of the share of another thread, or of its own; `%next` is
; the ticket behind the loop.
define hidden i1 @openinfer_team_take(ptr %team, i64 %ticket, i64 %next, i64 %share, i64 %thread) noinline #0 {
entry:
  %record = call ptr @openinfer_team_record(ptr %team, i64 %share)
  %own = icmp eq i64 %share, %thread
  br i1 %own, label %claim, label %other

other:
  call void @openinfer_team_report(ptr %team, i64 %thread)
  %sequence = getelementptr inbounds i8, ptr %team, i32 128
  %open = load atomic i64, ptr %sequence monotonic, align 8
  %entered = getelementptr inbounds i8, ptr %record, i32 64
  %joined = load atomic i64, ptr %entered monotonic, align 8
  %inside = icmp eq i64 %joined, %open
  br i1 %inside, label %look, label %claim

look:
  %spins = phi i64 [ 0, %other ], [ %more, %wait ]
  %done = load atomic i64, ptr %team acquire, align 8
  %over = icmp sge i64 %done, %next
  br i1 %over, label %leave, label %wait

wait:
  call void @llvm.x86.sse2.pause()
  %more = add i64 %spins, 1
  ; Who is inside is a moment late at most: looking at its tickets would cost it more than that.
  %late = icmp sge i64 %more, 16
  br i1 %late, label %claim, label %look

claim:
  %now = load atomic i64, ptr %record acquire, align 8
  %free = icmp sle i64 %now, %ticket
  br i1 %free, label %try, label %leave

try:
  %behind = add i64 %ticket, 1
  %pair = cmpxchg ptr %record, i64 %now, i64 %behind acq_rel monotonic
  %mine = extractvalue { i64, i1 } %pair, 1
  br label %leave

leave:
  %taken = phi i1 [ false, %look ], [ false, %claim ], [ %mine, %try ]
  ret i1 %taken
}

define hidden void @openinfer_team_done(ptr %team, i64 %thread) #0 {
entry:
  %mine = call ptr @openinfer_team_record(ptr %team, i64 %thread)
  %finished = getelementptr inbounds i8, ptr %mine, i32 8
  %count = load i64, ptr %finished, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %finished
  ret void
}

; Runs one step: opens it to the workers, takes part, and closes it.
define void @openinfer_lead(ptr %frame, ptr %team) #0 {
entry:
  %sequence = getelementptr inbounds i8, ptr %team, i32 128
  %start = getelementptr inbounds i8, ptr %team, i32 136
  %sleepers = getelementptr inbounds i8, ptr %team, i32 256
  %next = getelementptr inbounds i8, ptr %team, i32 384
  %lost = getelementptr inbounds i8, ptr %team, i32 392
  %alone = getelementptr inbounds i8, ptr %team, i32 400
  %patience = getelementptr inbounds i8, ptr %team, i32 408
  %words = getelementptr inbounds i8, ptr %team, i32 448
  %open = getelementptr inbounds i8, ptr %team, i32 512
  %count = load i64, ptr %words, align 8
  %ticket = load i64, ptr %next, align 8
  %place = sub i64 %count, 2
  %first = getelementptr inbounds i64, ptr %frame, i64 %place
  store i64 %ticket, ptr %first
  %after = getelementptr inbounds i64, ptr %frame, i64 %count
  %tallies_at = getelementptr inbounds i8, ptr %team, i32 480
  %mask_at = getelementptr inbounds i8, ptr %team, i32 488
  %tallies = load i64, ptr %tallies_at, align 8
  %mask = load i64, ptr %mask_at, align 8
  %head = load i64, ptr %frame, align 8
  %number = and i64 %head, %mask
  %distance = mul i64 %number, 8
  %tally_at = add i64 %tallies, %distance
  %solo = getelementptr inbounds i64, ptr %team, i64 %tally_at
  %both = getelementptr inbounds i8, ptr %solo, i32 8
  %left = getelementptr inbounds i8, ptr %solo, i32 16
  %until = getelementptr inbounds i8, ptr %solo, i32 24
  %settled = getelementptr inbounds i8, ptr %solo, i32 32
  %stay = getelementptr inbounds i8, ptr %solo, i32 40
  %busy_until = load i64, ptr %alone, align 8
  %slow_until = load i64, ptr %until, align 8
  %begin = call i64 @llvm.readcyclecounter()
  %free = icmp sge i64 %begin, %busy_until
  %pays = icmp sge i64 %begin, %slow_until
  %share = and i1 %free, %pays
  br i1 %share, label %consider, label %run_alone

consider:
  %runs = load i64, ptr %left, align 8
  %fewer = sub i64 %runs, 1
  store i64 %fewer, ptr %left
  %due = icmp slt i64 %fewer, 0
  br i1 %due, label %try, label %copy

try:
  %shared_time = load i64, ptr %both, align 8
  %steady_at = load i64, ptr %settled, align 8
  %steady = icmp sge i64 %begin, %steady_at
  %measured = icmp ne i64 %shared_time, 0
  %brief = icmp slt i64 %shared_time, 524288
  %sensible = and i1 %measured, %brief
  %trial_now = and i1 %sensible, %steady
  br i1 %trial_now, label %run_alone, label %not_now

not_now:
  store i64 0, ptr %left
  br label %copy

run_alone:
  %trial = phi i1 [ false, %entry ], [ true, %try ]
  call void @openinfer_step(ptr %frame)
  %solo_last = load i64, ptr %after, align 8
  store i64 %solo_last, ptr %next
  %solo_end = call i64 @llvm.readcyclecounter()
  %solo_took = sub i64 %solo_end, %begin
  call void @openinfer_team_learn(ptr %solo, i64 %solo_took)
  br i1 %trial, label %tried, label %over

over:
  ret void

tried:
  ; The first of two finds the other processor's part of the data far away.
  %tries = load i64, ptr %left, align 8
  %second = icmp sle i64 %tries, -2
  br i1 %second, label %choose, label %over

choose:
  %apart = load i64, ptr %solo, align 8
  %together = load i64, ptr %both, align 8
  %better = icmp slt i64 %apart, %together
  br i1 %better, label %remain, label %go_on

go_on:
  store i64 256, ptr %left
  store i64 0, ptr %stay
  ret void

remain:
  %stayed = load i64, ptr %stay, align 8
  %doubled = mul i64 %stayed, 2
  %too_short = icmp slt i64 %doubled, 16777216
  %long_enough = select i1 %too_short, i64 16777216, i64 %doubled
  %too_long = icmp sgt i64 %long_enough, 134217728
  %rest = select i1 %too_long, i64 134217728, i64 %long_enough
  store i64 %rest, ptr %stay
  %back = add i64 %solo_end, %rest
  %awake = add i64 %back, 1048576
  store i64 %back, ptr %until
  store i64 %awake, ptr %settled
  store i64 16, ptr %left
  store i64 0, ptr %both
  ret void

copy:
  %i = phi i64 [ 0, %consider ], [ 0, %not_now ], [ %j, %skip ]
  %from = getelementptr inbounds i64, ptr %frame, i64 %i
  %to = getelementptr inbounds i64, ptr %open, i64 %i
  %word = load i64, ptr %from, align 8
  %there = load atomic i64, ptr %to monotonic, align 8
  %changed = icmp ne i64 %word, %there
  ; Workers keep the lines of a frame that stays as it is.
  br i1 %changed, label %write, label %skip

write:
  store atomic i64 %word, ptr %to monotonic, align 8
  br label %skip

skip:
  %j = add i64 %i, 1
  %again = icmp slt i64 %j, %place
  br i1 %again, label %copy, label %open_step

open_step:
  store atomic i64 0, ptr %lost monotonic, align 8
  store atomic i64 %ticket, ptr %start monotonic, align 8
  %closed = load atomic i64, ptr %sequence monotonic, align 8
  %now_open = add i64 %closed, 1
  store atomic i64 %now_open, ptr %sequence release, align 8
  ; Who falls asleep at this moment may be missed: it sleeps through this step, and no longer.
  %asleep = load atomic i64, ptr %sleepers acquire, align 8
  %wake = icmp sgt i64 %asleep, 0
  br i1 %wake, label %call, label %run

call:
  %address = ptrtoint ptr %sequence to i64
  %woken = call i64 @syscall(i64 202, i64 %address, i64 129, i64 1024, i64 0, i64 0, i64 0)
  br label %run

run:
  call void @openinfer_step(ptr %frame)
  %last = load i64, ptr %after, align 8
  store i64 %last, ptr %next
  %opened = atomicrmw add ptr %sequence, i64 1 acq_rel
  %end = call i64 @llvm.readcyclecounter()
  %took = sub i64 %end, %begin
  call void @openinfer_team_learn(ptr %both, i64 %took)
  %gone = load atomic i64, ptr %lost acquire, align 8
  %none = icmp eq i64 %gone, 0
  br i1 %none, label %good, label %judge

judge:
  %tripled = mul i64 %gone, 3
  %waits = icmp sgt i64 %tripled, %took
  br i1 %waits, label %compare, label %good

compare:
  %known = load i64, ptr %solo, align 8
  ; Alone has to be slower by an eighth at least to be out of the question; unknown, it is 0.
  %part = udiv i64 %known, 8
  %clearly = sub i64 %known, %part
  %bad = icmp sgt i64 %took, %clearly
  br i1 %bad, label %busy, label %good

busy:
  %factor = load i64, ptr %patience, align 8
  %double = mul i64 %factor, 2
  %long_step = icmp sgt i64 %took, 16777216
  %least = select i1 %long_step, i64 1, i64 8
  %low = icmp slt i64 %double, %least
  %atleast = select i1 %low, i64 %least, i64 %double
  %high = icmp sgt i64 %atleast, 256
  %times = select i1 %high, i64 256, i64 %atleast
  store i64 %times, ptr %patience
  %wanted = mul i64 %gone, %times
  %long = icmp sgt i64 %wanted, 1073741824
  %pause = select i1 %long, i64 1073741824, i64 %wanted
  %deadline = add i64 %end, %pause
  store i64 %deadline, ptr %alone
  ret void

good:
  store i64 0, ptr %patience
  ret void
}

; A worker: takes part in every step that it finds open, until it is told to stop.
define void @openinfer_worker(ptr %team, ptr %frame, i64 %thread) #0 {
entry:
  %sequence = getelementptr inbounds i8, ptr %team, i32 128
  %stop = getelementptr inbounds i8, ptr %team, i32 192
  %sleepers = getelementptr inbounds i8, ptr %team, i32 256
  %start = getelementptr inbounds i8, ptr %team, i32 136
  %record = call ptr @openinfer_team_record(ptr %team, i64 %thread)
  %joined = getelementptr inbounds i8, ptr %record, i32 64
  %left = getelementptr inbounds i8, ptr %record, i32 72
  %words = getelementptr inbounds i8, ptr %team, i32 448
  %open = getelementptr inbounds i8, ptr %team, i32 512
  %count = load i64, ptr %words, align 8
  %place = sub i64 %count, 2
  %own_ticket = getelementptr inbounds i64, ptr %frame, i64 %place
  %behind = add i64 %place, 1
  %own = getelementptr inbounds i64, ptr %frame, i64 %behind
  store atomic i64 0, ptr %left monotonic, align 8
  fence seq_cst
  br label %look

look:
  %spins = phi i64 [ 0, %entry ], [ %more, %wait ], [ 0, %sleep ], [ 0, %confirm ], [ 0, %run ]
  %seen = phi i64 [ -1, %entry ], [ %now, %wait ], [ %now, %sleep ], [ %seen, %confirm ], [ %now, %run ]
  %over = load atomic i64, ptr %stop acquire, align 8
  %leave = icmp ne i64 %over, 0
  br i1 %leave, label %end, label %check

check:
  %now = load atomic i64, ptr %sequence acquire, align 8
  %low = and i64 %now, 1
  %is_open = icmp eq i64 %low, 0
  %is_new = icmp ne i64 %now, %seen
  %join = and i1 %is_open, %is_new
  br i1 %join, label %copy, label %apart

apart:
  ; A step that was over before this thread came: it is in none up to here.
  %behind_it = icmp sgt i64 %now, %seen
  br i1 %behind_it, label %tell, label %wait

tell:
  store atomic i64 %now, ptr %left release, align 8
  br label %wait

wait:
  call void @llvm.x86.sse2.pause()
  %more = add i64 %spins, 1
  %tired = icmp sge i64 %more, 20000
  br i1 %tired, label %sleep, label %look

sleep:
  ; The kernel lets a worker sleep only while the sequence is still `now`.
  store atomic i64 4611686018427387904, ptr %left release, align 8
  %up = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %address = ptrtoint ptr %sequence to i64
  %slept = call i64 @syscall(i64 202, i64 %address, i64 128, i64 %now, i64 0, i64 0, i64 0)
  store atomic i64 %now, ptr %left monotonic, align 8
  ; Before the sequence is looked at again, the host must see that this thread may enter a step.
  %down = atomicrmw add ptr %sleepers, i64 -1 seq_cst
  br label %look

copy:
  %i = phi i64 [ 0, %check ], [ %j, %copy ]
  %from = getelementptr inbounds i64, ptr %open, i64 %i
  %to = getelementptr inbounds i64, ptr %frame, i64 %i
  %word = load atomic i64, ptr %from monotonic, align 8
  store i64 %word, ptr %to
  %j = add i64 %i, 1
  %again = icmp slt i64 %j, %place
  br i1 %again, label %copy, label %confirm

confirm:
  %ticket = load atomic i64, ptr %start monotonic, align 8
  fence acquire
  %still = load atomic i64, ptr %sequence monotonic, align 8
  %same = icmp eq i64 %still, %now
  br i1 %same, label %run, label %look

run:
  store atomic i64 %now, ptr %joined monotonic, align 8
  store i64 %ticket, ptr %own_ticket
  store i64 %thread, ptr %own
  call void @openinfer_step(ptr %frame)
  store atomic i64 %now, ptr %left release, align 8
  br label %look

end:
  store atomic i64 4611686018427387904, ptr %left release, align 8
  ret void
}
