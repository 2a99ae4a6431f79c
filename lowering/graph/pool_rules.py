"""Rules of pooling and resampling.

Windows over three axes are windows over the last two, then over the first one: the largest of the
largest, the sum of the sums. Adaptive pools are in `adaptive_pool_rules.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, Signedness, StringAttr, UnitAttr, i1
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.ops.pooling import POOLED_AXES, pool_windows, resamplings
from openinfer.dialects.ops.windows import Window
from openinfer.dialects.opset import NameRef, TensorSpec
from openinfer.lowering.graph.op_rules import Call, Check, Settings, op_rule
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scalar_rules import either_way
from openinfer.lowering.graph.scalars import (
    Scalar,
    computed,
    dtype_of,
    number,
    scalar_type,
    widened,
)
from openinfer.lowering.graph.window_rules import placed
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)
ALONE = Window(_ONE, _ONE, Size.of(0), Size.of(0), _ONE)
"""Windows of one element each."""


def is_unsigned(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def pooled(
    call: Call,
    x: SSAValue,
    windows: Sequence[Window],
    counts: Sequence[Size],
    kind: str,
    element: Attribute,
    *,
    ceil: bool = False,
    count_padding: bool = False,
    divisor: int | None = None,
) -> SSAValue:
    """x `[N, C, …]` pooled over the one to three axes behind its channels: "max" or "average".

    `divisor` stands for the number of elements of an average. Floats are rounded to `element` once.
    """
    lead, extents = nn.dims_of(x)[:2], nn.dims_of(x)[2:]
    flags: dict[str, Attribute | None] = {
        "ceil": UnitAttr() if ceil else None,
        "count_padding": UnitAttr() if count_padding else None,
        "unsigned": UnitAttr() if is_unsigned(nn.element_of(x)) else None,
    }

    def over_planes(
        value: SSAValue,
        dims: Sequence[Size],
        two: Sequence[Window],
        many: Sequence[Size],
        result: Attribute,
        by: int | None,
    ) -> SSAValue:
        value = call.reshape(value, dims)
        return call.add(
            nn.PoolOp,
            [value],
            nn.tensor_type(result, (*dims[:2], *many)),
            kind=StringAttr(kind),
            kernel=nn.window_numbers([w.kernel for w in two]),
            **placed(two),
            divisor=None if by is None else nn.int_setting(by),
            **flags,
        )

    if len(windows) < 3:
        flat = [_ONE] * (2 - len(windows))
        two = [*[ALONE] * len(flat), *windows]
        y = over_planes(x, (*lead, *flat, *extents), two, (*flat, *counts), element, divisor)
        return call.reshape(y, (*lead, *counts))
    (front, *plane), (behind, *across) = windows, counts
    inner = nn.element_of(x)
    if kind == "average":
        inner = element_type(computed(dtype_name(inner)))
    planes = (lead[0], lead[1] * extents[0], *extents[1:])
    y = over_planes(x, planes, plane, across, inner, divisor)
    rest = across[0] * across[1]
    # The sum of a window over planes is divided already where a divisor is given.
    again = None if divisor is None else 1
    y = over_planes(y, (*lead, extents[0], rest), (front, ALONE), (behind, rest), element, again)
    return call.reshape(y, (*lead, *counts))


def images(call: Call, axes: int) -> SSAValue:
    """x as `[N, C, …]` with so many axes behind the channels."""
    x = call.operands[0]
    dims = nn.dims_of(x)
    return call.reshape(x, dims if len(dims) == axes + 2 else (_ONE, *dims))


def _check_pool(axes: int) -> Check:
    def check(
        requirements: Requirements, operands: Sequence[TensorSpec], settings: Settings
    ) -> None:
        """There is something to pool, a window fits, and none lies in padding alone."""
        ceil = bool(settings["ceil_mode"])
        for window, extent in zip(pool_windows(settings, axes), operands[0].dims[-axes:]):
            requirements.at_most(_ONE, extent)
            for side in (window.before, window.after):
                requirements.at_most(side * 2, window.reach)
            requirements.at_most(window.needed(ceil=ceil), window.padded(extent))

    return check


def _pool(call: Call) -> Sequence[SSAValue]:
    settings, axes = call.settings, POOLED_AXES[call.spec.name]
    if isinstance(settings.get("count_include_pad"), NameRef):
        return either_way(call, "count_include_pad")
    x = images(call, axes)
    average = call.spec.name.startswith("avg")
    element = nn.element_of(x)
    if DTYPES[dtype_name(element)].is_float:
        element = call.type.element_type
    divisor = settings.get("divisor_override")
    value = pooled(
        call,
        x,
        pool_windows(settings, axes),
        call.results[0].dims[-axes:],
        "average" if average else "max",
        element,
        ceil=bool(settings["ceil_mode"]),
        count_padding=average and bool(settings["count_include_pad"]),
        divisor=divisor if isinstance(divisor, int) else None,
    )
    return [call.reshape(value, call.results[0].dims)]


def _power_pool(call: Call) -> Sequence[SSAValue]:
    """The root of the sum of powers: of an average that is divided by 1."""
    axes, given = POOLED_AXES[call.spec.name], call.settings["p"]
    x = images(call, axes)
    x = widened(call, x, computed(dtype_of(x)))
    kind = call.kind(TensorSpec(dtype_of(x), nn.dims_of(x)))
    element = kind.element_type
    if given == 2.0:
        powers = call.elementwise("mul", [x, x], kind)
    else:
        powers = call.elementwise("abs", [x], kind)
        if given != 1.0:
            powers = call.elementwise("pow", [powers, _exponent(call, given, element)], kind)
    sums = pooled(
        call,
        powers,
        pool_windows(call.settings, axes),
        call.results[0].dims[-axes:],
        "average",
        element,
        ceil=bool(call.settings["ceil_mode"]),
        divisor=1,
    )
    whole = call.kind(TensorSpec(dtype_of(sums), nn.dims_of(sums)))
    if given == 2.0:
        sums = call.elementwise("sqrt", [sums], whole)
    elif isinstance(given, Scalar):
        scalar = scalar_type(element)
        one, p = number(call, 1, element), number(call, given, element)
        root = call.elementwise("div", [one, p], scalar)
        sums = call.elementwise("pow", [sums, root], whole)
    elif isinstance(given, float) and given != 1.0:
        sums = call.elementwise("pow", [sums, number(call, 1 / given, element)], whole)
    return [call.convert(call.reshape(sums, call.results[0].dims), call.type)]


def _exponent(call: Call, given: object, element: Attribute) -> SSAValue:
    """The exponent as a number; one of the step has to be positive and finite."""
    p = number(call, given, element)
    if isinstance(given, Scalar):
        for name, limit in (("gt", 0.0), ("lt", float("inf"))):
            inside = call.elementwise(name, [p, number(call, limit, element)], scalar_type(i1))
            call.step.elements.require(inside, "exponent")
    return p


for _name, _axes in POOLED_AXES.items():
    _rule = _power_pool if _name.startswith("lp") else _pool
    op_rule(_name, scalars=("count_include_pad", "p"), check=_check_pool(_axes))(_rule)


def _spec(value: SSAValue) -> TensorSpec:
    return TensorSpec(dtype_of(value), nn.dims_of(value))


@op_rule("upsample2d")
def _upsample(call: Call) -> Sequence[SSAValue]:
    rows = resamplings(_spec(call.operands[0]), call.settings)
    for extent, result in zip(nn.dims_of(call.operands[0])[-2:], call.results[0].dims[-2:]):
        call.require(_ONE, extent)
        call.require(_ONE, result)
    x = images(call, 2)
    dims = (*nn.dims_of(x)[:2], *call.results[0].dims[-2:])
    bilinear = call.settings["mode"] == "bilinear"
    scales = [n for r in rows if r.scale for n in (r.scale.numerator, r.scale.denominator)]
    element = call.type.element_type if bilinear else nn.element_of(x)
    value = call.add(
        nn.ResampleOp,
        [x],
        nn.tensor_type(element, dims),
        kind=StringAttr(str(call.settings["mode"])),
        scales=nn.ints_setting(scales) if len(scales) == 4 else None,
        corners=UnitAttr() if call.settings["align_corners"] else None,
    )
    return [call.convert(call.reshape(value, call.results[0].dims), call.type)]
