"""The threads of an executor: started when they are first needed, asleep when they are not.

The protocol is in `lowering/cpu/team.ll`. A worker enters native code once and stays there; Python
only starts it, keeps what it may still look at, and tells it to stop.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from openinfer.runtime.devices.compiled.quick_run import Workers
from openinfer.runtime.devices.cpu.native_call import native_call
from openinfer.runtime.microarchitecture import DEFAULT
from openinfer.runtime.storage import AnyArray

_FRAME = 64
_SEQUENCE, _STOP, _LENGTH = 16, 24, 56
_ALONE = 50
_CHUNKS, _THREADS, _RECORDS, _TALLIES, _MASK = 57, 58, 59, 60, 61
_JOBS = 64
"""Tallies of a team that runs jobs; kernels beyond that share them."""
_TALLY = 8
_RECORD, _LEFT = 16, 9
"""Words of a thread's record, and which of them says that the thread left a step."""
_ASLEEP = 1 << 62
_CHUNKS_EACH = DEFAULT.chunks
"""Chunks of a loop for each thread: more even out unequal threads better, but the panels of a product
that one thread goes through then do not lie one behind the other, and cannot be fetched ahead.
A processor of which another number was measured has it in its code (`share-loops`)."""
_FUTEX, _WAKE = 202, 129


class HasEntries(Protocol):
    """The native entries of a shared program."""

    step: Any
    lead: Any
    worker: Any

    @property
    def frame_length(self) -> int: ...
    @property
    def job_words(self) -> int: ...


class Team:
    """The counters of one executor and its workers; a team of one never starts a thread."""

    def __init__(self, program: HasEntries, threads: int) -> None:
        length = program.frame_length
        records = _FRAME + -(-length // 8) * 8
        tallies = records + _RECORD * threads
        count = _JOBS if program.job_words else 1
        self._words = (ctypes.c_int64 * (8 + tallies + _TALLY * count))()
        start = -ctypes.addressof(self._words) % 64
        self.address = ctypes.addressof(self._words) + start
        self._base = start // 8
        self._program = program
        self._job_words = program.job_words
        self._step, self._lead = program.step, program.lead
        self._workers = threads - 1
        self._started = False
        self._kept: list[Any] = []
        self._set(_LENGTH, length)
        self._set(_CHUNKS, _CHUNKS_EACH * threads if threads > 1 else 1)
        self._set(_THREADS, threads)
        self._set(_RECORDS, records)
        self._set(_TALLIES, tallies)
        self._set(_MASK, count - 1)
        self._tallies = self.address + 8 * tallies, 8 * _TALLY * count
        if threads == 1:
            self._set(_ALONE, (1 << 63) - 1)
        self._set(_SEQUENCE, 1)
        first = self._base + records + _LEFT
        self._lefts = range(first + _RECORD, first + _RECORD * threads, _RECORD)
        for place in self._lefts:
            self._words[place] = _ASLEEP
        self._stopper: Any = None

    def _set(self, word: int, value: int) -> None:
        self._words[self._base + word] = value

    def _apart(self) -> bool:
        """Whether no worker is inside the last step; none can enter one that is closed."""
        words = self._words
        step = words[self._base + _SEQUENCE] - 1
        for place in self._lefts:
            if words[place] < step:
                return False
        return True

    def call(self, frame: Any) -> Callable[[], object]:
        """The native call that runs a step with everybody; the workers are there from now on.

        `frame` is a ctypes array, kept by the call.
        """
        if not self._started and self._workers:
            self._start()
        # Where the step itself hands out jobs, it is not led.
        function = self._step if self._job_words else self._lead
        return native_call(function, frame, self.address, self._words)

    def forget(self) -> None:
        """What steps took says nothing about those to come: their sizes are others."""
        ctypes.memset(self._tallies[0], 0, self._tallies[1])

    def keep(self, given: Mapping[str, Any], more: Callable[[], list[AnyArray]]) -> None:
        """Holds on to the inputs of the step that just ended until no worker can read them.

        `more` is asked for what else they lie in, where that is so.
        """
        if self._apart():
            if self._kept:
                self._kept.clear()
        else:
            self._kept.extend(given.values())
            self._kept.extend(more())

    def workers(self) -> Workers:
        """See `Team.workers` of `runtime/devices/base.py`."""
        start = ctypes.addressof(self._words)
        first = start + 8 * self._lefts.start
        sequence = self.address + 8 * _SEQUENCE
        return Workers(sequence, first, 8 * _RECORD, len(self._lefts), self._kept)

    def quiesce(self) -> None:
        """Waits until no worker is inside a step."""
        while not self._apart():
            time.sleep(0)
        self._kept.clear()

    def _start(self) -> None:
        self._started = True
        words, program, address = self._words, self._program, self.address
        threads: list[threading.Thread] = []
        for number in range(1, self._workers + 1):
            thread = threading.Thread(
                target=_work,
                args=(program, words, address, number),
                name=f"openinfer-{number}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError:
                # The system gives no more threads: those that are there share the work.
                break
            threads.append(thread)
        self._stopper = weakref.finalize(self, _stop, words, self._base, address, threads)

    def close(self) -> None:
        """Lets the workers go; the team cannot run steps with them afterwards."""
        if self._stopper is not None:
            self._stopper()
        self._kept.clear()


def _work(program: HasEntries, words: Any, address: int, number: int) -> None:
    """The life of a worker: one native call. `words` is kept alive by being an argument."""
    frame = (ctypes.c_uint64 * (program.frame_length + 1))()
    program.worker(address, ctypes.addressof(frame), number)
    del words


def _stop(words: Any, base: int, address: int, threads: list[threading.Thread]) -> None:
    words[base + _STOP] = 1
    # The kernel wakes whoever sleeps on the sequence; a changed value keeps others from sleeping.
    words[base + _SEQUENCE] += 2
    libc = ctypes.CDLL(None, use_errno=True)
    for thread in threads:
        while thread.is_alive():
            libc.syscall(
                ctypes.c_long(_FUTEX),
                ctypes.c_void_p(address + 8 * _SEQUENCE),
                ctypes.c_int(_WAKE),
                ctypes.c_int(1024),
                None,
                None,
                ctypes.c_int(0),
            )
            thread.join(0.01)
