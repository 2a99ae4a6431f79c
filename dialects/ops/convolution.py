"""Convolutions: over one, two and three axes, and transposed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openinfer.dialects.ops.base import (
    ACC,
    FLOATS,
    INTEGERS,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    accumulation,
    as_int,
    dims_text,
    promote_floats,
)
from openinfer.dialects.ops.windows import (
    DILATION,
    PADDING,
    STRIDE,
    Window,
    at_least,
    check_reach,
    per_axis,
    windows_of,
)
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]
WHOLE = tuple(name for name in INTEGERS if int(name[1:]) >= 8)
"""Integers of whole bytes."""
AXIS_NAMES = {
    1: ("x",),
    2: ("the height of x", "the width of x"),
    3: ("the depth of x", "the height of x", "the width of x"),
}


def batched(x: TensorSpec, spatial: int) -> tuple[bool, Size, tuple[Size, ...]]:
    """(has a batch axis, channels, spatial sizes) of x. Raises ShapeError."""
    if x.rank not in (spatial + 1, spatial + 2):
        form = {1: "L", 2: "H, W", 3: "D, H, W"}[spatial]
        raise ShapeError(f"x is {x}", f"x is [N, C, {form}], or [C, {form}] without a batch")
    return x.rank == spatial + 2, x.dims[-spatial - 1], x.dims[-spatial:]


def groups_of(settings: Settings) -> int:
    """The setting `groups`. Raises SettingError."""
    groups = as_int(settings["groups"], "groups")
    if groups < 1:
        raise SettingError("groups", f"groups={groups} is not positive", "use 1 or more")
    return groups


def result_dtype(operands: Sequence[TensorSpec], settings: Settings) -> str:
    """The dtype of the result by that of x, w and `acc`; the bias must go with it."""
    x, w = operands[:2]
    floats = x.dtype in FLOATS and w.dtype in FLOATS
    if x.dtype != w.dtype and not floats:
        raise OpDTypeError(
            f"x is {x.dtype} but w is {w.dtype}",
            f"cast one of them: `op cast({w.called('w')}, to={x.dtype}) >> …;`",
        )
    dtype = promote_floats([x.dtype, w.dtype]) if floats else x.dtype
    if settings.get("acc") is not None:
        dtype = accumulation(dtype, settings["acc"])[1]
    bias = operands[2] if len(operands) > 2 else None
    if bias is not None and bias.dtype != dtype and not (floats and bias.dtype in FLOATS):
        raise OpDTypeError(
            f"bias is {bias.dtype} but the result is {dtype}",
            f"cast it: `op cast({bias.called('bias')}, to={dtype}) >> …;`",
        )
    return dtype


def _check_bias(operands: Sequence[TensorSpec], channels: Size) -> None:
    if len(operands) > 2 and operands[2].dims != (channels,):
        raise ShapeError(
            f"bias has shape {dims_text(operands[2].dims)} for {channels} output channels",
            f"declare bias with the shape [{channels}]",
        )


def conv_windows(w: TensorSpec, settings: Settings, spatial: int) -> tuple[Window, ...]:
    """The window of each spatial axis of a convolution with the weight w."""
    return windows_of(w.dims[-spatial:], settings)


def _convolution(spatial: int) -> Callable[[Sequence[TensorSpec], Settings], list[TensorSpec]]:
    def infer(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
        x, w = operands[:2]
        has_batch, channels, extents = batched(x, spatial)
        if w.rank != spatial + 2:
            form = {1: "K", 2: "KH, KW", 3: "KD, KH, KW"}[spatial]
            raise ShapeError(f"w is {w}", f"w is [out channels, in channels / groups, {form}]")
        groups = groups_of(settings)
        if w.dims[1] * groups != channels:
            raise ShapeError(
                f"x {dims_text(x.dims)} has {channels} channels, w {dims_text(w.dims)} takes "
                f"{w.dims[1]}" + (f" in each of {groups} groups" if groups > 1 else ""),
                "w is [out channels, in channels / groups, …]",
            )
        if (w.dims[0] // groups) * groups != w.dims[0]:
            raise ShapeError(f"the {w.dims[0]} output channels of w do not divide by {groups}")
        _check_bias(operands, w.dims[0])
        dims: list[Size] = []
        for window, extent, name in zip(
            conv_windows(w, settings, spatial), extents, AXIS_NAMES[spatial]
        ):
            check_reach(window, extent, name)
            dims.append(window.count(extent))
        lead = x.dims[:1] if has_batch else ()
        return [TensorSpec(result_dtype(operands, settings), (*lead, w.dims[0], *dims))]

    return infer


def transposed_extents(
    w: TensorSpec, extents: Sequence[Size], settings: Settings
) -> tuple[tuple[Window, ...], tuple[Size, ...]]:
    """The windows of the convolution that is transposed, and the sizes of its input: the result.

    Raises SettingError for an `output_padding` that is not below the stride or the dilation.
    """
    if settings["padding"] == "same":
        raise SettingError(
            "padding", 'a transposed convolution has no padding="same"', "give it as numbers"
        )
    windows = windows_of(w.dims[-2:], settings)
    extra = per_axis(settings["output_padding"], "output_padding", 2)
    at_least(extra, 0, "output_padding")
    dims: list[Size] = []
    for window, extent, more in zip(windows, extents, extra):
        limit = Size.max(window.stride, window.dilation)
        if more.constant is not None and limit.constant is not None:
            if more.constant >= limit.constant:
                raise SettingError(
                    "output_padding",
                    f"output_padding={more} is not below stride {window.stride} or dilation "
                    f"{window.dilation}",
                    "it only chooses among the sizes that the stride rounds to one",
                )
        size = (extent - 1) * window.stride + window.reach - window.before - window.after + more
        dims.append(size)
    return windows, tuple(dims)


def _transposed(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x, w = operands[:2]
    has_batch, channels, extents = batched(x, 2)
    if w.rank != 4:
        raise ShapeError(f"w is {w}", "w is [in channels, out channels / groups, KH, KW]")
    groups = groups_of(settings)
    if w.dims[0] != channels:
        raise ShapeError(
            f"x {dims_text(x.dims)} has {channels} channels, w {dims_text(w.dims)} takes "
            f"{w.dims[0]}",
            "w is [in channels, out channels / groups, KH, KW]",
        )
    if (channels // groups) * groups != channels:
        raise ShapeError(f"the {channels} channels of x do not divide by {groups} groups")
    outputs = w.dims[1] * groups
    _check_bias(operands, outputs)
    windows, dims = transposed_extents(w, extents, settings)
    for window, extent, size, name in zip(windows, extents, dims, AXIS_NAMES[2]):
        if extent.constant == 0:
            raise ShapeError(f"{name} is 0: there is nothing to spread")
        if window.kernel.constant is not None and window.kernel.constant < 1:
            raise ShapeError(f"w has a kernel of size {window.kernel}", "use 1 or more")
        if size.constant is not None and size.constant < 1:
            raise ShapeError(f"the padding leaves {size} of {name}", "use less padding")
    lead = x.dims[:1] if has_batch else ()
    return [TensorSpec(result_dtype(operands, settings), (*lead, outputs, *dims))]


_GROUPS = Setting("groups", "int", 1, "parts of the channels that are convolved by themselves")
_CONV = (STRIDE, PADDING, DILATION, _GROUPS, ACC)
SIDES = (
    "`padding` is one int, one for each axis, or before and after of each axis "
    '(`[top, bottom, left, right]`); or "same" or "valid".'
)
_SUMS = "floats narrower than f64 accumulate in f32, integers wrap (or take `acc`)"

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "conv1d",
        ("x", "w"),
        _convolution(1),
        "`y[n, o, i] = bias[o] + sum of w[o, c, k] * x[n, c, i * stride + k * dilation - before]` "
        f"for x `[N, C, L]` or `[C, L]`, w `[O, C / groups, K]`; padding counts as zeros; {_SUMS}.",
        "convolution",
        (*FLOATS, *WHOLE),
        _CONV,
        optional=("bias",),
    ),
    OpSpec(
        "conv2d",
        ("x", "w"),
        _convolution(2),
        "The same over two axes: x `[N, C, H, W]` or `[C, H, W]`, w `[O, C / groups, KH, KW]`. "
        f"{SIDES}",
        "convolution",
        (*FLOATS, *WHOLE),
        _CONV,
        optional=("bias",),
    ),
    OpSpec(
        "conv3d",
        ("x", "w"),
        _convolution(3),
        "The same over three axes: x `[N, C, D, H, W]` or `[C, D, H, W]`, w `[O, C / groups, KD, KH, KW]`.",
        "convolution",
        (*FLOATS, *WHOLE),
        _CONV,
        optional=("bias",),
    ),
    OpSpec(
        "conv_transpose2d",
        ("x", "w"),
        _transposed,
        "The transpose of the linear map of conv2d: every element of x `[N, C, H, W]` or `[C, H, W]` "
        "adds its multiple of w `[C, O / groups, KH, KW]` to the result; `padding` is taken away "
        "from the result and `output_padding` added at its end.",
        "convolution",
        (*FLOATS, *WHOLE),
        (
            STRIDE,
            Setting("padding", PADDING.kind, 0, "taken away around the result", PADDING.aliases),
            Setting("output_padding", "ints", 0, "added behind the end of the result"),
            DILATION,
            _GROUPS,
            ACC,
        ),
        optional=("bias",),
    ),
)
