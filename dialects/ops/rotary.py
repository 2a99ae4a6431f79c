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


def rope_form(x: TensorSpec, settings: Settings) -> tuple[TensorSpec, Settings]:
    """x and the settings with the heads of x apart, where `heads` says that they are a part of its last axis.

    Raises SettingError, ShapeError.
    """
    if settings["heads"] is None:
        return x, settings
    apart = heads_apart(x, positive(settings["heads"], "heads"), "x")
    return apart, {**settings, "heads": None, "layout": "blhd"}


def rotated_dims(x: TensorSpec, settings: Settings) -> int:
    """How many leading elements of the last axis are rotated. Raises SettingError, ShapeError."""
    size = x.dims[-1].constant
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
    rotated_dims(x, settings)
    base = settings["base"]
    if isinstance(base, int | float) and not 0 < base < float("inf"):
        raise SettingError("base", f"base={base} is not positive and finite")
    as_bool(settings["interleaved"], "interleaved")
    if len(operands) > 1:
        positions, shape = operands[1], position_shape(x, settings)
        if positions.dtype not in INTEGERS:
            raise OpDTypeError(f"the positions are {positions.dtype}", "positions are integers")
        last = shape[len(shape) - positions.rank :]
        fits = all(p == size or p.constant == 1 for p, size in zip(positions.dims, last))
        if positions.rank > len(shape) or not fits:
            raise ShapeError(
                f"the positions {dims_text(positions.dims)} do not broadcast to {dims_text(shape)}",
                "give one for each position of x, or one for each batch and position",
            )
    return [given]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "rope",
        ("x",),
        _rope,
        "Rotates pair i of the first `dims` elements of every head by the angle `position / base ** "
        "(2 * i / dims)`; the others stay. A pair is elements i and `dims/2 + i`, or with "
        "`interleaved` 2*i and 2*i + 1. Positions are 0, 1, … unless they are given. With `heads` x is "
        "`[..., L, heads * size]`.",
        "rotary",
        FLOATS,
        (
            Setting("base", "float", 10000.0, "base of the frequencies", ("theta",)),
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
        optional=("positions",),
    ),
)
