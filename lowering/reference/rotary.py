"""Twin of rotary position embedding: every pair as a complex number times a phase."""

from __future__ import annotations

from collections.abc import Mapping

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
    if len(call.inputs) > 2:
        tables = [call.exact(place) for place in (1, 2)]  # (…, positions, pairs)
        spec = TensorSpec.of(call.dtypes[1], tables[0].shape)
        dims = rotated_dims(form, settings, spec)
        cosine, sine = (_along_heads(table, settings, behind=1) for table in tables)
    else:
        dims = rotated_dims(form, settings)
        cosine, sine = _phases(call, x, dims, settings)
    turned = x.copy()
    if settings["interleaved"]:
        first, second = slice(0, dims, 2), slice(1, dims, 2)
    else:
        first, second = slice(0, dims // 2), slice(dims // 2, dims)
    a, b = x[..., first], x[..., second]
    turned[..., first] = a * cosine - b * sine
    turned[..., second] = b * cosine + a * sine
    return np.reshape(turned, shape)


def _along_heads(x: AnyArray, settings: Mapping[str, object], behind: int) -> AnyArray:
    """An axis for the heads: x (…, positions) with `behind` axes behind those of positions."""
    place = x.ndim - behind  # Behind the positions.
    if settings["layout"] == "blhd":
        return np.expand_dims(x, place)
    return np.expand_dims(x, place - 1) if place > 1 else x


def _phases(
    call: Call, x: AnyArray, dims: int, settings: Mapping[str, object]
) -> tuple[AnyArray, AnyArray]:
    """Cosines and sines (…, positions, pairs) of positions times frequencies."""
    base = settings["base"]
    assert isinstance(base, int | float)
    length = x.shape[-3] if settings["layout"] == "blhd" else x.shape[-2]
    positions = call.exact(1) if len(call.inputs) > 1 else np.arange(length, dtype=np.float64)
    positions = _along_heads(positions, settings, behind=0)
    frequency = float(base) ** (-np.arange(0, dims, 2) / max(dims, 1))
    angle = positions[..., None] * frequency
    return np.cos(angle), np.sin(angle)
