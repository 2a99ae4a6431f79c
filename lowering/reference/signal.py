"""Twins of the Fourier transforms."""

from __future__ import annotations

from typing import Literal

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


def _norm(call: Call) -> Literal["backward", "forward", "ortho"]:
    match call.settings["norm"]:
        case "ortho":
            return "ortho"
        case "forward":
            return "forward"
        case _:
            return "backward"


def _fit(x: AnyArray, count: int) -> AnyArray:
    """The last axis cut or padded with zeros to `count` elements."""
    x = x[..., :count]
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count - x.shape[-1])])


@twin("rfft")
def _rfft(call: Call) -> AnyArray:
    x, given = call.exact(), call.settings["n"]
    length = given if isinstance(given, int) else x.shape[-1]
    x = _fit(x, length)
    finite = np.asarray(np.isfinite(x).all(axis=-1))[..., None, None]
    spectrum = np.fft.rfft(np.nan_to_num(x), axis=-1, norm=_norm(call))
    pairs = np.stack([spectrum.real, spectrum.imag], axis=-1)
    return np.where(finite, pairs, np.nan)


@twin("irfft")
def _irfft(call: Call) -> AnyArray:
    x, length = call.exact(), call.shapes[0][-1]
    bins = length // 2 + 1
    real, imaginary = _fit(x[..., 0], bins), _fit(x[..., 1], bins)
    finite = np.asarray(np.isfinite(real + imaginary).all(axis=-1))[..., None]
    imaginary[..., 0] = 0
    if length % 2 == 0:
        imaginary[..., -1] = 0
    spectrum = np.nan_to_num(real) + 1j * np.nan_to_num(imaginary)
    return np.where(finite, np.fft.irfft(spectrum, length, axis=-1, norm=_norm(call)), np.nan)
