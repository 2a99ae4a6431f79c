"""Inputs that look like those of the step before: taken in without a second full check.

`BaseExecutor.insert` takes about 30 µs for each array. What the last step was given is known to
fit, so a value of the same dtype and shape needs only to lie as storage does.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import DType
from openinfer.runtime.storage import AnyArray, value_range
from openinfer.runtime.tensors import Tensor

_first_byte: Any = ctypes.c_char.from_buffer
_ARRAY = np.ndarray
_LARGEST = {"f32": float(np.finfo(np.float32).max), "f64": float(np.finfo(np.float64).max)}


def address_of(array: AnyArray) -> int:
    """Where a contiguous array begins. `array.ctypes` describes it all first: five times as long."""
    try:
        return ctypes.addressof(_first_byte(array))
    except (TypeError, ValueError):
        # A read-only array gives no buffer to write to, an empty one has no byte.
        return array.ctypes.data


@dataclass(frozen=True)
class QuickInput:
    """What an input was in the step before."""

    dtype: DType
    shape: tuple[int, ...]
    storage: np.dtype[Any]
    bounds: tuple[float, float] | None
    """The Python numbers that a scalar may be given as; None: no scalar, or no such number."""
    plain: bool
    """Whether a NumPy array of values lies as storage does."""
    checked: bool
    """Whether bytes are looked at: a bool must be 0 or 1."""

    @staticmethod
    def of(tensor: Tensor) -> QuickInput | None:
        """None for dtypes whose values are looked at more closely every time."""
        dtype = tensor.dtype
        if dtype.packed:
            return None
        bounds = None
        if not tensor.shape and dtype.name in _LARGEST:
            bounds = (-_LARGEST[dtype.name], _LARGEST[dtype.name])
        elif not tensor.shape and dtype.kind in ("int", "uint"):
            bounds = value_range(dtype)
        storage, plain = np.dtype(dtype.storage), dtype.storage == dtype.value
        return QuickInput(dtype, tensor.shape, storage, bounds, plain, dtype.kind == "bool")

    def take(self, value: Any) -> AnyArray | None:
        """The storage of a value that certainly fits, None for one that needs the full check."""
        if type(value) is _ARRAY:
            return self._lying(value) if self.plain else None
        if type(value) is Tensor:
            return self._lying(value.storage) if value.dtype is self.dtype else None
        if self.bounds is not None and type(value) is (float if self.dtype.is_float else int):
            # Comparisons with NaN fail, and infinities are beyond the bounds.
            fits = self.bounds[0] <= value <= self.bounds[1]
            return np.array(value, self.storage) if fits else None
        if not self.shape and type(value) is self.storage.type and self.plain:
            return self._lying(np.asarray(value))
        return None

    def _lying(self, array: AnyArray) -> AnyArray | None:
        """The array itself, if its bytes are those of such an input."""
        if array.shape != self.shape or array.dtype != self.storage:
            return None
        flags = array.flags
        if not flags.c_contiguous or not flags.aligned:
            return None
        if self.checked and array.size and int(array.view(np.uint8).max()) > 1:
            return None
        return array
