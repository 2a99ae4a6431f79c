"""Whether a snapshot fits the program that is to take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from openinfer.runtime.errors import InputError
from openinfer.runtime.sizes import Size
from openinfer.runtime.state import State, StateValue, dense_bytes

if TYPE_CHECKING:
    from openinfer.runtime.variables import VariableInfo


def check_state(
    state: State, variables: Iterable[VariableInfo], sizes: Mapping[str, int], limit: int
) -> None:
    """Raises InputError OI0551 with everything in which a snapshot and a program differ.

    Dimensions that only inputs fix are compared in the step that uses the variable next. `limit`
    is the number of bytes that state may take.
    """
    wanted = {info.name: info for info in variables if info.memory == "persistent"}
    problems = [f"it has no {name}" for name in wanted if name not in state]
    problems += [f"the program has no persistent {name}" for name in state if name not in wanted]
    taken = 0
    for name, info in wanted.items():
        if name in state:
            problems += [f"{name}: {text}" for text in _differences(state[name], info, sizes)]
            taken += _bytes(state[name], info)
    if not problems and taken > limit:
        problems = [f"it takes {taken} bytes, more than max_state_bytes = {limit}"]
    if problems:
        shown = "; ".join(problems[:8]) + ("; …" if len(problems) > 8 else "")
        raise InputError(
            "OI0551",
            f"the snapshot does not fit the program: {shown}",
            hint="restore it in an executor of the program that it was taken from",
        )


def _bytes(value: StateValue, info: VariableInfo) -> int:
    """What an executor keeps: dense up to the highest index, for a fixed one the highest used."""
    if not value.extents:
        return value.nbytes
    bounds = dict(info.fixed)
    used = [
        max((entry[axis] + 1 for entry in value.entries), default=0) if name in bounds else extent
        for axis, (name, extent) in enumerate(zip(info.table, value.extents))
    ]
    shapes = {tensor.shape for tensor in value.entries.values()}
    return max((dense_bytes(value.dtype, used, shape) for shape in shapes), default=0)


def _differences(value: StateValue, info: VariableInfo, sizes: Mapping[str, int]) -> list[str]:
    found: list[str] = []
    if value.dtype.name != info.dtype:
        found.append(f"it is {value.dtype}, declared {info.dtype}")
    table = info.table
    if len(value.extents) != len(table):
        return [*found, f"it has {len(value.extents)} table indices, declared {len(table)}"]
    bounds = dict(info.fixed)
    for index, extent in zip(table, value.extents):
        if extent != bounds.get(index, extent):
            found.append(
                f"{index} counts {extent} entries, declared @fixed({index}={bounds[index]})"
            )
    shapes = {tensor.shape for tensor in value.entries.values()}
    if not info.auto and len(shapes) > 1:
        found.append("its entries have different shapes")
    for shape in sorted(shapes):
        if not _fits(shape, info, sizes):
            dims = ", ".join(str(dim) for dim in info.dims)
            growing = f" @auto_dim({', '.join(info.auto)})" if info.auto else ""
            found.append(f"it has shape {list(shape)}, declared [{dims}]{growing}")
    return found


def _fits(shape: tuple[int, ...], info: VariableInfo, sizes: Mapping[str, int]) -> bool:
    if len(shape) != len(info.dims):
        return False
    bounds = dict(info.fixed)
    for axis, (dim, extent) in enumerate(zip(info.dims, shape)):
        known = _known(dim, sizes)
        if known is None:
            continue
        if not info.auto:
            if extent != known:
                return False
        elif not known <= extent <= known + bounds.get(info.auto[axis], extent):
            return False
    return True


def _known(dim: Size, sizes: Mapping[str, int]) -> int | None:
    """The value of a dimension, None where only a step knows it."""
    if not dim.names <= sizes.keys():
        return None
    try:
        return dim.evaluate(sizes)
    except ZeroDivisionError:
        return None
