"""Activations with settings or a curve of their own, beside those of `elementwise.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    broadcast_dims,
    dims_text,
    same_dtype,
)
from openinfer.runtime.sizes import Size

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
_ALPHA = Setting("alpha", "number", 1, "how far down it goes")


def _curve(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    return [TensorSpec(operands[0].dtype, operands[0].dims)]


def _celu(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    if settings["alpha"] == 0:
        raise SettingError("alpha", "alpha=0 divides x by 0", "`relu` is what it comes near to")
    return _curve(operands, settings)


def aligned_slope(x: Sequence[Size], slope: Sequence[Size]) -> tuple[Size, ...]:
    """The shape with which the slope of `prelu` broadcasts to x: one number for each channel (axis 1), or
    one for all; of more than one axis, as they are."""
    if len(slope) != 1 or slope[0].constant == 1 or len(x) < 2:
        return () if all(size.constant == 1 for size in slope) else tuple(slope)
    return (slope[0], *(Size.of(1) for _ in x[2:]))


def _prelu(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    x, slope = operands
    dtype = same_dtype(operands, ("x", "slope"))
    try:
        dims = broadcast_dims([x.dims, aligned_slope(x.dims, slope.dims)])
    except ShapeError:
        dims = ()
    if dims != x.dims:
        raise ShapeError(
            f"slope has shape {dims_text(slope.dims)} but x is {x}",
            "one number for each channel (axis 1), one for all, or a shape that broadcasts to that of x",
        )
    return [TensorSpec(dtype, dims)]


def _activation(
    name: str, doc: str, *settings: Setting, aliases: tuple[str, ...] = (), expensive: bool = True
) -> OpSpec:
    return OpSpec(
        name,
        ("x",),
        _celu if name == "celu" else _curve,
        doc,
        "elementwise",
        FLOATS,
        settings,
        inplace=True,
        aliases=aliases,
        expensive=expensive,
    )


SPECS: tuple[OpSpec, ...] = (
    _activation("elu", "`x` where x > 0, else `alpha * (exp(x) - 1)`.", _ALPHA),
    _activation("celu", "`x` where x > 0, else `alpha * (exp(x / alpha) - 1)`.", _ALPHA),
    _activation(
        "selu",
        "`1.0507009873554805 * elu(x, alpha=1.6732632423543772)`: it keeps mean 0 and variance 1.",
    ),
    _activation("mish", "`x * tanh(softplus(x))`."),
    _activation(
        "hard_swish",
        "`x * min(max(x + 3, 0), 6) / 6`.",
        aliases=("hardswish",),
        expensive=False,
    ),
    OpSpec(
        "prelu",
        ("x", "slope"),
        _prelu,
        "`x` where x > 0, else `slope * x`; slope has a number for each channel (axis 1), one for all, or a "
        "shape that broadcasts to that of x.",
        "activation",
        FLOATS,
        meeting=("x", "slope"),
    ),
)
