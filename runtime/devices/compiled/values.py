"""What the variables of a compiled program hold between and inside steps, as `fetch` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openinfer.runtime.devices.base import LoadedProgram
from openinfer.runtime.devices.compiled.context import Context
from openinfer.runtime.devices.compiled.sizes import check_shape, dims_now, no_shape
from openinfer.runtime.devices.compiled.state import CompiledState
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.manifest import VariableRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import first_value, to_storage
from openinfer.runtime.tensors import Tensor


class CompiledValues(BaseExecutor):
    """The half of a compiled executor that looks up values; the other half runs steps."""

    _loaded: LoadedProgram
    _rows: dict[str, VariableRow]
    _first: Context
    """Where steps with state run."""
    _state: CompiledState
    """That of `_first`."""
    _live: dict[str, Tensor]
    """What a step that is iterated has shown so far."""

    def _value(self, name: str) -> Tensor:
        if name in self._live:
            return self._live[name]
        base = name.partition("[")[0]
        row = self._rows[base]
        if self._stepping is not None and row.memory == "volatile":
            # This step has not written it yet: it holds what every step begins with.
            return self._first_content(row, name)
        first = self._first
        if name in first.offsets and self._stepping is None:
            if first.done and first.shape_sizes is not None:
                return first.output(row)
            if row.memory == "volatile":
                # What a step would start from.
                return self._first_content(row, name)
            if row.memory != "persistent":
                raise InputError(
                    "OI0506",
                    f"{name} is a temporary: it lives only inside a step",
                    hint="step first; what entry returns is there then",
                )
        if row.memory == "persistent":
            if self.variables[base].indices and self._stepping is not None:
                # Scalars and tensors are shown as they are written; of these, only reads are.
                raise InputError(
                    "OI0549",
                    f"{base} has no value inside a compiled step: its entries are not shown there",
                    hint="fetch it after the step, or iterate on the simulator",
                )
            return self._persistent(base, name)
        if row.memory == "temporary":
            if self._stepping is not None:
                # Nothing has been written to it: zeros, as in the simulator.
                return self._first_content(row, name)
            raise no_temporary(name)
        return self._first_content(row, name)

    def _persistent(self, base: str, name: str) -> Tensor:
        if not self._state.has_shape(base):
            index = None if base == name else _indices(name)
            dynamic = self._state.dynamic_axes(base)
            if (
                self._stepping is not None
                and self._state.waiting(base, index) is None
                and not dynamic
            ):
                # The first step that uses it is on its way.
                return self._first_content(self._rows[base], name)
            # The sizes of a step that failed give it none.
            known = self._first.last_sizes.keys() | self._rows.keys() | {"_"}
            unknown = {n for d in self._rows[base].dims for n in Size.of(d).names} - known
            if unknown:
                held = self._state.waiting(base, index)
                if held is not None:
                    return held
                raise no_shape(self.variables[base], unknown)
            dims = [Size.of(d) for d in self._rows[base].dims]
            fixed = [d for d in dims if d.names <= self._first.last_sizes.keys()]
            check_shape(base, tuple(d.evaluate(self._first.last_sizes) for d in fixed))
            if self._first.shape_sizes != self._first.last_sizes:
                self._first.forget_sizes()
            self._state.prepare_one(base, self._first.last_sizes)
        index = None if base == name else _indices(name)
        dynamic = None if self._state.has_matrices(base, index) else self._dynamic_dims(base)
        found = self._state.value(base, index, dynamic)
        storage = found.storage.view()
        storage.flags.writeable = False
        return Tensor(found.dtype, found.shape, storage)

    def _dynamic_dims(self, name: str) -> dict[int, int] | None:
        """What dimensions that name scalars would be if a variable were touched now; None where a step
        has fixed them, or there are none.

        Raises InputError OI0506 for dimensions that cannot be, OI0508 where sizes are not known yet.
        """
        if not self._state.dynamic_axes(name) or self._state.dynamic_dims(name) is not None:
            return None
        dims = {a: Size.of(self._rows[name].dims[a]) for a in self._state.dynamic_axes(name)}
        return dims_now(
            self.variables[name], dims, self._first.last_sizes, self._rows, self._scalar
        )

    def _scalar(self, name: str) -> int:
        """The value of an integer scalar now, or that the next step starts from."""
        row = self._rows[name]
        if self._stepping is not None:
            value: Any = self._fetch(name)
        elif row.memory == "persistent":
            value = self._persistent(name, name)
        else:
            value = self._first_content(row, name)
        return int(value.values() if isinstance(value, Tensor) else value)

    def _first_content(
        self, row: VariableRow, name: str, sizes: Mapping[str, int] | None = None
    ) -> Tensor:
        """What a variable has before a step writes it; `sizes` are those of the step, where it was
        not one of the first context."""
        dtype = DTYPES[row.dtype]
        package = self._loaded.package
        if row.sources and package is not None:
            if not row.members:
                return package.tensor_as(row.sources[0], dtype)
            return package.tensor_as(row.sources[_member(row, name)], dtype)
        if "_" in row.dims:
            raise InputError(
                "OI0506",
                f"{name} has an open dimension and was not written yet",
                hint="write it before it is read",
            )
        unknown = {n for d in row.dims for n in Size.of(d).names} - self.sizes.keys()
        if sizes is None and self._stepping is not None:
            sizes = self.step_sizes
        sizes = sizes or self._first.shape_sizes or self.sizes
        if unknown - sizes.keys():
            raise no_shape(self.variables[row.name], unknown - sizes.keys())
        shape = tuple(Size.of(d).evaluate(sizes) for d in row.dims)
        check_shape(row.name, shape)
        values = np.full(shape, first_value(dtype, row.value), np.dtype(dtype.value))
        return Tensor(dtype, shape, to_storage(dtype, values))


def _indices(name: str) -> tuple[int, ...]:
    """The numbers of `K[0, 3]`. Raises InputError OI0547 for anything else."""
    base, _, text = name.rstrip("]").partition("[")
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            "OI0547", f"{name} names no entry of {base}", hint=f"fetch {base}[0], say"
        ) from None


def no_temporary(name: str) -> InputError:
    """The error of a temporary that is asked for outside of a step."""
    return InputError(
        "OI0546",
        f"{name} is a temporary: it has a value only while a step is iterated",
        hint="return it from entry, or declare it volatile",
    )


def _member(row: VariableRow, name: str) -> int:
    """The position of `W[0, 1]` among the members of its family."""
    _, _, text = name.rstrip("]").partition("[")
    try:
        indices = [int(part) for part in text.split(",")]
    except ValueError:
        indices = []
    if len(indices) != len(row.members) or any(
        not 0 <= i < n for i, n in zip(indices, row.members)
    ):
        extents = ", ".join(f"0..{n}" for n in row.members)
        raise InputError(
            "OI0547",
            f"{name}: {row.name} is a prefix table with indices {extents}",
            hint=f"fetch {row.name}[{', '.join('0' for _ in row.members)}]",
        )
    place = 0
    for index, extent in zip(indices, row.members):
        place = place * extent + index
    return place
