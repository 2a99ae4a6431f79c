"""Attention and rotary positions in ONNX, written out: their own operators came with a later set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openinfer.compiler.exporters.onnx.calls import Call, op
from openinfer.compiler.exporters.onnx.graph import NoForm, Value, element_number
from openinfer.dialects.ops.attention import attention_split, head_counts
from openinfer.dialects.ops.rotary import rope_form, rotated_dims
from openinfer.runtime.sizes import Size, SizeLike

_HIDDEN = {"f32": -3e38, "f64": -3e38, "bf16": -3e38, "f16": -65504.0}
"""A score that nothing is left of behind the softmax."""


@op("attention")
def _attention(call: Call) -> list[str]:
    q, k, v, *mask = call.operands
    merged = call.settings["heads"] is not None
    if not merged and attention_split(q.spec, k.spec):
        raise NoForm(
            "attention of a matrix that is split by the heads of a cache has no form in ONNX"
        )
    if q.dtype not in _HIDDEN:
        raise NoForm(f"attention of {q.dtype} has no form in ONNX")
    if merged:
        heads, groups = head_counts(q.spec, k.spec, call.settings)
        q, k, v = (_apart(call, x, n) for x, n in ((q, heads), (k, groups), (v, groups)))
    scale = call.settings["scale"]
    if scale is None:
        size = q.dims[-1].constant
        if size is None:
            raise NoForm("the size of a head must be known")
        scale = 1 / math.sqrt(size)
    k, v = (_repeated(call, x, q.dims[:-2]) for x in (k, v))
    order = [*range(k.rank - 2), k.rank - 1, k.rank - 2]
    scores = call.node("MatMul", q.name, call.node("Transpose", k.name, perm=order))
    scores = call.node("Mul", scores, call.number(float(scale)))
    if (cap := call.settings["softcap"]) is not None:
        limit = call.number(float(cap))
        scores = call.node("Mul", call.node("Tanh", call.node("Div", scores, limit)), limit)
    visible = _visible(call, q.dims[-2], k.dims[-2])
    for one in mask:
        if one.dtype == "bool":
            visible = call.node("And", visible, one.name) if visible else one.name
        else:
            added = one.name
            if one.dtype != q.dtype:
                added = call.node("Cast", added, to=element_number(q.dtype))
            scores = call.node("Add", scores, added)
    if visible:
        scores = call.node("Where", visible, scores, call.number(_HIDDEN[q.dtype]))
    shares = call.node("Softmax", scores, axis=-1)
    if visible:
        # Rows that see nothing are 0.
        shares = call.node("Where", visible, shares, call.number(0.0))
    if not merged:
        return call.last("MatMul", shares, v.name)
    found = call.node("MatMul", shares, v.name)
    places = [*range(q.rank - 3), q.rank - 2, q.rank - 3, q.rank - 1]
    found = call.node("Transpose", found, perm=places)
    return call.last("Reshape", found, _shape(call, call.results[0].dims))


def _shape(call: Call, dims: Sequence[SizeLike]) -> str:
    sizes = [Size.of(dim) for dim in dims]
    known = [size.constant for size in sizes]
    if known.count(None) == 1 and 0 not in known:
        return call.g.ints([-1 if n is None else n for n in known])
    return call.g.shape(sizes)


def _apart(call: Call, x: Value, heads: int) -> Value:
    """`[…, L, heads * size]` or `[…, L, heads, size]` as `[…, heads, L, size]`."""
    name, dims = x.name, x.dims
    if x.rank == call.x.rank:
        dims = (*x.dims[:-1], Size.of(heads), x.dims[-1] // heads)
        name = call.node("Reshape", name, _shape(call, dims))
    rank = len(dims)
    places = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    name = call.node("Transpose", name, perm=places)
    return Value(name, x.dtype, tuple(dims[place] for place in places))


def _repeated(call: Call, x: Value, lead: Sequence[Size]) -> Value:
    """Heads of k and v, each as often as heads of q share it."""
    if x.rank < 3 or x.dims[-3] == lead[-1]:
        return x
    have, want = x.dims[-3].constant, lead[-1].constant
    if not have or not want:
        raise NoForm("the numbers of heads must be known")
    times = want // have
    *front, heads, length, size = x.dims
    name = call.node("Unsqueeze", x.name, call.g.ints([x.rank - 2]))
    name = call.node("Expand", name, call.g.shape([*front, heads, times, length, size]))
    dims = (*front, Size.of(want), length, size)
    return Value(call.node("Reshape", name, call.g.shape(dims)), x.dtype, dims)


def _visible(call: Call, queries: Size, keys: Size) -> str:
    """Which keys a query may see by its place, queries standing at the end of the keys; "" for all."""
    window = call.settings["window"]
    if not call.settings["causal"] and window is None:
        return ""
    g = call.g

    def places(count: Size) -> str:
        zero, one = g.constant(0, "i64"), g.constant(1, "i64")
        return call.node("Range", zero, call.node("Squeeze", g.size(count), g.ints([0])), one)

    own = call.node("Add", places(queries), g.size(keys - queries))
    own = call.node("Unsqueeze", own, g.ints([1]))
    far = call.node("Sub", own, places(keys))
    found = ""
    if call.settings["causal"]:
        found = call.node("GreaterOrEqual", far, g.constant(0, "i64"))
    if window is not None:
        near = call.node("Less", call.node("Abs", far), g.constant(int(window), "i64"))
        found = call.node("And", found, near) if found else near
    return found


@op("rope")
def _rope(call: Call) -> list[str]:
    """Pairs of elements times the cosine and sine of their angles, then what is not turned."""
    g, x = call.g, call.x
    form, settings = rope_form(x.spec, call.settings)
    tables = call.operands[1:] if len(call.operands) > 2 else []
    turned = rotated_dims(form, settings, *(table.spec for table in tables[:1]))
    size = form.dims[-1].constant
    if not size or not turned:
        raise NoForm("the size of a head must be known, and some of it turned")
    name = x.name
    if form.dims != x.dims:
        name = call.node("Reshape", name, _shape(call, form.dims))
    inside = settings["layout"] == "blhd"
    if tables:
        parts = [_for_heads(call, table, table.name, inside, 1) for table in tables]
    else:
        parts = _phases(call, form.dims[-3 if inside else -2], turned, settings, inside)
    interleaved = bool(settings["interleaved"])
    axis = g.ints([len(form.dims) - 1])
    step = g.ints([2 if interleaved else 1])
    bounds = (
        ((0, turned), (1, turned)) if interleaved else ((0, turned // 2), (turned // 2, turned))
    )
    a, b = (
        call.node("Slice", name, g.ints([low]), g.ints([high]), axis, step) for low, high in bounds
    )
    cos, sin = parts
    first = call.node("Sub", call.node("Mul", a, cos), call.node("Mul", b, sin))
    second = call.node("Add", call.node("Mul", b, cos), call.node("Mul", a, sin))
    if interleaved:
        pair = [call.node("Unsqueeze", one, g.ints([-1])) for one in (first, second)]
        joined = call.node("Concat", *pair, axis=-1)
        both = [call.node("Reshape", joined, _shape(call, (*form.dims[:-1], turned)))]
    else:
        both = [first, second]
    if turned < size:
        both.append(call.node("Slice", name, g.ints([turned]), g.ints([size]), axis))
    found = both[0] if len(both) == 1 else call.node("Concat", *both, axis=-1)
    return call.last("Reshape", found, _shape(call, call.results[0].dims))


def _for_heads(call: Call, value: Value, name: str, inside: bool, behind: int) -> str:
    """With an axis for the heads; `behind` axes stand behind that of positions."""
    place = value.rank - behind
    if inside:
        return call.node("Unsqueeze", name, call.g.ints([place]))
    return call.node("Unsqueeze", name, call.g.ints([place - 1])) if place > 1 else name


def _phases(
    call: Call, length: Size, turned: int, settings: Mapping[str, Any], inside: bool
) -> list[str]:
    """Cosines and sines of positions times frequencies; angles are brought below a turn in f64."""
    g = call.g
    if len(call.operands) > 1:
        given = call.operands[1]
    else:
        zero, one = g.constant(0, "i64"), g.constant(1, "i64")
        count = call.node("Squeeze", g.size(length), g.ints([0]))
        given = Value(call.node("Range", zero, count, one), "i64", (length,))
    name = call.node("Cast", given.name, to=element_number("f64"))
    name = call.node("Unsqueeze", _for_heads(call, given, name, inside, 0), g.ints([-1]))
    base = settings["base"]
    if not isinstance(base, int | float):
        raise NoForm("base must be a number")
    frequency = float(base) ** (-np.arange(0, turned, 2) / turned)
    angle = call.node("Mul", name, g.constant(frequency, "f64"))
    turn = g.constant(2 * math.pi, "f64")
    turns = call.node("Floor", call.node("Div", angle, turn))
    angle = call.node("Sub", angle, call.node("Mul", turns, turn))
    angle = call.node("Cast", angle, to=element_number("f32"))
    found = [call.node(name, angle) for name in ("Cos", "Sin")]
    if call.x.dtype == "f32":
        return found
    return [call.node("Cast", one, to=element_number(call.x.dtype)) for one in found]
