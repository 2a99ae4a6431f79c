"""What a record asks for, taken apart: what stays the same from step to step, and the numbers that do not.

A command buffer is recorded for the first and handed in again with other numbers:

    the same        which kernels and moves, in which order, the places and bytes of their device memory
    numbers         groups and words of each launch, where the host's side of a move lies

A piece is a record, as the host half of a step hands it over. Two records are the same piece where all that
has to stay the same is equal.

A loose piece is for steps that never come twice, as those of a text that grows: its buffers may lie anywhere
in a window of a block, which a kernel is given as a whole, and its moves may be any moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from openinfer.runtime.devices.vulkan.record import EXACT_PLACE, MOVES, TO_DEVICE, TO_HOST
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.manifest import CallRow
from openinfer.runtime.storage import AnyArray

if TYPE_CHECKING:
    from openinfer.runtime.devices.vulkan.native_recording import Packed

GROUPS: Final = 3
"""Numbers of workgroups, which stand in front of the words of a launch."""
LINE: Final = 64
"""Bytes that moves begin at a multiple of, in a staging buffer."""
WHOLE: Final = -1
MOST_BOUND: Final = 1 << 31
"""Bytes of a binding: kernels count elements with 32 bits and a sign."""


def window_of(largest_binding: int) -> int:
    """Bytes between the places where bindings of loose pieces begin; a binding has twice as many, so that
    every buffer of as many bytes lies within one."""
    return 1 << min(largest_binding, MOST_BOUND).bit_length() - 2


@dataclass(frozen=True)
class PieceLaunch:
    """A start of a kernel."""

    row: CallRow
    buffers: tuple[tuple[int, int], ...]
    """Address and bytes of each."""
    numbers: int
    """Where its groups and words stand among the numbers of the piece."""
    loose: tuple[bool, ...] = ()
    """Of each buffer of a loose piece, whether it may lie anywhere in its window; else empty."""

    @property
    def touched(self) -> Sequence[tuple[int, int]]:
        """Addresses and bytes of device memory."""
        return self.buffers


@dataclass(frozen=True)
class PieceMove:
    """Bytes from one place to another."""

    row: CallRow
    device: tuple[int, ...]
    """Addresses of device memory: of the target or the source, of both for a copy within it."""
    host: int | None
    """Which word of the record says where the host's side lies; None for a copy within the device."""
    nbytes: int
    staged: int
    """Where its bytes lie among the staged bytes of the piece."""

    @property
    def touched(self) -> Sequence[tuple[int, int]]:
        """Addresses and bytes of device memory."""
        return [(place, self.nbytes) for place in self.device]


@dataclass
class Firsts:
    """Where buffers begin in their bindings, which only the runtime knows, as numbers of kernels."""

    numbers: AnyArray
    """Which numbers."""
    addresses: AnyArray
    """Which words are the addresses of the buffers."""
    units: AnyArray
    """What their bindings begin at multiples of."""
    elements: AnyArray
    """Bytes of an element."""


@dataclass
class Piece:
    """What a record asks for."""

    number: int
    words: AnyArray
    """The record that it was read from."""
    rows: AnyArray
    """All bits of the words that are rows, none of the others: records that agree in them ask the same of
    other memory."""
    same: AnyArray
    """The bits that have to stay the same."""
    calls: list[PieceLaunch | PieceMove]
    places: list[int]
    """The first word of each move."""
    sources: AnyArray
    """Which word of a record is which number."""
    groups: AnyArray
    """Which numbers are numbers of workgroups."""
    firsts: Firsts
    sizes: AnyArray
    """Which words are sizes of buffers that may differ."""
    window: int
    """Bytes of a window; 0 for a piece that is not loose."""

    def __post_init__(self) -> None:
        self._moves = [call for call in self.calls if isinstance(call, PieceMove)]
        self.runs: list[tuple[list[PieceMove], list[PieceLaunch]]] = []
        """Its calls in order: moves behind each other, or launches."""
        for _, calls in groupby(self.calls, type):
            run = list(calls)
            moves = [one for one in run if isinstance(one, PieceMove)]
            launches = [one for one in run if isinstance(one, PieceLaunch)]
            self.runs.append((moves, launches))
        self.packed: dict[tuple[int, frozenset[int]], Packed] = {}
        """Its runs as machine code records them, once it has, `WHOLE` for all of them; without moves that go
        straight."""
        self._staged = sum(map(_room_of, self._moves))

    @property
    def loose(self) -> bool:
        """Whether its buffers may lie anywhere in their windows, and its moves are any moves."""
        return self.window > 0

    def is_like(self, words: AnyArray) -> bool:
        """Whether a record, as long as this one, is the same piece."""
        if ((words ^ self.words) & self.same).any():
            return False
        return not self.loose or not self.sizes.size or words[self.sizes].max() <= self.window

    def asks_the_same(self, words: AnyArray) -> bool:
        """Whether a record, as long as this one, has the same rows."""
        return not ((words ^ self.words) & self.rows).any()

    def moves(self, words: AnyArray) -> tuple[list[PieceMove], int]:
        """The moves of a record that is like this one, and their bytes in a staging buffer."""
        if not self.loose:
            return self._moves, self._staged
        found: list[PieceMove] = []
        staged = 0
        for one, at in zip(self._moves, self.places, strict=True):
            found.append(_move(one.row, words, at, staged))
            staged += _room_of(found[-1])
        return found, staged

    def same_with_moves(self, moves: Sequence[PieceMove]) -> AnyArray:
        """The bits of a record that have to stay the same where its moves are to be `moves`."""
        if not self.loose:
            return self.same
        same = self.same.copy()
        for move, at in zip(moves, self.places, strict=True):
            same[at : at + 3] = -1
            if move.host is not None:
                same[move.host] = 0
        return same

    def numbers(self, words: AnyArray) -> AnyArray:
        """The numbers of a record that is like this one."""
        found, firsts = words[self.sources].astype(np.uint32), self.firsts
        found[firsts.numbers] = words[firsts.addresses] % firsts.units // firsts.elements
        return found


@dataclass
class Asked:
    """A piece that a step asks for."""

    piece: Piece
    numbers: int
    """Where its numbers begin."""
    staged: int
    """Where its bytes begin in the staging buffer."""
    moves: Sequence[PieceMove]
    words: AnyArray
    """The record."""
    at: int
    """When it was asked for, on the monotonic clock."""
    straight: Mapping[int, int] = field(default_factory=dict[int, int])
    """Moves, by number, that the host makes before any command runs, and where it finds their memory: they
    need no command."""


def early_moves(before: Sequence[Piece], piece: Piece, most: int) -> Iterator[tuple[int, int]]:
    """The moves to the device of a piece, by number, with the addresses of their targets, that may as well be
    made before any command: none in front of them, of the pieces `before` and its own, touches their target.
    Of up to `most` bytes."""
    touched = [range_ for one in before for call in one.calls for range_ in call.touched]
    number = -1
    for call in piece.calls:
        if isinstance(call, PieceMove):
            number += 1
            if call.row.kernel == TO_DEVICE and 0 < call.nbytes <= most:
                (start,) = call.device
                stop = start + call.nbytes
                if not any(a < stop and start < a + nbytes for a, nbytes in touched):
                    yield number, start
                    continue
        touched += call.touched


def read_piece(
    words: AnyArray, rows: Sequence[CallRow], number: int, alignment: int, window: int = 0
) -> Piece:
    """The piece that a record is, loose where there is a `window`. `words` is what is in use of the record,
    without its head; bindings begin at multiples of `alignment`."""
    reading = _Reading(words, rows, alignment, window)
    while reading.at < len(words):
        reading.call()
    firsts = np.array(reading.firsts, np.int64).reshape(-1, 4).T
    return Piece(
        number,
        words.copy(),
        reading.row_words,
        reading.same,
        reading.calls,
        reading.places,
        np.array(reading.sources, np.intp),
        np.array(reading.groups, np.intp),
        Firsts(*firsts),
        np.array(reading.sizes, np.intp),
        window,
    )


class _Reading:
    """A walk over the words of a record."""

    def __init__(
        self, words: AnyArray, rows: Sequence[CallRow], alignment: int, window: int
    ) -> None:
        self.words, self.rows, self.alignment, self.window = words, rows, alignment, window
        self.at = self.staged = 0
        self.same = np.full(len(words), -1, np.int64)
        self.row_words = np.zeros(len(words), np.int64)
        self.calls: list[PieceLaunch | PieceMove] = []
        self.places: list[int] = []
        self.sources: list[int] = []
        self.groups: list[int] = []
        self.firsts: list[tuple[int, int, int, int]] = []
        self.sizes: list[int] = []

    def call(self) -> None:
        """Reads a call."""
        row = self.rows[int(self.words[self.at])]
        self.row_words[self.at] = -1
        self.at += 1
        if row.kernel in MOVES:
            self._move(row)
        else:
            self._launch(row)

    def _move(self, row: CallRow) -> None:
        move = _move(row, self.words, self.at, self.staged)
        if self.window:
            self.same[self.at : self.at + 3] = 0
        elif move.host is not None:
            self.same[move.host] = 0
        if move.nbytes or self.window:
            self.calls.append(move)
            self.places.append(self.at)
            self.staged += _room_of(move)
        self.at += 3

    def _launch(self, row: CallRow) -> None:
        start = len(self.sources)
        self.groups += range(start, start + GROUPS)
        self._numbers(GROUPS)
        buffers: list[tuple[int, int]] = []
        loose: list[bool] = []
        for place, element in zip(row.places, row.elements, strict=True):
            address, nbytes = (int(word) for word in self.words[self.at : self.at + 2])
            buffers.append((address, nbytes))
            unit, exact = self.alignment, place == EXACT_PLACE
            if exact:
                _check_exact(row, address, unit)
            if self.window and exact:
                loose.append(False)
            elif self.window:
                loose.append(nbytes <= self.window)
                if loose[-1]:
                    unit = self.window
                    self.same[self.at : self.at + 2] = -self.window, 0
                    self.sizes.append(self.at + 1)
            if not exact:
                self.firsts.append((start + GROUPS + place, self.at, unit, element))
            self.at += 2
        self._numbers(row.words)
        self.calls.append(PieceLaunch(row, tuple(buffers), start, tuple(loose)))

    def _numbers(self, count: int) -> None:
        """The next words are numbers."""
        self.sources += range(self.at, self.at + count)
        self.same[self.at : self.at + count] = 0
        self.at += count


def _check_exact(row: CallRow, address: int, alignment: int) -> None:
    if address % alignment:
        raise UnsupportedError(
            "OI0773",
            f"the kernel {row.kernel} was compiled for a device that binds buffers at other multiples than "
            f"of {alignment} bytes",
            hint="compile it on this machine, or anywhere with OPENINFER_VULKAN_TIER=scalar",
        )


def _move(row: CallRow, words: AnyArray, at: int, staged: int) -> PieceMove:
    """A move whose words begin at `at`."""
    source, target, nbytes = (int(word) for word in words[at : at + 3])
    if row.kernel == TO_DEVICE:
        return PieceMove(row, (target,), at, nbytes, staged)
    if row.kernel == TO_HOST:
        return PieceMove(row, (source,), at + 1, nbytes, staged)
    return PieceMove(row, (source, target), None, nbytes, staged)


def _room_of(move: PieceMove) -> int:
    """Bytes that a move takes of a staging buffer."""
    return 0 if move.host is None else move.nbytes + -move.nbytes % LINE
