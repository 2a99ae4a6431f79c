"""A compiled program in memory: its code is linked, its weights are laid out; executors share it."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from openinfer.runtime.devices.base import LoadedProgram, Record
from openinfer.runtime.devices.compiled.quick_inputs import Row
from openinfer.runtime.devices.compiled.quick_run import Follow, QuickRun
from openinfer.runtime.devices.cpu.early_memory import weight_bytes
from openinfer.runtime.devices.cpu.linking import load_objects
from openinfer.runtime.devices.cpu.memory import HostMemory, aligned_bytes
from openinfer.runtime.devices.cpu.native_call import (
    INTERRUPTED,
    OBSERVER,
    interrupted_address,
    native_call,
    native_place,
    native_run,
)
from openinfer.runtime.devices.cpu.observer import observer_address, watched_by
from openinfer.runtime.devices.cpu.support import check_target
from openinfer.runtime.devices.cpu.team import Team
from openinfer.runtime.devices.cpu.trace_record import TraceRecord
from openinfer.runtime.dtypes import PACKAGE_DTYPES, DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.manifest import WeightRow
from openinfer.runtime.options import available_cpus
from openinfer.runtime.slots import Slot, SlotKind
from openinfer.runtime.storage import AnyArray

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program

SMALL = 1 << 16
"""Bytes of a weight that is rather copied than read where its file is mapped: a program that maps nothing
need not look after a file."""
PREFIX = "openinfer_"

WORTH_THREADS = 1 << 23
"""Bytes that are laid out, or copied, by several threads: fewer take less time than starting them."""

_Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Lead = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class CpuProgram(LoadedProgram):
    """The linked code of a program and its weights in the layout that the code wants."""

    def __init__(self, program: Program, provided: Mapping[str, int] = {}) -> None:
        """`provided` are addresses of functions that the code calls, by name.

        Raises ArtefactError for code that cannot run here, PackageError for a bad weight.
        """
        manifest, code = program.manifest, program.objects
        check_target(manifest.target)
        self.manifest = manifest
        self.memory = HostMemory()
        self.package = program.package
        self.variables = {row.name: row for row in manifest.variables}
        prepares = sorted({row.prepare for row in manifest.weights if row.prepare is not None})
        symbols = [PREFIX + "step", *(PREFIX + name for name in prepares)]
        if Slot(SlotKind.TEAM) in manifest.frame:
            symbols += [PREFIX + "lead", PREFIX + "worker"]

        def mentions(name: str) -> bool:
            return any(name.encode() in data for data in code)

        imports = {name: place for name, place in provided.items() if mentions(name)}
        self.watched = mentions(OBSERVER)
        if self.watched:
            imports[OBSERVER] = observer_address()
        if mentions(INTERRUPTED):
            imports[INTERRUPTED] = interrupted_address()
        self._library = load_objects(code, symbols, imports)
        self.step = _Entry(self._library.address(PREFIX + "step"))
        self.shared = Slot(SlotKind.TEAM) in manifest.frame
        self.lead: Any = None
        self.worker: Any = None
        if self.shared:
            self.lead = _Lead(self._library.address(PREFIX + "lead"))
            self.worker = _Worker(self._library.address(PREFIX + "worker"))
        self._prepare = {name: _Entry(self._library.address(PREFIX + name)) for name in prepares}
        self._moves: list[Move] = []
        """What is left to do for weights that are copied or laid out."""
        self.weights = [self._weight(row) for row in manifest.weights]
        do_all(self._moves)
        self._moves.clear()
        self.guard = self.package.guard() if self.mapped_bytes and self.package else None

    @property
    def frame_length(self) -> int:
        """Words of what the team shares: a step's frame, or the jobs that a step hands out."""
        return self.job_words or len(self.manifest.frame)

    def weight_address(self, number: int) -> int:
        """See `LoadedProgram.weight_address`."""
        return self.weights[number].ctypes.data

    def call(self, frame: Any) -> Callable[[], object]:
        """See `LoadedProgram.call`."""
        return native_call(self.step, frame)

    def make_team(self, threads: int) -> Team:
        """See `LoadedProgram.make_team`."""
        return Team(self, threads)

    def make_record(self) -> TraceRecord:
        """See `LoadedProgram.make_record`."""
        return TraceRecord()

    def watched_by(self, record: Record) -> AbstractContextManager[None]:
        """See `LoadedProgram.watched_by`."""
        return watched_by(record)

    def place(
        self, rows: Sequence[Row], inputs: int, held: object
    ) -> Callable[[Mapping[str, Any]], bool] | None:
        """See `LoadedProgram.place`."""
        return native_place(rows, inputs, held)

    def follow(self, run: QuickRun) -> Follow | None:
        """See `LoadedProgram.follow`."""
        return native_run(run)

    def _read(self, name: str, dtype: DType, *, rounded: bool) -> tuple[AnyArray, bool]:
        """The stored bytes of a tensor as values of `dtype`, and whether the package holds them so.

        Where it is a block format, the blocks as they are: code that reads them was made for nothing else.
        `rounded`: they are f16, which nobody declared. Raises PackageError OI0422 where blocks hold more.
        """
        package: Package | None = self.package
        assert package is not None
        stored = package.info(name).dtype
        values = np.ascontiguousarray(package.tensor_as(name, dtype).storage)
        if rounded and stored.block is not None and not _is_finite(values):
            raise PackageError(
                "OI0422",
                f"{package.origin}: values of {name!r} ({stored}) do not fit f16",
                hint='compile without precision="q8" (--precision f32): they are f32 then',
            )
        return values, stored == dtype

    def _weight(self, row: WeightRow) -> AnyArray:
        """The bytes of one weight argument; a mapped view when nothing had to be moved."""
        if not row.sources:
            return self._made(row)
        dtype = PACKAGE_DTYPES[row.read_as(self.variables[row.variable].dtype)]
        if row.prepare is None and len(row.sources) == 1:
            array, same = self._read(row.sources[0], dtype, rounded=row.dtype is not None)
            if not same:
                self.packed_bytes += array.nbytes
                return array
            if array.nbytes <= SMALL:
                self.copied_bytes += array.nbytes
                copied = aligned_bytes(array.nbytes)
                copied[:] = array.reshape(-1).view(np.uint8)
                return copied
            self.mapped_bytes += array.nbytes
            return array
        # Zeroed memory that nobody writes to is none: members without a source take no part of it.
        whole = row.held == row.nbytes
        packed = weight_bytes(row.nbytes) if whole else aligned_bytes(row.nbytes)
        self.packed_bytes += row.held
        each = row.nbytes // len(row.sources)
        for number, source in enumerate(row.sources):
            if not source:
                continue
            target = packed[number * each : (number + 1) * each]
            self._moves.append(Move(each, partial(self._move, row, source, dtype, target)))
        return packed

    def _move(self, row: WeightRow, source: str, dtype: DType, target: AnyArray) -> None:
        """Copies a member to its place, or lays it out there."""
        array, same = self._read(source, dtype, rounded=row.dtype is not None)
        if row.prepare is None:
            target[:] = array.reshape(-1).view(np.uint8)
        else:
            frame = np.array([array.ctypes.data, target.ctypes.data], np.uint64)
            self._prepare[row.prepare](frame.ctypes.data)
        if same and self.package is not None and source in self.package.tensors:
            self.package.give_back(source)

    def _made(self, row: WeightRow) -> AnyArray:
        """A constant that no tensor of the package holds."""
        assert row.prepare is not None
        made = weight_bytes(row.nbytes)
        self.packed_bytes += row.nbytes
        frame = np.array([made.ctypes.data], np.uint64)
        self._prepare[row.prepare](frame.ctypes.data)
        return made


def _is_finite(values: AnyArray) -> bool:
    """Whether values of f16 are finite: their exponent is not all ones."""
    return bool((values.view(np.uint16) & 0x7C00 != 0x7C00).all())


class Move(NamedTuple):
    """A weight, or a member of one, that is copied to its place or laid out there."""

    nbytes: int
    """What it becomes."""
    do: Callable[[], None]


def do_all(moves: Sequence[Move]) -> None:
    """Moves weights, on all processors where that pays: native code, and NumPy's, lets other threads run.

    The largest come first: one that began last would be left to a single thread.
    """
    workers = min(len(moves), available_cpus())
    if workers < 2 or sum(move.nbytes for move in moves) < WORTH_THREADS:
        for move in moves:
            move.do()
        return
    waiting = deque(sorted(moves, key=lambda move: -move.nbytes))
    failures: list[BaseException] = []

    def work() -> None:
        while waiting and not failures:
            try:
                move = waiting.popleft()
            except IndexError:  # Another thread was first.
                return
            try:
                move.do()
            except BaseException as error:
                failures.append(error)

    threads: list[Thread] = []
    for _ in range(workers - 1):
        thread = Thread(target=work, name="openinfer-weights")
        try:
            thread.start()
        except RuntimeError:  # There are no threads left.
            break
        threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
