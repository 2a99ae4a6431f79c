"""The values of a compiled program's persistent variables, and their shapes, as callers fetch them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from openinfer.runtime.devices.base import Box
from openinfer.runtime.devices.compiled.growing import (
    Growing,
)
from openinfer.runtime.devices.compiled.state_memory import StateMemory
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import InputError
from openinfer.runtime.state_fetch import held_value
from openinfer.runtime.storage import AnyArray, first_value, to_values
from openinfer.runtime.tensors import Tensor


class StateValues(StateMemory):
    """What variables and entries of tables hold; nothing is changed."""

    def waiting(self, name: str, index: tuple[int, ...] | None) -> Tensor | None:
        """What a snapshot holds of a variable that waits for sizes; None where that does not say.

        Raises InputError OI0547 for an entry that is not there, OI0548 for one that has no shape.
        """
        value, row = self._pending.get(name), self._rows[name]
        if value is None:
            return None
        counted = 0 < row.tables < len(row.axes) and not row.open
        first = first_value(DTYPES[row.dtype], row.value)
        return held_value(name, value, index, first, counted=counted)

    def value(
        self, name: str, index: tuple[int, ...] | None, dynamic: Mapping[int, int] | None = None
    ) -> Tensor:
        """A variable, or an entry of a table. The storage is the state's own where it can be.

        `dynamic` are the dimensions that name scalars, for a variable that no step has touched. Raises
        InputError OI0547 for an entry that is not there, OI0548 for one that has no shape, OI0506 for
        what has no value.
        """
        row = self._rows[name]
        dtype = DTYPES[row.dtype]
        if not row.axes:
            held = self._held[name]
            raw = self._memory_of(row).read(held, 0, held.nbytes)
            return self._tensor(dtype, self._shapes[name], raw)
        growing = self._growing[name]
        extents = self._extents(growing)
        dynamic = self.dynamic_dims(name) or dynamic or {}
        if row.open and not extents[row.tables]:
            if "_" in self._declared(row):
                raise InputError(
                    "OI0506",
                    f"{name} has an open dimension and was not written yet",
                    hint="write it before it is read",
                )
            return self._untouched(growing, index, dynamic)
        if row.open and index is None:
            shape = (*extents[: row.tables], *extents[row.tables + 1 :])
            return self._gathered(growing, self._open_part(growing, ()), shape)
        if index is None and row.dynamic_axes and not growing.counted:
            return self._entry(growing, (), dynamic)
        if index is None and not growing.counted:
            return self._gathered(growing, growing.box((), extents), (*extents, *growing.entry))
        if index is None:
            indices = list(product(*(range(n) for n in extents)))
            shapes = {self._matrix_shape(growing, i, dynamic) for i in indices} or {
                self._started(growing, dynamic)
            }
            if len(shapes) > 1:
                raise InputError(
                    "OI0548",
                    f"the matrices of {name} have different shapes",
                    hint=f"fetch {name}[i] one by one",
                )
            stacked = [self._entry(growing, i, dynamic).storage for i in indices]
            shape = (*extents, *shapes.pop())
            storage = np.stack(stacked) if stacked else np.zeros(0, np.dtype(dtype.storage))
            if dtype.packed:
                values = [self._entry(growing, i, dynamic).values() for i in indices]
                joined = np.stack(values) if values else np.zeros(0, np.dtype(dtype.value))
                return Tensor.from_values(dtype, joined.reshape(shape))
            return Tensor(dtype, shape, storage.reshape(shape))
        self._check_entry(growing, index)
        return self._entry(growing, index, dynamic)

    def _check_entry(self, growing: Growing, index: tuple[int, ...]) -> None:
        extents = self._extents(growing)
        if len(index) != growing.tables or any(not 0 <= i < n for i, n in zip(index, extents)):
            shown = ", ".join(f"0..{n}" for n in extents[: growing.tables])
            raise InputError(
                "OI0547",
                f"{growing.row.name}{list(index)} is not there: its indices are {shown or 'none'}",
                hint="fetch an entry that a step has touched",
            )

    def _untouched(
        self, growing: Growing, index: tuple[int, ...] | None, dynamic: Mapping[int, int]
    ) -> Tensor:
        """A variable that no step has filled, with dynamic dimensions: its first content."""
        row, tables = growing.row, growing.tables
        if index is not None:
            self._check_entry(growing, index)
        first = growing.base[tables + 1 :]
        shape = tuple(dynamic.get(axis, extent) for axis, extent in enumerate(first))
        if index is None:
            shape = (*self._extents(growing)[:tables], *shape)
        found = self._first(row, shape)
        if found.shape != shape:
            raise InputError(
                "OI0506",
                f"{row.name} is {list(shape)}, but its tensor in the model is {list(found.shape)}",
                hint="make the declaration fit the model",
            )
        return found

    def _matrix_shape(
        self, growing: Growing, index: tuple[int, ...], dynamic: Mapping[int, int]
    ) -> tuple[int, ...]:
        """The shape of a growing matrix; `dynamic` where no step has made it as large."""
        if growing.counted:
            extents = [int(n) for n in self._matrix_extents(growing)[index][0]]
        else:
            extents = self._extents(growing)
        if self._is_there(growing, extents):
            return tuple(extents)
        return self._started(growing, dynamic)

    @staticmethod
    def _is_there(growing: Growing, shape: Sequence[int]) -> bool:
        """Whether a step, or a snapshot, has made a matrix as large as it is at least."""
        dynamic = growing.row.dynamic_axes
        return not dynamic or any(shape[axis] for axis in dynamic)

    def _restored(self, growing: Growing, index: tuple[int, ...]) -> bool:
        """Whether a matrix whose dynamic dimensions no step has fixed is there, from a snapshot."""
        if not growing.counted:
            return self._is_there(growing, self._extents(growing))
        return self._is_there(growing, self._matrix_extents(growing)[index][0])

    def has_matrices(self, name: str, index: tuple[int, ...] | None) -> bool:
        """Whether a step, or a snapshot, has made all matrices that are asked for: they say
        themselves how large they are."""
        growing = self._growing.get(name)
        if growing is None or growing.row.open or growing.tables == len(growing.capacity):
            return False
        places = [i for i in self.entries(name) if index is None or i == index]
        return bool(places) and all(self._restored(growing, place) for place in places)

    @staticmethod
    def _started(growing: Growing, dynamic: Mapping[int, int]) -> tuple[int, ...]:
        """The shape of a matrix that has not grown."""
        first = growing.base[growing.tables :]
        return tuple(dynamic.get(axis, extent) for axis, extent in enumerate(first))

    def _entry(
        self, growing: Growing, index: tuple[int, ...], dynamic: Mapping[int, int] | None = None
    ) -> Tensor:
        if growing.tables == len(growing.capacity):
            raw = growing.memory.gather(growing.box(index))
            return self._tensor(growing.dtype, growing.entry, raw)
        if growing.row.open:
            shape = tuple(self._extents(growing)[growing.tables + 1 :])
            return self._gathered(growing, self._open_part(growing, index), shape)
        shape = self._matrix_shape(growing, index, dynamic or {})
        if any(n > most for n, most in zip(shape, growing.capacity[growing.tables :])):
            # No step has made it so large: nothing is in it.
            return self._first(growing.row, shape)
        return self._gathered(growing, growing.box(index, shape), shape)

    def _open_part(self, growing: Growing, index: tuple[int, ...]) -> Box:
        """The place of an entry with open dimensions, or of all entries."""
        extents = self._extents(growing)
        lead = () if index else extents[: growing.tables]
        return growing.box(index, (*lead, 1, *extents[growing.tables + 1 :]))

    def _gathered(self, growing: Growing, part: Box, shape: tuple[int, ...]) -> Tensor:
        """Some entries as one tensor; packed entries that end within a byte are joined."""
        raw = growing.memory.gather(part)
        dtype, count = growing.dtype, prod(growing.entry)
        if not dtype.packed or count * dtype.bits % 8 == 0:
            return self._tensor(dtype, shape, raw)
        each = raw.reshape(-1, part.entry)
        values = [to_values(dtype, entry, growing.entry) for entry in each]
        joined = np.stack(values) if values else np.zeros(0, np.dtype(dtype.value))
        return Tensor.from_values(dtype, joined.reshape(shape))

    @staticmethod
    def _tensor(dtype: DType, shape: tuple[int, ...], raw: AnyArray) -> Tensor:
        nbytes = dtype.nbytes(prod(shape))
        storage = raw[:nbytes].view(np.dtype(dtype.storage))
        return Tensor(dtype, shape, storage if dtype.packed else storage.reshape(shape))
