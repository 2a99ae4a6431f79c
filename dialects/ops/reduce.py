"""Ops that combine the elements of some axes, and those that normalise along one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    ACC,
    FLOATS,
    NUMBERS,
    REQUIRED,
    Infer,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    accumulation,
    as_bool,
    dims_text,
    normal_axes,
    normal_axis,
)
from openinfer.runtime.sizes import Size

AXES = Setting("axes", "ints", REQUIRED, "the axes to reduce", aliases=("axis", "dims"))
AXIS = Setting("axis", "int", REQUIRED, "the axis to reduce", aliases=("dim",))
LAST = Setting("axis", "int", -1, "the axis", aliases=("dim",))
KEEP = Setting("keepdims", "bool", False, "keep reduced axes with size 1", aliases=("keepdim",))
FIRST = Setting("select_first", "bool", True, "of equal values take the first, else the last")


def reduced_dims(spec: TensorSpec, axes: tuple[int, ...], keepdims: bool) -> tuple[Size, ...]:
    """The shape that is left after reducing `axes`."""
    kept = [Size.of(1) if i in axes else d for i, d in enumerate(spec.dims)]
    if keepdims:
        return tuple(kept)
    return tuple(d for i, d in enumerate(kept) if i not in axes)


def _reduction(kind: str) -> Infer:
    def infer(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
        (x,) = operands
        axes = normal_axes(settings["axes"], x.rank)
        if not axes:
            raise SettingError("axes", "axes is empty", "name at least one axis: `axes=[-1]`")
        dims = reduced_dims(x, axes, as_bool(settings["keepdims"], "keepdims"))
        acc = settings.get("acc")
        if kind in ("max", "min"):
            empty = [i for i in axes if x.dims[i].constant == 0]
            if empty:
                raise ShapeError(f"axis {empty[0]} of {x} has no elements to choose from")
        return [TensorSpec(accumulation(x.dtype, acc, mean=kind == "mean")[1], dims)]

    return infer


def _position(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    (x,) = operands
    axis = normal_axis(settings["axis"], x.rank)
    if x.dims[axis].constant == 0:
        raise ShapeError(f"axis {axis} of {x} has no elements to choose from")
    keepdims = as_bool(settings["keepdims"], "keepdims")
    return [TensorSpec("i64", reduced_dims(x, (axis,), keepdims))]


def _along_axis(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    (x,) = operands
    normal_axis(settings["axis"], x.rank)
    return [x]


def _norm(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    x = operands[0]
    axis = normal_axis(settings["axis"], x.rank)
    for name, operand in zip(("weight", "bias"), operands[1:]):
        if operand.dtype not in FLOATS:
            raise OpDTypeError(
                f"{name} is {operand.dtype}",
                f"it takes floats: `op cast({operand.called(name)}, to=f32) >> …;`",
            )
        if operand.dims != x.dims[axis:]:
            raise ShapeError(
                f"{name} has shape {dims_text(operand.dims)} but x is normalised over "
                f"{dims_text(x.dims[axis:])}",
                f"declare {operand.called(name)} with the shape of the normalised axes",
            )
    return [x]


def _reduce(name: str, doc: str, *settings: Setting) -> OpSpec:
    kind = name.removesuffix("_axis")
    return OpSpec(name, ("x",), _reduction(kind), doc, "reduce", NUMBERS, (AXES, KEEP, *settings))


_EPS = Setting("eps", "float", 1e-5, "added to the variance", aliases=("epsilon",))
_NORM_AXIS = Setting("axis", "int", -1, "first of the normalised axes, up to the last one")

SPECS: tuple[OpSpec, ...] = (
    _reduce("sum_axis", "Sum over axes; f16, bf16 and f8 accumulate in f32.", ACC),
    _reduce("mean_axis", "Mean over axes; integers truncate toward 0.", ACC),
    _reduce("prod_axis", "Product over axes.", ACC),
    _reduce("max_axis", "Largest value over axes; NaN wins."),
    _reduce("min_axis", "Smallest value over axes; NaN wins."),
    OpSpec(
        "argmax_axis",
        ("x",),
        _position,
        "Position of the largest value as i64; NaN wins.",
        "reduce",
        NUMBERS,
        (AXIS, KEEP, FIRST),
    ),
    OpSpec(
        "argmin_axis",
        ("x",),
        _position,
        "Position of the smallest value as i64; NaN wins.",
        "reduce",
        NUMBERS,
        (AXIS, KEEP, FIRST),
    ),
    OpSpec(
        "softmax",
        ("x",),
        _along_axis,
        "`exp(x - max) / sum(exp(x - max))` along an axis.",
        "normalise",
        FLOATS,
        (LAST,),
    ),
    OpSpec(
        "log_softmax",
        ("x",),
        _along_axis,
        "`x - max - log(sum(exp(x - max)))` along an axis.",
        "normalise",
        FLOATS,
        (LAST,),
    ),
    OpSpec(
        "layer_norm",
        ("x",),
        _norm,
        "`(x - mean) / sqrt(variance + eps) * weight + bias` over the axes from `axis` on.",
        "normalise",
        FLOATS,
        (_NORM_AXIS, _EPS),
        optional=("weight", "bias"),
    ),
    OpSpec(
        "rms_norm",
        ("x",),
        _norm,
        "`x / sqrt(mean(x * x) + eps) * weight` over the axes from `axis` on.",
        "normalise",
        FLOATS,
        (_NORM_AXIS, _EPS),
        optional=("weight",),
    ),
)
