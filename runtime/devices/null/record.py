"""What a step wrote down of its calls: words, `lowering/null/record_calls.py` says which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from openinfer.runtime.devices.base import DeviceCall
from openinfer.runtime.manifest import CallRow
from openinfer.runtime.storage import AnyArray

RECORD_WORDS = 1 << 16
"""The words of a record: about ten thousand calls in a step."""
HEAD = 2


def empty_record() -> AnyArray:
    """A record of no calls."""
    words = np.zeros(RECORD_WORDS, np.int64)
    words[0] = HEAD
    return words


def clear(words: AnyArray) -> None:
    """A step begins."""
    words[0], words[1] = HEAD, 0


def calls_in(words: AnyArray, rows: Sequence[CallRow]) -> list[DeviceCall]:
    """The calls in their order; a last one tells how many found no room."""
    found: list[DeviceCall] = []
    left = iter(words[HEAD : int(words[0])].tolist())
    for number in left:
        row = rows[number]
        sizes = tuple(zip(row.buffers, islice(left, len(row.buffers))))
        found.append(DeviceCall(row.kernel, sizes))
    if words[1]:
        found.append(DeviceCall(f"{words[1]} more", ()))
    return found
