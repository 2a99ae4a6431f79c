"""Sums or products of what stands up to each place of an axis, in the order of the axis."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, f64
from xdsl.ir import SSAValue

from openinfer.dialects.nn import element_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.lines import Line, over_lines
from openinfer.lowering.kernels.numeric import resize_float
from openinfer.lowering.kernels.runs import view_around

_MORE = {
    (False, True): arith.AddfOp,
    (False, False): arith.AddiOp,
    (True, True): arith.MulfOp,
    (True, False): arith.MuliOp,
}
"""How a term is taken into a sum or product, of floats or integers."""


def running_sums(
    b: LoopBuilder,
    source: SSAValue,
    target: SSAValue,
    axis: int,
    lanes: int,
    *,
    exclusive: bool,
    reverse: bool,
    product: bool,
) -> None:
    """`target[k] = source[0] + … + source[k]`, every sum made from the one before it, or so every product.

    `exclusive` begins with 0 (1) and leaves out the last term, `reverse` walks from the end. Lines side
    by side are lanes of vectors, a line that lies in memory is walked element by element.
    """
    element = element_of(source)
    view, result = view_around(b, source, axis), view_around(b, target, axis)
    floats = isinstance(element, AnyFloat)
    # Sums of f32 are kept in f64, so that the last one is as good as the first.
    kind = f64 if floats and not product and not b.facts.strict_math else element
    # -0.0 + x is x, also for -0.0.
    first = 1 if product else -0.0 if floats and not exclusive else 0
    more = _MORE[product, floats]

    def sums(line: Line) -> None:
        count = line.extent.value(b)

        def place(k: SSAValue) -> Index:
            return b.sub(b.sub(count, 1), k) if reverse else k

        def load(at: Index) -> SSAValue:
            if not line.along:
                return line.load(view, at, None)
            value = b.load(view.buffer, view.at(line.outer, at, line.inner))
            return resize_float(b, value, kind) if floats else value

        def store(value: SSAValue, at: Index) -> None:
            if not line.along:
                line.store(value, result, at, None)
            else:
                value = resize_float(b, value, element) if floats else value
                b.store(value, result.buffer, result.at(line.outer, at, line.inner))

        def step(k: SSAValue, total: SSAValue) -> list[SSAValue]:
            at = place(k)
            new = b.insert(more(total, load(at)))
            store(total if exclusive else new, at)
            return [new]

        start = b.constant(first, kind) if line.along else line.constant(first)
        b.reduce(0, count, 1, (start,), lambda k, v: step(k, v[0]), hint="k")

    over_lines(b, view, lanes, kind, sums)
