; The way from Python into a step: two functions that Python calls as builtins.
;
; Only functions of CPython's C API are called, and nothing is read but what they return and the struct
; of NumPy's array interface. `self` is a tuple: bytes with the words below, then the objects that they
; point to. Nothing here raises: what is not plainly right is left to the checks in Python.

declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyBytes_AsString(ptr)
declare i64 @PyDict_Size(ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare i32 @PyErr_CheckSignals()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare i32 @PyObject_IsTrue(ptr)

%Row = type { ptr, ptr, ptr, i64, ptr }
; name, dtype, where the address goes, rank, extents

%Inputs = type { i64, i64, ptr, ptr, ptr, [0 x %Row] }
; inputs of the step, rows, ndarray, "dtype", "__array_struct__", then the rows

%Array = type { i32, i32, i8, i32, i32, ptr, ptr, ptr, ptr }
; PyArrayInterface: 2, rank, kind, item size, flags, extents, strides, data, description

%Call = type { ptr, ptr, ptr }
; the function and its arguments: frame and team

@openinfer_observer = global ptr null
; the callable that watched steps call

@openinfer_reader = global ptr null
; the callable that steps call which ask another device for something

@two_numbers = private constant [3 x i8] c"LL\00"
@three_numbers = private constant [4 x i8] c"LLL\00"

; Whether `given` has as many inputs as the step and all arrays among the rows certainly fit; their
; addresses are put where the step looks for them then.
define ptr @openinfer_place(ptr %self, ptr %given) {
entry:
  %holder = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %inputs = call ptr @PyBytes_AsString(ptr %holder)
  %wanted = load i64, ptr %inputs
  %count_at = getelementptr %Inputs, ptr %inputs, i64 0, i32 1
  %count = load i64, ptr %count_at
  %ndarray_at = getelementptr %Inputs, ptr %inputs, i64 0, i32 2
  %ndarray = load ptr, ptr %ndarray_at
  %dtype_at = getelementptr %Inputs, ptr %inputs, i64 0, i32 3
  %dtype_name = load ptr, ptr %dtype_at
  %struct_at = getelementptr %Inputs, ptr %inputs, i64 0, i32 4
  %struct_name = load ptr, ptr %struct_at
  %size = call i64 @PyDict_Size(ptr %given)
  %complete = icmp eq i64 %size, %wanted
  br i1 %complete, label %next, label %no

next:
  %i = phi i64 [ 0, %entry ], [ %j, %fits ]
  %over = icmp eq i64 %i, %count
  br i1 %over, label %yes, label %find

find:
  %row = getelementptr %Inputs, ptr %inputs, i64 0, i32 5, i64 %i
  %name = load ptr, ptr %row
  %value = call ptr @PyDict_GetItem(ptr %given, ptr %name)
  %missing = icmp eq ptr %value, null
  br i1 %missing, label %no, label %kind

kind:
  ; Types and dtypes live as long as the array does: their references are given back at once.
  %type = call ptr @PyObject_Type(ptr %value)
  call void @Py_DecRef(ptr %type)
  %is_array = icmp eq ptr %type, %ndarray
  br i1 %is_array, label %elements, label %no

elements:
  %dtype = call ptr @PyObject_GetAttr(ptr %value, ptr %dtype_name)
  %no_dtype = icmp eq ptr %dtype, null
  br i1 %no_dtype, label %clear, label %same

same:
  call void @Py_DecRef(ptr %dtype)
  %own_at = getelementptr %Row, ptr %row, i64 0, i32 1
  %own = load ptr, ptr %own_at
  %is_own = icmp eq ptr %dtype, %own
  br i1 %is_own, label %describe, label %no

describe:
  %capsule = call ptr @PyObject_GetAttr(ptr %value, ptr %struct_name)
  %no_capsule = icmp eq ptr %capsule, null
  br i1 %no_capsule, label %clear, label %open

open:
  %array = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %no_array = icmp eq ptr %array, null
  br i1 %no_array, label %drop, label %version

version:
  %two = load i32, ptr %array
  %is_two = icmp eq i32 %two, 2
  br i1 %is_two, label %look, label %drop

look:
  %rank_at = getelementptr %Array, ptr %array, i64 0, i32 1
  %rank32 = load i32, ptr %rank_at
  %rank = sext i32 %rank32 to i64
  %flags_at = getelementptr %Array, ptr %array, i64 0, i32 4
  %flags = load i32, ptr %flags_at
  %extents_at = getelementptr %Array, ptr %array, i64 0, i32 5
  %extents = load ptr, ptr %extents_at
  %data_at = getelementptr %Array, ptr %array, i64 0, i32 7
  %data = load ptr, ptr %data_at
  %own_rank_at = getelementptr %Row, ptr %row, i64 0, i32 3
  %own_rank = load i64, ptr %own_rank_at
  %own_extents_at = getelementptr %Row, ptr %row, i64 0, i32 4
  %own_extents = load ptr, ptr %own_extents_at
  ; C order 1, aligned 256, not swapped 512
  %lying = and i32 %flags, 769
  %lies = icmp eq i32 %lying, 769
  %ranks = icmp eq i64 %rank, %own_rank
  %both = and i1 %lies, %ranks
  br i1 %both, label %axis, label %drop

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
  br i1 %equal, label %axis, label %drop

fits:
  call void @Py_DecRef(ptr %capsule)
  %slot_at = getelementptr %Row, ptr %row, i64 0, i32 2
  %slot = load ptr, ptr %slot_at
  store ptr %data, ptr %slot
  %j = add i64 %i, 1
  br label %next

drop:
  call void @Py_DecRef(ptr %capsule)
  br label %clear

clear:
  call void @PyErr_Clear()
  br label %no

yes:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true

no:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
}

; Runs a step while other threads run Python. What an interrupt has raised meanwhile goes on from here.
define ptr @openinfer_call(ptr %self, ptr %unused) {
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
  %raised = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %raised, null
  br i1 %fine, label %done, label %failed

done:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true

failed:
  ret ptr null
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
