"""Matrix multiplication, linear layers and gather."""

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
