"""What a step wrote down for its device: words of 64 bits, `lowering/vulkan/lower_dispatches.py` says which.

    words[0]        how many words are in use
    words[1:]       calls one behind the other; the first word of a call is its row in the manifest

A launch has three numbers of workgroups, address and bytes of each buffer, and the words of the kernel;
a move has the addresses of source and target, and the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from openinfer.runtime.manifest import CallRow
from openinfer.runtime.storage import AnyArray

RECORD_WORDS: Final = 1 << 16
USED: Final = 0
HEAD: Final = 1
SUBMIT: Final = "openinfer_submit"
"""The function that steps call when the runtime has to read the record."""
TO_DEVICE, TO_HOST, COPY = "transfer to device", "transfer to host", "copy"
"""Rows that move bytes."""
MOVES: Final = frozenset({TO_DEVICE, TO_HOST, COPY})


class Move(NamedTuple):
    """Bytes from one place to another."""

    row: CallRow
    source: int
    target: int
    nbytes: int


class Launch(NamedTuple):
    """A start of a kernel."""

    row: CallRow
    groups: tuple[int, int, int]
    buffers: tuple[tuple[int, int], ...]
    """Address and bytes of each."""
    words: list[int]


def empty_record() -> AnyArray:
    """A record of no calls."""
    words = np.zeros(RECORD_WORDS, np.int64)
    words[USED] = HEAD
    return words


def calls_in(words: AnyArray, rows: Sequence[CallRow]) -> Iterator[Move | Launch]:
    """The calls in their order."""
    left = iter(words[HEAD : int(words[USED])].tolist())
    for number in left:
        row = rows[number]
        if row.kernel in MOVES:
            yield Move(row, next(left), next(left), next(left))
            continue
        groups = (next(left), next(left), next(left))
        buffers = tuple((next(left), next(left)) for _ in row.buffers)
        yield Launch(row, groups, buffers, [next(left) for _ in range(row.words)])
