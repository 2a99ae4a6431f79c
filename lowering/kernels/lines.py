"""Access to the elements along one axis, as vectors in the type that they are computed in.

A line is what softmax, a norm or a search goes over: the elements of one axis with all other
indices fixed. When the axis is the last one, vectors lie along the line; else across, and every
lane has a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import AnyFloat, IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.numeric import element_type, is_float, resize_float, select
from openinfer.lowering.kernels.runs import (
    AxisView,
    Extent,
    bank_count,
    each,
    fitting_lanes,
    reduce_run,
    vector_run,
)
from openinfer.runtime.quick_dataclass import dataclass


@dataclass
class Line:
    """The lines of some buffers of one shape at a place, and how to walk them."""

    b: LoopBuilder
    lanes: int
    computed: Attribute
    """The element type of the computation."""
    extent: Extent
    """The number of elements of a line."""
    outer: Index
    inner: Index
    along: bool
    """Whether vectors lie along the line."""
    mask: SSAValue | None = None
    """The lanes that exist, when vectors lie across."""
    unsigned: bool = False
    """Whether integers that are widened have no sign."""

    @property
    def vector(self) -> VectorType:
        return VectorType(self.computed, [self.lanes])

    def constant(self, value: float | int) -> SSAValue:
        return self.b.constant(value, self.vector)

    def load(self, view: AxisView, k: Index, mask: SSAValue | None) -> SSAValue:
        """Elements from position k on (along) or at position k of all lanes (across)."""
        raw = self.b.vload(
            view.buffer, view.at(self.outer, k, self.inner), self.lanes, mask or self.mask
        )
        if is_float(raw):
            return resize_float(self.b, raw, self.computed)
        if element_type(raw) == self.computed or not isinstance(self.computed, IntegerType):
            return raw
        return convert(self.b, raw, self.computed, unsigned=self.unsigned)

    def store(self, value: SSAValue, view: AxisView, k: Index, mask: SSAValue | None) -> None:
        if is_float(value):
            value = resize_float(self.b, value, element_type(view.buffer))
        places = view.at(self.outer, k, self.inner)
        self.b.vstore(value, view.buffer, places, mask or self.mask)

    def reduce(
        self,
        first: Sequence[float | int],
        step: Callable[[SSAValue, SSAValue | None, Sequence[SSAValue]], Sequence[SSAValue]],
        join: Sequence[Callable[[SSAValue, SSAValue], SSAValue]],
        banks: int = 4,
    ) -> tuple[SSAValue, ...]:
        """Accumulates vectors over the line, from constants `first`. Along the line the caller
        still has to combine the lanes; masked lanes keep the old value."""
        start = tuple(self.constant(value) for value in first)
        if not self.along:
            count = self.extent.value(self.b)
            return self.b.reduce(0, count, 1, start, lambda k, v: step(k, None, v), hint="k")

        def guarded(
            k: SSAValue, mask: SSAValue | None, old: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            new = step(k, mask, old)
            if mask is None:
                return new
            return [select(self.b, mask, n, o) for n, o in zip(new, old)]

        width = bank_count(self.b, self.extent, self.lanes, banks)
        results = reduce_run(self.b, self.extent, self.lanes, [start] * width, guarded)
        total = results[0]
        for bank in results[1:]:
            total = tuple(f(x, y) for f, x, y in zip(join, total, bank))
        return total

    def each(self, body: Callable[[SSAValue, SSAValue | None], None]) -> None:
        """All vectors of the line."""
        if self.along:
            vector_run(self.b, self.extent, self.lanes, body, hint="k")
        else:
            self.b.loop(0, self.extent.value(self.b), 1, lambda k: body(k, None), hint="k")


def over_lines(
    b: LoopBuilder,
    view: AxisView,
    lanes: int,
    computed: Attribute,
    body: Callable[[Line], None],
    *,
    unsigned: bool = False,
) -> None:
    """`body` for every line (or vector of lines) of a view; the outermost loop may be parallel.

    With strict mathematics a line of floats is walked element by element: its sums go in order.
    """
    if not view.parts[2] and isinstance(computed, AnyFloat) and b.facts.strict_math:
        lanes = 1
    lanes = fitting_lanes(view.inner if view.parts[2] else view.count, lanes)

    def row(outer: SSAValue) -> None:
        if not view.parts[2]:
            body(Line(b, lanes, computed, view.count, outer, 0, along=True, unsigned=unsigned))
            return

        def chunk(i: SSAValue, mask: SSAValue | None) -> None:
            body(Line(b, lanes, computed, view.count, outer, i, False, mask, unsigned))

        vector_run(b, view.inner, lanes, chunk, parallel=view.outer.static == 1, hint="j")

    each(b, view.outer, row, parallel=True)
