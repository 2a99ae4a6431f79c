"""Ops with an index for each element: gather_elements and scatter_elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    EVERYTHING,
    INTEGERS,
    NUMBERS,
    OpDTypeError,
    OpSpec,
    Setting,
    ShapeError,
    TensorSpec,
    dims_text,
    normal_axis,
    same_dtype,
)

Settings = Mapping[str, object]

REDUCTIONS = ("none", "add", "mul", "min", "max")


def _check_indices(x: TensorSpec, indices: TensorSpec, axis: int) -> None:
    """The indices are integers of x's rank, with no more lines than x. Raises OpDTypeError, ShapeError."""
    if indices.dtype not in INTEGERS:
        raise OpDTypeError(f"the indices are {indices.dtype}", "indices must be integers")
    if indices.rank != x.rank:
        raise ShapeError(
            f"x is {x} and the indices are {indices}",
            "the indices have the rank of x; `gather` and `scatter` choose whole slices",
        )
    for place, (found, most) in enumerate(zip(indices.dims, x.dims)):
        room = (most - found).constant
        if place != axis and room is not None and room < 0:
            raise ShapeError(
                f"axis {place} of the indices {dims_text(indices.dims)} has {found} elements, "
                f"that of x {dims_text(x.dims)} has {most}",
                f"only axis {axis} may be longer than in x",
            )


def _gather_elements(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x, indices = operands
    _check_indices(x, indices, normal_axis(settings["axis"], x.rank))
    return [TensorSpec(x.dtype, indices.dims)]


def _scatter_elements(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x, indices, updates = operands
    same_dtype((x, updates), ("x", "updates"))
    how = settings["reduction"]
    if how != "none" and x.dtype not in NUMBERS:
        raise OpDTypeError(f'reduction="{how}" does not take {x.dtype}', 'only "none" does')
    _check_indices(x, indices, normal_axis(settings["axis"], x.rank))
    if updates.dims != indices.dims:
        raise ShapeError(
            f"updates are {dims_text(updates.dims)}, the indices {dims_text(indices.dims)}",
            "there is one update for each index",
        )
    return [x]


_AXIS = Setting("axis", "int", 0, "the axis that the indices count along", ("dim",))

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "gather_elements",
        ("x", "indices"),
        _gather_elements,
        "For each index an element of x: along `axis` at the index, along all other axes at the place of "
        "the index. The indices have the rank of x; an index outside `0..size` is an "
        "error.",
        "indexing",
        EVERYTHING,
        (_AXIS,),
    ),
    OpSpec(
        "scatter_elements",
        ("x", "indices", "updates"),
        _scatter_elements,
        "x with an element replaced by, or joined with, each update: along `axis` at its index, along all "
        "other axes at its own place; the reverse of `gather_elements`. Of equal indices all count, one "
        "after the other along the axis, so the last one stays with `none`. An index outside `0..size` "
        "is an error.",
        "indexing",
        EVERYTHING,
        (
            _AXIS,
            Setting(
                "reduction",
                "string",
                "none",
                "none; add or mul (floats narrower than f32 in f32, integers wrap); min or max (a NaN is "
                "ignored when the other is a number)",
                aliases=("mode", "reduce"),
                choices=REDUCTIONS,
            ),
        ),
        meeting=("x", "updates"),
    ),
)
