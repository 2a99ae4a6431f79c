"""Ops that arrange elements anew and are made of those in `layout.py`: stack, tile, roll, triangles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    EVERYTHING,
    REQUIRED,
    STORED,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_sizes,
    normal_axis,
    not_negative,
    same_dtype,
)
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]


def _stack(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    first = operands[0]
    dtype = same_dtype(operands, [f"operand {i}" for i in range(len(operands))])
    for number, operand in enumerate(operands[1:], 1):
        if operand.dims != first.dims:
            raise ShapeError(
                f"operand {number} {operand} has another shape than operand 0 {first}",
                "all must be equal; `concat` joins along an axis that is there",
            )
    axis = normal_axis(settings["axis"], first.rank + 1)
    return [TensorSpec(dtype, (*first.dims[:axis], Size.of(len(operands)), *first.dims[axis:]))]


def tile_factors(x: Sequence[Size], settings: Settings) -> tuple[tuple[Size, Size], ...]:
    """How often each axis of the result repeats what, (repeats, size): the shorter of shape and `repeats`
    begins with ones."""
    repeats = as_sizes(settings["repeats"], "repeats")
    one = (Size.of(1),)
    missing = len(repeats) - len(x)
    return tuple(zip((*one * -missing, *repeats), (*one * missing, *x), strict=True))


def _tile(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    factors = tile_factors(x.dims, settings)
    not_negative([repeats for repeats, _ in factors], "repeats")
    return [TensorSpec(x.dtype, tuple(repeats * size for repeats, size in factors))]


def roll_shifts(rank: int, settings: Settings) -> list[tuple[int, Size]]:
    """The axes that `roll` turns, in the order in which they are named, and how far; without `axes` the
    only axis of all elements in a row. Raises SettingError."""
    shifts = as_sizes(settings["shifts"], "shifts")
    if settings["axes"] is None:
        if len(shifts) != 1:
            raise SettingError(
                "shifts", f"shifts has {len(shifts)} entries without axes", "name the axes"
            )
        return [(0, shifts[0])]
    axes = as_sizes(settings["axes"], "axes")
    if len(shifts) != len(axes):
        raise SettingError("shifts", f"shifts has {len(shifts)} entries for {len(axes)} axes")
    return [(normal_axis(axis, rank, "axes"), shift) for axis, shift in zip(axes, shifts)]


def _roll(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    roll_shifts(x.rank, settings)
    return [TensorSpec(x.dtype, x.dims)]


def _triangle(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    if x.rank < 2:
        raise ShapeError(f"{x} is no matrix", "the last two axes are rows and columns")
    return [TensorSpec(x.dtype, x.dims)]


def _triangle_op(name: str, doc: str, edge: str) -> OpSpec:
    diagonal = Setting(
        "diagonal", "int", 0, f"{edge}; 0 is the main one, above it they count up", ("k",)
    )
    return OpSpec(name, ("x",), _triangle, doc, "layout", EVERYTHING, (diagonal,))


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "stack",
        ("x",),
        _stack,
        "Operands of one shape side by side along a new axis.",
        "layout",
        STORED,
        (Setting("axis", "int", 0, "where the new axis stands in the result", ("dim",)),),
        variadic=True,
        meeting=("x",),
    ),
    OpSpec(
        "tile",
        ("x",),
        _tile,
        "The whole tensor again and again along its axes.",
        "layout",
        STORED,
        (
            Setting(
                "repeats",
                "ints",
                REQUIRED,
                "how often, for each axis, the last ones if they are fewer; new axes in front if more",
                ("reps",),
            ),
        ),
    ),
    OpSpec(
        "roll",
        ("x",),
        _roll,
        "Elements moved along axes; what leaves at the end comes in at the front.",
        "layout",
        STORED,
        (
            Setting("shifts", "ints", REQUIRED, "how far, for each of `axes`", ("shift",)),
            Setting(
                "axes",
                "ints",
                None,
                "along which; without them all elements in a row",
                ("axis", "dims"),
            ),
        ),
    ),
    _triangle_op("tril", "Matrices with zeros above a diagonal.", "the last diagonal that stays"),
    _triangle_op("triu", "Matrices with zeros below a diagonal.", "the first diagonal that stays"),
)
