"""One line of a buffer, which the invocations of a workgroup share out among them.

Each takes every `size`-th element. A short line whose length the types say is read once, into values of its
invocations; a longer one is read again on every walk.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import select
from openinfer.lowering.vulkan.schedules.workgroup import Join, Workgroup

MOST_KEPT = 16
"""Elements of a line that an invocation keeps."""
MOST_INVOCATIONS = 256
USUAL_INVOCATIONS = 128
"""For lines whose length only the host knows."""
EACH = 4
"""Elements of a line that an invocation takes, where the line is long enough."""


def invocations_for(b: LoopBuilder, length: Index) -> int:
    """How many invocations share a line: whole subgroups, a power of two."""
    if not isinstance(length, int):
        return USUAL_INVOCATIONS
    least = max(b.facts.device_description.subgroup, 32)
    size = least
    while size < MOST_INVOCATIONS and size * EACH < length:
        size *= 2
    return size


class GroupLine:
    """The elements of a line. All invocations of the workgroup come to every method."""

    def __init__(
        self,
        group: Workgroup,
        length: Index,
        read: Callable[[Index], SSAValue],
        kind: Attribute,
    ) -> None:
        """`read` gives the element at a place of the line, as a value of type `kind`."""
        self.b, self.group, self.length, self.read = group.b, group, length, read
        self.kind = kind
        self._kept: list[tuple[SSAValue, SSAValue | None, SSAValue]] | None = None
        """Place, whether it is inside (None: always), element."""
        if isinstance(length, int) and length <= MOST_KEPT * group.size:
            self._kept = [self._element(start, length) for start in range(0, length, group.size)]

    def _element(self, start: int, length: int) -> tuple[SSAValue, SSAValue | None, SSAValue]:
        b = self.b
        place = b.add(self.group.thread, start)
        if start + self.group.size <= length:
            return place, None, self.read(place)
        inside = b.compare("ult", place, length)
        zero = b.constant(0, self.kind)
        (value,) = b.when(inside, lambda: [self.read(place)], lambda: [zero], [self.kind])
        return place, inside, value

    def fold(
        self, first: float, step: Callable[[SSAValue, SSAValue], SSAValue], join: Join
    ) -> SSAValue:
        """`step(element, so far)` over the elements, from `first`, which changes nothing."""
        b = self.b
        start = b.constant(first, self.kind)
        if self._kept is None:
            (found,) = b.reduce(
                self.group.thread,
                self.length,
                self.group.size,
                [start],
                lambda k, old: [step(self.read(k), old[0])],
                hint="k",
            )
            return self.group.all_reduce(found, join)
        found = start
        for _, inside, value in self._kept:
            new = step(value, found)
            found = new if inside is None else select(b, inside, new, found)
        return self.group.all_reduce(found, join)

    def each(self, body: Callable[[SSAValue, SSAValue], None]) -> None:
        """`body(place, element)` for all elements."""
        b = self.b
        if self._kept is None:
            b.loop(
                self.group.thread,
                self.length,
                self.group.size,
                lambda k: body(k, self.read(k)),
                hint="k",
            )
            return
        for place, inside, value in self._kept:
            if inside is None:
                body(place, value)
            else:
                b.when(inside, lambda place=place, value=value: body(place, value))
