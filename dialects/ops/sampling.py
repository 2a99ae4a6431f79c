"""Ops that read images at places that a tensor gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
)
from openinfer.runtime.sizes import Size

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")
CUBIC = -0.75
"""The slope of the cubic at a distance of 1, as PyTorch and ONNX have it."""


def _grid_sample(
    operands: Sequence[TensorSpec], settings: Mapping[str, object]
) -> list[TensorSpec]:
    x, grid = operands
    if grid.dtype not in FLOATS:
        raise OpDTypeError(f"the grid is {grid.dtype}", "places are floats from -1 to 1")
    as_bool(settings["align_corners"], "align_corners")
    if x.rank not in (4, 5) or grid.rank != x.rank:
        raise ShapeError(
            f"x is {x} and the grid {grid}",
            "x is [N, C, H, W] and the grid [N, OH, OW, 2], or [N, C, D, H, W] and [N, OD, OH, OW, 3]",
        )
    if grid.dims[-1] != Size.of(x.rank - 2):
        raise ShapeError(
            f"the last axis of the grid {dims_text(grid.dims)} has not {x.rank - 2} elements",
            "a place has a number for each spatial axis of x, that of the last axis first",
        )
    if grid.dims[0] != x.dims[0]:
        raise ShapeError(f"x {x} and the grid {grid} have different batches")
    if any(extent.constant == 0 for extent in x.dims[2:]):
        raise ShapeError(f"x is {x}: there is nothing to read", "each spatial axis has an element")
    if settings["mode"] == "bicubic" and x.rank == 5:
        raise SettingError("mode", "bicubic takes images of two axes", 'use "bilinear"')
    return [TensorSpec(x.dtype, (*x.dims[:2], *grid.dims[1:-1]))]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "grid_sample",
        ("x", "grid"),
        _grid_sample,
        "x `[N, C, H, W]` read at the places of the grid `[N, OH, OW, 2]`, (column, row) from -1 to 1; x of "
        "three axes with three numbers. -1 and 1 are the outer edges of the outermost elements, with "
        "`align_corners` their middles. Between elements as the mode says; a NaN is a place beyond the end.",
        "pooling",
        FLOATS,
        (
            Setting(
                "mode",
                "string",
                "bilinear",
                "between 2 elements of each axis, the nearest one (halves to even), or 4 of each axis",
                (),
                MODES,
            ),
            Setting(
                "padding_mode",
                "string",
                "zeros",
                "what is read outside: 0, the nearest element, or x mirrored at its ends",
                (),
                PADDING_MODES,
            ),
            Setting("align_corners", "bool", False, "-1 and 1 are the middles of outer elements"),
        ),
    ),
)
