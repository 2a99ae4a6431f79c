"""Rotary position embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.attention import heads_apart
from openinfer.dialects.ops.base import (
    FLOATS,
    INTEGERS,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_bool,
    as_int,
    dims_text,
    positive,
)
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]
BASE = 10000.0


def rope_form(x: TensorSpec, settings: Settings) -> tuple[TensorSpec, Settings]:
    """x and the settings with the heads of x apart, where `heads` says that they are a part of its last axis.

    Raises SettingError, ShapeError.
    """
    if settings["heads"] is None:
        return x, settings
    apart = heads_apart(x, positive(settings["heads"], "heads"), "x")
    return apart, {**settings, "heads": None, "layout": "blhd"}


def rotated_dims(x: TensorSpec, settings: Settings, tables: TensorSpec | None = None) -> int:
    """How many leading elements of the last axis are rotated; `tables` are the cosines, where given.

    Raises SettingError, ShapeError.
    """
    size = x.dims[-1].constant
    if tables is not None:
        return _table_dims(x, tables, settings)
    if size is None:
        raise ShapeError(
            f"the head size of x {x} is not known", "rope needs it when the program is compiled"
        )
    dims = size if settings["dims"] is None else as_int(settings["dims"], "dims")
    if dims % 2 or not 0 <= dims <= size:
        raise SettingError(
            "dims",
            f"{dims} elements cannot be rotated in pairs out of {size}",
            "use an even number up to the head size",
        )
    return dims


def _table_dims(x: TensorSpec, tables: TensorSpec, settings: Settings) -> int:
    """As many as the tables have pairs for."""
    pairs = tables.dims[-1].constant if tables.dims else 0
    size = x.dims[-1].constant
    if pairs is None or size is None:
        what = "the number of pairs in cos" if pairs is None else f"the head size of x {x}"
        raise ShapeError(f"{what} is not known", "rope needs it when the program is compiled")
    if not tables.dims or 2 * pairs > size:
        raise ShapeError(
            f"cos {tables} has no column for each of up to {size // 2} pairs of x {x}",
            "cos and sin are [L, n/2] for the first n elements of a head",
        )
    if settings["dims"] is not None and as_int(settings["dims"], "dims") != 2 * pairs:
        raise SettingError(
            "dims",
            f"cos {tables} turns {2 * pairs} elements",
            "leave out `dims`: cos and sin say it",
        )
    return 2 * pairs


def position_shape(x: TensorSpec, settings: Settings) -> tuple[Size, ...]:
    """The shape that positions broadcast to: that of x without heads and head size."""
    if settings["layout"] == "blhd":
        return x.dims[:-2]
    return (*x.dims[:-3], x.dims[-2])


def _rope(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    given = operands[0]
    x, settings = rope_form(given, settings)
    heads_inside = settings["layout"] == "blhd"
    if x.rank < (3 if heads_inside else 2):
        raise ShapeError(
            f"x is {x}", "x is [..., L, H, D]" if heads_inside else "x is [..., H, L, D] or [L, D]"
        )
    tables = operands[1] if len(operands) > 2 else None
    rotated_dims(x, settings, tables)
    base = settings["base"]
    if isinstance(base, int | float) and not 0 < base < float("inf"):
        raise SettingError("base", f"base={base} is not positive and finite")
    as_bool(settings["interleaved"], "interleaved")
    if tables is not None:
        _check_tables(x, tables, operands[2], settings)
    elif len(operands) > 1:
        positions, shape = operands[1], position_shape(x, settings)
        if positions.dtype in FLOATS:
            raise OpDTypeError(
                f"the positions are {positions.dtype}",
                "positions are integers; of cosines give the sines, too: `op rope(x, cos, sin) >> y;`",
            )
        if positions.dtype not in INTEGERS:
            raise OpDTypeError(f"the positions are {positions.dtype}", "positions are integers")
        if not _stretches(positions.dims, shape):
            raise ShapeError(
                f"the positions {dims_text(positions.dims)} do not broadcast to {dims_text(shape)}",
                "give one for each position of x, or one for each batch and position",
            )
    return [given]


def _stretches(dims: tuple[Size, ...], shape: tuple[Size, ...]) -> bool:
    """Whether dimensions are the last ones of a shape, or 1."""
    last = shape[len(shape) - len(dims) :]
    fits = all(own == size or own.constant == 1 for own, size in zip(dims, last))
    return len(dims) <= len(shape) and fits


def _check_tables(x: TensorSpec, cos: TensorSpec, sin: TensorSpec, settings: Settings) -> None:
    """Raises OpDTypeError, SettingError, ShapeError for tables that do not fit x, or each other."""
    for name, table in (("cos", cos), ("sin", sin)):
        if table.dtype not in FLOATS:
            raise OpDTypeError(f"{name} is {table.dtype}", "cosines and sines are floats")
    if cos.dims != sin.dims:
        raise ShapeError(f"cos {cos} and sin {sin} have different shapes")
    if settings["base"] != BASE:
        raise SettingError("base", "base makes angles of positions", "cos and sin have theirs")
    shape = position_shape(x, settings)
    if not _stretches(cos.dims[:-1], shape):
        raise ShapeError(
            f"cos {cos} does not broadcast to {dims_text((*shape, cos.dims[-1]))}",
            "give a row for each position of x, or for each batch and position",
        )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "rope",
        ("x",),
        _rope,
        "Rotates pair i of the first `dims` elements of every head by the angle `position / base ** "
        "(2 * i / dims)`; the others stay. A pair is elements i and `dims/2 + i`, or with "
        "`interleaved` 2*i and 2*i + 1. Positions are 0, 1, … unless they are given. Three operands, "
        "`rope(x, cos, sin)`, give the tables instead: `[..., L, n/2]`, which turn the first n elements "
        "of every head. With `heads` x is `[..., L, heads * size]`.",
        "rotary",
        FLOATS,
        (
            Setting("base", "float", BASE, "base of the frequencies", ("theta",)),
            Setting("dims", "int", None, "how many elements are rotated; default all"),
            Setting("interleaved", "bool", False, "pairs are neighbours"),
            Setting(
                "layout",
                "string",
                "bhld",
                "x is [..., H, L, D] as attention takes it, or [..., L, H, D]",
                (),
                ("bhld", "blhd"),
            ),
            Setting(
                "heads",
                "int",
                None,
                "x is [..., L, heads * size], whatever `layout`",
                ("num_heads",),
            ),
        ),
        optional=("positions", "sin"),
        other_names=(("cos", 1),),
    ),
)
