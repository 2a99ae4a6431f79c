"""Twin of rotary position embedding: every pair as a complex number times a phase."""

from __future__ import annotations

import numpy as np

from openinfer.dialects.ops.rotary import rope_form, rotated_dims
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


@twin("rope")
def _rope(call: Call) -> AnyArray:
    x = call.exact()
    shape = x.shape
    form, settings = rope_form(TensorSpec.of(call.dtypes[0], shape), call.settings)
    x = np.reshape(x, [dim.evaluate({}) for dim in form.dims])
    dims = rotated_dims(form, settings)
    base = settings["base"]
    assert isinstance(base, int | float)
    heads_inside = settings["layout"] == "blhd"
    length = x.shape[-3] if heads_inside else x.shape[-2]
    positions = call.exact(1) if len(call.inputs) > 1 else np.arange(length, dtype=np.float64)
    # Positions are aligned with the axes of x that are neither heads nor head size.
    if heads_inside:
        positions = positions[..., None]
    elif positions.ndim > 1:
        positions = positions[..., None, :]
    frequency = float(base) ** (-np.arange(0, dims, 2) / max(dims, 1))
    angle = positions[..., None] * frequency  # (…, positions, pairs)
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = x.copy()
    if settings["interleaved"]:
        first, second = slice(0, dims, 2), slice(1, dims, 2)
    else:
        first, second = slice(0, dims // 2), slice(dims // 2, dims)
    a, b = x[..., first], x[..., second]
    turned[..., first] = a * cosine - b * sine
    turned[..., second] = b * cosine + a * sine
    return np.reshape(turned, shape)
