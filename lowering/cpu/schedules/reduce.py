"""`argmax` and `argmin` as vector loops.

Before:
    nn.reduce(%x) outs(%y) {axes = array<i64: 1>, kind = "argmax"}
      : (memref<?x64xf32>, memref<?xi64>) -> ()

After:
    scf.for %i = %c0 to %rows step %c1 {
      %m = vector.reduction <maximumf>, %largest : vector<16xf32> into f32
      scf.for %k = … { %here = arith.cmpf oeq, %x, %m : vector<16xf32> … }
      %p = vector.reduction <minsi>, %places : vector<16xi64> into i64
      memref.store %p, %y[%i] : memref<?xi64>
    } {openinfer.parallel}

Requires: bufferised; contiguous operands; one axis. Integers are signed, unless the op says
`unsigned`.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    MemRefType,
    VectorType,
    i8,
)
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import ReduceOp, element_of
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.extremes import Extreme
from openinfer.lowering.kernels.lines import Line, over_lines
from openinfer.lowering.kernels.numeric import (
    compare_floats,
    compare_integers,
    index_to,
    is_float,
    positions,
    reduction,
    select,
    wide_type,
)
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import AxisView, collapse, view_around
from openinfer.runtime.quick_dataclass import dataclass


def _lower(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ReduceOp)
    if op.kind.data not in ("argmax", "argmin"):
        return False
    (axis,) = op.axes.get_values()
    source = view_around(b, op.inputs[0], axis)
    element = element_of(op.inputs[0])
    computed = wide_type(element) if isinstance(element, AnyFloat) else element
    if is_packed(element):
        computed = i8
    order = Extreme(op.kind.data == "argmax", op.select_last is not None, op.unsigned is not None)
    place = _Place(b, op.output, source, axis, op.keepdims is not None)

    def one(line: Line) -> None:
        if line.along:
            place.store(_along(line, source, order), line, None)
        else:
            place.store(_across(line, source, order), line, line.mask)

    lanes = lanes_of(op, element if is_packed(element) else computed)
    over_lines(b, source, lanes, computed, one, unsigned=order.unsigned)
    return True


def _along(line: Line, source: AxisView, order: Extreme) -> SSAValue:
    """First the extreme, then the first (last) place that holds it, or a NaN; an index."""
    b, lanes = line.b, line.lanes

    def join(x: SSAValue, y: SSAValue) -> SSAValue:
        return order.join(b, x, y)

    (found,) = line.reduce(
        (order.worst(line.computed),),
        lambda k, mask, old: [join(line.load(source, k, mask), old[0])],
        (join,),
    )
    kind = order.float_kind if is_float(found) else order.integer_kind
    extreme = b.splat(reduction(b, kind, found), lanes)
    index = IndexType()
    combine = arith.MaxSIOp if order.last else arith.MinSIOp
    nowhere = 0 if order.last else (1 << 62)

    def farther(x: SSAValue, y: SSAValue) -> SSAValue:
        return b.insert(combine(x, y))

    def step(k: SSAValue, mask: SSAValue | None, old: SSAValue) -> SSAValue:
        x = line.load(source, k, mask)
        if is_float(x):
            here = b.insert(
                arith.OrIOp(compare_floats(b, "oeq", x, extreme), compare_floats(b, "uno", x, x))
            )
        else:
            here = compare_integers(b, "eq", x, extreme)
        missing = b.constant(nowhere, VectorType(index, [lanes]))
        return farther(old, select(b, here, positions(b, k, lanes), missing))

    searcher = Line(b, lanes, index, line.extent, line.outer, line.inner, along=True)
    (places,) = searcher.reduce(
        (nowhere,), lambda k, mask, old: [step(k, mask, old[0])], (farther,), banks=2
    )
    place = reduction(b, "maxsi" if order.last else "minsi", places)
    # An empty line has no place; 0 then.
    exists = b.compare("ne", place, nowhere)
    return select(b, exists, place, b.index(0))


def _across(line: Line, source: AxisView, order: Extreme) -> SSAValue:
    """The best value and its place in each lane; an index vector."""
    b, lanes = line.b, line.lanes
    best = line.constant(order.worst(line.computed))
    place = b.constant(0, VectorType(IndexType(), [lanes]))

    def step(k: SSAValue, old: tuple[SSAValue, ...]) -> list[SSAValue]:
        x = line.load(source, k, None)
        wins = order.better(b, x, old[0])
        return [select(b, wins, x, old[0]), select(b, wins, b.splat(k, lanes), old[1])]

    count = line.extent.value(b)
    return b.reduce(0, count, 1, (best, place), lambda k, v: step(k, tuple(v)), hint="k")[1]


@dataclass
class _Place:
    """Where the result of a line goes: `[outer, inner]` of the result."""

    b: LoopBuilder
    target: SSAValue
    source: AxisView
    axis: int
    keepdims: bool

    def __post_init__(self) -> None:
        kind = self.target.type
        assert isinstance(kind, MemRefType)
        self.element = kind.element_type
        rank = kind.get_num_dims()
        axis = self.axis % (rank if self.keepdims else rank + 1)
        if self.keepdims:
            view = view_around(self.b, self.target, axis)
            self.buffer, self.at = view.buffer, lambda o, i: view.at(o, 0, i)
            return
        groups = [list(range(axis)), list(range(axis, rank))]
        self.buffer = collapse(self.b, self.target, [group for group in groups if group])
        self.at = lambda o, i: [x for x, group in zip((o, i), groups) if group]

    def store(self, place: SSAValue, line: Line, mask: SSAValue | None) -> None:
        indices: list[Index] = self.at(line.outer, line.inner)
        value = index_to(self.b, place, self.element)
        if isinstance(value.type, VectorType):
            self.b.vstore(value, self.buffer, indices, mask)
        else:
            self.b.store(value, self.buffer, indices)


RULES: dict[str, Rule] = {ReduceOp.name: _lower}
