"""Fourier transforms of real signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_size,
)
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]


def signal_length(name: str, x: TensorSpec, settings: Settings) -> Size:
    """The number of real samples of a transform. Raises SettingError or ShapeError."""
    given = settings["n"]
    if given is not None:
        length = as_size(given, "n")
        if length.constant is not None and length.constant < 1:
            raise SettingError("n", f"n={length} is no length of a signal", "use 1 or more")
        return length
    length = x.dims[-1] if name == "rfft" else (x.dims[-2] - 1) * 2
    if length.constant is not None and length.constant < 1:
        raise ShapeError(f"x {x} gives a signal of {length} samples", "give `n`")
    return length


def _rfft(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    if x.rank < 1:
        raise ShapeError(f"x is {x}", "x is [..., N]")
    length = signal_length("rfft", x, settings)
    return [TensorSpec(x.dtype, (*x.dims[:-1], length // 2 + 1, Size.of(2)))]


def _irfft(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    if x.rank < 2 or x.dims[-1].constant != 2:
        raise ShapeError(f"x is {x}", "x is [..., M, 2]: the last axis is real and imaginary part")
    return [TensorSpec(x.dtype, (*x.dims[:-2], signal_length("irfft", x, settings)))]


_NORM = Setting(
    "norm",
    "string",
    "backward",
    "which direction divides by n: the inverse, this one, or both by sqrt(n)",
    (),
    ("backward", "forward", "ortho"),
)
_NOT_FINITE = "A row with an element that is not finite gives NaN throughout."

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "rfft",
        ("x",),
        _rfft,
        "The Fourier transform of real rows `[..., N]`: bins `k = 0 … n/2` of `sum of x[j] * "
        "exp(-2 pi i j k / n)` as `[..., n/2 + 1, 2]`, real and imaginary part in the last axis. "
        + _NOT_FINITE,
        "signal",
        FLOATS,
        (Setting("n", "size", None, "rows are cut or padded with zeros to it; default N"), _NORM),
    ),
    OpSpec(
        "irfft",
        ("x",),
        _irfft,
        "The inverse of rfft: `[..., M, 2]` to `[..., n]`, of a spectrum whose other half is the "
        "conjugate; the imaginary parts of bins 0 and n/2 are taken as 0. " + _NOT_FINITE,
        "signal",
        FLOATS,
        (
            Setting(
                "n",
                "size",
                None,
                "bins are cut or padded with zeros to n/2 + 1; default 2*(M - 1)",
            ),
            _NORM,
        ),
    ),
)
