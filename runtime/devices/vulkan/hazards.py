"""Which commands must wait for those before them: ranges of bytes that meet, one of them written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Range(NamedTuple):
    """Bytes of a buffer that a command reads, or writes (and may read)."""

    buffer: object
    start: int
    stop: int
    written: bool


class Hazards:
    """The ranges of the commands since the last barrier."""

    def __init__(self) -> None:
        self._since: dict[object, list[Range]] = {}

    def needs_barrier(self, ranges: Sequence[Range], *, anyway: bool = False) -> bool:
        """Whether a barrier stands in front of a command with these ranges, where none is put there `anyway`;
        takes them down."""
        touched = [one for one in ranges if one.start < one.stop]
        needed = anyway or any(self._meets(one) for one in touched)
        if needed:
            self._since.clear()
        for one in touched:
            self._since.setdefault(one.buffer, []).append(one)
        return needed

    def _meets(self, one: Range) -> bool:
        return any(
            (one.written or other.written) and one.start < other.stop and other.start < one.stop
            for other in self._since.get(one.buffer, ())
        )
