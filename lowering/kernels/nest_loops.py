"""The loops of a nest: what becomes vectors, where sums are kept, what may run in parallel.

Five forms, the first that fits:

- vectors along a parallel dimension; sums over the reductions stay in registers inside;
- vectors along a reduction, several accumulators that are combined at the end;
- squares that are turned in registers, without reductions (`squares.py`);
- scalar loops with the sums in registers;
- scalar loops that read and write the outputs at every point, for any nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.nest import Access, Nest
from openinfer.lowering.kernels.numeric import positions, reduction, select
from openinfer.lowering.kernels.runs import bank_count, fitting_lanes, reduce_run, vector_run
from openinfer.lowering.kernels.squares import Square, over_squares, turned
from openinfer.runtime.quick_dataclass import dataclass

Values = Sequence[SSAValue]
Body = Callable[[LoopBuilder, Values, Values, Callable[[int], SSAValue]], Values]
"""Inputs, old outputs, the index of a dimension → new outputs; all scalars, or vectors allowed."""


@dataclass(frozen=True)
class Combiner:
    """How a reduction joins two partial results; any order gives the same up to rounding."""

    kind: str
    """As `vector.reduction` names it."""
    join: Callable[[SSAValue, SSAValue], Operation]
    identity: float | int


@dataclass
class Kernel:
    """A nest with its body and what the schedule wants to know about it."""

    nest: Nest
    body: Body
    lanes: int
    reads_output: Sequence[bool]
    """Whether the body uses the old value of each output."""
    combiners: Sequence[Combiner | None]
    """How each output is accumulated; None when the body does something else with the old value."""
    vectorisable: bool = True
    """Whether the body can be built on vectors."""
    weight: int = 1
    """About how many instructions the body has."""


def emit_kernel(b: LoopBuilder, kernel: Kernel) -> None:
    """Builds the loops of a kernel. The nest may have been simplified before."""
    for access in kernel.nest.accesses:
        access.materialise(b)
    NestEmitter(b, kernel).emit()


@dataclass
class NestEmitter:
    """Builds the loops of a kernel, or the work of one point of it."""

    b: LoopBuilder
    kernel: Kernel
    at: list[Index | None] = field(init=False)
    """The current index of each dimension; None outside of its loop."""

    def __post_init__(self) -> None:
        self.nest = self.kernel.nest
        self.lanes = self.kernel.lanes
        self.at = [None] * len(self.nest.extents)
        live = self.nest.live_dims()
        self.reductions = [d for d in live if self.nest.reduces[d]]
        first = self.nest.outputs[0]
        places = {d: first.axis_of(d) for d in live}
        # In the order of the output, so that stores walk through memory.
        self.parallel = sorted(
            (d for d in live if not self.nest.reduces[d]),
            key=lambda d: len(first.indices) if places[d] is None else places[d] or 0,
        )

    # Choice

    def emit(self) -> None:
        if any(out.uses(d) for out in self.nest.outputs for d in self.reductions):
            self.point_by_point()
            return
        parallel, along_reduction = self.vector_dims()
        if parallel is not None:
            self.vectors_along_parallel(parallel)
        elif along_reduction is not None and not self.b.facts.strict_math:
            self.vectors_along_reduction(along_reduction)
        elif (square := self.square()) is not None:
            self.squares(square)
        else:
            self.scalars()

    def vector_dims(self) -> tuple[int | None, int | None]:
        """The parallel dimension, or else the reduction, that can become vectors."""
        if not self.kernel.vectorisable:
            return None, None
        parallel = next((d for d in self.parallel if self.fits(d)), None)
        reduction = next((d for d in self.reductions if self.fits(d)), None)
        if None in self.kernel.combiners:
            reduction = None
        if parallel is not None and reduction is not None:
            # Both fit: vectors are for what the inputs hold side by side.
            if any(access.has_unit_stride(parallel) for access in self.nest.inputs):
                return parallel, None
            return None, reduction
        return parallel, reduction

    def fits(self, dim: int) -> bool:
        """Whether every buffer lies side by side along the dimension or does not depend on it."""
        accesses = self.nest.inputs if self.nest.reduces[dim] else self.nest.accesses
        sides = [access.has_unit_stride(dim) for access in accesses]
        return any(sides) and all(
            side or not access.uses(dim) for side, access in zip(sides, accesses)
        )

    def square(self) -> Square | None:
        """What can be computed in squares."""
        if not self.kernel.vectorisable or self.reductions:
            return None
        return Square.of(self.nest, self.parallel, self.lanes, self.kernel.weight)

    # Loops

    def over(self, dims: Sequence[int], inner: Callable[[], None], outermost: bool = True) -> None:
        """Loops over parallel dimensions; the outermost one may run on several threads."""
        if not dims:
            inner()
            return

        def body(i: SSAValue) -> None:
            self.at[dims[0]] = i
            self.over(dims[1:], inner, outermost=False)

        parallel = outermost and not self.nest.reduces[dims[0]]
        self.b.loop(0, self.nest.extents[dims[0]].value(self.b), 1, body, parallel=parallel)

    def reduce_over(
        self, dims: Sequence[int], carried: Values, inner: Callable[[Values], Values]
    ) -> Values:
        """Loops over reductions that carry values."""
        if not dims:
            return inner(carried)

        def body(i: SSAValue, values: Values) -> Values:
            self.at[dims[0]] = i
            return self.reduce_over(dims[1:], values, inner)

        extent = self.nest.extents[dims[0]].value(self.b)
        return self.b.reduce(0, extent, 1, carried, body, hint="k")

    # Elements

    def load(self, access: Access) -> SSAValue:
        if access.kind is None:
            return access.value
        return self.b.load(access.value, access.at(self.b, self.at))

    def load_vector(self, access: Access, dim: int, mask: SSAValue | None) -> SSAValue:
        """A vector along `dim`; one element in all lanes when the buffer does not depend on it."""
        lanes = self.lanes
        if not access.uses(dim):
            return self.b.splat(self.load(access), lanes)
        return self.b.vload(access.value, access.at(self.b, self.at), lanes, mask)

    def store(self, value: SSAValue, access: Access, mask: SSAValue | None = None) -> None:
        indices = access.at(self.b, self.at)
        if isinstance(value.type, VectorType):
            self.b.vstore(value, access.value, indices, mask)
        else:
            self.b.store(value, access.value, indices)

    def compute(self, inputs: Values, outputs: Values, vector_dim: int | None = None) -> Values:
        def index(dim: int) -> SSAValue:
            value = self.b.index(0 if (now := self.at[dim]) is None else now)
            return positions(self.b, value, self.lanes) if dim == vector_dim else value

        results = self.kernel.body(self.b, inputs, outputs, index)
        if vector_dim is None:
            return results
        lanes = self.lanes
        return [r if isinstance(r.type, VectorType) else self.b.splat(r, lanes) for r in results]

    # Forms

    def point_by_point(self) -> None:
        def point() -> None:
            inputs = [self.load(access) for access in self.nest.inputs]
            outputs = [self.load(access) for access in self.nest.outputs]
            for value, access in zip(self.compute(inputs, outputs), self.nest.outputs):
                self.store(value, access)

        self.over([*self.parallel, *self.reductions], point)

    def scalars(self) -> None:
        self.over(self.parallel, self.scalar_point)

    def scalar_point(self) -> None:
        """One point of the parallel dimensions, with scalar loops over the reductions."""
        outputs = self.old_outputs(self.load)

        def inner(values: Values) -> Values:
            return self.compute([self.load(a) for a in self.nest.inputs], values)

        for value, access in zip(
            self.reduce_over(self.reductions, outputs, inner), self.nest.outputs
        ):
            self.store(value, access)

    def old_outputs(self, load: Callable[[Access], SSAValue]) -> list[SSAValue]:
        """The values that the outputs hold, as far as they matter; else the first thing at hand."""
        values: list[SSAValue] = []
        for access, read in zip(self.nest.outputs, self.kernel.reads_output):
            if read or self.reductions:
                values.append(load(access))
            else:
                # The body never looks at it.
                values.append(access.value)
        return values

    def vectors_along_parallel(self, dim: int) -> None:
        outer = [d for d in self.parallel if d != dim]
        extent = self.nest.extents[dim]
        lanes = self.lanes = fitting_lanes(extent, self.lanes)
        width = 1
        if self.reductions:
            # Several vectors side by side, so that their sums need not wait for each other.
            width = next(w for w in (4, 3, 2, 1) if w == 1 or extent.known % (w * lanes) == 0)

        def row() -> None:
            fixed = {
                number: self.b.splat(self.load(access), lanes)
                for number, access in enumerate(self.nest.inputs)
                if not any(access.uses(d) for d in (dim, *self.reductions))
            }

            def chunk(start: SSAValue, mask: SSAValue | None) -> None:
                self.vectors_at(dim, start, mask, width, fixed)

            size = width * lanes
            vector_run(self.b, extent, size, chunk, parallel=not outer, hint="j")

        self.over(outer, row)

    def vectors_at(
        self,
        dim: int,
        start: SSAValue,
        mask: SSAValue | None,
        width: int,
        fixed: dict[int, SSAValue],
    ) -> None:
        """`width` vectors from `start` on, with the reductions inside."""
        lanes, count = self.lanes, len(self.nest.outputs)

        def load(access: Access) -> SSAValue:
            return self.load_vector(access, dim, mask)

        def one(values: Values) -> Values:
            inputs = [
                fixed[number] if number in fixed else load(access)
                for number, access in enumerate(self.nest.inputs)
            ]
            return self.compute(inputs, values, dim)

        starts = [self.b.add(start, u * lanes) for u in range(width)]
        old: list[SSAValue] = []
        for place in starts:
            self.at[dim] = place
            old += self.old_outputs(load)

        def side_by_side(values: Values) -> Values:
            new: list[SSAValue] = []
            for u, place in enumerate(starts):
                self.at[dim] = place
                new += one(values[u * count : (u + 1) * count])
            return new

        # Without reductions the body runs once, on what may not even be loaded.
        new = self.reduce_over(self.reductions, old, side_by_side)
        for u, place in enumerate(starts):
            self.at[dim] = place
            for value, access in zip(new[u * count : (u + 1) * count], self.nest.outputs):
                self.store(value, access, mask)

    def squares(self, square: Square) -> None:
        along, across, side = square.along, square.across, square.side
        outer = [d for d in self.parallel if d not in (along, across)]
        extents = [self.nest.extents[d].static for d in (across, along)]
        rows, columns = (extent or 0 for extent in extents)
        self.lanes = side

        def one(row: tuple[SSAValue, int], column: tuple[SSAValue, int]) -> None:
            (first_row, rows), (first, count) = row, column
            down = None if rows == side else self.b.mask(rows, side)
            right = None if count == side else self.b.mask(count, side)

            def read(access: Access, number: Index) -> SSAValue:
                self.at[across], self.at[along] = first_row, self.b.plus(first, number)
                return self.b.vload(access.value, access.at(self.b, self.at), side, down)

            turns = {
                number: turned(self.b, side, count, partial(read, access))
                for number, access in enumerate(self.nest.inputs)
                if access.kind is not None and square.turns(access)
            }
            self.at[along] = first
            for number in range(rows):
                self.at[across] = self.b.plus(first_row, number)
                inputs = [
                    turns[place][number]
                    if place in turns
                    else self.load_vector(access, along, right)
                    for place, access in enumerate(self.nest.inputs)
                ]
                old = self.old_outputs(lambda access: self.load_vector(access, along, right))
                for value, access in zip(self.compute(inputs, old, along), self.nest.outputs):
                    self.store(value, access, right)

        self.over(
            outer,
            lambda: over_squares(self.b, square, (rows, columns), one, parallel=not outer),
        )

    def vectors_along_reduction(self, dim: int) -> None:
        others = [d for d in self.reductions if d != dim]
        extent = self.nest.extents[dim]
        lanes = self.lanes = fitting_lanes(extent, self.lanes)
        width = bank_count(self.b, extent, lanes)
        combiners = [c for c in self.kernel.combiners if c is not None]

        def step(start: SSAValue, mask: SSAValue | None, old: Values) -> Values:
            self.at[dim] = start
            inputs = [self.load_vector(access, dim, mask) for access in self.nest.inputs]
            new = self.compute(inputs, old, dim)
            if mask is None:
                return new
            return [select(self.b, mask, n, o) for n, o in zip(new, old)]

        def run(values: Values) -> Values:
            count = len(combiners)
            banks = [values[u * count : (u + 1) * count] for u in range(width)]
            return [v for bank in reduce_run(self.b, extent, lanes, banks, step) for v in bank]

        def element() -> None:
            bank = [
                self.b.constant(c.identity, _vector_of(access, lanes))
                for c, access in zip(combiners, self.nest.outputs)
            ]
            values = self.reduce_over(others, bank * width, run)
            for number, (combiner, access) in enumerate(zip(combiners, self.nest.outputs)):
                total = values[number]
                for other in values[number + len(combiners) :: len(combiners)]:
                    total = self.b.insert(combiner.join(total, other))
                whole = reduction(self.b, combiner.kind, total)
                self.store(self.b.insert(combiner.join(self.load(access), whole)), access)

        self.over(self.parallel, element)


def _vector_of(access: Access, lanes: int) -> VectorType:
    kind = access.kind
    assert kind is not None
    return VectorType(kind.element_type, [lanes])
