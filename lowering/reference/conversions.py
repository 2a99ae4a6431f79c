"""The twin of `cast`: every pair of dtypes."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.program.value_arrays import wrap
from openinfer.lowering.reference.elementwise import round_half_away
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, value_range

_ROUNDING = {
    "trunc": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
    "nearest": round_half_away,
    "even": np.rint,
}
# The largest float64 that uint64 can hold.
_BELOW_U64 = np.nextafter(2.0**64, 0)


@twin("cast")
def _cast(call: Call) -> AnyArray:
    x, source = call.inputs[0], DTYPES[call.dtypes[0]]
    target = DTYPES[str(call.settings["to"])]
    if target.is_float:
        # `evaluate` rounds, once. Packed and bool values count as their integers.
        return x.astype(np.uint8) if source.kind == "bool" else x
    if target.kind == "bool":
        return np.asarray(x != 0)
    saturate = bool(call.settings["saturate"]) or target.kind == "ternary"
    bounds = value_range(target)
    assert bounds is not None
    if source.is_float:
        whole = _ROUNDING[str(call.settings["rounding_mode"])](x.astype(np.float64))
        return _float_to_int(whole, target.name, bounds, saturate)
    if source.kind == "bool":
        x = x.astype(np.uint8)
    if saturate:
        own = value_range(source)
        assert own is not None
        low, high = max(bounds[0], own[0]), min(bounds[1], own[1])
        x = np.clip(x, x.dtype.type(low), x.dtype.type(high))
    return wrap(x, target.name)


def _float_to_int(x: AnyArray, dtype: str, bounds: tuple[int, int], saturate: bool) -> AnyArray:
    """Whole float64 values to integers; NaN gives 0.

    Out of range: the nearest bound, or without `saturate` the low bits of the 64-bit integer
    (saturated there: signed below zero, unsigned above).
    """
    x = np.where(np.isnan(x), 0.0, x)
    below = np.clip(x, -(2.0**63), 0.0).astype(np.int64).view(np.uint64)
    above = np.where(
        x >= 2.0**64,
        np.uint64(2**64 - 1),
        np.clip(x, 0.0, _BELOW_U64).astype(np.uint64),
    )
    bits = np.where(x < 0, below, above)
    result = wrap(bits.view(np.int64) if dtype != "u64" else bits, dtype)
    if not saturate:
        return result
    low, high = bounds
    kind = result.dtype.type
    result = np.where(x < low, kind(low), result)
    # high + 1 is a power of two, so this comparison is exact for 64-bit types too.
    return np.where(x >= float(high + 1), kind(high), result)
