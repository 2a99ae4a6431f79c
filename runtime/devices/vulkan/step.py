"""What a step asks its device for: records are taken apart, commands made of them once, moves done in order.

What a step asks for between two waits is a sequence of pieces (`pieces.py`). The commands of a sequence are
recorded when it comes for the first time, and handed in again whenever it comes again: only numbers are
written then. A barrier depends on ranges of bytes, and these are what stays the same in a piece, so a
recorded barrier is right for all its steps.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from openinfer.runtime.devices.vulkan.commands import CommandPool, Recording
from openinfer.runtime.devices.vulkan.hazards import Range
from openinfer.runtime.devices.vulkan.logical import Allocation, Kernel
from openinfer.runtime.devices.vulkan.memory import FOR_HOST, FOR_NUMBERS, SPAN, VulkanMemory
from openinfer.runtime.devices.vulkan.pieces import (
    GROUPS,
    Piece,
    PieceLaunch,
    PieceMove,
    read_piece,
)
from openinfer.runtime.devices.vulkan.record import (
    HEAD,
    RECORD_WORDS,
    TO_DEVICE,
    TO_HOST,
    USED,
    empty_record,
)
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.manifest import CallRow
from openinfer.runtime.storage import AnyArray

NUMBERS = 1 << 18
"""Words that the kernels of a submission are given, and their groups; when they are used up, it is
submitted."""
MOST_GROUPS = 65535
OFFSET = (1 << SPAN) - 1
"""The bits of an address that lie within a block."""
LEAST_STAGING = 1 << 20
MOST_PIECES, MOST_RECORDED = 16, 64
"""Pieces of one length, and sequences of pieces, that are kept; those that came least recently go first."""


class DeviceStep:
    """The device's side of the steps of one context. Steps come one after the other."""

    def __init__(
        self,
        memory: VulkanMemory,
        kernels: Mapping[str, Kernel],
        rows: list[CallRow],
        *,
        at_once: bool,
    ) -> None:
        """`at_once`: what is asked for has happened when the step goes on, for stamps of a clock."""
        self.at_once = at_once
        self.memory, self.kernels, self.rows = memory, kernels, rows
        self.device = memory.device
        self.record = empty_record()
        self.recordings = 0
        """How often commands were recorded."""
        self._pool = CommandPool(self.device)
        self._known: dict[int, list[Piece]] = {}
        """Pieces by their length, the last one that came first."""
        self._count = 0
        self._recorded: OrderedDict[tuple[int, ...], Recording] = OrderedDict()
        self._numbers = Allocation(self.device, 4 * NUMBERS, FOR_NUMBERS)
        words = (ctypes.c_uint32 * NUMBERS).from_address(self._numbers.mapped)
        self._words = np.ctypeslib.as_array(words)
        self._staging = Allocation(self.device, LEAST_STAGING, FOR_HOST)
        """Bytes on their way to the device, and back."""
        self._forget()
        self.failure: BaseException | None = None

    def _forget(self) -> None:
        """What was asked for is done, or will not be."""
        self._asked: list[tuple[Piece, int, int]] = []
        """The pieces since the last wait, where their numbers begin, and their staged bytes."""
        self._used = self._staged = 0
        self._awaited: list[tuple[int, int, int]] = []
        """What the host reads once the commands ran: where, place in the staging buffer, bytes."""

    def run(self, native: Callable[[], object]) -> None:
        """A step: its host half, and what it asks for."""
        self.record[USED], self.failure = HEAD, None
        self._forget()
        _active.step = self
        try:
            native()
            self.drain()
            if self.failure is None:
                self.finish()
        finally:
            _active.step = None
            failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def drain_safely(self) -> None:
        """`drain` where nobody can be told what it raises: the end of the step raises it."""
        if self.failure is None:
            try:
                self.drain()
            except BaseException as error:
                self.failure = error
        self.record[USED] = HEAD

    def drain(self) -> None:
        """Takes over what the record asks for, and empties it."""
        words = self.record[HEAD : int(self.record[USED])]
        if len(words):
            self._take(self._piece_of(words), words)
        self.record[USED] = HEAD
        if self.at_once or self._awaited:
            self.finish()

    def _piece_of(self, words: AnyArray) -> Piece:
        """The piece that a record is, as it was read when it came for the first time."""
        known = self._known.setdefault(len(words), [])
        for place, piece in enumerate(known):
            if piece.is_like(words):
                if place:
                    known.insert(0, known.pop(place))
                return piece
        self._count += 1
        piece = read_piece(words, self.rows, self._count)
        self._prepare(piece)
        known.insert(0, piece)
        del known[MOST_PIECES:]
        return piece

    def _prepare(self, piece: Piece) -> None:
        """Fills in what only the device says: where in a binding a buffer begins."""
        physical = self.device.physical
        places: list[int] = []
        values: list[int] = []
        for call in piece.calls:
            if isinstance(call, PieceMove):
                continue
            row = call.row
            for number, (address, nbytes) in enumerate(call.buffers):
                behind = (address & OFFSET) % physical.alignment
                if behind + nbytes > physical.largest_binding:
                    raise UnsupportedError(
                        "OI0773",
                        f"{row.buffers[number]} has {nbytes} bytes; {physical.name} gives kernels "
                        f"{physical.largest_binding} at most",
                    )
                places.append(call.numbers + GROUPS + row.places[number])
                values.append(behind // row.elements[number])
        piece.fixed_places, piece.fixed = np.array(places, np.intp), np.array(values, np.uint32)

    def _take(self, piece: Piece, words: AnyArray) -> None:
        """Writes the numbers of a piece, and what goes to the device with it."""
        if self._used + len(piece.sources) > NUMBERS:
            self.finish()
        if self._staged + piece.staged > self._staging.nbytes:
            self.finish()
            self._grow_staging(piece.staged)
        numbers = words[piece.sources].astype(np.uint32)
        numbers[piece.fixed_places] = piece.fixed
        self._check_groups(piece, numbers)
        self._words[self._used : self._used + len(numbers)] = numbers
        for move in piece.moves:
            if move.host is None:
                continue
            host, place = int(words[move.host]), self._staged + move.staged
            if move.row.kernel == TO_DEVICE:
                ctypes.memmove(self._staging.mapped + place, host, move.nbytes)
            else:
                self._awaited.append((host, place, move.nbytes))
        self._asked.append((piece, self._used, self._staged))
        self._used += len(numbers)
        self._staged += piece.staged

    def _grow_staging(self, nbytes: int) -> None:
        if nbytes > self._staging.nbytes:
            self._staging = Allocation(self.device, 2 * nbytes, FOR_HOST)
            # What was recorded copies to and from the old one.
            for recording in self._recorded.values():
                self._pool.free(recording)
            self._recorded.clear()

    def _check_groups(self, piece: Piece, numbers: AnyArray) -> None:
        groups = numbers[piece.groups]
        if groups.size and groups.max() > MOST_GROUPS:
            worst = int(groups.argmax()) // GROUPS
            launch = [call for call in piece.calls if isinstance(call, PieceLaunch)][worst]
            raise UnsupportedError(
                "OI0773",
                f"the kernel {launch.row.kernel} needs {groups.max()} workgroups along an axis",
            )

    def finish(self) -> None:
        """Runs what was asked for, and waits for it."""
        if not self._asked:
            return
        key = tuple([piece.number for piece, _, _ in self._asked])
        recording = self._recorded.get(key)
        if recording is None:
            recording = self._recorded[key] = self._record()
            if len(self._recorded) > MOST_RECORDED:
                self._pool.free(self._recorded.popitem(last=False)[1])
        else:
            self._recorded.move_to_end(key)
        self._pool.run(recording)
        for target, place, nbytes in self._awaited:
            ctypes.memmove(target, self._staging.mapped + place, nbytes)
        self._forget()

    def _record(self) -> Recording:
        """The commands of what was asked for."""
        self.recordings += 1
        recording = self._pool.record()
        for piece, numbers, staged in self._asked:
            for call in piece.calls:
                if isinstance(call, PieceLaunch):
                    self._record_launch(recording, call, numbers + call.numbers)
                else:
                    self._record_move(recording, call, staged)
        return recording.end()

    def _record_move(self, recording: Recording, move: PieceMove, staged: int) -> None:
        there = [self.memory.at(address) for address in move.device]
        block, start = there[0]
        place = staged + move.staged
        if move.row.kernel == TO_DEVICE:
            recording.copy(self._staging, place, block.allocation, start, move.nbytes)
        elif move.row.kernel == TO_HOST:
            recording.copy(block.allocation, start, self._staging, place, move.nbytes)
        else:
            other, to = there[1]
            recording.copy(block.allocation, start, other.allocation, to, move.nbytes)

    def _record_launch(self, recording: Recording, call: PieceLaunch, place: int) -> None:
        row, alignment = call.row, self.device.physical.alignment
        ranges = [Range(self._numbers, 0, 4 * NUMBERS, False)]
        for number, (address, nbytes) in enumerate(call.buffers):
            block, start = self.memory.at(address)
            # A binding begins at a multiple of the device's; the kernel is told how far behind it.
            begin, end = start - start % alignment, start + max(nbytes, 4)
            ranges.append(Range(block.allocation, begin, end, number in row.writes))
        kernel = self.kernels[row.kernel]
        recording.dispatch(kernel, ranges, self._numbers, 4 * place, place + GROUPS)


class _Active(threading.local):
    """The step that runs on this thread."""

    step: DeviceStep | None = None


_active = _Active()
_Submit = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def _submit(record: int) -> None:
    """Called by steps; `record` is where the words of the calling step are."""
    step = _active.step
    if step is not None and step.record.ctypes.data == record:
        step.drain_safely()
        return
    # Nobody takes the words: the step may go on, and fills the record anew.
    (ctypes.c_int64 * RECORD_WORDS).from_address(record)[USED] = HEAD


@cache
def _kept() -> Any:
    return _Submit(_submit)


def submit_address() -> int:
    """The address of the function that steps call to have their record read."""
    return ctypes.cast(_kept(), ctypes.c_void_p).value or 0
