"""Pooling to a given size: windows that cover an axis in as many parts as are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    REQUIRED,
    OpSpec,
    Setting,
    ShapeError,
    TensorSpec,
    as_sizes,
)
from openinfer.dialects.ops.convolution import AXIS_NAMES, WHOLE, batched
from openinfer.dialects.ops.windows import at_least, per_axis
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]

ADAPTIVE_AXES = {
    **{"adaptive_max_pool1d": 1, "adaptive_max_pool2d": 2, "adaptive_max_pool3d": 3},
    **{"adaptive_avg_pool1d": 1, "adaptive_avg_pool2d": 2, "adaptive_avg_pool3d": 3},
}
"""How many axes each op pools."""


def adaptive_sizes(settings: Settings, axes: int) -> tuple[Size, ...]:
    """How many windows there are along each axis. Raises SettingError."""
    sizes = per_axis(as_sizes(settings["output_size"], "output_size"), "output_size", axes)
    at_least(sizes, 1, "output_size")
    return sizes


def _spec(name: str) -> OpSpec:
    axes = ADAPTIVE_AXES[name]
    most = "max" in name

    def infer(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
        (x,) = operands
        _, _, extents = batched(x, axes)
        for extent, what in zip(extents, AXIS_NAMES[axes]):
            if extent.constant == 0:
                raise ShapeError(f"{what} is 0: there is nothing to pool")
        return [TensorSpec(x.dtype, (*x.dims[:-axes], *adaptive_sizes(settings, axes)))]

    form = {1: "L", 2: "H, W", 3: "D, H, W"}[axes]
    value = "largest element (NaN wins)" if most else "mean"
    return OpSpec(
        name,
        ("x",),
        infer,
        f"The {value} of each of `output_size` windows that cover x `[N, C, {form}]` or `[C, {form}]`: "
        "window i of n over an axis of L holds the elements from `floor(i * L / n)` up to "
        "`ceil((i + 1) * L / n)`.",
        "pooling",
        (*FLOATS, *WHOLE) if most else FLOATS,
        (
            Setting(
                "output_size", "ints", REQUIRED, "windows along all axes, or along each", ("size",)
            ),
        ),
    )


SPECS: tuple[OpSpec, ...] = tuple(map(_spec, ADAPTIVE_AXES))
