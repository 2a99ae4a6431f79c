"""The way into a step without ctypes: builtins in machine code, `native_call.ll`, and what a step asks.

Taking an array in costs 0.5 µs with ctypes, which describes its whole buffer for the address, and a
call 0.15 µs. The builtins read the fields of arrays and call the step, in less than a tenth of that; one
does all of a `run` like the last one, and the method `run` itself is one. They are made once for each machine
and kept in the cache. Where that cannot be done, Python does their work.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.runtime.cache import About, cache_key, default_cache
from openinfer.runtime.devices.compiled.quick_inputs import Row
from openinfer.runtime.devices.compiled.quick_run import Follow, QuickRun
from openinfer.runtime.devices.cpu.codegen import (
    compile_llvm_text,
    host_target,
    llvm_version,
)
from openinfer.runtime.devices.cpu.linking import load_object
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.results import Results

if TYPE_CHECKING:
    from openinfer.runtime.devices.compiled.executor import CompiledExecutor

_PLACE, _CALL, _RUN = "openinfer_place", "openinfer_call", "openinfer_run"
_METHOD = "openinfer_method"
_FLAGS = {_PLACE: 8, _CALL: 4, _RUN: 8, _METHOD: 3}
"""METH_O of CPython, METH_NOARGS, or METH_VARARGS | METH_KEYWORDS."""
_METHOD_NAMES = {
    "openinfer_none": None,
    "openinfer_follow": sys.intern("_follow"),
    "openinfer_checked": sys.intern("_run"),
}
"""What the method looks for."""
INTERRUPTED = "openinfer_interrupted"
"""What a step calls, now and then, to learn that it has to leave."""
OBSERVER = "openinfer_observe"
"""What a watched step calls: a node, one of its outputs and its address."""
RECORD_READER = "openinfer_read_record"
"""What a step calls to have its record read: where it lies, and how long the undo log is."""
_CALLED = {OBSERVER: "openinfer_observer", RECORD_READER: "openinfer_reader"}
"""Where the address of the callable is that each of them calls."""


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Array(ctypes.Structure):
    """NumPy's PyArrayObject, behind the head of any object of CPython's."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("extents", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def _lies_as_read(array: np.ndarray[Any, Any]) -> bool:
    """Whether the fields of an array with axes are where the builtins read them."""
    if type(array).__basicsize__ < ctypes.sizeof(_Array):
        return False
    fields = _Array.from_address(id(array))
    found = fields.type, fields.data, fields.rank, fields.dtype, fields.flags
    wanted = id(type(array)), array.ctypes.data, array.ndim, id(array.dtype), array.flags.num
    return found == wanted and tuple(fields.extents[: array.ndim]) == array.shape


class _Builtins:
    """The code, and what makes a builtin of a function in it and the tuple that it gets."""

    def __init__(self) -> None:
        symbols = [*_FLAGS, *_METHOD_NAMES, INTERRUPTED, *_CALLED, *_CALLED.values()]
        self._library = load_object(_code(), symbols)
        self.interrupted = self._library.address(INTERRUPTED)
        self.reads_arrays = _lies_as_read(np.zeros((2, 3), np.float32))
        self._definitions = {
            name: _Definition(name.encode(), self._library.address(name), flags, None)
            for name, flags in _FLAGS.items()
        }
        for name, value in _METHOD_NAMES.items():
            ctypes.c_void_p.from_address(self._library.address(name)).value = id(value)
        self._new: Any = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
        )(("PyCFunction_NewEx", ctypes.pythonapi))

    def calling(self, name: str, function: Callable[..., object]) -> int:
        """The address of what steps call by a name, which calls `function` from now on."""
        ctypes.c_void_p.from_address(self._library.address(_CALLED[name])).value = id(function)
        return self._library.address(name)

    def make(self, name: str, words: bytes, held: Sequence[object]) -> Any:
        """A builtin that keeps the code, its words, and what they point to alive."""
        definition = self._definitions[name]
        return self._new(ctypes.addressof(definition), (words, self, *held), None)

    @cached_property
    def executor(self) -> type[CompiledExecutor]:
        """The class of executors whose `run` is a method in machine code, with a signature for `help`."""
        from openinfer.runtime.devices.compiled.executor import CompiledExecutor

        # Named like the one that it stands for, in messages and where it is shown.
        names = {name: getattr(CompiledExecutor, name) for name in ("__doc__", "__module__")}
        native = type(CompiledExecutor.__name__, (CompiledExecutor,), names)
        definition = self._definitions[_METHOD]
        says = f"run($self, /, *unnamed, **inputs)\n--\n\n{CompiledExecutor.run.__doc__}"
        definition.name, definition.doc = b"run", says.encode()
        new: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(
            ("PyDescr_NewMethod", ctypes.pythonapi)
        )
        native.run = new(native, ctypes.addressof(definition))
        return native


def _code() -> bytes:
    """The object of `native_call.ll`, which the cache keeps: LLVM's first call costs 25 ms."""
    # `importlib.resources` would import readers of archives, which a later start has no other use for.
    text = Path(__file__).with_name("native_call.ll").read_text("utf-8")
    target, store = host_target(), default_cache().kernels()
    key = cache_key("native call", text, target.key, llvm_version())
    code = store.get(key)
    if code is None:
        # Without LLVM's passes: it calls most of the time.
        code = compile_llvm_text(text, target, opt_level=0, codegen_level=0)
        store.put(key, code, About("native_call", "cpu", target.name))
    return code


@cache
def _builtins() -> _Builtins | None:
    """None where Python is not CPython, or the code cannot be made."""
    if sys.implementation.name != "cpython":
        return None
    try:
        return _Builtins()
    except (OpenInferError, AttributeError, OSError):
        return None


def native_place(
    rows: Sequence[Row], inputs: int, held: object
) -> Callable[[Mapping[str, Any]], bool] | None:
    """What puts the addresses of arrays where `rows` say, if a dict of `inputs` inputs has all of them
    and they certainly fit. False where one does not; some addresses may have been put then.

    `held` owns the memory that the addresses go to. None where there are no builtins, or where arrays
    lie otherwise than they read them, as without the interpreter's lock.
    """
    builtins = _builtins()
    if builtins is None or not builtins.reads_arrays:
        return None
    names = [sys.intern(row.name) for row in rows]
    shapes = [(ctypes.c_int64 * max(len(row.shape), 1))(*row.shape) for row in rows]
    words = [inputs, len(rows), id(np.ndarray)]
    for row, name, shape in zip(rows, names, shapes):
        words += [id(name), id(row.dtype), row.address, len(row.shape), ctypes.addressof(shape)]
    dtypes = [row.dtype for row in rows]
    kept = (*names, *shapes, *dtypes, held)
    return builtins.make(_PLACE, struct.pack(f"{len(words)}Q", *words), kept)


def native_call(function: Any, frame: Any, *team: Any) -> Callable[[], object]:
    """What runs a native `function(frame)`, or `function(frame, team)`, without the interpreter lock.

    `function` is one of ctypes, `frame` an array of ctypes; `team` is an address, and the object whose
    memory it is in. All of it is kept by the result, the code of the function is not.
    """
    builtins = _builtins()
    place = ctypes.addressof(frame)
    if builtins is None:
        return partial(_called, function, frame, place, *team)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    words = struct.pack("3Q", address, place, team[0] if team else 0)
    return builtins.make(_CALL, words, (function, frame, *team))


def native_run(run: QuickRun) -> Follow | None:
    """What does all of a `run` like the last one; None where its parts are no builtins.

    Without the interpreter's lock nobody would be kept from what it looks at and then does.
    """
    builtins = _builtins()
    locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    parts = [_own(builtins, part) for part in (run.place, run.call)]
    if builtins is None or None in parts or not locked():
        return None
    names = [sys.intern(name) for name in ("stepper", "waiting", "wake")]
    turn = (run.turn.slot, 0, run.token, True, run.turn, *names)
    fail, keep = sys.intern("fail"), sys.intern("keep")
    makes = (None, Results, np.empty)
    names = [sys.intern(name) for name, _ in run.results]
    arguments = [(view.shape, view.dtype) for _, view in run.results]
    words = [*map(id, turn), *map(id, parts), run.errors, run.steps, id(run.context), id(fail)]
    *inside, kept = run.workers or (0, 0, 0, 0, None)
    words += [id(keep) if run.workers else 0, *inside, id(kept), *map(id, makes), len(names)]
    for name, given, (_, view) in zip(names, arguments, run.results):
        words += [id(name), id(given), view.ctypes.data, view.nbytes]
    # Neither the context nor its memory: while the token is there, they are.
    held = (*turn, *parts, fail, keep, kept, *makes, *names, *arguments)
    return builtins.make(_RUN, struct.pack(f"{len(words)}Q", *words), held)


def _own(builtins: _Builtins | None, function: object) -> tuple[Any, ...] | None:
    """What a builtin of these gets as `self`."""
    found = getattr(function, "__self__", None)
    return found if isinstance(found, tuple) and found[1:2] == (builtins,) else None


def native_executor() -> type[CompiledExecutor] | None:
    """The class of executors whose `run` is in machine code; None where no run may follow another there."""
    builtins = _builtins()
    return None if builtins is None or not builtins.reads_arrays else builtins.executor


def interrupted_address() -> int:
    """The address of the function that says whether an exception waits for the end of a step.

    Without builtins it is one that never does.
    """
    builtins = _builtins()
    if builtins is not None:
        return builtins.interrupted
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


def native_observer(observe: Callable[[int, int, int], object]) -> int | None:
    """The address of the function that watched steps call, which calls `observe`: one for the whole
    process, to be kept alive by the caller. None where there are no builtins.
    """
    builtins = _builtins()
    return None if builtins is None else builtins.calling(OBSERVER, observe)


def native_reader(read: Callable[[int, int], bool]) -> int | None:
    """The same for the function that steps call to have a record read: `read` says whether they end."""
    builtins = _builtins()
    return None if builtins is None else builtins.calling(RECORD_READER, read)


def _called(function: Any, frame: Any, place: int, *team: Any) -> None:
    del frame
    function(place, *team[: len(function.argtypes) - 1])
