"""Ops that choose, order or count along an axis: scatter, sort, argsort, topk, cumsum, cumprod, one_hot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    ACC,
    EVERYTHING,
    INTEGERS,
    NUMBERS,
    REQUIRED,
    ArityError,
    Infer,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    accumulation,
    as_bool,
    as_int,
    as_size,
    broadcast_dims,
    dims_text,
    normal_axis,
    same_dtype,
)
from openinfer.dialects.ops.elementwise import check_scalars

Settings = Mapping[str, object]

SCATTER_MODES = ("set", "add", "min", "max")


def _scatter(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x, indices, updates = operands
    if indices.dtype not in INTEGERS:
        raise OpDTypeError(f"the indices are {indices.dtype}", "indices must be integers")
    same_dtype((x, updates), ("x", "updates"))
    mode = settings["mode"]
    if mode != "set" and x.dtype not in NUMBERS:
        raise OpDTypeError(f'mode="{mode}" does not take {x.dtype}', 'only mode="set" does')
    axis = normal_axis(settings["axis"], x.rank)
    wanted = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    if broadcast_dims([wanted, updates.dims]) != wanted:
        raise ShapeError(
            f"updates {updates} do not stretch to {dims_text(wanted)}",
            f"updates have the shape of x {dims_text(x.dims)} with axis {axis} replaced by that "
            f"of the indices {dims_text(indices.dims)}",
        )
    return [x]


def _ordered(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    """`sort`: the values, and where the second output is written, their positions."""
    (x,) = operands
    normal_axis(settings["axis"], x.rank)
    for name in ("descending", "stable"):
        as_bool(settings[name], name)
    return _with_positions(x, settings)


def _positions(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    normal_axis(settings["axis"], x.rank)
    as_bool(settings["descending"], "descending")
    return [TensorSpec("i64", x.dims)]


def _topk(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    axis = normal_axis(settings["axis"], x.rank)
    for name in ("largest", "sorted"):
        as_bool(settings[name], name)
    k = as_size(settings["k"], "k")
    if k.constant is not None and k.constant < 0:
        raise SettingError("k", f"k={k} is negative")
    room = (x.dims[axis] - k).constant
    if room is not None and room < 0:
        raise ShapeError(f"k={k} exceeds axis {axis} of {x}", "k is at most the size of the axis")
    dims = (*x.dims[:axis], k, *x.dims[axis + 1 :])
    return _with_positions(TensorSpec(x.dtype, dims), settings)


def _with_positions(values: TensorSpec, settings: Settings) -> list[TensorSpec]:
    count = as_int(settings["outputs"], "outputs")
    if count not in (1, 2):
        raise ArityError(
            f"there are 1 or 2 outputs, got {count}", "the values, then their positions as i64"
        )
    return [values, TensorSpec("i64", values.dims)][:count]


def _running(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    normal_axis(settings["axis"], x.rank)
    for name in ("exclusive", "reverse"):
        as_bool(settings[name], name)
    return [TensorSpec(accumulation(x.dtype, settings["acc"])[1], x.dims)]


def _one_hot(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (indices,) = operands
    rank = indices.rank + 1
    axis = normal_axis(settings["axis"], rank)
    dtype = str(settings["dtype"])
    depth = as_size(settings["depth"], "depth")
    if depth.constant is not None and depth.constant < 1:
        raise SettingError("depth", f"depth={depth} leaves no place", "use 1 or more")
    for name in ("on_value", "off_value"):
        check_scalars({"value": settings[name]}, dtype)
    return [TensorSpec(dtype, (*indices.dims[:axis], depth, *indices.dims[axis:]))]


_AXIS = Setting("axis", "int", -1, "the axis", aliases=("dim",))


def _along(
    name: str,
    infer: Infer,
    doc: str,
    *settings: Setting,
    outputs: int | None = None,
    aliases: tuple[str, ...] = (),
) -> OpSpec:
    return OpSpec(
        name, ("x",), infer, doc, "indexing", NUMBERS, settings, outputs=outputs, aliases=aliases
    )


def _cumulative(name: str, what: str) -> OpSpec:
    return _along(
        name,
        _running,
        f"The {what} of the elements up to each position of an axis; f16, bf16 and f8 accumulate in "
        "f32, integers wrap.",
        _AXIS,
        Setting("exclusive", "bool", False, "without the element at the position itself"),
        Setting("reverse", "bool", False, "from the end of the axis"),
        ACC,
        outputs=1,
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "scatter",
        ("x", "indices", "updates"),
        _scatter,
        "x with the slices at the indices replaced by updates, or joined with them; the reverse of "
        "`gather`. Of equal indices all count, one after the other in row-major order, so the last "
        "one stays with `set`. An index outside `0..size` is an error.",
        "indexing",
        EVERYTHING,
        (
            Setting("axis", "int", 0, "the axis that the indices choose from", ("dim",)),
            Setting(
                "mode",
                "string",
                "set",
                "set; add (floats narrower than f32 add up in f32, integers wrap); min or max (a "
                "NaN is ignored when the other is a number)",
                aliases=("reduce", "reduction"),
                choices=SCATTER_MODES,
            ),
        ),
        meeting=("x", "updates"),
    ),
    _along(
        "topk",
        _topk,
        "The k largest (smallest) values along an axis and, as a second output, their positions as "
        "i64. NaN counts as larger than all numbers; of equal values the first ones are taken.",
        Setting("k", "size", REQUIRED, "how many"),
        _AXIS,
        Setting("largest", "bool", True, "the largest, else the smallest"),
        Setting("sorted", "bool", True, "best first; without it any order would do"),
    ),
    _along(
        "sort",
        _ordered,
        "The values along an axis in ascending order and, as a second output, their positions as "
        "i64. NaN counts as larger than all numbers: last, or first when descending. Equal values "
        "keep their order.",
        _AXIS,
        Setting("descending", "bool", False, "largest first"),
        Setting("stable", "bool", True, "equal values keep their order; they always do"),
    ),
    _along(
        "argsort",
        _positions,
        "The positions that bring an axis into ascending order, as i64: the second output of `sort`. NaN "
        "counts as larger than all numbers, positions of equal values ascend.",
        _AXIS,
        Setting("descending", "bool", False, "largest first"),
        outputs=1,
    ),
    _cumulative("cumsum", "sum"),
    _cumulative("cumprod", "product"),
    OpSpec(
        "one_hot",
        ("indices",),
        _one_hot,
        "`on_value` where the position along a new axis is the index, else `off_value`. An index "
        "outside `0..depth` is an error.",
        "indexing",
        INTEGERS,
        (
            Setting("depth", "size", REQUIRED, "the size of the new axis", ("num_classes",)),
            Setting("axis", "int", -1, "where the new axis stands in the result", ("dim",)),
            Setting("on_value", "number", 1, "the value at the index", ("on",)),
            Setting("off_value", "number", 0, "the value elsewhere", ("off",)),
            Setting("dtype", "dtype", "f32", "the dtype of the result", ("to",)),
        ),
    ),
)
