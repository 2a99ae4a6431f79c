"""What the names of an expression stand for while a step is being iterated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openinfer.runtime.conditions import Condition, Index, NoValue, take
from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.outline import Position
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.variables import VariableInfo

COUNTERS = ("step", "node")
"""Names that no program declares: steps finished so far, and index of the node that ran."""

_NOT_NOW = ("OI0505", "OI0506", "OI0508", "OI0546", "OI0549")
"""Codes of a fetch that comes too early or too late."""


class StepValues:
    """Loop indices first, then variables, sizes, and the `COUNTERS` last, as in the language."""

    def __init__(self, executor: BaseExecutor, position: Position, step: int) -> None:
        self.executor = executor
        self.position = position
        self.step = step

    def value(self, name: str, slots: Sequence[Index] | None) -> AnyArray:
        """See `conditions.Scope.value`."""
        return self.at_depth(name, slots, None)

    def at_depth(self, name: str, slots: Sequence[Index] | None, depth: int | None) -> AnyArray:
        """The same for a name that stands in so many calls of blocks with parameters."""
        found, outside = self.position.meaning(name, depth)
        indices = self.position.indices
        if found in indices:
            return _counted(name, indices[found], slots)
        if found in self.executor.variables:
            return self.variable(self.executor.variables[found], slots)
        number = self.size(found)
        if number is not None:
            return _counted(name, number, slots)
        if found != name:
            return take(self._argument(name, found, outside), slots or (), name)
        if name == "step":
            return _counted(name, self.step, slots)
        if name == "node":
            event = self.position.frames[-1].event if self.position.frames else None
            return _counted(name, None if event is None else event.node_index, slots)
        outline = self.position.outline
        if outline is not None and name in outline.loop_names:
            raise NoValue(f"no loop over {name} is running")
        if any(name in d.names for v in self.executor.variables.values() for d in v.dims):
            raise NoValue(f"{name} follows from the inputs of a step")
        raise InputError("OI0562", f"no variable, size or loop index is named {name}")

    def _argument(self, name: str, text: str, depth: int) -> AnyArray:
        """The value of an argument that is no name: a number, an expression, an entry of a family."""
        names = _Caller(self, depth)
        try:
            if "[" not in text and ("/" in text or "," in text):
                # Of sizes: a quotient is rounded down, max and min have two operands.
                size = Size.of(text)
                numbers = {one: int(names.value(one, None)) for one in size.names}
                return np.asarray(size.evaluate(numbers))
            return Condition(text).evaluate(names)
        except (InputError, ValueError, TypeError, ZeroDivisionError):
            raise NoValue(f"{name} stands for {text} in this call") from None

    def size(self, name: str) -> int | None:
        """The value of a size, None when it has none now."""
        return {**self.executor.sizes, **self.executor.step_sizes}.get(name)

    def integer(self, name: str) -> int | None:
        """The integer that a size or scalar variable stands for, None when there is none."""
        number = self.size(name)
        info = self.executor.variables.get(name)
        if number is not None or info is None:
            return number
        try:
            array = self.variable(info, None)
        except (NoValue, InputError):
            return None
        if array.size != 1 or array.dtype.kind not in "iub":
            return None
        return int(array.reshape(-1)[0])

    def variable(self, info: VariableInfo, slots: Sequence[Index] | None) -> AnyArray:
        """A variable, a member of a prefix table or a cache entry, or a part of one.

        Raises NoValue, InputError.
        """
        given, count = list(slots or ()), len(info.table)
        chosen = [slot for slot in given[:count] if isinstance(slot, int) and slot >= 0]
        if count and len(chosen) == count:
            member = f"{info.name}[{', '.join(str(index) for index in chosen)}]"
            return take(self._fetch(member), given[count:], member)
        return take(self._fetch(info.name), given, info.name)

    def _fetch(self, name: str) -> AnyArray:
        try:
            found = self.executor.fetch(name, copy=False)
        except InputError as error:
            if error.code not in _NOT_NOW:
                raise
            raise NoValue(error.message) from None
        except StepError as error:
            raise NoValue(error.message) from None
        return found.values() if isinstance(found, Tensor) else np.asarray(found)


class _Caller:
    """The names where a call stands, for the expressions of its arguments."""

    def __init__(self, values: StepValues, depth: int) -> None:
        self.values = values
        self.depth = depth

    def value(self, name: str, slots: Sequence[Index] | None) -> AnyArray:
        """See `conditions.Scope.value`."""
        return self.values.at_depth(name, slots, self.depth)


def _counted(name: str, value: int | None, slots: Sequence[Index] | None) -> AnyArray:
    if value is None:
        raise NoValue(f"{name} is not known here")
    return take(np.asarray(value), slots or (), name)
