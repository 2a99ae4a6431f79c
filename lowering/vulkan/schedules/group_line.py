"""One line of a buffer, which the invocations of a workgroup share out among them.

Each takes every `size`-th element. A short line whose length the types say is read once, into values of its
invocations; a longer one is read again on every walk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import select
from openinfer.lowering.vulkan.schedules.workgroup import Join, Workgroup

MOST_KEPT = 16
"""Elements of a line that an invocation keeps."""
MOST_INVOCATIONS = 512
USUAL_INVOCATIONS = 128
"""For lines whose length only the host knows."""
EACH = 8
"""Elements of a line that an invocation takes, where the line is long enough."""
LINES, MANY = 4, 4096
"""Lines of a workgroup whose subgroups have one each, where there are many: a multiprocessor holds no more
than 32 workgroups, which are half of what it has room for where each is a subgroup."""


def invocations_for(b: LoopBuilder, length: Index) -> int:
    """How many invocations share a line: whole subgroups, a power of two."""
    if not isinstance(length, int):
        return USUAL_INVOCATIONS
    subgroup = b.facts.device_description.subgroup
    size = least = max(subgroup, 32)
    # One subgroup joins what it finds without a barrier.
    if subgroup == least and length <= MOST_KEPT * least:
        return least
    while size < MOST_INVOCATIONS and size * EACH < length:
        size *= 2
    return size


def lines_for(b: LoopBuilder, size: int, count: Index) -> int:
    """How many of `count` lines a workgroup has, where `size` invocations share one."""
    if size != b.facts.device_description.subgroup or not isinstance(count, int):
        return 1
    return LINES if count >= MANY and count % LINES == 0 else 1


def rounds(length: Index, step: int) -> int | None:
    """How often an invocation comes to a line at most, where it takes every `step`-th element."""
    return -(-length // step) if isinstance(length, int) else None


def even_lanes(length: Index, size: int, lanes: int) -> int:
    """How many neighbours of a short line invocations read at once, up to `lanes`, so that all of them have
    equally many; `lanes` where that is not possible."""
    if isinstance(length, int) and length <= MOST_KEPT * size:
        for fewer in (lanes, lanes // 2, lanes // 4):
            if fewer > 1 and length % (size * fewer) == 0:
                return fewer
    return lanes


Load = Callable[[Index, int], list[SSAValue]]
"""The elements from a place of a line on, as many as asked for."""


class GroupLine:
    """The elements of a line. All invocations of the workgroup come to every method."""

    def __init__(
        self, group: Workgroup, length: Index, load: Load, kind: Attribute, lanes: int = 1
    ) -> None:
        """`load` gives elements as values of type `kind`. `lanes` neighbours are read at once; the length is
        a multiple of that."""
        self.b, self.group, self.length, self.kind = group.b, group, length, kind
        self.lanes, self._load = lanes, load
        self._first = self.b.mul(group.thread, lanes) if lanes > 1 else group.thread
        self._kept: list[_Piece] | None = None
        reach = group.size * lanes
        if isinstance(length, int) and length <= MOST_KEPT * group.size:
            self._kept = [self._piece(start, length) for start in range(0, length, reach)]

    def _piece(self, start: int, length: int) -> _Piece:
        b = self.b
        place = b.add(self._first, start)
        if start + self.group.size * self.lanes <= length:
            return _Piece(place, None, self._load(place, self.lanes))
        inside = b.compare("ult", place, length)
        zeros = [b.constant(0, self.kind)] * self.lanes
        found = b.when(
            inside,
            lambda: self._load(place, self.lanes),
            lambda: zeros,
            [self.kind] * self.lanes,
        )
        return _Piece(place, inside, list(found))

    def map(self, change: Callable[[SSAValue], SSAValue]) -> None:
        """Puts something else in the place of every element."""
        if self._kept is not None:
            for piece in self._kept:
                piece.values = [change(value) for value in piece.values]
            return
        load = self._load
        self._load = lambda place, count: [change(value) for value in load(place, count)]

    def fold(
        self, first: float, step: Callable[[SSAValue, SSAValue], SSAValue], join: Join
    ) -> SSAValue:
        """`step(element, so far)` over the elements, from `first`, which changes nothing."""
        b = self.b
        start = b.constant(first, self.kind)

        def over(values: Sequence[SSAValue], found: SSAValue) -> SSAValue:
            for value in values:
                found = step(value, found)
            return found

        if self._kept is None:
            (found,) = b.reduce(
                self._first,
                self.length,
                self.group.size * self.lanes,
                [start],
                lambda k, old: [over(self._load(k, self.lanes), old[0])],
                hint="k",
                rounds=rounds(self.length, self.group.size * self.lanes),
            )
            return self.group.all_reduce(found, join)
        found = start
        for piece in self._kept:
            new = over(piece.values, found)
            found = new if piece.inside is None else select(b, piece.inside, new, found)
        return self.group.all_reduce(found, join)

    def each(self, body: Callable[[SSAValue, list[SSAValue]], None]) -> None:
        """`body(place, elements)` for all elements, `lanes` of them at a time."""
        b = self.b
        if self._kept is None:
            b.loop(
                self._first,
                self.length,
                self.group.size * self.lanes,
                lambda k: body(k, self._load(k, self.lanes)),
                hint="k",
            )
            return
        for piece in self._kept:
            if piece.inside is None:
                body(piece.place, piece.values)
            else:
                b.when(piece.inside, lambda one=piece: body(one.place, one.values))


@dataclass
class _Piece:
    """Neighbours that an invocation keeps."""

    place: SSAValue
    inside: SSAValue | None
    """Whether they are there; None: always."""
    values: list[SSAValue]
