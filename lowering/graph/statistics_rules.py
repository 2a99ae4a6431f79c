"""Rules of reductions that are made of others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, StringAttr, TensorType, UnitAttr, i1, i64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.base import normal_axes, product
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import computed, dtype_of, number, widened
from openinfer.runtime.sizes import Size


class _Lines:
    """The operand in the dtype that it is computed in, and what goes over its axes."""

    def __init__(self, call: Call, x: SSAValue) -> None:
        self.call, self.x = call, x
        kind = x.type
        assert isinstance(kind, TensorType)
        self.kind: TensorType[Attribute] = kind
        self.element = kind.element_type
        dims = nn.dims_of(x)
        self.axes = normal_axes(call.settings["axes"], len(dims))
        self.kept = tuple(Size.of(1) if d in self.axes else s for d, s in enumerate(dims))
        self.count = product([dims[axis] for axis in self.axes])

    @property
    def one(self) -> TensorType[Attribute]:
        """The type of a number for each line."""
        return nn.tensor_type(self.element, self.kept)

    def __call__(self, kind: str, *inputs: SSAValue) -> SSAValue:
        """A function of elements, in the shape of x."""
        return self.call.elementwise(kind, inputs, self.kind)

    def of_lines(self, kind: str, *inputs: SSAValue) -> SSAValue:
        """A function of numbers of lines."""
        return self.call.elementwise(kind, inputs, self.one)

    def reduced(self, kind: str, value: SSAValue) -> SSAValue:
        """A reduction that keeps the axes with size 1."""
        return self.call.add(
            nn.ReduceOp,
            [value],
            nn.tensor_type(nn.element_of(value), self.kept),
            kind=StringAttr(kind),
            axes=nn.ints_setting(self.axes),
            keepdims=UnitAttr(),
        )

    def result(self, value: SSAValue) -> Sequence[SSAValue]:
        """Numbers of lines as the result."""
        call = self.call
        return [call.convert(call.reshape(value, call.results[0].dims), call.type)]


def _floats(call: Call) -> _Lines:
    x = call.operands[0]
    return _Lines(call, widened(call, x, computed(dtype_of(x))))


@op_rule("logsumexp")
def _logsumexp(call: Call) -> Sequence[SSAValue]:
    """log(sum(exp(x - m))) + m with m the largest element, or 0 where that is not finite."""
    lines = _floats(call)
    largest = lines.reduced("max", lines.x)
    finite = call.elementwise("is_finite", [largest], nn.with_element(lines.one, i1))
    start = lines.of_lines("where", finite, largest, number(call, 0, lines.element))
    total = lines.reduced("sum", lines("exp", lines("sub", lines.x, start)))
    return lines.result(lines.of_lines("add", lines.of_lines("log", total), start))


@op_rule("var", "std")
def _variance(call: Call) -> Sequence[SSAValue]:
    lines = _floats(call)
    centred = lines("sub", lines.x, lines.reduced("mean", lines.x))
    total = lines.reduced("sum", lines("mul", centred, centred))
    found = _divided(call, lines, total)
    return lines.result(lines.of_lines("sqrt", found) if call.spec.name == "std" else found)


def _divided(call: Call, lines: _Lines, total: SSAValue) -> SSAValue:
    """Sums of lines of n elements over max(n - correction, 0)."""
    correction = call.settings["correction"]
    assert isinstance(correction, int)
    if lines.count.constant is None:
        whole = nn.tensor_type(i64, [])
        count = call.step.builder.add(nn.SizeOp(lines.count))
        count = call.step.builder.add(nn.FromIndexOp(count))
        less = call.elementwise("sub", [count, number(call, correction, i64)], whole)
        above = call.elementwise("max", [less, number(call, 0, i64)], whole)
        divisor = call.convert(above, nn.tensor_type(lines.element, []))
    elif lines.count.constant > correction:
        divisor = number(call, float(lines.count.constant - correction), lines.element)
    else:
        # A compiler of a device takes 0 / 0 for what it likes where it sees the zeros.
        zero, most, none = (number(call, v, lines.element) for v in (0.0, math.inf, math.nan))
        positive = call.elementwise("gt", [total, zero], nn.with_element(lines.one, i1))
        return lines.of_lines("where", positive, most, none)
    return lines.of_lines("div", total, divisor)


@op_rule("any", "all")
def _truth(call: Call) -> Sequence[SSAValue]:
    """The largest or smallest of truths; those of numbers are whether they are not 0."""
    (x,) = call.operands
    kind = x.type
    assert isinstance(kind, TensorType)
    if kind.element_type != i1:
        if not isinstance(kind.element_type, AnyFloat):
            # Packed integers as bytes.
            x = widened(call, x, computed(dtype_of(x)))
        zero = number(call, 0, nn.element_of(x))
        x = call.elementwise("ne", [x, zero], nn.with_element(kind, element_type("bool")))
    lines = _Lines(call, x)
    return lines.result(lines.reduced("max" if call.spec.name == "any" else "min", x))
