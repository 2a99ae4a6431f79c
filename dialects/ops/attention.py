"""Attention: of heads that are an axis, and of heads that are parts of the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from openinfer.dialects.ops.base import (
    FLOATS,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_bool,
    dims_text,
    positive,
)
from openinfer.runtime.sizes import Size


def attention_split(q: TensorSpec, k: TensorSpec) -> bool:
    """True for the form where q `[B, D]` is split into the heads of k `[H, Dh]` or `[T, H, Dh]`."""
    if q.rank != 2 or k.rank not in (2, 3):
        return False
    if k.rank == 3:
        return True
    return q.dims[1] != k.dims[1] and q.dims[1] == k.dims[0] * k.dims[1]


def heads_apart(x: TensorSpec, heads: int, name: str) -> TensorSpec:
    """x `[..., L, heads * size]` as `[..., L, heads, size]`. Raises ShapeError.

    A width that is not known yet is taken on trust.
    """
    if x.rank < 2:
        raise ShapeError(f"{name} is {x}", f"with `heads` {name} is [..., length, heads * size]")
    width = x.dims[-1]
    if width.constant is not None and width.constant % heads:
        raise ShapeError(f"the width of {name} {x} does not divide into {heads} heads")
    return replace(x, dims=(*x.dims[:-1], Size.of(heads), width // heads))


def head_counts(q: TensorSpec, k: TensorSpec, settings: Mapping[str, object]) -> tuple[int, int]:
    """The heads of q and of k, of attention with the setting `heads`. Raises SettingError, ShapeError."""
    heads = positive(settings["heads"], "heads")
    groups = heads if settings["kv_heads"] is None else positive(settings["kv_heads"], "kv_heads")
    if k.rank == q.rank + 1:
        found = k.dims[-2].constant
        if settings["kv_heads"] is None and found:
            groups = found
        elif k.dims[-2] != Size.of(groups):
            raise ShapeError(f"k {k} has {k.dims[-2]} heads, not {groups}")
    if heads % groups:
        raise SettingError(
            "kv_heads",
            f"{heads} heads are no multiple of {groups} heads of k and v",
            "each head of k and v serves a group of q's",
        )
    return heads, groups


def _merged_attention(
    operands: Sequence[TensorSpec], settings: Mapping[str, object]
) -> list[TensorSpec]:
    """q `[..., Lq, heads * size]`, k and v `[..., Lk, groups * size]` or `[..., Lk, groups, size]`."""
    q, k, v, *mask = operands
    heads, groups = head_counts(q, k, settings)

    def turned(x: TensorSpec, name: str, count: int) -> TensorSpec:
        if x.rank != q.rank and (name == "q" or x.rank != q.rank + 1):
            raise ShapeError(
                f"q is {q} and {name} is {x}",
                f"with `heads` q is [..., Lq, heads * size], {name} [..., Lk, heads * size] or "
                "[..., Lk, heads, size]",
            )
        apart = x if x.rank != q.rank else heads_apart(x, count, name)
        *lead, length, many, size = apart.dims
        return replace(x, dims=(*lead, many, length, size))

    parts = [turned(q, "q", heads), turned(k, "k", groups), turned(v, "v", groups)]
    (result,) = _attention([*parts, *mask], {**settings, "heads": None, "kv_heads": None})
    same = parts[2].dims[-1] == parts[0].dims[-1]
    width = q.dims[-1] if same else result.dims[-1] * heads
    return [replace(result, dims=(*q.dims[:-1], width))]


def _attention(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    if settings["heads"] is not None:
        return _merged_attention(operands, settings)
    if settings["kv_heads"] is not None:
        raise SettingError("kv_heads", "kv_heads belongs to heads", "give both")
    q, k, v = operands[:3]
    for name, operand in (("k", k), ("v", v)):
        if operand.dtype not in FLOATS:
            raise OpDTypeError(f"{name} is {operand.dtype}", "attention needs float operands")
    as_bool(settings["causal"], "causal")
    window = settings["window"]
    if isinstance(window, int) and window < 1:
        raise SettingError("window", f"window={window} lets no position attend", "use 1 or more")
    softcap = settings["softcap"]
    if isinstance(softcap, float) and not 0 < softcap < inf:
        raise SettingError(
            "softcap", f"softcap={softcap} is not above 0 and finite", "leave it out for no cap"
        )
    fourth = operands[3] if len(operands) > 3 else None
    if attention_split(q, k):
        return _split_attention(q, k, v, fourth)
    if q.rank < 2 or k.rank != q.rank or v.rank != q.rank:
        raise ShapeError(
            f"q, k and v must have one rank of 2 or more: q is {q}, k is {k}, v is {v}",
            "q is [..., Hq, Lq, D], k and v are [..., Hkv, Lk, D]",
        )
    if q.dims[-1] != k.dims[-1]:
        raise ShapeError(f"the head size of q {q} is not that of k {k}")
    if k.dims[-2] != v.dims[-2]:
        raise ShapeError(f"k {k} and v {v} have different lengths")
    heads = _grouped_heads(q, k, v)
    scores = (*heads, q.dims[-2], k.dims[-2])
    if fourth is not None:
        if fourth.dtype != "bool" and fourth.dtype not in FLOATS:
            raise OpDTypeError(f"the mask is {fourth.dtype}", "use bool, or a float to add")
        _check_mask(fourth, scores)
    return [TensorSpec(q.dtype, (*heads, q.dims[-2], v.dims[-1]))]


def _check_mask(mask: TensorSpec, scores: tuple[Size, ...]) -> None:
    """Raises ShapeError for a mask that does not broadcast to the scores."""
    fits = mask.rank <= len(scores) and all(
        own == want or own.constant == 1 for own, want in zip(mask.dims[::-1], scores[::-1])
    )
    if fits:
        return
    hint = "dimensions are aligned at the right, each that of the scores or 1"
    if len(scores) == 4 and mask.dims == (scores[0], scores[3]):
        shape = f"{scores[0]}, 1, 1, {scores[3]}"
        hint = f"one of keys: `op reshape({mask.called('mask')}, shape=[{shape}]) >> …;`"
    raise ShapeError(f"the mask {mask} does not broadcast to {dims_text(scores)}", hint)


def _grouped_heads(q: TensorSpec, k: TensorSpec, v: TensorSpec) -> tuple[Size, ...]:
    """The leading dimensions of q; k and v may have fewer heads, each used by a group of q's."""
    if k.dims[:-2] != v.dims[:-2]:
        raise ShapeError(f"k {k} and v {v} have different heads")
    if q.rank == 2:
        return ()
    if q.dims[:-3] != k.dims[:-3]:
        raise ShapeError(f"the leading dimensions of q {q} are not those of k {k}")
    many, few = q.dims[-3], k.dims[-3]
    if many != few:
        a, b = many.constant, few.constant
        if (a is not None and b is not None and (b == 0 or a % b)) or b is None:
            raise ShapeError(
                f"q has {many} heads and k has {few}", "the heads of q must be a multiple of k's"
            )
    return q.dims[:-2]


def _split_attention(
    q: TensorSpec, k: TensorSpec, v: TensorSpec, projection: TensorSpec | None
) -> list[TensorSpec]:
    if k.dims != v.dims:
        raise ShapeError(f"k {k} and v {v} have different shapes")
    heads, size = k.dims[-2:]
    if heads * size != q.dims[1]:
        raise ShapeError(
            f"q {q} does not split into {heads} heads of {size} (k is {k})",
            "where several heads of q share one of k and v, say how many q has: `heads=…`",
        )
    if projection is not None:
        if projection.dtype not in FLOATS:
            raise OpDTypeError(f"the projection is {projection.dtype}", "use a float dtype")
        if projection.dims != (q.dims[1], q.dims[1]):
            raise ShapeError(f"the projection {projection} is not [{q.dims[1]}, {q.dims[1]}]")
    return [q]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "attention",
        ("q", "k", "v"),
        _attention,
        "`softmax(q @ k^T * scale + mask) @ v` per head; k and v may have fewer heads, each "
        "shared by a group. With `softcap` c a score s is `c * tanh(s / c)` before the mask. "
        "Queries stand at the end of the keys. A mask of bools says what is attended to, one of "
        "floats is added. What a query may not attend to is not read; if that is all, its row is "
        "0. q `[B, D]` with k, v `[T, H, Dh]` is split into heads; then a fourth operand `[D, D]` "
        "projects the result. With `heads` q is `[..., Lq, heads * size]`, as is the result, k "
        "and v are `[..., Lk, kv_heads * size]` or `[..., Lk, kv_heads, size]`, and the fourth "
        "operand is a mask that broadcasts to `[..., heads, Lq, Lk]`.",
        "structured",
        FLOATS,
        (
            Setting("scale", "float", None, "default 1/sqrt(head size)"),
            Setting("causal", "bool", False, "query i sees keys up to i + Lk - Lq", ("is_causal",)),
            Setting("window", "int", None, "keys nearer than this to the query's position"),
            Setting(
                "softcap",
                "float",
                None,
                "scores stay within -softcap..softcap",
                ("logits_soft_cap",),
            ),
            Setting("heads", "int", None, "q is [..., Lq, heads * size]"),
            Setting(
                "kv_heads", "int", None, "heads of k and v; default those of their shape, or of q"
            ),
        ),
        optional=("mask",),
        aliases=("attn", "sdpa"),
    ),
)
