; Commands of a device, recorded one behind the other: a barrier stands where ranges of bytes meet, one of them
; written, as in `hazards.py`. `native_recording.py` writes the tables.

%Device = type { [8 x i64], i64, ptr, ptr, [4 x ptr], [8 x ptr] }
; mutex, whether it is lost, handle, queue, functions of submissions, functions that record (`native.py`)

%Recording = type { ptr, ptr, i64, i64, ptr, i64, i64, i64, i64, ptr, %Barrier, %Region, i32, i64, i64 }
; device, command buffer, buffer of numbers, staging buffer, ranges since the last barrier and their count,
; query pool (or 0), the number of the next command and how many are timed, which commands waited, and what the
; driver is pointed to: barrier, region of a copy, push constant; whether a copy stands behind the last barrier, and
; whether kernels alone waited at one since copies did

%Barrier = type { i32, ptr, i32, i32 }
%Region = type { i64, i64, i64 }

%Row = type { i64, i64, i64, i64, i64, i64, i64, i64 }
; of a kernel: pipeline, layout, bindings, where they are, place of its numbers, its ranges: the first, how many;
; workgroups along x, y and z, 16 bits each (0: its numbers say how many)
; of a copy: 0, source buffer (0: staging), place in it, target buffer (0: staging), place in it, bytes, nothing twice

%Range = type { i64, i64, i64, i64 }
; buffer, start, stop, whether it is written

; Whether one of `more` ranges behind the first `count` meets one of those.
define internal i1 @meet(ptr %ranges, i64 %count, i64 %more) {
entry:
  %end = add i64 %count, %more
  br label %next

next:
  %i = phi i64 [ %count, %entry ], [ %i1, %over ]
  %last = icmp eq i64 %i, %end
  br i1 %last, label %no, label %one

one:
  %own = getelementptr %Range, ptr %ranges, i64 %i
  %own_start_at = getelementptr %Range, ptr %own, i64 0, i32 1
  %own_stop_at = getelementptr %Range, ptr %own, i64 0, i32 2
  %own_written_at = getelementptr %Range, ptr %own, i64 0, i32 3
  %own_buffer = load i64, ptr %own
  %own_start = load i64, ptr %own_start_at
  %own_stop = load i64, ptr %own_stop_at
  %own_written = load i64, ptr %own_written_at
  %i1 = add i64 %i, 1
  br label %look

look:
  %j = phi i64 [ 0, %one ], [ %j1, %apart ]
  %done = icmp eq i64 %j, %count
  br i1 %done, label %over, label %other

over:
  br label %next

other:
  %at = getelementptr %Range, ptr %ranges, i64 %j
  %start_at = getelementptr %Range, ptr %at, i64 0, i32 1
  %stop_at = getelementptr %Range, ptr %at, i64 0, i32 2
  %written_at = getelementptr %Range, ptr %at, i64 0, i32 3
  %buffer = load i64, ptr %at
  %start = load i64, ptr %start_at
  %stop = load i64, ptr %stop_at
  %written = load i64, ptr %written_at
  %j1 = add i64 %j, 1
  %same = icmp eq i64 %buffer, %own_buffer
  %before = icmp slt i64 %own_start, %stop
  %behind = icmp slt i64 %start, %own_stop
  %either = or i64 %written, %own_written
  %writes = icmp ne i64 %either, 0
  %inside = and i1 %before, %behind
  %both = and i1 %same, %inside
  %met = and i1 %both, %writes
  br i1 %met, label %yes, label %apart

apart:
  br label %look

no:
  ret i1 false

yes:
  ret i1 true
}

; A timestamp, where commands are timed and there is room: 0 in front of a command, 1 behind it.
define internal void @stamp(ptr %recording, i32 %side) {
entry:
  %pool_at = getelementptr %Recording, ptr %recording, i64 0, i32 6
  %pool = load i64, ptr %pool_at
  %timed = icmp ne i64 %pool, 0
  br i1 %timed, label %look, label %end

look:
  %number_at = getelementptr %Recording, ptr %recording, i64 0, i32 7
  %most_at = getelementptr %Recording, ptr %recording, i64 0, i32 8
  %number = load i64, ptr %number_at
  %most = load i64, ptr %most_at
  %fits = icmp slt i64 %number, %most
  br i1 %fits, label %write, label %end

write:
  %device = load ptr, ptr %recording
  %function_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 6
  %function = load ptr, ptr %function_at
  %commands_at = getelementptr %Recording, ptr %recording, i64 0, i32 1
  %commands = load ptr, ptr %commands_at
  %small = trunc i64 %number to i32
  %twice = shl i32 %small, 1
  %query = or i32 %twice, %side
  call void %function(ptr %commands, i32 8192, i64 %pool, i32 %query)
  br label %end

end:
  ret void
}

; Records `count` commands: kernels find their numbers from word `numbers` on, staged bytes begin at `staged`.
; There is room for their ranges behind those since the last barrier.
define void @openinfer_record(ptr %recording, ptr %rows, i64 %count, ptr %ranges, i64 %numbers, i64 %staged) {
entry:
  %device = load ptr, ptr %recording
  %commands_at = getelementptr %Recording, ptr %recording, i64 0, i32 1
  %commands = load ptr, ptr %commands_at
  %words_at = getelementptr %Recording, ptr %recording, i64 0, i32 2
  %words = load i64, ptr %words_at
  %staging_at = getelementptr %Recording, ptr %recording, i64 0, i32 3
  %staging = load i64, ptr %staging_at
  %room_at = getelementptr %Recording, ptr %recording, i64 0, i32 4
  %room = load ptr, ptr %room_at
  %held_at = getelementptr %Recording, ptr %recording, i64 0, i32 5
  %number_at = getelementptr %Recording, ptr %recording, i64 0, i32 7
  %waited_at = getelementptr %Recording, ptr %recording, i64 0, i32 9
  %waited = load ptr, ptr %waited_at
  %barrier = getelementptr %Recording, ptr %recording, i64 0, i32 10
  %region = getelementptr %Recording, ptr %recording, i64 0, i32 11
  %region_to = getelementptr %Region, ptr %region, i64 0, i32 1
  %region_size = getelementptr %Region, ptr %region, i64 0, i32 2
  %push = getelementptr %Recording, ptr %recording, i64 0, i32 12
  %wait_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 0
  %wait = load ptr, ptr %wait_at
  %bind_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 1
  %bind = load ptr, ptr %bind_at
  %give_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 2
  %give = load ptr, ptr %give_at
  %tell_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 3
  %tell = load ptr, ptr %tell_at
  %start_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 4
  %start = load ptr, ptr %start_at
  %copy_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 5
  %copy = load ptr, ptr %copy_at
  %launch_at = getelementptr %Device, ptr %device, i64 0, i32 5, i64 7
  %launch = load ptr, ptr %launch_at
  %source_accesses = getelementptr %Barrier, ptr %barrier, i64 0, i32 2
  %target_accesses = getelementptr %Barrier, ptr %barrier, i64 0, i32 3
  %copied_at = getelementptr %Recording, ptr %recording, i64 0, i32 13
  %apart_at = getelementptr %Recording, ptr %recording, i64 0, i32 14
  br label %next

next:
  %i = phi i64 [ 0, %entry ], [ %i1, %recorded ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %end, label %command

command:
  %row = getelementptr %Row, ptr %rows, i64 %i
  %w1 = getelementptr %Row, ptr %row, i64 0, i32 1
  %w2 = getelementptr %Row, ptr %row, i64 0, i32 2
  %w3 = getelementptr %Row, ptr %row, i64 0, i32 3
  %w4 = getelementptr %Row, ptr %row, i64 0, i32 4
  %w5 = getelementptr %Row, ptr %row, i64 0, i32 5
  %w6 = getelementptr %Row, ptr %row, i64 0, i32 6
  %pipeline = load i64, ptr %row
  %second = load i64, ptr %w1
  %third = load i64, ptr %w2
  %fourth = load i64, ptr %w3
  %fifth = load i64, ptr %w4
  %sixth = load i64, ptr %w5
  %seventh = load i64, ptr %w6
  %w7 = getelementptr %Row, ptr %row, i64 0, i32 7
  %groups = load i64, ptr %w7
  %i1 = add i64 %i, 1
  %held = load i64, ptr %held_at
  %free = getelementptr %Range, ptr %room, i64 %held
  %moves = icmp eq i64 %pipeline, 0
  br i1 %moves, label %move, label %kernel

kernel:
  %first = getelementptr %Range, ptr %ranges, i64 %sixth
  %nbytes = mul i64 %seventh, 32
  call void @llvm.memcpy.p0.p0.i64(ptr %free, ptr %first, i64 %nbytes, i1 false)
  br label %ordered

move:
  %from_staging = icmp eq i64 %second, 0
  %source = select i1 %from_staging, i64 %staging, i64 %second
  %source_base = select i1 %from_staging, i64 %staged, i64 0
  %source_start = add i64 %third, %source_base
  %source_stop = add i64 %source_start, %sixth
  %to_staging = icmp eq i64 %fourth, 0
  %target = select i1 %to_staging, i64 %staging, i64 %fourth
  %target_base = select i1 %to_staging, i64 %staged, i64 0
  %target_start = add i64 %fifth, %target_base
  %target_stop = add i64 %target_start, %sixth
  %read1 = getelementptr %Range, ptr %free, i64 0, i32 1
  %read2 = getelementptr %Range, ptr %free, i64 0, i32 2
  %read3 = getelementptr %Range, ptr %free, i64 0, i32 3
  %put = getelementptr %Range, ptr %free, i64 1
  %put1 = getelementptr %Range, ptr %free, i64 1, i32 1
  %put2 = getelementptr %Range, ptr %free, i64 1, i32 2
  %put3 = getelementptr %Range, ptr %free, i64 1, i32 3
  store i64 %source, ptr %free
  store i64 %source_start, ptr %read1
  store i64 %source_stop, ptr %read2
  store i64 0, ptr %read3
  store i64 %target, ptr %put
  store i64 %target_start, ptr %put1
  store i64 %target_stop, ptr %put2
  store i64 1, ptr %put3
  br label %ordered

ordered:
  %touched = phi i64 [ %seventh, %kernel ], [ 2, %move ]
  %from = phi i64 [ 0, %kernel ], [ %source, %move ]
  %to = phi i64 [ 0, %kernel ], [ %target, %move ]
  %from_at = phi i64 [ 0, %kernel ], [ %source_start, %move ]
  %to_at = phi i64 [ 0, %kernel ], [ %target_start, %move ]
  %meets = call i1 @meet(ptr %room, i64 %held, i64 %touched)
  %apart = load i64, ptr %apart_at
  %unseen = icmp ne i64 %apart, 0
  %late = and i1 %moves, %unseen
  %waits = or i1 %meets, %late
  br i1 %waits, label %barred, label %together

barred:
  ; Kernels that wait for kernels do not wait for copies: that takes less time.
  %copied = load i64, ptr %copied_at
  %copies = icmp ne i64 %copied, 0
  %all = or i1 %moves, %copies
  %stages = select i1 %all, i32 6144, i32 2048
  %accesses = select i1 %all, i32 6240, i32 96
  store i32 %accesses, ptr %source_accesses
  store i32 %accesses, ptr %target_accesses
  call void %wait(ptr %commands, i32 %stages, i32 %stages, i32 0, i32 1, ptr %barrier, i32 0, ptr null, i32 0, ptr null)
  %kernels = xor i1 %all, true
  %kernels64 = zext i1 %kernels to i64
  store i64 %kernels64, ptr %apart_at
  store i64 0, ptr %copied_at
  %kept = mul i64 %touched, 32
  call void @llvm.memmove.p0.p0.i64(ptr %room, ptr %free, i64 %kept, i1 false)
  store i64 %touched, ptr %held_at
  br label %put_down

together:
  %more = add i64 %held, %touched
  store i64 %more, ptr %held_at
  br label %put_down

put_down:
  %timed = icmp ne ptr %waited, null
  br i1 %timed, label %note, label %noted

note:
  %number = load i64, ptr %number_at
  %mark_at = getelementptr i8, ptr %waited, i64 %number
  %mark = zext i1 %waits to i8
  store i8 %mark, ptr %mark_at
  br label %noted

noted:
  call void @stamp(ptr %recording, i32 0)
  br i1 %moves, label %record_move, label %record_kernel

record_kernel:
  %bindings = trunc i64 %third to i32
  %writes = inttoptr i64 %fourth to ptr
  %place = add i64 %numbers, %fifth
  %words_from = add i64 %place, 3
  %constant = trunc i64 %words_from to i32
  %groups_place = shl i64 %place, 2
  call void %bind(ptr %commands, i32 1, i64 %pipeline)
  call void %give(ptr %commands, i32 1, i64 %second, i32 0, i32 %bindings, ptr %writes)
  store i32 %constant, ptr %push
  call void %tell(ptr %commands, i64 %second, i32 32, i32 0, i32 4, ptr %push)
  %known = icmp ne i64 %groups, 0
  br i1 %known, label %direct, label %indirect

direct:
  %x64 = and i64 %groups, 65535
  %y_up = lshr i64 %groups, 16
  %y64 = and i64 %y_up, 65535
  %z64 = lshr i64 %groups, 32
  %x = trunc i64 %x64 to i32
  %y = trunc i64 %y64 to i32
  %z = trunc i64 %z64 to i32
  call void %launch(ptr %commands, i32 %x, i32 %y, i32 %z)
  br label %recorded

indirect:
  call void %start(ptr %commands, i64 %words, i64 %groups_place)
  br label %recorded

record_move:
  store i64 1, ptr %copied_at
  store i64 %from_at, ptr %region
  store i64 %to_at, ptr %region_to
  store i64 %sixth, ptr %region_size
  call void %copy(ptr %commands, i64 %from, i64 %to, i32 1, ptr %region)
  br label %recorded

recorded:
  call void @stamp(ptr %recording, i32 1)
  %last = load i64, ptr %number_at
  %following = add i64 %last, 1
  store i64 %following, ptr %number_at
  br label %next

end:
  ret void
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
