"""Rules of ops whose number settings may be known only to the step; constants stay settings."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, StringAttr, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.attention import attention_split
from openinfer.dialects.ops.base import normal_axis
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import (
    Call,
    Settings,
    elementwise_rule,
    op_rule,
    rule_of,
)
from openinfer.lowering.graph.scalars import Scalar, computed, dtype_of, number, widened
from openinfer.lowering.graph.settings import attribute_of
from openinfer.lowering.program.value_arrays import into_range
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


def _known(call: Call) -> bool:
    """Whether every setting is a constant."""
    return not any(isinstance(value, Scalar) for value in call.settings.values())


class _Parts:
    """An elementwise op written out: its operands in the dtype that it computes in."""

    FLAG: ClassVar[Attribute] = i1

    def __init__(self, call: Call) -> None:
        self.call = call
        dtype = dtype_of(call.operands[0])
        self.dtype = dtype
        self.computed = computed(dtype)
        self.element = element_type(self.computed)
        """What it computes in."""
        self.operands = [widened(call, value, self.computed) for value in call.operands]
        self.kind = nn.with_element(call.type, self.element)

    def __call__(self, kind: str, *inputs: SSAValue) -> SSAValue:
        return self.call.elementwise(kind, inputs, self.kind)

    def test(self, relation: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """A comparison, in the common shape of both sides."""
        result = self.kind if nn.dims_of(x) or nn.dims_of(y) else nn.tensor_type(self.FLAG, [])
        return self.call.elementwise(relation, [x, y], nn.with_element(result, self.FLAG))

    def constant(self, value: int | float) -> SSAValue:
        return number(self.call, value, self.element)

    def setting(self, name: str) -> SSAValue | None:
        """A limit or a value, brought into the range of the operands; None when it is absent."""
        value = self.call.settings[name]
        if value is None:
            return None
        if isinstance(value, Scalar):
            # First into the dtype of the operands, which may hold less than that of the computation.
            own = number(self.call, value, element_type(self.dtype)) if self._integer else None
            if own is not None:
                return self.call.convert(own, nn.tensor_type(self.element, []))
            return number(self.call, value, self.element)
        return number(self.call, into_range(value, self.dtype), self.element)

    @property
    def _integer(self) -> bool:
        return not DTYPES[self.dtype].is_float

    def result(self, value: SSAValue) -> Sequence[SSAValue]:
        """The value in the declared dtype; integers that left their range wrap."""
        call = self.call
        if value.type == call.type or isinstance(self.element, AnyFloat):
            return [call.convert(value, call.type)]
        return [call.elementwise("cast", [value], call.type, saturate=False)]


@op_rule("clamp", scalars=("min", "max"))
def _clamp(call: Call) -> Sequence[SSAValue]:
    if _known(call):
        return elementwise_rule(call)
    parts = _Parts(call)
    (value,) = parts.operands
    for kind, name in (("max", "min"), ("min", "max")):
        limit = parts.setting(name)
        if limit is not None:
            value = parts(kind, value, limit)
    return parts.result(value)


@op_rule("relu", scalars=("negative_slope", "clamp_min", "clamp_max"))
def _relu(call: Call) -> Sequence[SSAValue]:
    """With slope 0 the negative side is 0, also at -inf; NaN passes all of it."""
    if _known(call):
        return elementwise_rule(call)
    parts = _Parts(call)
    (x,) = parts.operands
    zero, given = parts.constant(0), call.settings["negative_slope"]
    slope = parts.setting("negative_slope") if isinstance(given, Scalar) else None
    if slope is None:
        assert isinstance(given, int | float)
        # A product wraps, so its factor may.
        whole = isinstance(parts.element, AnyFloat)
        slope = parts.constant(given if whole else int(given))
    below = parts("mul", x, slope)
    below = parts("where", parts.test("eq", slope, zero), zero, below)
    value = parts("where", parts.test("lt", x, zero), below, x)
    if not isinstance(parts.element, AnyFloat):
        # The product wraps in the dtype of the operands, before it is clamped.
        (value,) = (widened(call, v, parts.computed) for v in parts.result(value))
    for relation, name in (("lt", "clamp_min"), ("gt", "clamp_max")):
        limit = parts.setting(name)
        if limit is not None:
            value = parts("where", parts.test(relation, value, limit), limit, value)
    return parts.result(value)


@op_rule("div", "floor_div", "recip", scalars=("div_by_zero_mask",))
def _division(call: Call) -> Sequence[SSAValue]:
    if _known(call):
        return elementwise_rule(call)
    parts = _Parts(call)
    mask, divisor = parts.setting("div_by_zero_mask"), parts.operands[-1]
    assert mask is not None
    quotient = parts(call.spec.name, *parts.operands)
    zero = parts.test("eq", divisor, parts.constant(0))
    return parts.result(parts("where", zero, mask, quotient))


@op_rule("shl", "shr", scalars=("bits",))
def _shift(call: Call) -> Sequence[SSAValue]:
    """Places by their bits: a shift by 1, by 2, … by 32, each where the number has that bit."""
    if _known(call):
        return elementwise_rule(call)
    parts = _Parts(call)
    (value,) = parts.operands
    i64 = element_type("i64")
    places = number(call, call.settings["bits"], i64)
    scalar, flag = nn.tensor_type(i64, []), nn.tensor_type(i1, [])
    zero, most = number(call, 0, i64), number(call, 63, i64)
    call.step.elements.require(call.elementwise("ge", [places, zero], flag), "shift", places)
    all_gone = call.elementwise("gt", [places, most], flag)
    fills_with_sign = call.spec.name == "shr" and DTYPES[parts.dtype].kind == "int"
    if fills_with_sign:
        places = call.elementwise("where", [all_gone, most, places], scalar)
    for power in range(6):
        bit = call.elementwise("and", [places, number(call, 1 << power, i64)], scalar)
        here = call.elementwise("ne", [bit, zero], flag)
        shifted = call.elementwise(call.spec.name, [value], parts.kind, bits=1 << power)
        value = parts("where", here, shifted, value)
    if not fills_with_sign:
        value = parts("where", all_gone, parts.constant(0), value)
    return parts.result(value)


@op_rule("fill", "fill_nan_like", scalars=("value",))
def _fill(call: Call) -> Sequence[SSAValue]:
    value = call.settings["value"]
    if not isinstance(value, Scalar):
        return [call.add(nn.FillOp, [], call.type, value=attribute_of(value))]
    one = number(call, value, call.type.element_type)
    return [call.add(nn.BroadcastOp, [one], call.type)]


@op_rule("iota", scalars=("start", "step"))
def _iota(call: Call) -> Sequence[SSAValue]:
    rank = call.results[0].rank
    axis = normal_axis(call.settings["axis"], rank) if rank else 0
    i64 = element_type("i64")
    counts = nn.with_element(call.type, i64)
    value = call.add(nn.IotaOp, [], counts, axis=nn.int_setting(axis))
    for kind, name, neutral in (("mul", "step", 1), ("add", "start", 0)):
        given = call.settings[name]
        if given != neutral:
            value = call.elementwise(kind, [value, number(call, given, i64)], counts)
    if value.type == call.type:
        return [value]
    # Integers wrap where a cast would stop at the limit.
    return [call.elementwise("cast", [value], call.type, saturate=False)]


def either_way(call: Call, name: str) -> Sequence[SSAValue]:
    """An op with a switch that the step knows: its results both ways, and a choice."""
    flag = true_or_false(call, call.settings[name])
    (on, off) = (
        translate_again(call, {**call.settings, name: value})[0] for value in (True, False)
    )
    return [call.elementwise("where", [flag, on, off], call.type)]


def translate_again(call: Call, settings: Settings) -> Sequence[SSAValue]:
    """What the op's own rule makes of it with other settings."""
    return rule_of(call.spec.name)(call.replaced(settings=settings))


def true_or_false(call: Call, value: object) -> SSAValue:
    """A switch as a bool without dimensions; an integer is true when it is not 0."""
    assert isinstance(value, Scalar)
    return call.convert(value.value, nn.tensor_type(i1, []))


FARTHEST = 2**30
"""A window as good as any wider one: the kernel counts positions in 32 bits."""


def window_operand(call: Call) -> SSAValue | None:
    """The window that only the step knows, checked, as nn.attention takes it."""
    window = call.settings["window"]
    if not isinstance(window, Scalar):
        return None
    i64 = element_type("i64")
    one, flag, kind = number(call, 1, i64), nn.tensor_type(i1, []), nn.tensor_type(i64, [])
    reach = number(call, window, i64)
    call.step.elements.require(call.elementwise("ge", [reach, one], flag), "window", reach)
    return call.elementwise("min", [reach, number(call, FARTHEST, i64)], kind)


def cap_operand(call: Call, dtype: str) -> SSAValue | None:
    """The cap of scores that only the step knows, checked, as nn.attention takes it."""
    cap = call.settings["softcap"]
    if not isinstance(cap, Scalar):
        return None
    element, flag = element_type(dtype), nn.tensor_type(i1, [])
    value = number(call, cap, element)
    for relation, limit in (("gt", 0.0), ("lt", inf)):
        sides = [value, number(call, limit, element)]
        call.step.elements.require(call.elementwise(relation, sides, flag), "softcap")
    return value


def known_scale(call: Call) -> Call:
    """`attention` with a constant scale: one that only the step knows goes to the queries."""
    q, k, *_ = call.operands
    scale = call.settings["scale"]
    specs = [TensorSpec("f32", nn.dims_of(x)) for x in (q, k)]
    size = nn.dims_of(k if attention_split(*specs) else q)[-1]
    if scale is None and size.constant is not None:
        scale = size.constant**-0.5 if size.constant else 1.0
    if isinstance(scale, float):
        return call.replaced(settings={**call.settings, "scale": scale})
    return _scaled_queries(call, size)


def _root(call: Call, size: Size, element: Attribute) -> SSAValue:
    """1 / sqrt(size) of a run-time size; nothing is asked of heads without elements."""
    kind = nn.tensor_type(element, [])
    count = call.step.builder.add(nn.SizeOp(Size.max(size, 1)))
    count = call.convert(call.step.builder.add(nn.FromIndexOp(count)), kind)
    root = call.elementwise("sqrt", [count], kind)
    return call.elementwise("div", [number(call, 1.0, element), root], kind)


def _scaled_queries(call: Call, size: Size) -> Call:
    """`attention` with a scale that the step knows, as one with scale 1 of scaled queries."""
    q, *rest = call.operands
    wide = computed(dtype_of(q))
    q = widened(call, q, wide)
    kind = q.type
    assert isinstance(kind, TensorType)
    scale = call.settings["scale"]
    element = kind.element_type
    factor = _root(call, size, element) if scale is None else number(call, scale, element)
    q = call.elementwise("mul", [q, factor], kind)
    return call.replaced([q, *rest], {**call.settings, "scale": 1.0})


def norm_in_parts(call: Call) -> Sequence[SSAValue]:
    """`layer_norm` and `rms_norm` with an eps that the step knows."""
    dtype = computed(dtype_of(call.operands[0]))
    x, *rest = (widened(call, value, dtype) for value in call.operands)
    kind = x.type
    assert isinstance(kind, TensorType)
    axis = normal_axis(call.settings["axis"], len(nn.dims_of(x)))
    centred = call.spec.name == "layer_norm"
    eps = number(call, call.settings["eps"], kind.element_type)
    x = normalised(call, x, axis, eps, centred=centred)
    for name, value in zip(("mul", "add"), rest):
        x = call.elementwise(name, [x, value], kind)
    return [call.convert(x, call.type)]


def eps_of(call: Call, element: Attribute) -> SSAValue:
    """The setting `eps` without dimensions; a negative one fails the step."""
    eps = call.settings["eps"]
    if isinstance(eps, Scalar):
        double, flag = element_type("f64"), nn.tensor_type(i1, [])
        below = [number(call, eps, double), number(call, 0.0, double)]
        # NaN is not negative.
        call.step.elements.require(
            call.elementwise("not", [call.elementwise("lt", below, flag)], flag), "eps"
        )
    return number(call, eps, element)


def normalised(
    call: Call, x: SSAValue, axis: int, eps: SSAValue, *, centred: bool = True
) -> SSAValue:
    """(x - mean) / sqrt(variance + eps) over the axes from `axis` on; without mean if not centred."""
    kind = x.type
    assert isinstance(kind, TensorType)
    element = kind.element_type
    dims = nn.dims_of(x)
    row = nn.tensor_type(element, [1 if d >= axis else n for d, n in enumerate(dims)])

    def mean(value: SSAValue) -> SSAValue:
        return call.add(
            nn.ReduceOp,
            [value],
            row,
            kind=StringAttr("mean"),
            axes=nn.ints_setting(range(axis, len(dims))),
            keepdims=UnitAttr(),
        )

    if centred:
        x = call.elementwise("sub", [x, mean(x)], kind)
    variance = mean(call.elementwise("mul", [x, x], kind))
    root = call.elementwise("sqrt", [call.elementwise("add", [variance, eps], row)], row)
    return call.elementwise("div", [x, root], kind)
