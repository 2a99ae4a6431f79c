; The way from Python into a step: functions that Python calls as builtins, and one as a method.
;
; Functions of CPython's C API are called, `memcpy`, and the step. Of objects nothing is read but what these functions
; return, counts of references and the fields of arrays, which NumPy's own macros read in the same places:
; `native_call.py` looks whether they are there. `self` is a tuple: bytes with the words below, then the objects
; that they point to. Nothing here raises an error about inputs: what is not plainly right is left to the checks in
; Python. What was raised meanwhile goes on to the caller, as by a handler of a signal or by `numpy.empty`.

declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyDict_New()
declare ptr @PyDict_Copy(ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare i32 @PyDict_DelItem(ptr, ptr)
declare i64 @PyLong_AsLong(ptr)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare ptr @PyBool_FromLong(i64)
declare i32 @PyArg_ValidateKeywordArguments(ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare i32 @PyErr_CheckSignals()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @memcpy(ptr, ptr, i64)

%Row = type { ptr, ptr, ptr, i64, ptr }
; name, dtype, where the address goes, rank, extents

%Inputs = type { i64, i64, ptr, [0 x %Row] }
; inputs of the step, rows, ndarray, then the rows

%Array = type { i64, ptr, ptr, i32, ptr, ptr, ptr, ptr, i32 }
; PyArrayObject: references, type, data, rank, extents, strides, base, dtype, flags

%Call = type { ptr, ptr, ptr }
; the function and its arguments: frame and team

%Turn = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }
; the dict that has the token, its key, which is 0, the token of a run like the last one, that of all else; turn,
; "stepper", "waiting", "wake"

%Step = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, %Workers }
; `self` of `openinfer_place` and of `openinfer_call`, the record of errors, the count of steps; context, "fail",
; and "keep" where workers may read inputs behind the end of a step, else null; they

%Workers = type { ptr, ptr, i64, i64, ptr }
; the number of the next step, that of the last one which the first worker has left, bytes from there to that of the
; next worker, workers; the list of what they may still read

%Run = type { %Turn, %Step, ptr, ptr, ptr, i64, [0 x %Result] }
; None, the class of results, `numpy.empty`, results, and they

%Result = type { ptr, ptr, ptr, i64 }
; name, arguments of `numpy.empty`, where it lies, bytes

@openinfer_observer = global ptr null
; the callable that watched steps call

@openinfer_reader = global ptr null
; the callable that steps call which ask another device for something

@openinfer_none = global ptr null
@openinfer_follow = global ptr null
@openinfer_checked = global ptr null
; None, and the names of two attributes of an executor: what runs like its last run, and what runs anyhow

@two_numbers = private constant [3 x i8] c"LL\00"
@three_numbers = private constant [4 x i8] c"LLL\00"

; Whether `given` has as many inputs as the step and all arrays among the rows certainly fit; their
; addresses are put where the step looks for them then.
define ptr @openinfer_place(ptr %self, ptr %given) {
  %fits = call i64 @place(ptr %self, ptr %given)
  %answer = call ptr @PyBool_FromLong(i64 %fits)
  ret ptr %answer
}

define internal i64 @place(ptr %self, ptr %given) {
entry:
  %holder = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %inputs = call ptr @PyBytes_AsString(ptr %holder)
  %wanted = load i64, ptr %inputs
  %count_at = getelementptr %Inputs, ptr %inputs, i64 0, i32 1
  %count = load i64, ptr %count_at
  %ndarray_at = getelementptr %Inputs, ptr %inputs, i64 0, i32 2
  %ndarray = load ptr, ptr %ndarray_at
  %size = call i64 @PyDict_Size(ptr %given)
  %complete = icmp eq i64 %size, %wanted
  br i1 %complete, label %next, label %no

next:
  %i = phi i64 [ 0, %entry ], [ %j, %fits ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %yes, label %find

find:
  %row = getelementptr %Inputs, ptr %inputs, i64 0, i32 3, i64 %i
  %name = load ptr, ptr %row
  %value = call ptr @PyDict_GetItem(ptr %given, ptr %name)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %no, label %kind

kind:
  %type_at = getelementptr %Array, ptr %value, i64 0, i32 1
  %type = load ptr, ptr %type_at
  %is_array = icmp eq ptr %type, %ndarray
  br i1 %is_array, label %look, label %no

look:
  %rank_at = getelementptr %Array, ptr %value, i64 0, i32 3
  %rank32 = load i32, ptr %rank_at
  %rank = sext i32 %rank32 to i64
  %extents_at = getelementptr %Array, ptr %value, i64 0, i32 4
  %extents = load ptr, ptr %extents_at
  %dtype_at = getelementptr %Array, ptr %value, i64 0, i32 7
  %dtype = load ptr, ptr %dtype_at
  %flags_at = getelementptr %Array, ptr %value, i64 0, i32 8
  %flags = load i32, ptr %flags_at
  %own_dtype_at = getelementptr %Row, ptr %row, i64 0, i32 1
  %own_dtype = load ptr, ptr %own_dtype_at
  %own_rank_at = getelementptr %Row, ptr %row, i64 0, i32 3
  %own_rank = load i64, ptr %own_rank_at
  %own_extents_at = getelementptr %Row, ptr %row, i64 0, i32 4
  %own_extents = load ptr, ptr %own_extents_at
  ; C order 1, aligned 256. The dtype says that bytes are not swapped.
  %lying = and i32 %flags, 257
  %lies = icmp eq i32 %lying, 257
  %dtypes = icmp eq ptr %dtype, %own_dtype
  %ranks = icmp eq i64 %rank, %own_rank
  %two = and i1 %lies, %dtypes
  %three = and i1 %two, %ranks
  br i1 %three, label %axis, label %no

axis:
  %a = phi i64 [ 0, %look ], [ %b, %extent ]
  %all = icmp eq i64 %a, %rank
  br i1 %all, label %fits, label %extent

extent:
  %extent_at = getelementptr i64, ptr %extents, i64 %a
  %has = load i64, ptr %extent_at
  %own_extent_at = getelementptr i64, ptr %own_extents, i64 %a
  %wants = load i64, ptr %own_extent_at
  %b = add i64 %a, 1
  %equal = icmp eq i64 %has, %wants
  br i1 %equal, label %axis, label %no

fits:
  %data_at = getelementptr %Array, ptr %value, i64 0, i32 2
  %data = load ptr, ptr %data_at
  %slot_at = getelementptr %Row, ptr %row, i64 0, i32 2
  %slot = load ptr, ptr %slot_at
  store ptr %data, ptr %slot
  %j = add i64 %i, 1
  br label %next

yes:
  ret i64 1

no:
  ret i64 0
}

; Runs a step while other threads run Python. What an interrupt has raised meanwhile goes on from here.
define ptr @openinfer_call(ptr %self, ptr %unused) {
  call void @step(ptr %self)
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %done, label %failed

done:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true

failed:
  ret ptr null
}

define internal void @step(ptr %self) {
  %holder = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %words = call ptr @PyBytes_AsString(ptr %holder)
  %step = load ptr, ptr %words
  %frame_at = getelementptr %Call, ptr %words, i64 0, i32 1
  %frame = load ptr, ptr %frame_at
  %team_at = getelementptr %Call, ptr %words, i64 0, i32 2
  %team = load ptr, ptr %team_at
  %thread = call ptr @PyEval_SaveThread()
  call void %step(ptr %frame, ptr %team)
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}

; The method `run` of an executor, of arrays without names, in a tuple, and of those with names.
define ptr @openinfer_method(ptr %executor, ptr %unnamed, ptr %named) {
entry:
  %none = load ptr, ptr @openinfer_none
  %no_names = icmp eq ptr %named, null
  br i1 %no_names, label %make, label %whose

make:
  %made = call ptr @PyDict_New()
  br label %given

whose:
  ; Arrays are to stay while the step reads them: nobody else may take them out of the dict.
  %references = load i64, ptr %named
  %own = icmp eq i64 %references, 1
  br i1 %own, label %keep, label %copy

keep:
  call void @Py_IncRef(ptr %named)
  br label %given

copy:
  %copied = call ptr @PyDict_Copy(ptr %named)
  br label %given

given:
  %inputs = phi ptr [ %made, %make ], [ %named, %keep ], [ %copied, %copy ]
  %no_inputs = icmp eq ptr %inputs, null
  br i1 %no_inputs, label %raise, label %ask

ask:
  %follow_name = load ptr, ptr @openinfer_follow
  %follow = call ptr @PyObject_GetAttr(ptr %executor, ptr %follow_name)
  %unknown = icmp eq ptr %follow, null
  br i1 %unknown, label %drop, label %count

count:
  %arrays = call i64 @PyTuple_Size(ptr %unnamed)
  %all_named = icmp eq i64 %arrays, 0
  %any = icmp ne ptr %follow, %none
  %may = and i1 %all_named, %any
  br i1 %may, label %try, label %check

try:
  %results = call ptr @PyObject_CallOneArg(ptr %follow, ptr %inputs)
  %refused = icmp eq ptr %results, %none
  br i1 %refused, label %again, label %done

again:
  call void @Py_DecRef(ptr %results)
  br label %check

check:
  ; Python checks no names for a method in machine code. Those of the quick way are all known.
  %strings = call i32 @PyArg_ValidateKeywordArguments(ptr %inputs)
  %well_named = icmp ne i32 %strings, 0
  br i1 %well_named, label %slowly, label %done

slowly:
  %checked_name = load ptr, ptr @openinfer_checked
  %checked = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(ptr %executor, ptr %checked_name, ptr %unnamed, ptr %inputs, ptr null)
  br label %done

done:
  %found = phi ptr [ %results, %try ], [ null, %check ], [ %checked, %slowly ]
  call void @Py_DecRef(ptr %follow)
  call void @Py_DecRef(ptr %inputs)
  ret ptr %found

drop:
  call void @Py_DecRef(ptr %inputs)
  br label %raise

raise:
  ret ptr null
}

; A whole `run` of the inputs `given`: the results. None where somebody was inside the executor since the calling
; thread has run a step: nothing is changed then. None where the inputs are unlike those of that step: addresses of
; some of them may lie where the step looks then, and whoever runs it next puts others there. None, too, where the
; step has failed: what it has changed is put back, and the checked way runs it again and says what is to be said.
;
; The token of the turn tells. A run that another one may follow leaves a token of its own, all else leaves True.
define ptr @openinfer_run(ptr %self, ptr %given) {
  %type_at = alloca ptr
  %error_at = alloca ptr
  %trace_at = alloca ptr
  %holder = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %run = call ptr @PyBytes_AsString(ptr %holder)
  %none_at = getelementptr %Run, ptr %run, i64 0, i32 2
  %none = load ptr, ptr %none_at
  %dict = load ptr, ptr %run
  %key_at = getelementptr %Turn, ptr %run, i64 0, i32 1
  %key = load ptr, ptr %key_at
  %own_at = getelementptr %Turn, ptr %run, i64 0, i32 2
  %own = load ptr, ptr %own_at
  %other_at = getelementptr %Turn, ptr %run, i64 0, i32 3
  %other = load ptr, ptr %other_at
  %token = call ptr @PyDict_GetItem(ptr %dict, ptr %key)
  %follows = icmp eq ptr %token, %own
  br i1 %follows, label %thread, label %no

thread:
  %turn_at = getelementptr %Turn, ptr %run, i64 0, i32 4
  %turn = load ptr, ptr %turn_at
  %stepper_at = getelementptr %Turn, ptr %run, i64 0, i32 5
  %stepper_name = load ptr, ptr %stepper_at
  %stepper = call ptr @PyObject_GetAttr(ptr %turn, ptr %stepper_name)
  %unknown = icmp eq ptr %stepper, null
  br i1 %unknown, label %clear, label %same

same:
  %number = call i64 @PyLong_AsLong(ptr %stepper)
  call void @Py_DecRef(ptr %stepper)
  %me = call i64 @PyThread_get_thread_ident()
  %mine = icmp eq i64 %number, %me
  br i1 %mine, label %take, label %clear

take:
  %lost = call i32 @PyDict_DelItem(ptr %dict, ptr %key)
  %taken = icmp eq i32 %lost, 0
  br i1 %taken, label %inside, label %clear

inside:
  %results = call ptr @inside(ptr %run, ptr %given)
  %ended = icmp ne ptr %results, null
  %left = select i1 %ended, ptr %own, ptr %other
  call void @PyErr_Fetch(ptr %type_at, ptr %error_at, ptr %trace_at)
  %given_back = call i32 @PyDict_SetItem(ptr %dict, ptr %key, ptr %left)
  %type = load ptr, ptr %type_at
  %error = load ptr, ptr %error_at
  %trace = load ptr, ptr %trace_at
  %calm = icmp eq ptr %type, null
  ; What failed without an error is run again, the checked way, which wakes those who wait.
  %silent = xor i1 %ended, true
  %again = and i1 %silent, %calm
  br i1 %again, label %no, label %tell

tell:
  %missed = call i32 @wake(ptr %run)
  %told = icmp eq i32 %missed, 0
  br i1 %told, label %leave, label %ended_after

leave:
  call void @PyErr_Restore(ptr %type, ptr %error, ptr %trace)
  ret ptr %results

ended_after:
  ; What was raised last goes on, as from a `finally`.
  call void @Py_DecRef(ptr %results)
  call void @Py_DecRef(ptr %type)
  call void @Py_DecRef(ptr %error)
  call void @Py_DecRef(ptr %trace)
  ret ptr null

clear:
  call void @PyErr_Clear()
  br label %no

no:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

; Tells those who wait that the token was given back; not 0 where something was raised there.
define internal i32 @wake(ptr %run) {
  %nobody_at = getelementptr %Turn, ptr %run, i64 0, i32 1
  %nobody = load ptr, ptr %nobody_at
  %turn_at = getelementptr %Turn, ptr %run, i64 0, i32 4
  %turn = load ptr, ptr %turn_at
  %waiting_at = getelementptr %Turn, ptr %run, i64 0, i32 6
  %waiting_name = load ptr, ptr %waiting_at
  %waiting = call ptr @PyObject_GetAttr(ptr %turn, ptr %waiting_name)
  call void @Py_DecRef(ptr %waiting)
  %alone = icmp eq ptr %waiting, %nobody
  br i1 %alone, label %done, label %tell

tell:
  %wake_at = getelementptr %Turn, ptr %run, i64 0, i32 7
  %wake = load ptr, ptr %wake_at
  %told = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(ptr %turn, ptr %wake, ptr null)
  call void @Py_DecRef(ptr %told)
  %raised = icmp eq ptr %told, null
  br i1 %raised, label %missed, label %done

missed:
  ret i32 1

done:
  ret i32 0
}

; The results of a step, None for other inputs than those of the last one, null where it has failed.
define internal ptr @inside(ptr %run, ptr %given) {
entry:
  %step = getelementptr %Run, ptr %run, i64 0, i32 1
  %place = load ptr, ptr %step
  %fits = call i64 @place(ptr %place, ptr %given)
  %placed = icmp ne i64 %fits, 0
  br i1 %placed, label %work, label %unlike

unlike:
  %none_at = getelementptr %Run, ptr %run, i64 0, i32 2
  %none = load ptr, ptr %none_at
  call void @Py_IncRef(ptr %none)
  ret ptr %none

work:
  %call_at = getelementptr %Step, ptr %step, i64 0, i32 1
  %call = load ptr, ptr %call_at
  call void @step(ptr %call)
  %keep_at = getelementptr %Step, ptr %step, i64 0, i32 6
  %keep = load ptr, ptr %keep_at
  %alone = icmp eq ptr %keep, null
  br i1 %alone, label %look, label %helped

helped:
  %apart = call i1 @apart(ptr %step)
  br i1 %apart, label %look, label %beside

beside:
  call void @tell(ptr %step, ptr %keep, ptr %given)
  br label %look

look:
  %raised = call ptr @PyErr_Occurred()
  %calm = icmp eq ptr %raised, null
  %errors_at = getelementptr %Step, ptr %step, i64 0, i32 2
  %errors = load ptr, ptr %errors_at
  %code = load i64, ptr %errors
  %right = icmp eq i64 %code, 0
  %well = and i1 %calm, %right
  br i1 %well, label %count, label %failed

failed:
  %fail_at = getelementptr %Step, ptr %step, i64 0, i32 5
  %fail = load ptr, ptr %fail_at
  call void @tell(ptr %step, ptr %fail, ptr null)
  ret ptr null

count:
  %steps_at = getelementptr %Step, ptr %step, i64 0, i32 3
  %steps = load ptr, ptr %steps_at
  %before = load i64, ptr %steps
  %after = add i64 %before, 1
  store i64 %after, ptr %steps
  %class_at = getelementptr %Run, ptr %run, i64 0, i32 3
  %class = load ptr, ptr %class_at
  %empty_at = getelementptr %Run, ptr %run, i64 0, i32 4
  %empty = load ptr, ptr %empty_at
  %number_at = getelementptr %Run, ptr %run, i64 0, i32 5
  %number = load i64, ptr %number_at
  %results = call ptr @PyObject_CallNoArgs(ptr %class)
  %made = icmp ne ptr %results, null
  br i1 %made, label %next, label %none_made

next:
  %i = phi i64 [ 0, %count ], [ %j, %copy ]
  %over = icmp eq i64 %i, %number
  br i1 %over, label %all, label %one

one:
  %result = getelementptr %Run, ptr %run, i64 0, i32 6, i64 %i
  %arguments_at = getelementptr %Result, ptr %result, i64 0, i32 1
  %arguments = load ptr, ptr %arguments_at
  %array = call ptr @PyObject_CallObject(ptr %empty, ptr %arguments)
  %there = icmp ne ptr %array, null
  br i1 %there, label %copy, label %incomplete

copy:
  %data_at = getelementptr %Array, ptr %array, i64 0, i32 2
  %data = load ptr, ptr %data_at
  %source_at = getelementptr %Result, ptr %result, i64 0, i32 2
  %source = load ptr, ptr %source_at
  %bytes_at = getelementptr %Result, ptr %result, i64 0, i32 3
  %bytes = load i64, ptr %bytes_at
  %copied = call ptr @memcpy(ptr %data, ptr %source, i64 %bytes)
  %name = load ptr, ptr %result
  %refused = call i32 @PyDict_SetItem(ptr %results, ptr %name, ptr %array)
  call void @Py_DecRef(ptr %array)
  %j = add i64 %i, 1
  %in = icmp eq i32 %refused, 0
  br i1 %in, label %next, label %incomplete

all:
  ret ptr %results

incomplete:
  call void @Py_DecRef(ptr %results)
  ret ptr null

none_made:
  ret ptr null
}

; Whether all workers have left the step, and there is nothing that they may have read before.
define internal i1 @apart(ptr %step) {
entry:
  %workers = getelementptr %Step, ptr %step, i64 0, i32 7
  %list_at = getelementptr %Workers, ptr %workers, i64 0, i32 4
  %list = load ptr, ptr %list_at
  %kept = call i64 @PyList_Size(ptr %list)
  %nothing = icmp eq i64 %kept, 0
  %sequence_at = load ptr, ptr %workers
  %sequence = load i64, ptr %sequence_at
  %last = sub i64 %sequence, 1
  %first_at = getelementptr %Workers, ptr %workers, i64 0, i32 1
  %first = load ptr, ptr %first_at
  %bytes_at = getelementptr %Workers, ptr %workers, i64 0, i32 2
  %bytes = load i64, ptr %bytes_at
  %number_at = getelementptr %Workers, ptr %workers, i64 0, i32 3
  %number = load i64, ptr %number_at
  br i1 %nothing, label %next, label %no

next:
  %i = phi i64 [ 0, %entry ], [ %j, %worker ]
  %all = icmp eq i64 %i, %number
  br i1 %all, label %yes, label %worker

worker:
  %offset = mul i64 %i, %bytes
  %left_at = getelementptr i8, ptr %first, i64 %offset
  %left = load atomic i64, ptr %left_at acquire, align 8
  %j = add i64 %i, 1
  %inside = icmp slt i64 %left, %last
  br i1 %inside, label %no, label %next

yes:
  ret i1 true

no:
  ret i1 false
}

; Calls a method of the context with an object, or with none, beside what is raised already.
define internal void @tell(ptr %step, ptr %method, ptr %argument) {
  %type_at = alloca ptr
  %error_at = alloca ptr
  %trace_at = alloca ptr
  call void @PyErr_Fetch(ptr %type_at, ptr %error_at, ptr %trace_at)
  %context_at = getelementptr %Step, ptr %step, i64 0, i32 4
  %context = load ptr, ptr %context_at
  %told = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(ptr %context, ptr %method, ptr %argument, ptr null)
  call void @Py_DecRef(ptr %told)
  %type = load ptr, ptr %type_at
  %calm = icmp eq ptr %type, null
  br i1 %calm, label %done, label %raise

raise:
  %error = load ptr, ptr %error_at
  %trace = load ptr, ptr %trace_at
  call void @PyErr_Restore(ptr %type, ptr %error, ptr %trace)
  br label %done

done:
  ret void
}

; What a step asks now and then, on the thread that called it: handlers of signals run in here. 1 when one
; has raised; the exception waits for the end of the call.
define i32 @openinfer_interrupted() {
  %lock = call i32 @PyGILState_Ensure()
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %ask, label %leave

ask:
  %result = call i32 @PyErr_CheckSignals()
  %raises = icmp ne i32 %result, 0
  br i1 %raises, label %leave, label %go_on

leave:
  call void @PyGILState_Release(i32 %lock)
  ret i32 1

go_on:
  call void @PyGILState_Release(i32 %lock)
  ret i32 0
}

; What a watched step calls after each node. What that raises, or a handler of a signal in there, waits for
; the end of the call like any other interrupt, and the rest of the step is not looked at.
define void @openinfer_observe(i64 %node, i64 %output, i64 %address) {
  %lock = call i32 @PyGILState_Ensure()
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %show, label %leave

show:
  %observer = load ptr, ptr @openinfer_observer
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %observer, ptr @three_numbers, i64 %node, i64 %output, i64 %address)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %leave, label %drop

drop:
  call void @Py_DecRef(ptr %result)
  br label %leave

leave:
  call void @PyGILState_Release(i32 %lock)
  ret void
}

; What a step calls that has asked another device for something, to have its record read. Whether the step is to
; end: where Python says so, and where an exception was raised, in there or before. It waits for the end of the call.
define zeroext i1 @openinfer_read_record(i64 %record, i64 %logged) {
entry:
  %lock = call i32 @PyGILState_Ensure()
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %ask, label %leave

ask:
  %reader = load ptr, ptr @openinfer_reader
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %reader, ptr @two_numbers, i64 %record, i64 %logged)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %leave, label %tell

tell:
  %truth = call i32 @PyObject_IsTrue(ptr %result)
  call void @Py_DecRef(ptr %result)
  %told = icmp ne i32 %truth, 0
  br label %leave

leave:
  %ends = phi i1 [ true, %entry ], [ true, %ask ], [ %told, %tell ]
  call void @PyGILState_Release(i32 %lock)
  ret i1 %ends
}
