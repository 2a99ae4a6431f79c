"""Inputs that look like those of the step before: taken in without a second full check.

`BaseExecutor.insert` takes about 30 µs for each array. What the last step was given is known to
fit, so a value of the same dtype and shape needs only to lie as storage does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import DType
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray, value_range
from openinfer.runtime.tensors import Tensor

_first_byte: Any = ctypes.c_char.from_buffer
_address: Any = ctypes.addressof
_ARRAY = np.ndarray
_LARGEST = {"f32": float(np.finfo(np.float32).max), "f64": float(np.finfo(np.float64).max)}


def address_of(array: AnyArray) -> int:
    """Where a contiguous array begins. `array.ctypes` describes it all first: five times as long."""
    try:
        return _address(_first_byte(array))
    except (TypeError, ValueError):
        # A read-only array gives no buffer to write to, an empty one has no byte.
        return array.ctypes.data


@dataclass(frozen=True)
class Row:
    """An array that a step takes: what it has to be, and where its address is put."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    address: int


Place = Callable[[Sequence[Row], int, object], "Callable[[Mapping[str, Any]], bool] | None"]
"""`LoadedProgram.place`."""


@dataclass(frozen=True)
class QuickInput:
    """What an input was in the step before."""

    dtype: DType
    shape: tuple[int, ...]
    storage: np.dtype[Any]
    number: type[float] | type[int] | None
    """The type of Python numbers that a scalar may be given as; None: no scalar, or no such type."""
    bounds: tuple[float, float]
    """The least and the largest of these numbers."""
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
        number, bounds = None, (0, 0)
        if not tensor.shape and dtype.name in _LARGEST:
            number, bounds = float, (-_LARGEST[dtype.name], _LARGEST[dtype.name])
        elif not tensor.shape and dtype.kind in ("int", "uint"):
            number, bounds = int, value_range(dtype) or (0, 0)
        storage, plain = np.dtype(dtype.storage), dtype.storage == dtype.value
        return QuickInput(dtype, tensor.shape, storage, number, bounds, plain, dtype.kind == "bool")

    def take(self, value: Any) -> AnyArray | None:
        """The storage of a value that certainly fits, None for one that needs the full check."""
        if type(value) is _ARRAY:
            return self._lying(value) if self.plain else None
        if type(value) is Tensor:
            return self._lying(value.storage) if value.dtype is self.dtype else None
        if type(value) is self.number:
            return np.array(value, self.storage) if self.holds(value) else None
        if not self.shape and type(value) is self.storage.type and self.plain:
            return self._lying(np.asarray(value))
        return None

    def holds(self, value: float) -> bool:
        """Whether a number of the type `number` can be stored."""
        # Comparisons with NaN fail, and infinities are beyond the bounds.
        return self.bounds[0] <= value <= self.bounds[1]

    def _lying(self, array: AnyArray) -> AnyArray | None:
        """The array itself, if its bytes are those of such an input."""
        if array.shape != self.shape or array.dtype != self.storage:
            return None
        flags = array.flags
        # Contiguous, aligned and writable in one look; an array may also be read-only.
        if not flags.carray and not (flags.c_contiguous and flags.aligned):
            return None
        if self.checked and array.size and int(array.view(np.uint8).max()) > 1:
            return None
        return array


class QuickInputs:
    """All inputs of a step, and the words of its frame that their addresses go to.

    What a look at an input needs is bound once: `run` has a microsecond for all of them.
    """

    def __init__(
        self,
        entries: Mapping[str, QuickInput | None],
        slots: Mapping[str, int],
        frame: Any,
        place: Place,
    ) -> None:
        """`entries` are None for inputs that always need the full check, `frame` is an array of ctypes,
        `place` makes native code for the arrays."""
        self.all_entries = dict(entries)
        self.entries = {name: entry for name, entry in entries.items() if entry is not None}
        self._frame = frame
        # A step whose inputs are not all quick is never placed: no call has so many inputs.
        complete = len(self.entries) == len(entries)
        self._count = len(entries) if complete else -1
        self._arrays = [
            (name, slots[name], entry.shape, entry.storage, entry.storage.alignment - 1)
            for name, entry in self.entries.items()
            if complete and entry.plain and not entry.checked and entry.number is None
        ]
        self.native: Callable[[Mapping[str, Any]], bool] | None = None
        """What does the same as `place` for arrays alone."""
        if self._arrays or not entries:
            start = ctypes.addressof(frame)
            rows = [Row(n, dtype, shape, start + 8 * at) for n, at, shape, dtype, _ in self._arrays]
            self.native = place(rows, self._count, frame)
        known = {name for name, *_ in self._arrays}
        others = [name for name in self.entries if complete and name not in known]
        self._others = [(name, slots[name], self.entries[name]) for name in others]
        self.token: object = None
        """What the turn has after a run that another may follow, True where none may; None: not known yet."""
        self.arrays_only = complete and not others
        """Whether `place` takes arrays alone, each of which lies as storage does."""
        self._cells: dict[str, tuple[AnyArray, int]] = {}
        """Where a Python number is put, and its address."""
        self._taken: list[AnyArray] = []
        self.renew()

    def place(self, given: Mapping[str, Any]) -> bool:
        """Puts the addresses of all inputs into the frame, if they certainly fit.

        Where they do not, or where one is missing or unknown, the frame may hold some of them.
        """
        if self._others and not self._place_others(given.get):
            return False
        native = self.native
        return (native is not None and native(given)) or self._place_arrays(given)

    def _place_arrays(self, given: Mapping[str, Any]) -> bool:
        """The arrays, where there are no builtins, or something looks unusual to them."""
        if len(given) != self._count:
            return False
        frame, get = self._frame, given.get
        for name, slot, shape, dtype, rest in self._arrays:
            value = get(name)
            if type(value) is not _ARRAY or value.shape != shape or value.dtype != dtype:
                return False
            try:
                # A buffer to write to is contiguous in C order.
                address = _address(_first_byte(value))
            except (TypeError, ValueError):
                if not value.flags.c_contiguous:
                    return False
                address = value.ctypes.data
            if address & rest:
                return False
            frame[slot] = address
        return True

    def _place_others(self, get: Any) -> bool:
        """The inputs that are no arrays of NumPy's, or that have to be looked into."""
        self._taken.clear()
        for name, slot, entry in self._others:
            value = get(name)
            if type(value) is entry.number and entry.holds(value):
                cell, self._frame[slot] = self._cells[name]
                cell[()] = value
                continue
            array = entry.take(value)
            if array is None:
                return False
            self._taken.append(array)
            self._frame[slot] = address_of(array)
        return True

    def renew(self) -> list[AnyArray]:
        """What numbers were put into since the last call; from now on they go to other memory."""
        old = [*self._taken, *(cell for cell, _ in self._cells.values())]
        self._taken = []
        cells = {n: np.zeros((), entry.storage) for n, _, entry in self._others if entry.number}
        self._cells = {name: (cell, cell.ctypes.data) for name, cell in cells.items()}
        return old
