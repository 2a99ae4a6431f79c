"""`nn.unfold`, `nn.fold` and `nn.pool`: an invocation computes an element of the result.

Before:
    nn.pool(%x) outs(%y) {kind = "max", kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, …}
      : (memref<1x4x9x9xf32>, memref<1x4x4x4xf32>) -> ()

After:
    scf.if %inside {                         // %n, %c, %h, %w of the element
      %r = scf.for %i = %first to %behind …  // the rows of the window that lie in the plane
        scf.for %j = … { %v = memref.load %x[%n, %c, %line, %column] … }
      memref.store %r, %y[%n, %c, %h, %w] }

Requires: bufferised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.nn import FoldOp, PoolOp, UnfoldOp, element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import add
from openinfer.lowering.kernels.numeric import resize_float, wide_type
from openinfer.lowering.kernels.pool_windows import Reach, combination, divisor_of, reach
from openinfer.lowering.kernels.window_axes import Axis, axes_of, numbers_of
from openinfer.lowering.vulkan.schedules.exact_sums import ExactSum
from openinfer.lowering.vulkan.schedules.grid import Grid, each_element
from openinfer.lowering.vulkan.schedules.matmul_operands import both
from openinfer.lowering.vulkan.schedules.nested_loops import Ranges, Values, over


def lower_unfold(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of an unfolding: what lies outside of the plane is 0."""
    assert isinstance(op, UnfoldOp)
    source, axes = op.inputs[0], axes_of(b, op)
    extents = [b.dim(source, 2), b.dim(source, 3)]

    def element(place: list[SSAValue]) -> None:
        around, inside = place[:2], list[SSAValue]()
        at: list[Index] = [*around]
        for number, (way, extent) in enumerate(zip(axes, extents)):
            offset = way.offset(b, place[2 + number])
            there = b.plus(b.times(place[4 + number], way.stride), offset)
            at.append(there)
            if not way.inside:
                # Without a sign what is below 0 lies behind the end.
                inside.append(b.compare("ult", there, extent))

        def copy() -> None:
            b.store(b.load(source, at), op.output, place)

        def clear() -> None:
            b.store(b.constant(0, element_of(source)), op.output, place)

        if inside:
            b.when(both(b, inside), copy, clear)
        else:
            copy()

    return each_element(b, op.output, element)


def lower_fold(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a folding: an element adds up the windows that it lies in, by their element."""
    assert isinstance(op, FoldOp)
    source, axes = op.inputs[0], axes_of(b, op)
    kernel = [b.dim(source, 2), b.dim(source, 3)]
    counts = [b.dim(source, 4), b.dim(source, 5)]

    def element(place: list[SSAValue]) -> None:
        def step(at: list[SSAValue], old: Values) -> Values:
            windows, inside = list[SSAValue](), list[SSAValue]()
            for way, count, there, part in zip(axes, counts, place[2:], at):
                offset = b.index(b.minus(there, way.offset(b, part)))
                window, fits = _window_of(b, way, offset, count)
                windows.append(window)
                inside.append(fits)

            def more() -> list[SSAValue]:
                return [add(b, old[0], b.load(source, [*place[:2], *at, *windows]))]

            return b.when(both(b, inside), more, lambda: old, [old[0].type])

        first = b.constant(0, element_of(source))
        (total,) = over(b, [(0, size, None) for size in kernel], [first], step)
        b.store(total, op.output, place)

    return each_element(b, op.output, element)


def _window_of(
    b: LoopBuilder, way: Axis, offset: SSAValue, count: Index
) -> tuple[SSAValue, SSAValue]:
    """The window that begins an offset from the first one, and whether it is there."""
    if way.stride == 1:
        return offset, b.compare("ult", offset, count)
    window = b.floordiv(offset, way.stride)
    whole = b.compare("eq", b.mul(window, way.stride), offset)
    return window, both(b, [b.compare("sge", offset, 0), b.compare("ult", window, count), whole])


def lower_pool(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a pooling."""
    assert isinstance(op, PoolOp)
    source, target = op.inputs[0], op.output
    axes, kernel = axes_of(b, op), numbers_of(b, op.kernel, 1)
    extents = [b.dim(source, 2), b.dim(source, 3)]
    kind = element_of(source)
    computed: Attribute = wide_type(kind) if isinstance(kind, AnyFloat) else kind

    def element(place: list[SSAValue]) -> None:
        numbers = place[2:]
        sides = [
            reach(b, op, way, number, extent, size)
            for way, number, extent, size in zip(axes, numbers, extents, kernel)
        ]

        def load(at: Sequence[SSAValue]) -> SSAValue:
            there = [
                b.plus(b.times(k, way.dilation), side.first)
                for k, way, side in zip(at, axes, sides)
            ]
            value = b.load(source, [*place[:2], *there])
            return resize_float(b, value, computed) if isinstance(kind, AnyFloat) else value

        pooled = _mean if op.kind.data == "average" else _largest
        value = pooled(b, op, sides, load, computed)
        if isinstance(kind, AnyFloat):
            value = resize_float(b, value, element_of(target))
        b.store(value, target, place)

    return each_element(b, target, element)


Load = Callable[[Sequence[SSAValue]], SSAValue]


def _mean(
    b: LoopBuilder, op: PoolOp, sides: Sequence[Reach], load: Load, computed: Attribute
) -> SSAValue:
    rows, columns = sides
    if b.facts.strict_math:
        first = b.constant(0, computed)
        (total,) = over(b, _ranges(sides), [first], lambda at, old: [add(b, old[0], load(at))])
    else:
        sums = ExactSum(b, computed)
        found = over(b, _ranges(sides), sums.first(), lambda at, v: sums.more(load(at), *v))
        total = sums.total(*found)
    return b.insert(arith.DivfOp(total, divisor_of(b, op, rows, columns, computed)))


def _largest(
    b: LoopBuilder, op: PoolOp, sides: Sequence[Reach], load: Load, computed: Attribute
) -> SSAValue:
    combine, start = combination(op, computed)
    first = b.constant(start, computed)
    (found,) = over(b, _ranges(sides), [first], lambda at, old: [combine(b, old[0], load(at))])
    return found


def _ranges(sides: Sequence[Reach]) -> Ranges:
    return [(side.start, side.stop, None) for side in sides]
