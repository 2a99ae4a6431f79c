"""Shows what a package holds, as ini-like text or as JSON data.

    B := 4                                    a size
    title: str = "clamp_up"                   metadata
    w: f32[2, 3] = { 0.0, 1.0, … }            a tensor: up to ten values, else the first and last 5
      stats: nbytes=24 min=0 max=5 mean=2.5 median=2.5 std=1.70783
      histogram: [0, 0.5) 1 | …               ten bins, or one per value for few integers
    later: f16[2, 4] -- uninitialized

Statistics are taken over the decoded, finite values; NaNs and infinities are counted apart. Models in `.gguf`
files are large, and have a view of their own without them (`gguf_inspect.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from openinfer.runtime.packages import gguf_inspect
from openinfer.runtime.packages.base import Package, TensorInfo
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.shown import (
    listing,
    listing_json,
    plain,
    quoted,
    shape_text,
    shown_name,
    value_text,
)
from openinfer.runtime.packages.values import Bitset, MetadataValue, QuantParams, ScalarValue
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

_SPAN = 20
_BINS = 10


def inspect_text(package: Package) -> str:
    """The whole view; reads every tensor once. Raises PackageError for damaged values."""
    return "\n".join(inspect_lines(package)) + "\n"


def inspect_lines(package: Package) -> Iterator[str]:
    """The view line by line, so that a large package shows from the start."""
    if isinstance(package, GgufPackage):
        yield from gguf_inspect.inspect_lines(package)
        return
    yield f"; {package.format}: {len(package.sizes)} sizes, {len(package.metadata)} metadata, " + (
        f"{len(package.tensors)} tensors"
    )
    for name, value in package.sizes.items():
        yield f"{shown_name(name)} := {value}"
    if package.metadata:
        yield ""
    for name, value in package.metadata.items():
        yield f"{shown_name(name)}: {_metadata(value)}"
    for info in package.tensors.values():
        yield ""
        yield from _tensor_lines(package, info)


def inspect_json(package: Package) -> dict[str, Any]:
    """The same facts as JSON data; non-finite floats become "NaN", "Infinity", "-Infinity"."""
    if isinstance(package, GgufPackage):
        return gguf_inspect.inspect_json(package)
    return {
        "format": package.format,
        "path": str(package.path),
        "sizes": dict(package.sizes),
        "metadata": {name: _metadata_json(value) for name, value in package.metadata.items()},
        "tensors": {info.name: _tensor_json(package, info) for info in package.tensors.values()},
    }


def _metadata(value: MetadataValue) -> str:
    if isinstance(value, str):
        return f"str = {quoted(value)}"
    if isinstance(value, Bitset):
        return f"bitset[{len(value)}] = {listing(value.bits.astype(np.uint8))}"
    if isinstance(value, ScalarValue):
        number: Any = value.value
        if isinstance(number, float) and str(value.dtype) != "f64":
            number = np.float32(number)  # gives the shortest text of the narrow type
        return f"{value.dtype} = {value_text(number)}"
    return f"{value.dtype}{shape_text(value.shape) or '[]'} = {listing(value.values())}"


def _tensor_lines(package: Package, info: TensorInfo) -> Iterator[str]:
    head = f"{shown_name(info.name)}: {info.dtype_name}{shape_text(info.shape)}"
    if not info.supported:
        yield f"{head} -- {info.nbytes} bytes of a dtype that openinfer lacks"
    elif not info.has_data:
        yield f"{head} -- uninitialized"
    else:
        values = package.tensor(info.name).values()
        shown = listing(values) if info.shape else value_text(values[()])
        yield f"{head} = {shown}"
        if values.size:
            stats = statistics(values)
            yield "  stats: " + " ".join(f"{key}={_number(stats[key])}" for key in stats)
            bins = _histogram(values)
            if bins:
                yield "  histogram: " + " | ".join(f"{label} {count}" for label, count in bins)
    if info.quant is not None:
        yield f"  quant: {_quant(info.quant)}"


def _quant(quant: QuantParams) -> str:
    text = f"{quant.scheme}, scale {_quant_part(quant.scale)}"
    if quant.zero_point is not None:
        text += f", zero_point {_quant_part(quant.zero_point)}"
    return text


def _quant_part(part: Any) -> str:
    where = f" axis {part.axis}" if part.mode == "per_channel" else ""
    return f"{part.mode}{where} {listing(part.values)}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _finite(values: AnyArray) -> AnyArray:
    flat = values.reshape(-1)
    if flat.dtype.kind != "f":
        return flat
    mask = np.isfinite(flat)
    return flat if mask.all() else flat[mask]


def statistics(values: AnyArray) -> dict[str, Any]:
    """nbytes of the values, then min, max, mean, median and std of the finite ones, if any.

    `nan` and `inf` count the others, if any.
    """
    finite = _finite(values)
    stats: dict[str, Any] = {"nbytes": values.nbytes}
    if finite.size:
        exact = float if finite.dtype.kind == "f" else int
        wide = finite.astype(np.float64)
        # Scaled by a power of two, so that neither a sum nor a square of large values overflows.
        scale = math.ldexp(1.0, math.frexp(float(np.abs(wide).max()))[1] - 1)
        wide /= scale
        stats["min"] = exact(finite.min())
        stats["max"] = exact(finite.max())
        for key, function in (("mean", np.mean), ("median", np.median), ("std", np.std)):
            stats[key] = float(function(wide)) * scale
    if finite.size != values.size:
        stats["nan"] = int(np.isnan(values).sum())
        stats["inf"] = int(np.isinf(values).sum())
    return stats


def _histogram(values: AnyArray) -> list[tuple[str, int]]:
    """Label and count of each bin; integers with a span of at most 20 have a bin per value."""
    finite = _finite(values)
    if finite.size == 0:
        return []
    if finite.dtype.kind != "f" and int(finite.max()) - int(finite.min()) <= _SPAN:
        found, counts = np.unique(finite, return_counts=True)
        return [(value_text(value), int(count)) for value, count in zip(found, counts)]
    wide = finite.astype(np.float64)
    low, high = float(wide.min()), float(wide.max())
    if low == high:
        return [(f"[{low:.6g}]", finite.size)]
    # high - low may overflow: bins are laid over positions in 0..1 instead.
    half = high / 2 - low / 2
    positions = np.clip((wide / 2 - low / 2) / half, 0, 1) if half else np.zeros_like(wide)
    counts, _ = np.histogram(positions, bins=_BINS, range=(0.0, 1.0))
    edges = [low + 2 * (half * (i / _BINS)) for i in range(_BINS)] + [high]
    return [
        (f"[{edges[i]:.6g}, {edges[i + 1]:.6g}{']' if i == _BINS - 1 else ')'}", int(counts[i]))
        for i in range(_BINS)
    ]


def _metadata_json(value: MetadataValue) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "str", "value": value}
    if isinstance(value, Bitset):
        return {"type": "bitset", "value": [int(bit) for bit in value.bits]}
    if isinstance(value, ScalarValue):
        return {"type": str(value.dtype), "value": plain(value.value)}
    shape = list(value.shape)
    return {"type": str(value.dtype), "shape": shape, **listing_json(value.values())}


def _tensor_json(package: Package, info: TensorInfo) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "dtype": info.dtype_name,
        "shape": list(info.shape),
        "nbytes": info.nbytes,
        "has_data": info.has_data,
    }
    if info.supported and info.has_data:
        tensor: Tensor = package.tensor(info.name)
        values = tensor.values()
        entry |= listing_json(values)
        if values.size:
            entry["stats"] = {key: plain(value) for key, value in statistics(values).items()}
            entry["histogram"] = [
                {"bin": label, "count": count} for label, count in _histogram(values)
            ]
    if info.quant is not None:
        entry["quant"] = _quant_json(info.quant)
    return entry


def _quant_json(quant: QuantParams) -> dict[str, Any]:
    entry: dict[str, Any] = {"scheme": quant.scheme}
    for key, part in (("scale", quant.scale), ("zero_point", quant.zero_point)):
        if part is not None:
            entry[key] = {
                "mode": part.mode,
                "axis": part.axis,
                "values": [plain(value) for value in part.values],
            }
    return entry
