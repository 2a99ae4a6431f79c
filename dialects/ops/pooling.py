"""Pooling over one to three axes, and resampling to another size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from openinfer.dialects.ops.base import (
    FLOATS,
    REQUIRED,
    Infer,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_bool,
    as_int,
    as_sizes,
)
from openinfer.dialects.ops.convolution import AXIS_NAMES, WHOLE, batched
from openinfer.dialects.ops.windows import (
    DILATION,
    PADDING,
    Window,
    at_least,
    check_reach,
    per_axis,
    windows_of,
)
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]


POOLED_AXES = {
    **{"max_pool1d": 1, "max_pool2d": 2, "max_pool3d": 3, "avg_pool1d": 1, "avg_pool2d": 2},
    **{"avg_pool3d": 3, "lp_pool1d": 1, "lp_pool2d": 2, "lp_pool3d": 3},
}
"""How many axes a window of each op has."""


def pool_windows(settings: Settings, axes: int) -> tuple[Window, ...]:
    """The window of each axis; the stride is the kernel's size unless it is given.

    Raises SettingError.
    """
    kernel = per_axis(settings["kernel_size"], "kernel_size", axes)
    at_least(kernel, 1, "kernel_size")
    stride = kernel if settings["stride"] is None else settings["stride"]
    windows = windows_of(kernel, {**settings, "stride": stride})
    for window in windows:
        for side in (window.before, window.after):
            excess = (side * 2 - window.reach).constant
            if excess is not None and excess > 0:
                raise SettingError(
                    "padding",
                    f"padding={side} is more than half of the {window.reach} elements that the "
                    "kernel reaches over",
                    "a window must not lie in padding alone",
                )
    return windows


def _pool(axes: int) -> Infer:
    def infer(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
        (x,) = operands
        _, _, extents = batched(x, axes)
        ceil = as_bool(settings["ceil_mode"], "ceil_mode")
        dims: list[Size] = []
        for window, extent, name in zip(pool_windows(settings, axes), extents, AXIS_NAMES[axes]):
            if extent.constant == 0:
                raise ShapeError(f"{name} is 0: there is nothing to pool")
            check_reach(window, extent, name, ceil=ceil)
            dims.append(window.count(extent, ceil=ceil))
        divisor = settings.get("divisor_override")
        if divisor is not None and as_int(divisor, "divisor_override") == 0:
            raise SettingError("divisor_override", "divisor_override=0 divides by zero")
        p = settings.get("p")
        if isinstance(p, float) and not 0 < p < float("inf"):
            raise SettingError("p", f"p={p} is not positive and finite", "p=2 is the length")
        return [TensorSpec(x.dtype, (*x.dims[:-axes], *dims))]

    return infer


@dataclass(frozen=True)
class Resampling:
    """How one axis of the result is read from the axis of x."""

    extent: Size
    """The size in the result."""
    scale: Fraction | None
    """The given factor; None when the sizes say it."""


def resamplings(x: TensorSpec, settings: Settings) -> tuple[Resampling, ...]:
    """Both axes, by `scale` or `size`. Raises SettingError."""
    scale, size = settings["scale"], settings["size"]
    if (scale is None) == (size is None):
        raise SettingError("scale", "give one of scale and size", "for example `scale=2`")
    if size is not None:
        extents = per_axis(as_sizes(size, "size"), "size", 2)
        at_least(extents, 1, "size")
        return tuple(Resampling(extent, None) for extent in extents)
    factors = scale if isinstance(scale, tuple) else (scale,)
    if len(factors) not in (1, 2):
        raise SettingError("scale", f"scale has {len(factors)} entries for 2 axes")
    found: list[Resampling] = []
    for factor, extent in zip(factors * 2 if len(factors) == 1 else factors, x.dims[-2:]):
        exact = _factor(factor)
        result = extent * exact.numerator // exact.denominator
        if result.constant is not None and result.constant < 1:
            raise SettingError("scale", f"scale={factor} leaves nothing of {extent} elements")
        found.append(Resampling(result, exact))
    return tuple(found)


def _factor(value: object) -> Fraction:
    """A factor as the fraction that is meant: 1.1 is 11/10."""
    if isinstance(value, Size) and value.constant is not None:
        value = value.constant
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(
            "scale", f"scale must be a number that is known when the program is compiled: {value}"
        )
    if not 0 < value < float("inf"):
        raise SettingError("scale", f"scale={value} is not positive and finite")
    return Fraction(value).limit_denominator(1 << 20)


def _upsample(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    _, _, extents = batched(x, 2)
    bilinear = settings["mode"] == "bilinear"
    if bilinear and x.dtype not in FLOATS:
        raise OpDTypeError(f"bilinear upsampling of {x.dtype}", "cast to a float dtype first")
    if as_bool(settings["align_corners"], "align_corners") and not bilinear:
        raise SettingError("align_corners", 'align_corners belongs to mode="bilinear"')
    for extent, name in zip(extents, AXIS_NAMES[2]):
        if extent.constant == 0:
            raise ShapeError(f"{name} is 0: there is nothing to read")
    dims = tuple(axis.extent for axis in resamplings(x, settings))
    return [TensorSpec(x.dtype, (*x.dims[:-2], *dims))]


_KERNEL = Setting("kernel_size", "ints", REQUIRED, "size of a window", ("kernel",))
_STRIDE = Setting(
    "stride", "ints", None, "distance of windows; default the kernel size", ("strides",)
)
_CEIL = Setting("ceil_mode", "bool", False, "also a last window that reaches over the end")
_FORM = "x `[N, C, H, W]` or `[C, H, W]`"

_FORMS = {
    1: "x `[N, C, L]` or `[C, L]`",
    2: _FORM,
    3: "x `[N, C, D, H, W]` or `[C, D, H, W]`",
}


def _max(name: str) -> OpSpec:
    axes = POOLED_AXES[name]
    return OpSpec(
        name,
        ("x",),
        _pool(axes),
        f"The largest element of each window of {_FORMS[axes]}; NaN wins, padding never. Settings as those "
        f"of conv{axes}d.",
        "pooling",
        (*FLOATS, *WHOLE),
        (_KERNEL, _STRIDE, PADDING, DILATION, _CEIL),
    )


def _average(name: str) -> OpSpec:
    axes = POOLED_AXES[name]
    return OpSpec(
        name,
        ("x",),
        _pool(axes),
        f"The mean of each window of {_FORMS[axes]}: its sum over its number of elements, with "
        "`count_include_pad` those of the padding too.",
        "pooling",
        FLOATS,
        (
            _KERNEL,
            _STRIDE,
            PADDING,
            _CEIL,
            Setting("count_include_pad", "bool", True, "whether padding counts as elements"),
            Setting("divisor_override", "int", None, "divide by this instead"),
        ),
    )


def _power(name: str) -> OpSpec:
    axes = POOLED_AXES[name]
    return OpSpec(
        name,
        ("x",),
        _pool(axes),
        f"The p-norm of each window of {_FORMS[axes]}: `(sum of |x| ** p) ** (1 / p)`; padding counts as "
        "zeros.",
        "pooling",
        FLOATS,
        (
            Setting("p", "float", 2.0, "the exponent", ("norm_type",)),
            _KERNEL,
            _STRIDE,
            PADDING,
            DILATION,
            _CEIL,
        ),
    )


SPECS: tuple[OpSpec, ...] = (
    *map(_max, ("max_pool1d", "max_pool2d", "max_pool3d")),
    *map(_average, ("avg_pool1d", "avg_pool2d", "avg_pool3d")),
    *map(_power, ("lp_pool1d", "lp_pool2d", "lp_pool3d")),
    OpSpec(
        "upsample2d",
        ("x",),
        _upsample,
        f"{_FORM} read at other distances. nearest: element `floor(i / scale)`; bilinear: between "
        "the four neighbours of `(i + 0.5) / scale - 0.5`, or with `align_corners` of "
        "`i * (H - 1) / (OH - 1)`. With `size` the scale is the ratio of the sizes.",
        "pooling",
        (*FLOATS, *WHOLE),
        (
            Setting("scale", "numbers", None, "factor for both axes or each", ("scale_factor",)),
            Setting("size", "ints", None, "height and width of the result", ("output_size",)),
            Setting(
                "mode", "string", "nearest", "which elements are read", (), ("nearest", "bilinear")
            ),
            Setting("align_corners", "bool", False, "corners fall on corners"),
        ),
    ),
)
