"""The memory of a driver: taken from it in chunks, given away in parts of them.

A driver gives a few thousand pieces of memory at most, and takes its time for each. What is large has a
chunk of its own; the rest shares chunks, each as large as all before it of its kind, within bounds.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from openinfer.runtime.locks import new_lock

LEAST_CHUNK: Final = 4 << 20
MOST_CHUNK: Final = 64 << 20
"""Bytes of a chunk that is shared."""
LARGE: Final = MOST_CHUNK // 4
"""What has so many bytes has a chunk of its own."""


@dataclass(eq=False)
class Chunk:
    """A piece of memory as the driver gave it."""

    memory: Any
    kind: int
    """The number of its memory type."""
    nbytes: int
    mapped: int
    """Its address in this process, or 0."""
    shared: bool = False
    free: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Start and end of what nobody has, in order."""

    def __post_init__(self) -> None:
        self.free = [(0, self.nbytes)]

    @property
    def unused(self) -> bool:
        return self.free == [(0, self.nbytes)]

    def take(self, nbytes: int, alignment: int) -> int | None:
        """Where the first free bytes begin; None where there are none."""
        for number, (start, stop) in enumerate(self.free):
            first = start + -start % alignment
            if first + nbytes <= stop:
                rest = [(start, first), (first + nbytes, stop)]
                self.free[number : number + 1] = [(a, b) for a, b in rest if a < b]
                return first
        return None

    def give(self, start: int, nbytes: int) -> None:
        """These bytes are free again."""
        insort(self.free, (start, start + nbytes))
        joined: list[tuple[int, int]] = []
        for first, last in self.free:
            if joined and joined[-1][1] == first:
                first = joined.pop()[0]
            joined.append((first, last))
        self.free = joined


@dataclass(frozen=True)
class Part:
    """Bytes of a chunk."""

    chunk: Chunk
    start: int
    nbytes: int

    @property
    def mapped(self) -> int:
        """Their address in this process, or 0."""
        return self.chunk.mapped and self.chunk.mapped + self.start


class Chunks:
    """The chunks of a device."""

    def __init__(
        self, allocate: Callable[[int, int], Chunk], release: Callable[[Chunk], object]
    ) -> None:
        """`allocate` asks the driver for a chunk of a kind, `release` gives one back."""
        self._allocate, self._release = allocate, release
        self.chunks: list[Chunk] = []
        self._lock = new_lock()
        self._busy = False
        self._given: deque[Part] = deque()
        """What came back and is not free yet: the collector may run anywhere, in here too."""

    def take(self, kind: int, nbytes: int, alignment: int) -> Part:
        """Bytes, at least one, of a kind of memory. Raises what `allocate` raises."""
        with self._lock:
            self._sweep()
            self._busy = True
            try:
                return self._take(kind, nbytes, alignment)
            finally:
                self._busy = False
                self._sweep()

    def _take(self, kind: int, nbytes: int, alignment: int) -> Part:
        if nbytes >= LARGE:
            return self._part_of_new(kind, nbytes, nbytes, shared=False)
        for chunk in self.chunks:
            if chunk.kind == kind and chunk.shared:
                start = chunk.take(nbytes, alignment)
                if start is not None:
                    return Part(chunk, start, nbytes)
        there = sum(one.nbytes for one in self.chunks if one.kind == kind and one.shared)
        whole = max(min(max(there, LEAST_CHUNK), MOST_CHUNK), nbytes)
        try:
            return self._part_of_new(kind, whole, nbytes, shared=True)
        except MemoryError:
            return self._part_of_new(kind, nbytes, nbytes, shared=False)

    def _part_of_new(self, kind: int, whole: int, nbytes: int, *, shared: bool) -> Part:
        try:
            chunk = self._allocate(kind, whole)
        except MemoryError:
            if not self._drop([one for one in self.chunks if one.unused]):
                raise
            chunk = self._allocate(kind, whole)
        chunk.shared = shared
        self.chunks.append(chunk)
        chunk.take(nbytes, 1)
        return Part(chunk, 0, nbytes)

    def give(self, part: Part) -> None:
        """Nobody has these bytes any more."""
        self._given.append(part)
        # Where somebody is at work, another thread or this one further up, they are free a little later.
        if self._lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self._lock.release()

    def end(self) -> None:
        """Gives everything back to the driver."""
        self._drop(list(self.chunks))

    def _sweep(self) -> None:
        """Frees what came back, and gives chunks back to the driver; one of a kind is kept."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._given:
                part = self._given.popleft()
                part.chunk.give(part.start, part.nbytes)
                if part.chunk.unused and not self._is_kept(part.chunk):
                    self._drop([part.chunk])
        finally:
            self._busy = False

    def _is_kept(self, chunk: Chunk) -> bool:
        """Whether an unused chunk is the only one of its kind that others may share."""
        return chunk.shared and not any(
            one.kind == chunk.kind and one.shared and one.unused and one is not chunk
            for one in self.chunks
        )

    def _drop(self, chunks: list[Chunk]) -> bool:
        """Gives chunks back to the driver; whether there were any."""
        for chunk in chunks:
            self.chunks.remove(chunk)
            self._release(chunk)
        return bool(chunks)
