"""What a record asks for, taken apart: what stays the same from step to step, and the numbers that do not.

A command buffer is recorded for the first and handed in again with other numbers:

    the same        which kernels and moves, in which order, the places and bytes of their device memory
    numbers         groups and words of each launch, where the host's side of a move lies

A piece is a record, as the host half of a step hands it over. Two records are the same piece where all that
has to stay the same is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from openinfer.runtime.devices.vulkan.record import MOVES, TO_DEVICE, TO_HOST
from openinfer.runtime.manifest import CallRow
from openinfer.runtime.storage import AnyArray

GROUPS: Final = 3
"""Numbers of workgroups, which stand in front of the words of a launch."""
LINE: Final = 64
"""Bytes that moves begin at a multiple of, in a staging buffer."""


@dataclass(frozen=True)
class PieceLaunch:
    """A start of a kernel."""

    row: CallRow
    buffers: tuple[tuple[int, int], ...]
    """Address and bytes of each."""
    numbers: int
    """Where its groups and words stand among the numbers of the piece."""


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
    """Where its bytes lie among those that the piece has in a staging buffer."""


@dataclass
class Piece:
    """What a record asks for."""

    number: int
    words: AnyArray
    """The record that it was read from."""
    same: AnyArray
    """Of each word, whether it has to stay the same (all bits, or none)."""
    calls: list[PieceLaunch | PieceMove]
    sources: AnyArray
    """Which word of a record is which number."""
    groups: AnyArray
    """Which numbers are numbers of workgroups."""
    staged: int
    """Bytes in a staging buffer."""
    fixed_places: AnyArray = field(default_factory=lambda: np.zeros(0, np.intp))
    fixed: AnyArray = field(default_factory=lambda: np.zeros(0, np.uint32))
    """Numbers that the runtime fills in, and which they are."""

    def __post_init__(self) -> None:
        self.moves = [call for call in self.calls if isinstance(call, PieceMove)]

    def is_like(self, words: AnyArray) -> bool:
        """Whether a record, as long as this one, is the same piece."""
        return not ((words ^ self.words) & self.same).any()


def read_piece(words: AnyArray, rows: Sequence[CallRow], number: int) -> Piece:
    """The piece that a record is. `words` is what is in use of it, without its head."""
    same = np.full(len(words), -1, np.int64)
    calls: list[PieceLaunch | PieceMove] = []
    sources: list[int] = []
    groups: list[int] = []
    staged = at = 0
    while at < len(words):
        row = rows[int(words[at])]
        at += 1
        if row.kernel in MOVES:
            move = _move(row, words, at, same, staged)
            at += 3
            if move.nbytes:
                calls.append(move)
                staged += 0 if move.host is None else move.nbytes + -move.nbytes % LINE
            continue
        start = len(sources)
        groups += range(start, start + GROUPS)
        sources += range(at, at + GROUPS)
        same[at : at + GROUPS] = 0
        at += GROUPS
        given = [int(word) for word in words[at : at + 2 * len(row.buffers)]]
        at += len(given)
        sources += range(at, at + row.words)
        same[at : at + row.words] = 0
        at += row.words
        calls.append(PieceLaunch(row, tuple(zip(given[::2], given[1::2])), start))
    whole = np.array(sources, np.intp), np.array(groups, np.intp)
    return Piece(number, words.copy(), same, calls, *whole, staged)


def _move(row: CallRow, words: AnyArray, at: int, same: AnyArray, staged: int) -> PieceMove:
    """A move whose words begin at `at`."""
    source, target, nbytes = (int(word) for word in words[at : at + 3])
    if row.kernel == TO_DEVICE:
        same[at] = 0
        return PieceMove(row, (target,), at, nbytes, staged)
    if row.kernel == TO_HOST:
        same[at + 1] = 0
        return PieceMove(row, (source,), at + 1, nbytes, staged)
    return PieceMove(row, (source, target), None, nbytes, staged)
