"""Twins of `pad` and `flip`."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.layout import ints
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray


@twin("pad")
def _pad(call: Call) -> AnyArray:
    x, settings = call.inputs[0], call.settings
    pads = ints(settings["pads"])
    axes = range(x.ndim) if settings["axes"] is None else ints(settings["axes"])
    widths = [(0, 0)] * x.ndim
    for number, axis in enumerate(axes):
        widths[axis] = (pads[number], pads[number + len(axes)])
    if not x.ndim:
        return x
    if settings["mode"] == "edge":
        return np.pad(x, widths, mode="edge")
    if settings["mode"] == "reflect":
        return np.pad(x, widths, mode="reflect")
    value = settings["value"]
    assert isinstance(value, int | float)
    # The border is rounded once, to the dtype of the result.
    wide = x.astype(np.float64) if DTYPES[call.dtypes[0]].is_float else x
    return np.pad(wide, widths, mode="constant", constant_values=value)


@twin("flip")
def _flip(call: Call) -> AnyArray:
    axes = call.settings["axes"]
    return np.flip(call.inputs[0], None if axes is None else ints(axes))
