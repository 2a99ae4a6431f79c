"""Results that a caller gets where they lie: the arena is theirs until they let go of them.

Copying a result of megabytes takes a few percent of the time of the step that made it, and so does one
of kilobytes behind a step of microseconds. So `run` hands results out as views of the arena, and the
next step works in another arena while somebody still holds one. Whether that is so shows in the
references to the arena's memory: every NumPy array that lies in it holds one, however it was derived.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from openinfer.runtime.devices.base import Block, Memory
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray

LEAST_BYTES = 1 << 15
"""A smaller result is copied: that costs less than it is worth to think about it."""
LEAST_SHARE = 4
"""Results that are less than this part of the arena are copied: they would hold all of it."""
MOST_HELD = 2
"""Arenas that callers may hold; with so many of them out, results are copied."""

Ways = list[tuple[str, Callable[[], AnyArray] | None]]
"""Results by name, each with what makes the caller's array of it; None: only the executor can."""


@dataclass(frozen=True)
class Room:
    """An arena, views of the outputs in it, and the references to it when nobody else has any."""

    block: Block
    address: int
    views: dict[str, AnyArray]
    copies: Ways
    """How results are copied."""
    loans: Ways
    """How they are handed out where they lie, if they are large enough."""
    owner: object
    """What all arrays that lie in the block refer to; None where the host cannot see it."""
    references: int

    @staticmethod
    def of(
        memory: Memory,
        block: Block,
        views: dict[str, AnyArray],
        results: Iterable[str],
        large: Iterable[str],
    ) -> Room:
        """The room of `block`, where the outputs lie at `views` and `large` may be handed out."""
        copies: Ways = [(n, views[n].copy if n in views else None) for n in results]
        lent = {name: views[name].view for name in large}
        loans: Ways = [(name, lent.get(name, copy)) for name, copy in copies]
        owner = memory.owner(block)
        # Counted from what the room holds, not measured: somebody may hold other arrays in the memory
        # by now, and let go of them later. One is the room's own, one that of the call that asks.
        held = (block, *views.values()) if owner is not None else ()
        references = sum(array.base is owner for array in held) + 2
        return Room(block, memory.address(block), views, copies, loans, owner, references)

    @property
    def held(self) -> bool:
        """Whether there are arrays in it that are not the executor's."""
        return self.owner is not None and sys.getrefcount(self.owner) > self.references


class Rooms:
    """The arenas of an executor: the one that steps work in, and those that callers hold."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._now: Room | None = None
        self._others: list[Room] = []
        self._results: tuple[str, ...] = ()
        self._large: tuple[str, ...] = ()
        """The results that are handed out where they lie."""
        self.lent = False
        """Whether the caller was given parts of the present arena at some time."""

    def lay_out(self, block: Block, views: dict[str, AnyArray], results: Iterable[str]) -> Room:
        """Steps work in `block` from here on, where the outputs lie at `views`."""
        self._results = tuple(results)
        large = [n for n in self._results if n in views and views[n].nbytes >= LEAST_BYTES]
        apart = [n for n in large if _lies_apart(n, views)]
        whole = sum(views[n].nbytes for n in apart)
        self._large = tuple(apart) if whole * LEAST_SHARE >= block.nbytes else ()
        self._others, self.lent = [], False
        self._now = Room.of(self._memory, block, views, self._results, self._large)
        return self._now

    @property
    def taken(self) -> bool:
        """Whether the caller holds parts of the present arena."""
        return self.lent and self._now is not None and self._now.held

    def ways(self) -> Ways:
        """How the results of a step that ended well are handed out."""
        now = self._now
        if now is None:
            return []
        if not self._large:
            return now.copies
        if len(self._others) >= MOST_HELD and all(room.held for room in self._others):
            return now.copies
        self.lent = True
        return now.loans

    def copied(self) -> list[tuple[str, AnyArray]] | None:
        """Where all results lie; None where some are not copied, or not known before the step."""
        views = self._now.views if self._now is not None and not self._large else {}
        return (
            [(n, views[n]) for n in self._results] if views.keys() >= set(self._results) else None
        )

    def move(self, make: Callable[[], Block], look: Callable[[Block], dict[str, AnyArray]]) -> Room:
        """Another arena than the present one, parts of which the caller holds (`taken`).

        `make` allocates an arena, `look` gives its views. What `make` raises leaves all as it is.
        """
        now, others = self._now, self._others
        assert now is not None
        for number, room in enumerate(others):
            if not room.held:
                others[number], self._now = now, room
                break
        else:
            block = make()
            # What is held by the caller alone goes when they let go of it.
            self._others = [*others, now][-MOST_HELD:]
            room = self._now = Room.of(self._memory, block, look(block), self._results, self._large)
        self.lent = False
        return room


def _lies_apart(name: str, views: Mapping[str, AnyArray]) -> bool:
    """Whether an output shares no memory with another one."""
    start = views[name].ctypes.data
    end = start + views[name].nbytes
    return all(
        other == name or view.ctypes.data >= end or view.ctypes.data + view.nbytes <= start
        for other, view in views.items()
    )
