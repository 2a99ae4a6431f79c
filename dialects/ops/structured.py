"""Matrix multiplication, linear layers, attention and gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    ACC,
    EVERYTHING,
    FLOATS,
    INTEGERS,
    NUMBERS,
    STORED,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    accumulation,
    as_bool,
    broadcast_dims,
    dims_text,
    normal_axis,
    promote_floats,
)
from openinfer.runtime.sizes import Size


def _matmul(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    a, b = operands
    dtype = _product_dtype(a, b, settings, ("a", "b"))
    if a.rank < 2 or b.rank < 2:
        raise ShapeError(
            f"operands must have rank 2 or more: a is {a}, b is {b}",
            "add an axis of size 1 with `op unsqueeze`",
        )
    m, k = _matrix(a, as_bool(settings["transpose_a"], "transpose_a"))
    inner, n = _matrix(b, as_bool(settings["transpose_b"], "transpose_b"))
    if k != inner:
        raise ShapeError(
            f"the inner dimensions differ: a {dims_text(a.dims)} has {k}, "
            f"b {dims_text(b.dims)} has {inner}",
            "matmul is [..., M, K] by [..., K, N]; transpose_a and transpose_b swap the last two",
        )
    batch = broadcast_dims([a.dims[:-2], b.dims[:-2]])
    return [TensorSpec(dtype, (*batch, m, n))]


def _product_dtype(
    a: TensorSpec, b: TensorSpec, settings: Mapping[str, object], names: tuple[str, str]
) -> str:
    """The dtype of a product of operands that the op calls `names`. Raises OpDTypeError, SettingError."""
    if a.dtype != b.dtype and not (a.dtype in FLOATS and b.dtype in FLOATS):
        raise OpDTypeError(
            f"{names[0]} is {a.dtype} but {names[1]} is {b.dtype}",
            f"cast one of them: `op cast({b.called(names[1])}, to={a.dtype}) >> …;`",
        )
    dtype = promote_floats([a.dtype, b.dtype]) if a.dtype in FLOATS else a.dtype
    if settings.get("acc") is None:
        return dtype
    if dtype in ("bool", "bitset"):
        raise SettingError("acc", f"acc does not apply to {dtype}")
    return accumulation(dtype, settings["acc"])[1]


def _matrix(spec: TensorSpec, transposed: bool) -> tuple[Size, Size]:
    rows, columns = spec.dims[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _linear(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    x, w = operands[:2]
    bias = operands[2] if len(operands) > 2 else None
    if w.rank != 2 or x.rank < 1:
        raise ShapeError(
            f"x is {x} and w is {w}",
            "x is [..., in] and w is [out, in], as PyTorch has it; `op matmul(x, w, transpose_b=true)` "
            "takes more weights at once",
        )
    if x.dims[-1] != w.dims[1]:
        turned = x.dims[-1] == w.dims[0]
        raise ShapeError(
            f"x {dims_text(x.dims)} has {x.dims[-1]} features, w {dims_text(w.dims)} takes {w.dims[1]}",
            f"w is [out, in]; with [in, out] write `op matmul({x.called('x')}, {w.called('w')})`"
            if turned
            else "x is [..., in] and w is [out, in]",
        )
    if bias is not None and bias.dims != w.dims[:1]:
        raise ShapeError(
            f"the bias is {dims_text(bias.dims)}, w {dims_text(w.dims)} has {w.dims[0]} outputs",
            f"the bias is [{w.dims[0]}]; other shapes are added with `op add`",
        )
    dtype = _product_dtype(x, w, settings, ("x", "w"))
    if bias is not None and bias.dtype != dtype:
        if dtype not in FLOATS or bias.dtype not in FLOATS:
            raise OpDTypeError(
                f"the product is {dtype} but the bias is {bias.dtype}",
                f"cast it: `op cast({bias.called('b')}, to={dtype}) >> …;`",
            )
        dtype = promote_floats([dtype, bias.dtype])
    return [TensorSpec(dtype, (*x.dims[:-1], w.dims[0]))]


def attention_split(q: TensorSpec, k: TensorSpec) -> bool:
    """True for the form where q `[B, D]` is split into the heads of k `[H, Dh]` or `[T, H, Dh]`."""
    if q.rank != 2 or k.rank not in (2, 3):
        return False
    if k.rank == 3:
        return True
    return q.dims[1] != k.dims[1] and q.dims[1] == k.dims[0] * k.dims[1]


def _attention(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    q, k, v = operands[:3]
    for name, operand in (("k", k), ("v", v)):
        if operand.dtype not in FLOATS:
            raise OpDTypeError(f"{name} is {operand.dtype}", "attention needs float operands")
    as_bool(settings["causal"], "causal")
    window = settings["window"]
    if isinstance(window, int) and window < 1:
        raise SettingError("window", f"window={window} lets no position attend", "use 1 or more")
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
        if broadcast_dims([scores, fourth.dims]) != scores:
            raise ShapeError(f"the mask {fourth} does not broadcast to {dims_text(scores)}")
    return [TensorSpec(q.dtype, (*heads, q.dims[-2], v.dims[-1]))]


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
        raise ShapeError(f"q {q} does not split into {heads} heads of {size} (k is {k})")
    if projection is not None:
        if projection.dtype not in FLOATS:
            raise OpDTypeError(f"the projection is {projection.dtype}", "use a float dtype")
        if projection.dims != (q.dims[1], q.dims[1]):
            raise ShapeError(f"the projection {projection} is not [{q.dims[1]}, {q.dims[1]}]")
    return [q]


def _gather(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    table, indices = operands
    if indices.dtype not in INTEGERS:
        raise OpDTypeError(f"the indices are {indices.dtype}", "indices must be integers")
    axis = normal_axis(settings["axis"], table.rank)
    dims = (*table.dims[:axis], *indices.dims, *table.dims[axis + 1 :])
    return [TensorSpec(table.dtype, dims)]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "matmul",
        ("a", "b"),
        _matmul,
        "`[..., M, K]` by `[..., K, N]`, batch dimensions broadcast; floats narrower than f64 "
        "accumulate in f32, integers wrap, bool is OR of ANDs.",
        "structured",
        EVERYTHING,
        (
            ACC,
            Setting("transpose_a", "bool", False, "a is [..., K, M]"),
            Setting("transpose_b", "bool", False, "b is [..., N, K]"),
        ),
        broadcast=True,
    ),
    OpSpec(
        "linear",
        ("x", "w"),
        _linear,
        "`x @ w^T + bias` for x `[..., in]`, w `[out, in]` and bias `[out]`, as PyTorch has them; summed "
        "as by `matmul` and rounded once, behind the bias.",
        "structured",
        NUMBERS,
        (ACC,),
        optional=("bias",),
    ),
    OpSpec(
        "attention",
        ("q", "k", "v"),
        _attention,
        "`softmax(q @ k^T * scale + mask) @ v` per head; k and v may have fewer heads, each shared "
        "by a group. Queries stand at the end of the keys. A mask of bools says what is attended to, one of "
        "floats is added. What a query may not attend to is not read; if that is all, its row is 0. "
        "q `[B, D]` with k, v `[T, H, Dh]` is split into heads; then a fourth operand `[D, D]` "
        "projects the result.",
        "structured",
        FLOATS,
        (
            Setting("scale", "float", None, "default 1/sqrt(head size)"),
            Setting("causal", "bool", False, "query i sees keys up to i + Lk - Lq", ("is_causal",)),
            Setting("window", "int", None, "keys nearer than this to the query's position"),
        ),
        optional=("mask",),
        aliases=("attn", "sdpa"),
    ),
    OpSpec(
        "gather",
        ("table", "indices"),
        _gather,
        "Slices of the table at the indices; an index outside `0..size` is an error.",
        "structured",
        STORED,
        (Setting("axis", "int", 0, "the axis that the indices choose from", ("dim",)),),
        aliases=("embedding",),
    ),
)
