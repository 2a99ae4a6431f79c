"""Snapshots: what the persistent variables of an executor hold, detached from it.

A `State` maps each persistent variable to its entries. A plain variable and a lone `@auto_dim`
matrix have extents () and the one entry (); an index of a table has an extent each. A variable that
nothing has touched may have no entry: it starts from its first content. Simulator and compiled
program read each other's snapshots; `runtime/state_file.py` says how a file looks.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import SupportsIndex

import numpy as np

from openinfer.runtime.dtypes import DType
from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import element_count
from openinfer.runtime.tensors import Tensor

MAX_STATE_BYTES = 1 << 56
"""A larger limit would let byte counts overflow 64 bits."""


@dataclass(frozen=True, eq=False)
class StateValue:
    """The content of one persistent variable."""

    dtype: DType
    extents: tuple[int, ...]
    """How far each index of a table reaches; () for what is no table."""
    entries: dict[tuple[int, ...], Tensor]
    """The entries that are there, by their indices."""

    def __post_init__(self) -> None:
        """Raises InputError OI0551 for entries that do not fit the extents or the dtype."""
        rank = len(self.extents)
        if any(extent < 0 for extent in self.extents):
            raise _unfit(f"extents {list(self.extents)} hold a negative number")
        for index, tensor in self.entries.items():
            inside = len(index) == rank and all(
                0 <= i < extent for i, extent in zip(index, self.extents)
            )
            if not inside:
                raise _unfit(f"entry {list(index)} lies outside of extents {list(self.extents)}")
            if tensor.dtype != self.dtype:
                raise _unfit(f"entry {list(index)} is {tensor.dtype}, expected {self.dtype}")

    @property
    def nbytes(self) -> int:
        """Bytes of all entries that are there."""
        return sum(tensor.nbytes for tensor in self.entries.values())

    def copy(self) -> StateValue:
        """The same content in memory of its own."""
        entries = {
            index: Tensor(t.dtype, t.shape, t.storage.copy()) for index, t in self.entries.items()
        }
        return StateValue(self.dtype, self.extents, entries)

    def __eq__(self, other: object) -> bool:
        """Whether dtype, extents, shapes and all bytes are equal: NaN equals itself."""
        if not isinstance(other, StateValue):
            return NotImplemented
        if (self.dtype, self.extents) != (other.dtype, other.extents):
            return False
        if self.entries.keys() != other.entries.keys():
            return False
        return all(_same(t, other.entries[index]) for index, t in self.entries.items())

    def __repr__(self) -> str:
        count = f"{len(self.entries)} {'entry' if len(self.entries) == 1 else 'entries'}"
        extents = f" of {list(self.extents)}" if self.extents else ""
        return f"<{self.dtype}, {count}{extents}>"


class State(Mapping[str, StateValue]):
    """The persistent variables of a program at one moment, by name.

    Made by `executor.snapshot()` or `State.load(path)`, taken by `executor.restore(state)`.
    """

    def __init__(self, values: Mapping[str, StateValue]) -> None:
        self._values = dict(values)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> State:
        """The state that `save` wrote.

        Raises ArtefactError OI0811 for a file that is missing, damaged or something else.
        """
        from openinfer.runtime.state_file import load_state

        return load_state(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a `.safetensors` file, whole or not at all. Raises ArtefactError OI0811."""
        from openinfer.runtime.state_file import save_state

        save_state(self, path)

    @property
    def nbytes(self) -> int:
        """Bytes of all entries."""
        return sum(value.nbytes for value in self._values.values())

    def __getitem__(self, name: str) -> StateValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same variables with the same bytes."""
        return self._values == other._values if isinstance(other, State) else NotImplemented

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {value!r}" for name, value in self._values.items())
        return f"State({shown})"


def dense_bytes(dtype: DType, extents: Sequence[int], shape: Sequence[int]) -> int:
    """Bytes of a table with all entries there; an empty entry counts one byte for being there."""
    return element_count(extents) * max(1, dtype.nbytes(element_count(shape)))


def checked_state_bytes(limit: object) -> int:
    """The bytes that state may take: as given, or half of the memory of this machine.

    Raises InputError OI0552 for what is no positive whole number.
    """
    if limit is None:
        return min(MAX_STATE_BYTES, physical_memory() // 2)
    if isinstance(limit, bool) or not isinstance(limit, SupportsIndex):
        raise InputError(
            "OI0552",
            f"max_state_bytes = {limit!r} is no whole number",
            hint="give a number of bytes, or leave it out",
        )
    number = operator.index(limit)
    if not 1 <= number <= MAX_STATE_BYTES:
        raise InputError(
            "OI0552",
            f"max_state_bytes = {number}",
            hint="give a number from 1 to 2^56, or leave it out",
        )
    return number


def physical_memory() -> int:
    """Bytes of memory of this machine; 8 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 << 30


def over_limit(name: str, wanted: int, limit: int) -> StepError:
    """The error of a step whose state would outgrow its limit; `wanted` counts all variables."""
    return StepError(
        "OI0609",
        f"{name} would grow: all state would take {wanted} bytes, more than max_state_bytes = "
        f"{limit}",
        hint="reset the cache in time, bound it with @fixed, or make the executor with a larger "
        "max_state_bytes",
    )


def _same(left: Tensor, right: Tensor) -> bool:
    if left.shape != right.shape:
        return False
    first, second = (
        np.ascontiguousarray(t.storage).reshape(-1).view(np.uint8) for t in (left, right)
    )
    return np.array_equal(first, second)


def _unfit(message: str) -> InputError:
    return InputError(
        "OI0551", f"no content of a variable: {message}", hint="take it from executor.snapshot()"
    )
