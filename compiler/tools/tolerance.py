"""How far a compiled value may lie from the simulator's, per dtype, and the measure of it.

A difference counts relative to the largest finite magnitude of the reference tensor: sums of many
terms in another order differ by a part of the terms, not of the sum. Integers and bools are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

RELATIVE = {
    "f64": 1e-12,  # a few hundred roundings of 2^-53
    "f32": 2e-5,  # a few hundred roundings of 2^-24
    "f16": 4e-3,  # four roundings of 2^-11 on the way
    "bf16": 3e-2,  # four roundings of 2^-8
    "q8": 3e-2,  # four roundings of 1/254 of the largest in a block
    "f8": 5e-1,  # two bits of mantissa
    "f8e4m3": 2.5e-1,
}

_TINY = 1.2e-38
"""The smallest normal f32: below it, results may be flushed."""


@dataclass(frozen=True)
class Difference:
    """The worst element of two tensors."""

    index: tuple[int, ...]
    expected: str
    found: str
    error: float
    allowed: float

    def __str__(self) -> str:
        return (
            f"at {list(self.index)} the simulator has {self.expected}, the compiled program "
            f"{self.found} (difference {self.error:.3g}, allowed {self.allowed:.3g})"
        )


def difference(
    expected: Tensor, found: Tensor, factor: float = 1.0, precision: str | None = None
) -> Difference | str | None:
    """Where two tensors differ beyond the tolerance of their dtype, None where they agree.

    Floats of a program whose products are computed in a `precision` have the tolerance of that.
    A text says that dtype or shape differ. NaN agrees with NaN, an infinity with itself.
    """
    if expected.dtype != found.dtype:
        return f"the simulator has {expected.dtype}, the compiled program {found.dtype}"
    if expected.shape != found.shape:
        shapes = f"{list(expected.shape)}, the compiled program {list(found.shape)}"
        return f"the simulator has shape {shapes}"
    left, right = expected.values(), found.values()
    if left.size == 0:
        return None
    if not expected.dtype.is_float:
        wrong = np.flatnonzero(left != right)
        if not wrong.size:
            return None
        index = tuple(int(i) for i in np.unravel_index(wrong[0], left.shape))
        return Difference(index, str(left[index]), str(right[index]), float("inf"), 0.0)
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(wide_left)
    scale = float(np.abs(wide_left[finite]).max()) if finite.any() else 0.0
    relative = max(RELATIVE[name] for name in (expected.dtype.name, precision or "f64"))
    allowed = relative * factor * max(scale, _TINY)
    error = _error(wide_left, wide_right)
    worst = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    if error[worst] <= allowed:
        return None
    return Difference(worst, str(left[worst]), str(right[worst]), float(error[worst]), allowed)


def _error(left: AnyArray, right: AnyArray) -> AnyArray:
    """Absolute differences; 0 where both are the same special value, inf where only one is."""
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(left - right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    special = ~np.isfinite(left) | ~np.isfinite(right)
    return np.where(same, 0.0, np.where(special, np.inf, error))
