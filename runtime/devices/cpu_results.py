"""Results that a caller gets where they lie: the arena is theirs until they let go of them.

Copying a result of megabytes takes a few percent of the time of the step that made it. So `run` hands
large results out as views of the arena, and the next step works in another arena while somebody still
holds one. Whether that is so shows in the references to the arena's memory: every NumPy array that lies
in it holds one, however it was derived.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from openinfer.runtime.storage import AnyArray

LEAST_BYTES = 1 << 18
"""A smaller result is copied: that costs less than it is worth to think about it."""
LEAST_SHARE = 4
"""Results that are less than this part of the arena are copied: they would hold all of it."""
MOST_HELD = 2
"""Arenas that callers may hold; with so many of them out, results are copied."""


@dataclass(frozen=True)
class _Room:
    """An arena, views of the outputs in it, and the references to it when nobody else has any."""

    memory: AnyArray
    views: dict[str, AnyArray]
    references: int

    @staticmethod
    def of(memory: AnyArray, views: dict[str, AnyArray]) -> _Room:
        return _Room(memory, views, _references(memory))

    @property
    def held(self) -> bool:
        return _references(self.memory) > self.references


def _references(memory: AnyArray) -> int:
    return sys.getrefcount(memory.base)


class Rooms:
    """The arenas of an executor: the one that steps work in, and those that callers hold."""

    def __init__(self) -> None:
        self._now: _Room | None = None
        self._others: list[_Room] = []
        self.names: tuple[str, ...] = ()
        """The results that are handed out where they lie."""
        self.lent = False
        """Whether the caller was given parts of the present arena."""

    def lay_out(self, memory: AnyArray, views: dict[str, AnyArray], results: Iterable[str]) -> None:
        """Steps work in `memory` from here on, where the outputs lie at `views`."""
        self._now, self._others, self.lent = _Room.of(memory, views), [], False
        large = [n for n in results if n in views and views[n].nbytes >= LEAST_BYTES]
        apart = [n for n in large if _lies_apart(n, views)]
        whole = sum(views[n].nbytes for n in apart)
        self.names = tuple(apart) if whole * LEAST_SHARE >= memory.nbytes else ()

    @property
    def taken(self) -> bool:
        """Whether the caller holds parts of the present arena."""
        return self.lent and self._now is not None and self._now.held

    def lend(self) -> Mapping[str, AnyArray]:
        """The results by name, where they lie; none when callers hold too much already."""
        now = self._now
        if now is None or sum(room.held for room in self._others) >= MOST_HELD:
            return {}
        self.lent = True
        return {name: now.views[name].view() for name in self.names}

    def free(
        self, make: Callable[[], AnyArray], look: Callable[[AnyArray], dict[str, AnyArray]]
    ) -> tuple[AnyArray, dict[str, AnyArray]] | None:
        """Another arena and its views, when the caller holds parts of the present one.

        `make` allocates an arena, `look` gives its views. What `make` raises leaves all as it is.
        """
        now = self._now
        if now is None or not self.taken:
            self.lent = False
            return None
        for number, room in enumerate(self._others):
            if not room.held:
                self._others[number], self._now = now, room
                break
        else:
            memory = make()
            # What is held by the caller alone goes when they let go of it.
            self._others = [*self._others, now][-MOST_HELD:]
            self._now = _Room.of(memory, look(memory))
        self.lent = False
        return self._now.memory, self._now.views


def _lies_apart(name: str, views: Mapping[str, AnyArray]) -> bool:
    """Whether an output shares no memory with another one."""
    start = views[name].ctypes.data
    end = start + views[name].nbytes
    return all(
        other == name or view.ctypes.data >= end or view.ctypes.data + view.nbytes <= start
        for other, view in views.items()
    )
