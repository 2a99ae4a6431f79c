"""Normalisation with stored statistics, and over groups of channels or single ones."""

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
    as_int,
    dims_text,
    normal_axis,
)
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]


def _check_channels(names: Sequence[str], operands: Sequence[TensorSpec], channels: Size) -> None:
    """Every operand is a float vector with one element for each channel."""
    for name, operand in zip(names, operands):
        if operand.dtype not in FLOATS:
            raise OpDTypeError(
                f"{name} is {operand.dtype}",
                f"it takes floats: `op cast({operand.called(name)}, to=f32) >> …;`",
            )
        if operand.dims != (channels,):
            raise ShapeError(
                f"{name} has shape {dims_text(operand.dims)} for {channels} channels",
                f"declare {operand.called(name)} with the shape [{channels}]",
            )


def _check_eps(settings: Settings) -> None:
    """What is known of the setting `eps`. Raises SettingError."""
    eps = settings["eps"]
    if isinstance(eps, int | float) and eps < 0:
        raise SettingError("eps", f"eps={eps} is negative")


def _batch_norm(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x = operands[0]
    if x.rank < 2 and settings["axis"] == 1:
        raise ShapeError(f"x is {x}", "x is [N, C, …]; `axis` names another channel axis")
    axis = normal_axis(settings["axis"], x.rank)
    _check_eps(settings)
    _check_channels(("mean", "variance", "weight", "bias"), operands[1:], x.dims[axis])
    return [x]


def _group_norm(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x = operands[0]
    if x.rank < 2:
        raise ShapeError(f"x is {x}", "x is [N, C, …]")
    _check_eps(settings)
    groups, channels = as_int(settings["groups"], "groups"), x.dims[1]
    if groups < 1:
        raise SettingError("groups", f"groups={groups} is not positive", "use 1 or more")
    if (channels // groups) * groups != channels:
        raise ShapeError(f"the {channels} channels of x do not divide by {groups} groups")
    _check_channels(("weight", "bias"), operands[1:], channels)
    return [x]


def _instance_norm(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x = operands[0]
    if x.rank < 3:
        raise ShapeError(f"x is {x}", "x is [N, C, …] with at least one axis behind the channels")
    _check_eps(settings)
    _check_channels(("weight", "bias"), operands[1:], x.dims[1])
    return [x]


_EPS = Setting("eps", "float", 1e-5, "added to the variance", aliases=("epsilon",))

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "batch_norm",
        ("x", "mean", "variance"),
        _batch_norm,
        "`(x - mean) / sqrt(variance + eps) * weight + bias` with the stored mean and variance of "
        "each channel; x is `[N, C, …]`.",
        "normalise",
        FLOATS,
        (Setting("axis", "int", 1, "the channel axis", ("dim",)), _EPS),
        optional=("weight", "bias"),
    ),
    OpSpec(
        "group_norm",
        ("x",),
        _group_norm,
        "Layer norm over each of `groups` equal parts of the channels together with all axes behind "
        "them, then `* weight + bias` by channel; x is `[N, C, …]`. As many groups as channels is "
        "`instance_norm`.",
        "normalise",
        FLOATS,
        (
            Setting("groups", "int", 1, "parts of the channels", ("num_groups",)),
            _EPS,
        ),
        optional=("weight", "bias"),
    ),
    OpSpec(
        "instance_norm",
        ("x",),
        _instance_norm,
        "Layer norm over all axes behind the channels, for each channel of each instance by itself, then "
        "`* weight + bias` by channel; x is `[N, C, L, …]`.",
        "normalise",
        FLOATS,
        (_EPS,),
        optional=("weight", "bias"),
    ),
)
