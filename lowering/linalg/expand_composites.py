"""Attention, normalisation and turned pairs that the machine does not want as one op, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.lowering.demands import Composite, demands_of
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


@dataclass(frozen=True)
class ExpandComposites(ModulePass):
    """Makes products, softmax, means and elementwise ops of the ops that the machine does not want whole.

    Before:
        %o = nn.attention(%q, %k, %v, %m) {scale = 0.25 : f64, masked, nan_rows, layouts = …} : …
    After:
        %s = nn.matmul(%q, %k) {transpose_b} : …
        %c = nn.elementwise(%s, %scale) {kind = "mul"} : …   // filled with 0.25
        %a = nn.elementwise(%c, %m) {kind = "add"} : …
        %p = nn.softmax(%a) {axis = 3 : i64} : …
        %o = nn.matmul(%p, %v) : …

    `recognize-attention` and `recognize-layer-norm` always recognise; `Demands.whole` says which of
    attention, layer norm, RMS norm and rotary stay. Scores and means are f32, or f64 for f64, and the result
    is rounded once. Rows that see no key, and keys that a query does not see, are as in the op.

    Requires: before `lower-precision`, which then sees the products.
    Leaves: everything on a machine that wants it whole; attention that is rounded already, because
        its weights would be as well; groups of heads whose number only the step knows, because one
        reshape cannot say them. These stay one op, which the machine supports or leaves to the host.
    """

    name: ClassVar[str] = "expand-composites"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        demands = demands_of(op)
        for found in operations(op.body):
            if not isinstance(found, Composite) or demands.whole(found):
                continue
            parts = _Parts()
            if isinstance(found, nn.AttentionOp):
                result = _attention(parts, found)
            elif isinstance(found, nn.RotaryOp):
                result = _rotary(parts, found)
            else:
                result = _norm(parts, found)
            if result is not None:
                _replace(found, parts.ops, result)


def _replace(op: Operation, parts: Sequence[Operation], result: SSAValue) -> None:
    block = op.parent_block()
    assert block is not None
    for part in parts:
        if isinstance(part, nn.NNOp):
            part.attributes.update(op.attributes)
        give_location(op.location, part)
    block.insert_ops_before(list(parts), op)
    result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(result)
    op.detach()
    op.erase()


@dataclass
class _Parts:
    """The ops that one op becomes, in order."""

    ops: list[Operation] = field(default_factory=list[Operation])

    def add(
        self,
        make: Callable[..., Any],
        inputs: Sequence[SSAValue],
        result: Attribute,
        **settings: Attribute | None,
    ) -> SSAValue:
        op = make(list(inputs), [result], properties=settings)
        self.ops.append(op)
        return op.result[0]

    def each(
        self,
        kind: str,
        *inputs: SSAValue,
        element: Attribute | None = None,
        like: SSAValue | None = None,
    ) -> SSAValue:
        """An elementwise op on elements of the last input, with the dimensions of `like`, or else those
        that the inputs broadcast to."""
        dims = _broadcast([nn.dims_of(value) for value in (inputs if like is None else [like])])
        made = nn.tensor_type(element or nn.element_of(inputs[-1]), dims)
        return self.add(nn.ElementwiseOp, inputs, made, kind=StringAttr(kind))

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        same = nn.element_of(value) == element
        return value if same else self.each("cast", value, element=element)

    def number(self, value: float, element: Attribute) -> SSAValue:
        given = IntegerAttr(int(value), i64) if element == i64 else FloatAttr(value, f64)
        return self.add(nn.FillOp, [], nn.tensor_type(element, []), value=given)

    def reshape(self, value: SSAValue, dims: Sequence[Size]) -> SSAValue:
        kind = nn.tensor_type(nn.element_of(value), dims)
        return value if value.type == kind else self.add(nn.ReshapeOp, [value], kind)

    def stretch(self, value: SSAValue, dims: Sequence[Size]) -> SSAValue:
        kind = nn.tensor_type(nn.element_of(value), dims)
        return value if value.type == kind else self.add(nn.BroadcastOp, [value], kind)

    def swap(self, value: SSAValue, layout: str) -> SSAValue:
        """From a layout to `bhld`, or from `bhld` to a layout: heads and length change places."""
        if layout == "bhld":
            return value
        batch, heads, length, size = nn.dims_of(value)
        kind = nn.tensor_type(nn.element_of(value), (batch, length, heads, size))
        order = nn.ints_setting([0, 2, 1, 3])
        return self.add(nn.TransposeOp, [value], kind, permutation=order)

    def product(self, left: SSAValue, right: SSAValue, turned: bool = False) -> SSAValue:
        """left · right, or left · rightᵀ."""
        columns = nn.dims_of(right)[-2 if turned else -1]
        kind = nn.tensor_type(nn.element_of(left), (*nn.dims_of(left)[:-1], columns))
        flag = UnitAttr() if turned else None
        return self.add(nn.MatmulOp, [left, right], kind, transpose_b=flag)

    def along_rows(self, kind: str, value: SSAValue) -> SSAValue:
        """A reduction of the last axis, which stays with size 1."""
        dims = nn.dims_of(value)
        made = nn.tensor_type(nn.element_of(value), (*dims[:-1], _ONE))
        axes = nn.ints_setting([len(dims) - 1])
        return self.add(
            nn.ReduceOp, [value], made, kind=StringAttr(kind), axes=axes, keepdims=UnitAttr()
        )

    def size(self, size: Size) -> SSAValue:
        """A size as i64."""
        if size.constant is not None:
            return self.number(size.constant, i64)
        index = nn.SizeOp(size)
        count = nn.FromIndexOp(index.value)
        self.ops += [index, count]
        return count.value


def _broadcast(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    rank = max(map(len, shapes))
    full = [(*(_ONE,) * (rank - len(dims)), *dims) for dims in shapes]
    return tuple(next((d for d in axis if d != _ONE), _ONE) for axis in zip(*full))


def _wide(*values: SSAValue) -> Attribute:
    """The type to compute in."""
    return f64 if any(nn.element_of(value) == f64 for value in values) else f32


# Attention ----------------------------------------------------------------------------------------


def _attention(parts: _Parts, op: nn.AttentionOp) -> SSAValue | None:
    layouts = [layout.data for layout in op.layouts]
    heads = [nn.dims_of(v)[x.index("h")] for v, x in zip(op.inputs[:2], layouts)]
    groups = _groups(*heads)
    if groups is None or op.precision is not None:
        return None
    wide = _wide(*op.inputs[:3])
    q, k, v = (
        parts.cast(parts.swap(value, layout), wide) for value, layout in zip(op.inputs[:3], layouts)
    )
    batch, count, queries, _ = nn.dims_of(q)
    keys, size = nn.dims_of(v)[2:]
    # The queries of the heads that share keys are rows of one product.
    joined = (batch, heads[1], queries * groups)
    rows = parts.reshape(q, (*joined, nn.dims_of(q)[3]))
    scores = parts.reshape(parts.product(rows, k, turned=True), (batch, count, queries, keys))
    if op.scale.value.data != 1.0:
        scores = parts.each("mul", scores, parts.number(op.scale.value.data, wide))
    if op.softcap is not None or op.cap is not None:
        cap = op.cap if op.softcap is None else parts.number(op.softcap.value.data, wide)
        assert cap is not None
        cap = parts.cast(cap, wide)
        scores = parts.each("tanh", parts.each("div", scores, cap))
        scores = parts.each("mul", scores, cap)
    seen = _seen(parts, op, queries, keys)
    if op.mask is not None and nn.element_of(op.mask) != i1:
        scores = parts.each("add", scores, parts.cast(op.mask, wide), like=scores)
    if seen is not None:
        scores = parts.each("where", seen, scores, parts.number(-inf, wide), like=scores)
    weights = parts.add(nn.SoftmaxOp, [scores], scores.type, axis=nn.int_setting(3))
    if op.nan_rows is None:
        none = parts.number(-inf, wide)
        empty = parts.each("eq", parts.along_rows("max", scores), none, element=i1)
        weights = parts.each("where", empty, parts.number(0.0, wide), weights)
    full = (*joined, keys)
    weights = parts.reshape(weights, full)
    if seen is None:
        result = parts.product(weights, v)
    else:
        seen = parts.reshape(parts.stretch(seen, nn.dims_of(scores)), full)
        result = _seen_product(parts, weights, v, seen)
    result = parts.reshape(result, (batch, count, queries, size))
    return parts.cast(parts.swap(result, layouts[3]), nn.element_of(op.result[0]))


def _groups(many: Size, few: Size) -> int | None:
    """How many heads of q share those of k; None when only the step knows."""
    if many == few:
        return 1
    if many.constant is None or not few.constant:
        return None
    return many.constant // few.constant


def _seen(parts: _Parts, op: nn.AttentionOp, queries: Size, keys: Size) -> SSAValue | None:
    """Which keys each query sees; None for all. Queries are the last positions of the keys."""
    found: list[SSAValue] = []
    if op.mask is not None and nn.element_of(op.mask) == i1:
        found.append(op.mask)
    reach = op.reach if op.window is None else parts.number(op.window.value.data, i64)
    if op.causal is not None or reach is not None:
        first = parts.size(keys - queries)
        query, key = (
            parts.add(nn.IotaOp, [], nn.tensor_type(i64, dims), axis=nn.int_setting(axis))
            for axis, dims in enumerate(((queries, _ONE), (_ONE, keys)))
        )
        distance = parts.each("sub", parts.each("add", query, first), key)
        if op.causal is not None:
            found.append(parts.each("ge", distance, parts.number(0, i64), element=i1))
        if reach is not None:
            found.append(parts.each("lt", parts.each("abs", distance), reach, element=i1))
    while len(found) > 1:
        found.append(parts.each("and", found.pop(0), found.pop(0)))
    return found[0] if found else None


def _seen_product(parts: _Parts, weights: SSAValue, v: SSAValue, seen: SSAValue) -> SSAValue:
    """weights · v, where a value that is not finite counts for the rows that see it, and for no other.

    A hidden one has weight 0, and 0 times infinity would be NaN.
    """
    zero = parts.number(0.0, nn.element_of(v))
    finite = parts.each("is_finite", v, element=i1)
    result = parts.product(weights, parts.each("where", finite, v, zero))
    # 0 times infinity is NaN, which is infinity and -infinity added up, where the value is seen.
    lost = parts.each("and", seen, parts.each("eq", weights, zero, element=i1))
    lost = parts.product(lost, parts.each("not", finite))
    for kind, most in (("lt", inf), ("gt", -inf)):
        limit = parts.number(most, nn.element_of(v))
        beyond = parts.each("not", parts.each(kind, v, limit, element=i1))
        there = parts.each("or", parts.product(seen, beyond), lost)
        result = parts.each("add", result, parts.each("where", there, limit, zero))
    return result


# Norms --------------------------------------------------------------------------------------------


def _norm(parts: _Parts, op: nn.LayerNormOp | nn.RmsNormOp) -> SSAValue:
    result = op.result[0].type
    assert isinstance(result, TensorType)
    wide = _wide(op.inputs[0])
    x, *affine = (parts.cast(value, wide) for value in op.inputs)
    if isinstance(op, nn.LayerNormOp):
        x = parts.each("sub", x, parts.along_rows("mean", x))
    variance = parts.along_rows("mean", parts.each("mul", x, x))
    eps = parts.number(op.eps.value.data, wide)
    y = parts.each("div", x, parts.each("sqrt", parts.each("add", variance, eps)))
    kinds = ("mul", "add")
    if isinstance(op, nn.LayerNormOp) and op.has_weight is None:
        kinds = ("add",)
    for kind, value in zip(kinds, affine):
        y = parts.each(kind, y, value)
    return parts.cast(y, result.element_type)


# Pairs --------------------------------------------------------------------------------------------


def _rotary(parts: _Parts, op: nn.RotaryOp) -> SSAValue:
    """First and second elements of the pairs apart, and together again."""
    x, cosine, sine = op.inputs
    wide, stored = nn.element_of(cosine), nn.element_of(op.result[0])
    *lead, last = nn.dims_of(x)
    pairs, two = last // 2, Size.of(2)
    interleaved = op.interleaved is not None
    dims = (*lead, pairs, two) if interleaved else (*lead, two, pairs)
    axis = len(dims) - (1 if interleaved else 2)
    apart = parts.reshape(x, dims)

    def one(number: int) -> SSAValue:
        starts = [SizeAttr(Size.of(number if d == axis else 0)) for d in range(len(dims))]
        shape = [_ONE if d == axis else size for d, size in enumerate(dims)]
        part = parts.add(
            nn.SliceOp,
            [apart],
            nn.tensor_type(nn.element_of(x), shape),
            starts=ArrayAttr(starts),
            steps=nn.ints_setting([1] * len(dims)),
        )
        return parts.cast(parts.reshape(part, (*lead, pairs)), wide)

    a, b = one(0), one(1)

    def times(value: SSAValue, factor: SSAValue) -> SSAValue:
        return parts.each("mul", value, factor, like=a)

    first = parts.each("sub", times(a, cosine), times(b, sine))
    second = parts.each("add", times(b, cosine), times(a, sine))
    shape = [_ONE if d == axis else size for d, size in enumerate(dims)]
    turned = [parts.reshape(parts.cast(value, stored), shape) for value in (first, second)]
    kind = nn.tensor_type(stored, dims)
    joined = parts.add(nn.ConcatOp, turned, kind, axis=nn.int_setting(axis))
    return parts.reshape(joined, nn.dims_of(x))
