"""The rule of `grid_sample`: for each element that counts at a place, a gather and a weight.

place = ((g + 1) * extent - 1) / 2        f = floor(place)        t = place - f
y = sum over elements e of axis products of x[f + e] * weight(t, e), where f + e lies inside
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xdsl.dialects.builtin import ArrayAttr, TensorType, i1, i64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.base import product as product_of
from openinfer.dialects.ops.sampling import CUBIC
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import Call, Settings, op_rule
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scalars import (
    computed,
    dtype_of,
    narrowed,
    number,
    size_number,
    widened,
)
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


def _check(requirements: Requirements, operands: Sequence[TensorSpec], settings: Settings) -> None:
    """There is something to read."""
    for extent in operands[0].dims[2:]:
        requirements.at_most(_ONE, extent)


class _Places:
    """Arithmetic on the numbers of all places, `[N, 1, places]`."""

    def __init__(self, call: Call, kind: TensorType[Attribute]) -> None:
        self.call, self.kind = call, kind

    def do(self, kind: str, *values: SSAValue | float) -> SSAValue:
        made = [self.constant(v) if isinstance(v, int | float) else v for v in values]
        return self.call.elementwise(kind, made, self.kind)

    def constant(self, value: float) -> SSAValue:
        return number(self.call, float(value), self.kind.element_type)

    def test(self, kind: str, *values: SSAValue | float) -> SSAValue:
        made = [self.constant(v) if isinstance(v, int | float) else v for v in values]
        return self.call.elementwise(kind, made, nn.with_element(self.kind, i1))

    def size(self, extent: Size) -> SSAValue:
        """An extent as a float."""
        value = size_number(self.call, extent)
        return self.call.convert(value, nn.tensor_type(self.kind.element_type, []))


class _Axis:
    """One spatial axis of x."""

    def __init__(self, p: _Places, extent: Size, padding: str, corners: bool) -> None:
        self.p, self.padding, self.corners = p, padding, corners
        self.extent = p.size(extent)
        self.last = p.size(extent - 1)
        self.dim = extent

    def place(self, g: SSAValue) -> SSAValue:
        do = self.p.do
        above = do("add", g, 1)
        if self.corners:
            return do("mul", do("mul", above, 0.5), self.last)
        return do("mul", do("sub", do("mul", above, self.extent), 1), 0.5)

    def inside(self, place: SSAValue) -> SSAValue:
        """The place that is read for one outside."""
        do = self.p.do
        if self.padding == "zeros":
            return place
        if self.padding == "reflection":
            low = 0.0 if self.corners else -0.5
            span = self.last if self.corners else self.extent
            away = do("abs", do("sub", place, low))
            turns = do("floor", do("div", away, span))
            rest = do("sub", away, do("mul", turns, span))
            half = do("mul", turns, 0.5)
            even = self.p.test("eq", half, do("floor", half))
            place = do("add", do("where", even, rest, do("sub", span, rest)), low)
        # Of an axis of one element nothing is left but NaN, which is a place beyond the end.
        return do("max", do("min", place, self.last), 0)

    def taps(self, place: SSAValue, mode: str) -> list[tuple[SSAValue, SSAValue | None]]:
        """The elements that count, with their weights; None for 1."""
        do = self.p.do
        if mode == "nearest":
            return [(do("round_even", place), None)]
        first = do("floor", place)
        t = do("sub", place, first)
        if mode == "bilinear":
            return [(first, do("sub", 1, t)), (do("add", first, 1), t)]
        found: list[tuple[SSAValue, SSAValue | None]] = []
        for step in (-1, 0, 1, 2):
            distance = do("abs", do("sub", t, step))
            at = do("add", first, step)
            found.append((at, self._cubic(distance, near=step in (0, 1))))
        return found

    def _cubic(self, d: SSAValue, *, near: bool) -> SSAValue:
        do = self.p.do
        if near:
            inner = do("sub", do("mul", d, CUBIC + 2), CUBIC + 3)
            return do("add", do("mul", do("mul", inner, d), d), 1)
        inner = do("add", do("mul", do("sub", d, 5), d), 8)
        return do("mul", do("sub", do("mul", inner, d), 4), CUBIC)


@op_rule("grid_sample", check=_check)
def _grid_sample(call: Call) -> Sequence[SSAValue]:
    x, grid = call.operands
    mode, padding = str(call.settings["mode"]), str(call.settings["padding_mode"])
    corners = bool(call.settings["align_corners"])
    work = computed(dtype_of(x))
    x = widened(call, x, work)
    batch, channels, *extents = nn.dims_of(x)
    count = product_of(nn.dims_of(grid)[1:-1])
    flat = call.reshape(x, (batch, channels, product_of(extents)))
    places = computed(dtype_of(grid))
    grid = call.reshape(widened(call, grid, places), (batch, count, Size.of(len(extents))))
    grid = call.transpose(grid, (2, 0, 1))
    p = _Places(call, nn.tensor_type(element_type(places), (batch, _ONE, count)))
    axes = [_Axis(p, extent, padding, corners) for extent in extents]
    taps: list[list[tuple[SSAValue, SSAValue | None]]] = []
    for number_, axis in enumerate(axes):
        g = call.add(
            nn.SliceOp,
            [grid],
            nn.tensor_type(element_type(places), (_ONE, batch, count)),
            starts=ArrayAttr([SizeAttr.of(n) for n in (len(axes) - 1 - number_, 0, 0)]),
            steps=nn.ints_setting([1, 1, 1]),
        )
        place = axis.place(call.reshape(g, (batch, _ONE, count)))
        taps.append(axis.taps(place if mode == "bicubic" else axis.inside(place), mode))
    found: SSAValue | None = None
    kind = nn.tensor_type(element_type(work), (batch, channels, count))
    for chosen in product(*taps):
        value = _weighted(call, p, axes, chosen, flat, kind, mode)
        found = value if found is None else call.elementwise("add", [found, value], kind)
    assert found is not None
    return [narrowed(call, call.reshape(found, call.results[0].dims), call.type)]


def _weighted(
    call: Call,
    p: _Places,
    axes: Sequence[_Axis],
    chosen: Sequence[tuple[SSAValue, SSAValue | None]],
    flat: SSAValue,
    kind: TensorType[Attribute],
    mode: str,
) -> SSAValue:
    """The elements at one tap of each axis times its weight; 0 where that lies outside."""
    whole = nn.with_element(p.kind, i64)
    index: SSAValue | None = None
    there: SSAValue | None = None
    weight: SSAValue | None = None
    for axis, (place, share) in zip(axes, chosen):
        at = axis.inside(place) if mode == "bicubic" else place
        within = call.elementwise(
            "and",
            [p.test("ge", at, 0), p.test("le", at, axis.last)],
            nn.with_element(p.kind, i1),
        )
        safe = call.elementwise("cast", [p.do("where", within, at, 0)], whole)
        if index is None:
            index = safe
        else:
            index = call.elementwise("mul", [index, size_number(call, axis.dim)], whole)
            index = call.elementwise("add", [index, safe], whole)
        flags = nn.with_element(p.kind, i1)
        there = within if there is None else call.elementwise("and", [there, within], flags)
        if share is not None:
            weight = share if weight is None else p.do("mul", weight, share)
    assert index is not None
    assert there is not None
    dims = nn.dims_of(flat)[:2] + nn.dims_of(index)[2:]
    value = call.add(
        nn.GatherElementsOp,
        [flat, call.add(nn.BroadcastOp, [index], nn.tensor_type(i64, dims))],
        nn.tensor_type(nn.element_of(flat), dims),
        axis=nn.int_setting(2),
        node=nn.int_setting(call.step.builder.node),
    )
    zero = number(call, 0.0, kind.element_type)
    value = call.elementwise("where", [there, value, zero], kind)
    if weight is None:
        return value
    share = call.convert(weight, nn.with_element(p.kind, kind.element_type))
    return call.elementwise("mul", [value, share], kind)
