"""The first content of variables: package tensors, metadata, `@init`, zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from openinfer.dialects.graph import VariableOp
from openinfer.lowering.program.sources import member_name, package_name, pattern_of
from openinfer.lowering.program.value_arrays import narrow
from openinfer.lowering.program.view import ProgramView, dtype_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.storage import AnyArray, first_value


class Contents:
    """Reads each tensor of the package once, when it is first needed."""

    def __init__(self, view: ProgramView) -> None:
        self._view = view
        self._tensors: dict[tuple[str, str], AnyArray] = {}
        self._guard = view.package.guard() if view.package is not None else None

    def first(self, variable: VariableOp, indices: Sequence[int], shape: Sequence[int]) -> AnyArray:
        """The value array with which a variable, or a member of a prefix table, starts.

        A persistent variable prefers `@init` to the package, every other kind the package. Raises
        StepError for a member that the package does not have, or a tensor of another shape.
        """
        init = self._init(variable, shape)
        if variable.memory.data == "persistent" and init is not None:
            return init
        stored = self._stored(variable, indices)
        if stored is not None:
            if stored.shape != tuple(shape):
                raise StepError(
                    "OI0602",
                    f"{variable.variable.data} is {list(shape)} in this step, but its tensor in "
                    f"the model is {list(stored.shape)}",
                    hint="make the declaration fit the model",
                )
            return stored
        if not indices and self._view.takes_metadata(variable):
            metadata = self._metadata(variable, shape)
            if metadata is not None:
                return metadata
        return init if init is not None else self.zeros(dtype_of(variable), shape)

    def check_unchanged(self) -> None:
        """Raises PackageError OI0414 when the files of tensors that were read have changed."""
        if self._guard is not None and self._tensors:
            self._guard()

    def fill(self, variable: VariableOp, shape: Sequence[int]) -> AnyArray:
        """An array of `@init`, else of zeros, to write into: what a matrix grows by."""
        init = self._init(variable, shape)
        return self.zeros(dtype_of(variable), shape) if init is None else np.array(init)

    @staticmethod
    def zeros(dtype: str, shape: Sequence[int]) -> AnyArray:
        """Zeros as a value array; -1 for the dtype that has no zero."""
        row = DTYPES[dtype]
        return np.full(tuple(shape), first_value(row, None), row.value)

    def _stored(self, variable: VariableOp, indices: Sequence[int]) -> AnyArray | None:
        package = self._view.package
        if package is None:
            return None
        name = package_name(variable)
        pattern = pattern_of(variable)
        if pattern is not None:
            order = [i.data for i in variable.indices]
            name = member_name(pattern, dict(zip(order, indices)))
            if name not in package.tensors:
                self._missing(variable, indices, name)
        info = package.tensors.get(name)
        if info is None and self._view.takes_metadata(variable):
            info = package.array_info(name)
        if info is None or not info.has_data:
            return None
        key = (name, dtype_of(variable))
        if key not in self._tensors:
            self._tensors[key] = package.tensor_as(name, DTYPES[key[1]]).values()
        return self._tensors[key]

    def _missing(self, variable: VariableOp, indices: Sequence[int], name: str) -> None:
        shown = variable.variable.data
        for index, value, there in zip(variable.indices, indices, self._view.reach(variable)):
            if value not in there:
                raise StepError(
                    "OI0601",
                    f"index {index.data} = {value} of {shown} is outside {there.start}..{there.stop}",
                    hint=f"the model has no tensor {name!r}",
                )
        raise StepError("OI0601", f"{shown}{list(indices)}: the model has no tensor {name!r}")

    def _metadata(self, variable: VariableOp, shape: Sequence[int]) -> AnyArray | None:
        name, dtype = package_name(variable), dtype_of(variable)
        value = self._view.metadata(name)
        if value is None:
            value = self._view.sizes.get(name)
        if isinstance(value, bool | int | float):
            return np.broadcast_to(narrow(np.asarray(value), dtype), tuple(shape))
        return None

    @staticmethod
    def _init(variable: VariableOp, shape: Sequence[int]) -> AnyArray | None:
        init = variable.option("init")
        if isinstance(init, IntegerAttr | FloatAttr):
            value = np.asarray(init.value.data)
            return np.broadcast_to(narrow(value, dtype_of(variable)), tuple(shape))
        return None
