"""What a step asks its device for: records are taken apart, commands made of them once, moves done in order.

What a step asks for between two waits is a sequence of pieces (`pieces.py`). The commands of a sequence are
recorded when it comes for the first time, and handed in again whenever it comes again: only numbers are
written then. A barrier depends on ranges of bytes, and these are what stays the same in a piece, so a
recorded barrier is right for all its steps.

Where memory lies elsewhere in every step, as in that of a text that grows, pieces become loose after a few
steps. Their kernels are given windows of blocks, and barriers hold for whole windows: these recordings, too,
are right for all steps, at the price of some barriers more. Moves are recorded anew then, which is cheap.
"""

from __future__ import annotations

import ctypes
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from openinfer.runtime.devices.vulkan.commands import CommandPool, Copy, Recording
from openinfer.runtime.devices.vulkan.hand_over import running
from openinfer.runtime.devices.vulkan.hazards import Range
from openinfer.runtime.devices.vulkan.kernels import Kernel
from openinfer.runtime.devices.vulkan.known_steps import KnownSteps
from openinfer.runtime.devices.vulkan.logical import Allocation
from openinfer.runtime.devices.vulkan.memory import (
    FOR_HOST,
    FOR_NUMBERS,
    SPAN,
    VulkanBlock,
    VulkanMemory,
)
from openinfer.runtime.devices.vulkan.native_recording import Packed, Part, Recorder
from openinfer.runtime.devices.vulkan.piece_commands import PieceCommands, staged_copy
from openinfer.runtime.devices.vulkan.pieces import (
    GROUPS,
    WHOLE,
    Asked,
    Piece,
    PieceLaunch,
    PieceMove,
    early_moves,
    read_piece,
    window_of,
)
from openinfer.runtime.devices.vulkan.record import (
    HEAD,
    KNOWN,
    TO_DEVICE,
    TO_HOST,
    USED,
    empty_record,
)
from openinfer.runtime.devices.vulkan.step_clock import Stamps, StepClock
from openinfer.runtime.devices.vulkan.timing import ROOM, Timer
from openinfer.runtime.devices.vulkan.trace_record import VulkanTraceRecord
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.manifest import MOST_GROUPS, CallRow
from openinfer.runtime.storage import AnyArray

NUMBERS = 1 << 18
"""Words that the kernels of a submission are given, and their groups; when they are used up, it is
submitted."""
OFFSET = (1 << SPAN) - 1
"""The bits of an address that lie within a block."""
LEAST_STAGING = 1 << 20
MOST_PIECES, MOST_RECORDED = 16, 64
"""Pieces of one length, and recordings, that are kept; those that came least recently go first."""
MOST_STRAIGHT = 1 << 16
"""Bytes of a move that the host makes itself: a copy takes the device 5 us, however few they are."""
MOST_VARIANTS = 4
"""So many pieces may differ in nothing but memory; the next one is loose."""

MOST_TIMED = ROOM // 2
"""Pieces of a submission that is timed; most have one call."""


@dataclass
class Marks:
    """How long the undo log was,"""

    logged: int = 0
    """when the last record was handed over,"""
    done: int = 0
    """and the last one that ran."""


class DeviceStep:
    """The device's side of the steps of one context. Steps come one after the other."""

    def __init__(
        self,
        memory: VulkanMemory,
        kernels: Mapping[str, Kernel],
        rows: list[CallRow],
        traced: VulkanTraceRecord | None = None,
        clock: StepClock | None = None,
    ) -> None:
        """`traced` takes the times of a traced build, `clock` those of whole steps of a plain one."""
        self.memory, self.kernels, self.rows = memory, kernels, rows
        self._commands = PieceCommands(memory, kernels, rows)
        self.device = memory.device
        self._traced = traced
        self._timer: Timer | None = None
        if traced is not None and self.device.timestamps[0]:
            self._timer = Timer(self.device)
        self._stamps: Stamps | None = None
        if clock is not None and traced is None and self.device.timestamps[0]:
            self._stamps = Stamps(self.device, clock)
        self._at_once = traced is not None and self._timer is None
        """Whether what is asked for has happened when the step goes on: for stamps of the host's clock, where
        the device has none."""
        self.record = empty_record()
        self._in_use: Any = memoryview(cast(Any, self.record))
        """The same words: they are looked at in less time."""
        self.place = self.record.ctypes.data
        self.counts: VulkanBlock | None = None
        """What its kernels count workgroups with."""
        self.recordings = 0
        """How often commands were recorded."""
        self._pool = CommandPool(self.device)
        self._known: dict[int, list[Piece]] = {}
        """Pieces by their length, the last one that came first."""
        self._count = 0
        self._window = window_of(self.device.physical.largest_binding)
        self._recorded: OrderedDict[tuple[int, ...], Recording] = OrderedDict()
        """Sequences by the numbers of their pieces; parts of loose ones by numbers, the first one below 0."""
        self._going_straight: dict[tuple[int, ...], dict[int, int]] = {}
        """Moves of the last piece of a sequence (`Asked.straight`), by the numbers of its pieces."""
        self._numbers = Allocation(self.device, 4 * NUMBERS, FOR_NUMBERS)
        words = (ctypes.c_uint32 * NUMBERS).from_address(self._numbers.mapped)
        self._words = np.ctypeslib.as_array(words)
        native = self.device.native
        self._recorder = None if native is None else Recorder(native, self._numbers)
        self._staging = Allocation(self.device, LEAST_STAGING, FOR_HOST)
        """Bytes on their way to the device, and back."""
        self._again: KnownSteps | None = None
        if native is not None and traced is None and self._stamps is None:
            self._again = KnownSteps(native, self._pool, self._numbers, self._staging)
            self.record[KNOWN] = self._again.address
        self._marks: Any = Marks() if self._again is None else self._again.marks
        self._forget()
        self.failure: BaseException | None = None
        self.kept: int | None = None
        """Up to where of the undo log a step that failed has kept what it says; None for all of it."""

    def _forget(self) -> None:
        """What was asked for is done, or will not be."""
        self._used = self._staged = 0
        self._awaited: list[tuple[int, int, int]] = []
        """What the host reads once the commands ran: where, place in the staging buffer, bytes."""
        self._asked: list[Asked] = []
        """The pieces since the last wait. Last: where there are none, the others are as they are here."""
        if self._again is not None:
            self._again.begin()

    def run(self, native: Callable[[], object]) -> None:
        """A step: its host half, and what it asks for."""
        self.kept, self._marks.logged, self._marks.done = None, 0, 0
        self.device.lifetime.check()
        self._in_use[USED], self.failure = HEAD, None
        if self._asked or self._awaited or self._again is None:
            self._forget()
        else:
            self._again.begin()
        if self._stamps is not None:
            self._stamps.begin_step()
        running.step = self
        try:
            native()
            if self.failure is None and self._is_left():
                self.drain()
                self.finish()
        except BaseException:
            self.kept = self._marks.done
            raise
        finally:
            running.step = None
            if self._again is not None:
                self._again.stop()
            failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _is_left(self) -> bool:
        """Whether something was asked for that was not waited for."""
        return self._again is None or self._again.undecided or self._in_use[USED] != HEAD

    def drain_safely(self, logged: int) -> bool:
        """`drain` where nobody can be told what it raises: the end of the step raises it. `logged` is how
        long the undo log is. Whether it failed."""
        if self.failure is None:
            try:
                self.drain(logged)
            except BaseException as error:
                self.failure, self.kept = error, self._marks.done
        self.record[USED] = HEAD
        return self.failure is not None

    def drain(self, logged: int = 0) -> None:
        """Takes over what the record asks for, and empties it."""
        self._catch_up()
        words = self.record[HEAD : int(self.record[USED])]
        if len(words):
            self._take(self._piece_of(words), words)
        self.record[USED], self._marks.logged = HEAD, logged
        full = self._timer is not None and len(self._asked) >= MOST_TIMED
        if self._at_once or self._awaited or full:
            self.finish()

    def _catch_up(self) -> None:
        """What machine code has begun goes on in Python."""
        if self._again is not None:
            self._again.check()
            found = self._again.taken()
            if found is not None:
                self._asked, self._used, self._staged = found

    def _piece_of(self, words: AnyArray) -> Piece:
        """The piece that a record is, as it was read when it came for the first time."""
        known = self._known.setdefault(len(words), [])
        for place, piece in enumerate(known):
            if piece.is_like(words):
                if place:
                    known.insert(0, known.pop(place))
                return piece
        piece = self._read(words, known)
        known.insert(0, piece)
        del known[MOST_PIECES:]
        return piece

    def _read(self, words: AnyArray, known: Sequence[Piece]) -> Piece:
        """A piece that came for the first time; loose, where those like it came too often."""
        alike = [piece for piece in known if piece.asks_the_same(words)]
        loose = len(alike) >= MOST_VARIANTS or any(piece.loose for piece in alike)
        # The commands of a step that is timed are recorded anew, as a whole.
        loose = loose and self._timer is None and self._stamps is None
        self._count += 1
        physical = self.device.physical
        window = self._window if loose else 0
        piece = read_piece(words, self.rows, self._count, physical.alignment, window)
        for call in piece.calls:
            if isinstance(call, PieceLaunch):
                self._check_sizes(call)
        return piece

    def _check_sizes(self, call: PieceLaunch) -> None:
        physical = self.device.physical
        for name, (address, nbytes) in zip(call.row.buffers, call.buffers, strict=True):
            behind = (address & OFFSET) % physical.alignment
            if behind + nbytes > physical.largest_binding:
                raise UnsupportedError(
                    "OI0773",
                    f"{name} has {nbytes} bytes; {physical.name} gives kernels "
                    f"{physical.largest_binding} at most",
                )

    def _take(self, piece: Piece, words: AnyArray) -> None:
        """Writes the numbers of a piece, and what goes to the device with it."""
        moves, staged = piece.moves(words)
        if self._used + len(piece.sources) > NUMBERS:
            self.finish()
        if self._staged + staged > self._staging.nbytes:
            self.finish()
            self._grow_staging(staged)
        numbers = piece.numbers(words)
        self._check_groups(piece, numbers)
        self._words[self._used : self._used + len(numbers)] = numbers
        straight = self._straight(piece)
        for number, move in enumerate(moves):
            if move.host is None or not move.nbytes:
                continue
            host, place = int(words[move.host]), self._staged + move.staged
            if move.row.kernel == TO_DEVICE:
                there = straight.get(number, self._staging.mapped + place)
                ctypes.memmove(there, host, move.nbytes)
            else:
                self._awaited.append((host, place, move.nbytes))
        record = words.copy() if piece.loose else piece.words
        at = time.monotonic_ns()
        self._asked.append(Asked(piece, self._used, self._staged, moves, record, at, straight))
        self._used += len(numbers)
        self._staged += staged
        if self._again is not None:
            self._again.stop()

    def _straight(self, piece: Piece) -> dict[int, int]:
        """See `Asked.straight`: small moves to memory that the host reaches, and that no command in front of
        them reads or writes. A traced build shows all moves."""
        before = [one.piece for one in self._asked]
        if self._traced is not None or any(one.loose for one in (*before, piece)):
            return {}
        key = tuple([one.number for one in (*before, piece)])
        found = self._going_straight.get(key)
        if found is None:
            if len(self._going_straight) >= MOST_RECORDED:
                self._going_straight.clear()
            found = self._going_straight[key] = {}
            for number, address in early_moves(before, piece, MOST_STRAIGHT):
                block, at = self.memory.at(address)
                if block.allocation.mapped:
                    found[number] = block.allocation.mapped + at
        return found

    def _grow_staging(self, nbytes: int) -> None:
        if nbytes > self._staging.nbytes:
            self._staging = Allocation(self.device, 2 * nbytes, FOR_HOST)
            # What was recorded copies to and from the old one.
            self._drop(len(self._recorded))
            if self._again is not None:
                self._again.stage(self._staging)

    def _drop(self, count: int) -> None:
        """Gives so many recordings back, those that came least recently."""
        for _ in range(count):
            self._pool.free(self._recorded.popitem(last=False)[1])
        if count and self._again is not None:
            self._again.forget()

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
        submitted = time.monotonic_ns()
        if self._timer is not None:
            fresh = recordings = [self._record()]
        elif any(asked.piece.loose for asked in self._asked):
            recordings, fresh = self._parts()
        else:
            recordings, fresh = [self._whole()], []
        self._pool.ended = False
        try:
            self._pool.run(recordings)
        finally:
            if self._pool.ended:
                self._marks.done = self._marks.logged
            for recording in fresh:
                self._pool.free(recording)
        if self._timer is not None and self._traced is not None:
            self._traced.spans += self._timer.read(submitted, time.monotonic_ns())
        if self._stamps is not None:
            asked = self._asked
            self._stamps.read(sum(len(one.piece.calls) - len(one.straight) for one in asked))
        for target, place, nbytes in self._awaited:
            ctypes.memmove(target, self._staging.mapped + place, nbytes)
        excess = max(0, len(self._recorded) - MOST_RECORDED)
        self._drop(excess)
        # Where commands go again as soon as they are recorded, nothing is worth knowing.
        if self._again is not None and not fresh and not excess:
            self._again.learn(self._asked, recordings if self._awaited else ())
        self._forget()

    def _kept(self, key: tuple[int, ...], record: Callable[[], Recording]) -> Recording:
        """What was recorded by this name, or is now."""
        recording = self._recorded.get(key)
        if recording is None:
            recording = self._recorded[key] = record()
            self.recordings += 1
        self._recorded.move_to_end(key)
        return recording

    def _whole(self) -> Recording:
        """The commands of what was asked for, as a whole."""
        return self._kept(tuple([asked.piece.number for asked in self._asked]), self._record)

    def _record(self) -> Recording:
        recording = self._pool.record(self._timer, self._stamps)
        if self._recorder is not None:
            parts = [self._part(asked, asked.piece.calls, WHOLE) for asked in self._asked]
            self._recorder.record(recording, parts, self._staging, self._timer)
        else:
            for asked in self._asked:
                self._put(recording, asked, asked.piece.calls)
        return recording.end()

    def _parts(self) -> tuple[list[Recording], list[Recording]]:
        """The commands of what was asked for, run by run; and those of them that nobody asks for again."""
        found: list[Recording] = []
        fresh: list[Recording] = []
        for asked in self._asked:
            moves = enumerate(asked.moves)
            for number, (moved, launches) in enumerate(asked.piece.runs):
                if moved:
                    some = [next(moves) for _ in moved]
                    own = [move for place, move in some if place not in asked.straight]
                    record = partial(self._part_of_moves, asked.staged, own)
                    if any(move.host is None for move in own):
                        # Within the device they go elsewhere in every step.
                        fresh.append(record())
                        found.append(fresh[-1])
                    else:
                        found.append(self._kept(_key_of(asked.staged, own), record))
                else:
                    key = (-1, asked.piece.number, number, asked.numbers)
                    record = partial(self._part_of_launches, asked, number, launches)
                    found.append(self._kept(key, record))
        return found, fresh

    def _part_of_moves(self, staged: int, moves: Sequence[PieceMove]) -> Recording:
        recording = self._pool.record()
        recording.wait()
        for one in moves:
            if one.nbytes:
                command = self._commands.move(one, self._staging)
                recording.copy(*staged_copy(command, self._staging, staged))
        return recording.end()

    def _part_of_launches(
        self, asked: Asked, number: int, launches: Sequence[PieceLaunch]
    ) -> Recording:
        recording = self._pool.record()
        recording.wait()
        if self._recorder is not None:
            part = self._part(asked, launches, number)
            self._recorder.record(recording, [part], self._staging)
        else:
            self._put(recording, asked, launches)
        return recording.end()

    def _part(self, asked: Asked, calls: Sequence[PieceLaunch | PieceMove], run: int) -> Part:
        """A run of a piece, or the whole of it, as machine code records it."""
        key = run, frozenset(asked.straight)
        packed = asked.piece.packed.get(key)
        if packed is None:
            commands = self._commands.of(asked, calls, self._staging)
            packed = asked.piece.packed[key] = Packed(commands, self._numbers, self._staging)
        return Part(packed, asked.numbers, asked.staged, asked.at)

    def _put(
        self, recording: Recording, asked: Asked, calls: Sequence[PieceLaunch | PieceMove]
    ) -> None:
        """Records commands where there is no machine code."""
        for one in self._commands.of(asked, calls, self._staging):
            if self._timer is not None:
                self._timer.row, self._timer.asked = one.row, asked.at
            if isinstance(one, Copy):
                recording.copy(*staged_copy(one, self._staging, asked.staged))
            else:
                place = asked.numbers + one.numbers
                ranges = [Range(self._numbers, 0, 4 * NUMBERS, False), *one.ranges]
                recording.dispatch(
                    one.kernel, ranges, self._numbers, 4 * place, place + GROUPS, one.groups
                )


def _key_of(staged: int, moves: Sequence[PieceMove]) -> tuple[int, ...]:
    """The name of the commands of moves between host and device."""
    key = [-2, staged]
    for move in moves:
        key += [move.row.kernel == TO_HOST, *move.device, move.nbytes, move.staged]
    return tuple(key)
