"""Convolutions and pooling in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.compiler.exporters.onnx.calls import Call, op
from openinfer.compiler.exporters.onnx.graph import NoForm
from openinfer.dialects.ops.pooling import resamplings
from openinfer.runtime.sizes import Size


def _numbers(call: Call, name: str, axes: int, default: Any = None) -> list[int]:
    given = call.settings[name]
    given = default if given is None else given
    items = list(given) if isinstance(given, tuple | list) else [given]
    if any(not isinstance(item, int) for item in items):
        raise NoForm(f"{name} must be known")
    return items * axes if len(items) == 1 else items


def _pads(call: Call, axes: int) -> dict[str, Any]:
    """Pads as ONNX orders them: all that come before, then all that come behind."""
    given = call.settings["padding"]
    if given == "same":
        return {"auto_pad": "SAME_UPPER"}
    pads = _numbers(call, "padding", axes) if given != "valid" else [0] * axes
    if len(pads) == axes:
        return {"pads": [*pads, *pads]}
    return {"pads": [*pads[::2], *pads[1::2]]}


def _with_batch(call: Call, axes: int) -> tuple[str, bool]:
    """x with an axis of batches, and whether it has one only for that."""
    if call.x.rank == axes + 2:
        return call.x.name, False
    return call.node("Unsqueeze", call.x.name, call.g.ints([0])), True


def _ended(call: Call, alone: bool, name: str, *inputs: str, **attributes: Any) -> list[str]:
    if not alone:
        return call.last(name, *inputs, **attributes)
    return call.last("Squeeze", call.node(name, *inputs, **attributes), call.g.ints([0]))


@op("conv1d", "conv2d", "conv3d", "conv_transpose2d")
def _conv(call: Call) -> list[str]:
    call.only(acc=None)
    if not call.is_float:
        raise NoForm(f"a convolution of {call.x.dtype} has no form in ONNX")
    axes = int(call.op[-2])
    x, alone = _with_batch(call, axes)
    attributes: dict[str, Any] = {
        "strides": _numbers(call, "stride", axes),
        "dilations": _numbers(call, "dilation", axes),
        "group": int(call.settings["groups"]),
        **_pads(call, axes),
    }
    if call.op != "conv_transpose2d":
        return _ended(call, alone, "Conv", x, *call.names[1:], **attributes)
    attributes["output_padding"] = _numbers(call, "output_padding", axes)
    return _ended(call, alone, "ConvTranspose", x, *call.names[1:], **attributes)


@op(*(f"{kind}_pool{axes}d" for kind in ("max", "avg") for axes in (1, 2, 3)))
def _pool(call: Call) -> list[str]:
    axes = int(call.op[-2])
    x, alone = _with_batch(call, axes)
    if call.settings["ceil_mode"]:
        raise NoForm("ceil_mode counts windows in another way in ONNX")
    kernel = _numbers(call, "kernel_size", axes)
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": _numbers(call, "stride", axes, tuple(kernel)),
        **_pads(call, axes),
    }
    if call.op.startswith("max"):
        attributes["dilations"] = _numbers(call, "dilation", axes)
        return _ended(call, alone, "MaxPool", x, **attributes)
    call.only(divisor_override=None)
    attributes["count_include_pad"] = int(call.settings["count_include_pad"])
    return _ended(call, alone, "AveragePool", x, **attributes)


@op("upsample2d")
def _upsample(call: Call) -> list[str]:
    """By sizes where places follow from them, else by the factors that the program gives."""
    x, alone = _with_batch(call, 2)
    mode, corners = call.settings["mode"], call.settings["align_corners"]
    if mode == "bilinear":
        modes = {"mode": "linear"}
        place = "align_corners" if corners else "half_pixel"
    else:
        modes = {"mode": "nearest", "nearest_mode": "floor"}
        place = "asymmetric"
    lead = [*([Size.of(1)] if alone else []), *call.x.dims[:-2]]
    factors = None if corners else _factors(call)
    if factors is None:
        extents = ["", "", call.g.shape([*lead, *call.results[0].dims[-2:]])]
    else:
        extents = ["", call.g.constant([1.0] * len(lead) + factors, "f32")]
    return _ended(call, alone, "Resize", x, *extents, coordinate_transformation_mode=place, **modes)


def _factors(call: Call) -> list[float] | None:
    """The factors of both axes; None where sizes say the same: 2 of 9 to 18, not 1.7 of 9 to 15."""
    rows = resamplings(call.x.spec, call.settings)
    extents = call.x.dims[-2:]
    found: list[float] = []
    told = True
    for row, extent in zip(rows, extents):
        if row.scale is None:
            return None
        factor = np.float32(float(row.scale))
        told = told and extent * row.scale.numerator == row.extent * row.scale.denominator
        known, result = extent.constant, row.extent.constant
        if known is not None and int(factor * np.float32(known)) != result:
            raise NoForm(f"as f32 scale={float(row.scale)} gives another size")
        found.append(float(factor))
    return None if told else found


@op(*(f"adaptive_{kind}_pool{axes}d" for kind in ("max", "avg") for axes in (1, 2, 3)))
def _adaptive_pool(call: Call) -> list[str]:
    axes = int(call.op[-2])
    if any(size != Size.of(1) for size in call.results[0].dims[-axes:]):
        raise NoForm("adaptive pooling to more than one element has no form in ONNX")
    x, alone = _with_batch(call, axes)
    name = "GlobalMaxPool" if "max" in call.op else "GlobalAveragePool"
    return _ended(call, alone, name, x)
