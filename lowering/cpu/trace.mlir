// The record of a traced step. Its head is an array of 64-bit words, the host's:
//
//     0  count     entries written since the step began
//     1  capacity  how many entries there is room for; 0: nothing is recorded
//     2  dropped   stamps that found no room
//     3  entries   their address
//
// An entry is four words: the stamp, its value, and the seconds and nanoseconds of the monotonic
// clock. One thread writes.

llvm.func @clock_gettime(i32, !llvm.ptr) -> i32

llvm.func @openinfer_stamp(%trace: !llvm.ptr, %stamp: i64, %value: i64) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %four = llvm.mlir.constant(4 : i64) : i64
  %clock = llvm.mlir.constant(1 : i32) : i32
  %capacity_at = llvm.getelementptr inbounds %trace[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %dropped_at = llvm.getelementptr inbounds %trace[16] : (!llvm.ptr) -> !llvm.ptr, i8
  %entries_at = llvm.getelementptr inbounds %trace[24] : (!llvm.ptr) -> !llvm.ptr, i8
  %count = "llvm.load"(%trace) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %capacity = "llvm.load"(%capacity_at) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %room = llvm.icmp "slt" %count, %capacity : i64
  llvm.cond_br %room, ^write, ^drop
^drop:
  %dropped = "llvm.load"(%dropped_at) <{alignment = 8 : i64}> : (!llvm.ptr) -> i64
  %more = llvm.add %dropped, %one : i64
  llvm.store %more, %dropped_at : i64, !llvm.ptr
  llvm.return
^write:
  %entries = "llvm.load"(%entries_at) <{alignment = 8 : i64}> : (!llvm.ptr) -> !llvm.ptr
  %place = llvm.mul %count, %four : i64
  %entry = llvm.getelementptr inbounds %entries[%place] : (!llvm.ptr, i64) -> !llvm.ptr, i64
  %value_at = llvm.getelementptr inbounds %entry[8] : (!llvm.ptr) -> !llvm.ptr, i8
  %time_at = llvm.getelementptr inbounds %entry[16] : (!llvm.ptr) -> !llvm.ptr, i8
  llvm.store %stamp, %entry : i64, !llvm.ptr
  llvm.store %value, %value_at : i64, !llvm.ptr
  %ignored = llvm.call @clock_gettime(%clock, %time_at) : (i32, !llvm.ptr) -> i32
  %next = llvm.add %count, %one : i64
  llvm.store %next, %trace : i64, !llvm.ptr
  llvm.return
}
