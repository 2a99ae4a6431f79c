; What a step asks of its device, where the runtime knows it from an earlier step: numbers and bytes are put where
; the commands look for them, the commands are handed in and waited for. All else is left to Python.
; `known_steps.py` writes the tables.

%Device = type { [8 x i64], i64, ptr, ptr, [4 x ptr] }
; mutex, whether it is lost, handle, queue, vkQueueSubmit, vkGetFenceStatus, vkWaitForFences, vkResetFences

%Step = type { ptr, ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i64, i64 }
; what was taken since the last wait (null: ask Python), what nothing was taken of, device, numbers, staging,
; fence, nanoseconds to spin, nanoseconds to wait, how long the undo log was when the last record was handed over,
; and the last one that ran, which call of the driver has failed (0: none), and with what

%Taken = type { ptr }
; the first of the records that may follow

%Known = type { ptr, i64, ptr, ptr, i64, ptr, ptr, i64, i64, ptr, i64, ptr, i64, ptr, ptr, ptr, i64, ptr, i64 }
; the next one that may come instead, words (a multiple of 8 is there), the words, which bits have to agree,
; numbers, which word each is, room for them, where they go, places that are numbers and their rows, numbers of
; workgroups and which they are, moves and their rows, what is taken then, what is submitted then (null: nothing),
; sizes of buffers that may differ, which words they are, and how large they may be

%First = type { i64, i64, i64, i64 }
; which number, which word is an address, the bits below what its binding begins at, the shift of an element

%Move = type { i64, i64, i64, i64 }
; which word is the address of the host, place in the staging buffer, bytes, whether they go to the host

@openinfer_take = global ptr null
; Python's way

declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.vector.reduce.or.v8i64(<8 x i64>)

; vkQueueSubmit of one submission, while nobody else uses the queue.
define i32 @openinfer_queue_submit(ptr %device, ptr %submission, i64 %fence) {
entry:
  %queue_at = getelementptr %Device, ptr %device, i64 0, i32 3
  %queue = load ptr, ptr %queue_at
  %submit_at = getelementptr %Device, ptr %device, i64 0, i32 4, i64 0
  %submit = load ptr, ptr %submit_at
  %locked = call i32 @pthread_mutex_lock(ptr %device)
  %result = call i32 %submit(ptr %queue, i32 1, ptr %submission, i64 %fence)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %device)
  ret i32 %result
}

; Whether words are those that are known, in the bits that count.
define internal i1 @agree(ptr %words, ptr %known, ptr %mask, i64 %count) {
entry:
  br label %next

next:
  %i = phi i64 [ 0, %entry ], [ %j, %same ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %yes

look:
  %word_at = getelementptr i64, ptr %words, i64 %i
  %known_at = getelementptr i64, ptr %known, i64 %i
  %mask_at = getelementptr i64, ptr %mask, i64 %i
  %eight = load <8 x i64>, ptr %word_at, align 8
  %wanted = load <8 x i64>, ptr %known_at, align 8
  %bits = load <8 x i64>, ptr %mask_at, align 8
  %differ = xor <8 x i64> %eight, %wanted
  %counts = and <8 x i64> %differ, %bits
  %any = call i64 @llvm.vector.reduce.or.v8i64(<8 x i64> %counts)
  %none = icmp eq i64 %any, 0
  br i1 %none, label %same, label %no

same:
  %j = add i64 %i, 8
  br label %next

yes:
  ret i1 true

no:
  ret i1 false
}

; Whether the sizes that may differ are not too large.
define internal i1 @small(ptr %known, ptr %words) {
entry:
  %count_at = getelementptr %Known, ptr %known, i64 0, i32 16
  %count = load i64, ptr %count_at
  %rows_at = getelementptr %Known, ptr %known, i64 0, i32 17
  %rows = load ptr, ptr %rows_at
  %most_at = getelementptr %Known, ptr %known, i64 0, i32 18
  %most = load i64, ptr %most_at
  br label %next

next:
  %i = phi i64 [ 0, %entry ], [ %i1, %fits ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %yes, label %size

size:
  %row = getelementptr i64, ptr %rows, i64 %i
  %number = load i64, ptr %row
  %word_at = getelementptr i64, ptr %words, i64 %number
  %word = load i64, ptr %word_at
  %large = icmp sgt i64 %word, %most
  br i1 %large, label %no, label %fits

fits:
  %i1 = add i64 %i, 1
  br label %next

yes:
  ret i1 true

no:
  ret i1 false
}

; Puts the numbers of a record where its kernels look; false where it asks for too many workgroups.
define internal i1 @put_numbers(ptr %step, ptr %known, ptr %words) {
entry:
  %count_at = getelementptr %Known, ptr %known, i64 0, i32 4
  %count = load i64, ptr %count_at
  %sources_at = getelementptr %Known, ptr %known, i64 0, i32 5
  %sources = load ptr, ptr %sources_at
  %room_at = getelementptr %Known, ptr %known, i64 0, i32 6
  %room = load ptr, ptr %room_at
  br label %gather

gather:
  %i = phi i64 [ 0, %entry ], [ %i1, %number ]
  %gathered = icmp eq i64 %i, %count
  br i1 %gathered, label %places, label %number

number:
  %source_at = getelementptr i64, ptr %sources, i64 %i
  %source = load i64, ptr %source_at
  %word_at = getelementptr i64, ptr %words, i64 %source
  %word = load i64, ptr %word_at
  %small = trunc i64 %word to i32
  %to = getelementptr i32, ptr %room, i64 %i
  store i32 %small, ptr %to
  %i1 = add i64 %i, 1
  br label %gather

places:
  %firsts_count_at = getelementptr %Known, ptr %known, i64 0, i32 8
  %firsts_count = load i64, ptr %firsts_count_at
  %firsts_at = getelementptr %Known, ptr %known, i64 0, i32 9
  %firsts = load ptr, ptr %firsts_at
  br label %place

place:
  %f = phi i64 [ 0, %places ], [ %f1, %first ]
  %placed = icmp eq i64 %f, %firsts_count
  br i1 %placed, label %limits, label %first

first:
  %which_at = getelementptr %First, ptr %firsts, i64 %f, i32 0
  %address_at = getelementptr %First, ptr %firsts, i64 %f, i32 1
  %below_at = getelementptr %First, ptr %firsts, i64 %f, i32 2
  %shift_at = getelementptr %First, ptr %firsts, i64 %f, i32 3
  %which = load i64, ptr %which_at
  %address_word = load i64, ptr %address_at
  %below = load i64, ptr %below_at
  %shift = load i64, ptr %shift_at
  %from = getelementptr i64, ptr %words, i64 %address_word
  %address = load i64, ptr %from
  %behind = and i64 %address, %below
  %elements = lshr i64 %behind, %shift
  %elements32 = trunc i64 %elements to i32
  %its = getelementptr i32, ptr %room, i64 %which
  store i32 %elements32, ptr %its
  %f1 = add i64 %f, 1
  br label %place

limits:
  %groups_count_at = getelementptr %Known, ptr %known, i64 0, i32 10
  %groups_count = load i64, ptr %groups_count_at
  %groups_at = getelementptr %Known, ptr %known, i64 0, i32 11
  %groups = load ptr, ptr %groups_at
  br label %limit

limit:
  %g = phi i64 [ 0, %limits ], [ %g1, %fits ]
  %limited = icmp eq i64 %g, %groups_count
  br i1 %limited, label %write, label %group

group:
  %group_at = getelementptr i64, ptr %groups, i64 %g
  %group_number = load i64, ptr %group_at
  %has_at = getelementptr i32, ptr %room, i64 %group_number
  %has = load i32, ptr %has_at
  %many = icmp ugt i32 %has, 65535
  br i1 %many, label %no, label %fits

fits:
  %g1 = add i64 %g, 1
  br label %limit

write:
  ; In one go: the device may be on the other side of a bus.
  %numbers_at = getelementptr %Step, ptr %step, i64 0, i32 3
  %numbers = load ptr, ptr %numbers_at
  %base_at = getelementptr %Known, ptr %known, i64 0, i32 7
  %base = load i64, ptr %base_at
  %target = getelementptr i32, ptr %numbers, i64 %base
  %nbytes = shl i64 %count, 2
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %room, i64 %nbytes, i1 false)
  ret i1 true

no:
  ret i1 false
}

; Copies between the host's memory and the staging buffer, or the device's own memory, whose place is behind that
; buffer, or in front of it: what goes to the host, or what goes to the device.
define internal void @move(ptr %step, ptr %known, ptr %words, i64 %to_host) {
entry:
  %staging_at = getelementptr %Step, ptr %step, i64 0, i32 4
  %staging = load ptr, ptr %staging_at
  %count_at = getelementptr %Known, ptr %known, i64 0, i32 12
  %count = load i64, ptr %count_at
  %rows_at = getelementptr %Known, ptr %known, i64 0, i32 13
  %rows = load ptr, ptr %rows_at
  br label %next

next:
  %i = phi i64 [ 0, %entry ], [ %i1, %row ], [ %i1, %back ], [ %i1, %there ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %end, label %row

row:
  %host_at = getelementptr %Move, ptr %rows, i64 %i, i32 0
  %place_at = getelementptr %Move, ptr %rows, i64 %i, i32 1
  %nbytes_at = getelementptr %Move, ptr %rows, i64 %i, i32 2
  %kind_at = getelementptr %Move, ptr %rows, i64 %i, i32 3
  %host_word = load i64, ptr %host_at
  %place = load i64, ptr %place_at
  %nbytes = load i64, ptr %nbytes_at
  %kind = load i64, ptr %kind_at
  %from = getelementptr i64, ptr %words, i64 %host_word
  %host = load ptr, ptr %from
  %staged = getelementptr i8, ptr %staging, i64 %place
  %i1 = add i64 %i, 1
  %meant = icmp eq i64 %kind, %to_host
  br i1 %meant, label %copy, label %next

copy:
  %backwards = icmp ne i64 %to_host, 0
  br i1 %backwards, label %back, label %there

back:
  call void @llvm.memcpy.p0.p0.i64(ptr %host, ptr %staged, i64 %nbytes, i1 false)
  br label %next

there:
  call void @llvm.memcpy.p0.p0.i64(ptr %staged, ptr %host, i64 %nbytes, i1 false)
  br label %next

end:
  ret void
}

define internal i64 @now() {
entry:
  %time = alloca [2 x i64]
  %read = call i32 @clock_gettime(i32 1, ptr %time)
  %more_at = getelementptr [2 x i64], ptr %time, i64 0, i64 1
  %seconds = load i64, ptr %time
  %more = load i64, ptr %more_at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %more
  ret i64 %sum
}

; Hands commands in and waits for their end. The call of the driver that fails is noted, with its result: 1 the
; submission, 2 the look at the fence, 3 the wait for it, 4 its reset.
define internal i1 @run(ptr %step, ptr %submission) {
entry:
  %device_at = getelementptr %Step, ptr %step, i64 0, i32 2
  %device = load ptr, ptr %device_at
  %fence_at = getelementptr %Step, ptr %step, i64 0, i32 5
  %fence = load i64, ptr %fence_at
  %spins_at = getelementptr %Step, ptr %step, i64 0, i32 6
  %spins = load i64, ptr %spins_at
  %patience_at = getelementptr %Step, ptr %step, i64 0, i32 7
  %patience = load i64, ptr %patience_at
  %handle_at = getelementptr %Device, ptr %device, i64 0, i32 2
  %handle = load ptr, ptr %handle_at
  %status_at = getelementptr %Device, ptr %device, i64 0, i32 4, i64 1
  %status = load ptr, ptr %status_at
  %wait_at = getelementptr %Device, ptr %device, i64 0, i32 4, i64 2
  %wait = load ptr, ptr %wait_at
  %reset_at = getelementptr %Device, ptr %device, i64 0, i32 4, i64 3
  %reset = load ptr, ptr %reset_at
  %submitted = call i32 @openinfer_queue_submit(ptr %device, ptr %submission, i64 %fence)
  %refused = icmp slt i32 %submitted, 0
  br i1 %refused, label %failed, label %begin

begin:
  %spin = icmp sgt i64 %spins, 0
  br i1 %spin, label %clock, label %sleep

clock:
  %begun = call i64 @now()
  %until = add i64 %begun, %spins
  br label %look

look:
  %looked = call i32 %status(ptr %handle, i64 %fence)
  %ready = icmp eq i32 %looked, 0
  br i1 %ready, label %ended, label %not_yet

not_yet:
  %lost = icmp slt i32 %looked, 0
  br i1 %lost, label %failed, label %again

again:
  %time = call i64 @now()
  %late = icmp sgt i64 %time, %until
  br i1 %late, label %sleep, label %look

sleep:
  %waited = call i32 %wait(ptr %handle, i32 1, ptr %fence_at, i32 1, i64 %patience)
  %woken = icmp eq i32 %waited, 0
  br i1 %woken, label %ended, label %failed

ended:
  %logged_at = getelementptr %Step, ptr %step, i64 0, i32 8
  %logged = load i64, ptr %logged_at
  %done_at = getelementptr %Step, ptr %step, i64 0, i32 9
  store i64 %logged, ptr %done_at
  %ready_again = call i32 %reset(ptr %handle, i32 1, ptr %fence_at)
  %stuck = icmp slt i32 %ready_again, 0
  br i1 %stuck, label %failed, label %good

good:
  ret i1 true

failed:
  %call = phi i64 [ 1, %entry ], [ 2, %not_yet ], [ 3, %sleep ], [ 4, %ended ]
  %result = phi i32 [ %submitted, %entry ], [ %looked, %not_yet ], [ %waited, %sleep ], [ %ready_again, %ended ]
  %call_at = getelementptr %Step, ptr %step, i64 0, i32 10
  store i64 %call, ptr %call_at
  %result_at = getelementptr %Step, ptr %step, i64 0, i32 11
  %result64 = sext i32 %result to i64
  store i64 %result64, ptr %result_at
  ret i1 false
}

; Called by steps; `record` is where their words are, `logged` how long their undo log is. Whether the step is to
; end.
define zeroext i1 @openinfer_submit(i64 %record, i64 %logged) {
entry:
  %used_at = inttoptr i64 %record to ptr
  %step_at = getelementptr i64, ptr %used_at, i64 65536
  %step = load ptr, ptr %step_at
  %nobody = icmp eq ptr %step, null
  br i1 %nobody, label %python, label %ready

ready:
  %taken = load ptr, ptr %step
  %asks = icmp eq ptr %taken, null
  br i1 %asks, label %python, label %find

find:
  %used = load i64, ptr %used_at
  %count = sub i64 %used, 1
  %words = getelementptr i64, ptr %used_at, i64 1
  br label %next

next:
  %before = phi ptr [ %taken, %find ], [ %known, %other ]
  %known = load ptr, ptr %before
  %none = icmp eq ptr %known, null
  br i1 %none, label %python, label %length

length:
  %has_at = getelementptr %Known, ptr %known, i64 0, i32 1
  %has = load i64, ptr %has_at
  %as_long = icmp eq i64 %has, %count
  br i1 %as_long, label %compare, label %other

compare:
  %same_at = getelementptr %Known, ptr %known, i64 0, i32 2
  %same = load ptr, ptr %same_at
  %mask_at = getelementptr %Known, ptr %known, i64 0, i32 3
  %mask = load ptr, ptr %mask_at
  %found = call i1 @agree(ptr %words, ptr %same, ptr %mask, i64 %count)
  br i1 %found, label %sizes, label %other

sizes:
  %bound = call i1 @small(ptr %known, ptr %words)
  br i1 %bound, label %take, label %other

other:
  br label %next

take:
  %device_at = getelementptr %Step, ptr %step, i64 0, i32 2
  %device = load ptr, ptr %device_at
  %lost_at = getelementptr %Device, ptr %device, i64 0, i32 1
  %lost = load volatile i64, ptr %lost_at
  %there = icmp eq i64 %lost, 0
  br i1 %there, label %numbers, label %python

numbers:
  %small = call i1 @put_numbers(ptr %step, ptr %known, ptr %words)
  br i1 %small, label %bytes, label %python

bytes:
  call void @move(ptr %step, ptr %known, ptr %words, i64 0)
  %logged_at = getelementptr %Step, ptr %step, i64 0, i32 8
  store i64 %logged, ptr %logged_at
  store i64 1, ptr %used_at
  %submission_at = getelementptr %Known, ptr %known, i64 0, i32 15
  %submission = load ptr, ptr %submission_at
  %waits = icmp ne ptr %submission, null
  br i1 %waits, label %submit, label %on

submit:
  %ran = call i1 @run(ptr %step, ptr %submission)
  br i1 %ran, label %results, label %python

results:
  call void @move(ptr %step, ptr %known, ptr %words, i64 1)
  br label %on

on:
  %behind_at = getelementptr %Known, ptr %known, i64 0, i32 14
  %behind = load ptr, ptr %behind_at
  store ptr %behind, ptr %step
  ret i1 false

python:
  %take_it = load ptr, ptr @openinfer_take
  %ends = call zeroext i1 %take_it(i64 %record, i64 %logged)
  ret i1 %ends
}
