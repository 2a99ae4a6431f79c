"""Runs a program on one executor and keeps all that can be seen of it after every step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import openinfer as oi
from fuzzing.tree import Program
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.state import State
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

STATE_LIMIT = 1 << 22
"""Bytes that the persistent variables of a fuzzed program may take."""


@dataclass
class Value:
    """What was seen of a variable."""

    dtype: str
    array: AnyArray


@dataclass
class Seen:
    """One step, or what was done between two."""

    code: str = ""
    """Of the error; empty for a step that went well."""
    message: str = ""
    line: int = 0
    """Where the text has the node that failed; 0 for none."""
    values: dict[str, Value | str] = field(default_factory=dict[str, Value | str])
    """By variable; a code where it could not be fetched. `K` of a cache holds all of it."""
    extents: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    nodes: dict[str, list[tuple[str, ...]]] = field(
        default_factory=dict[str, list[tuple[str, ...]]]
    )
    """Kind and names of each node of an iterated step, by block: blocks run in any order."""
    state: State | None = None


Make = Callable[[], BaseExecutor]


def seen_steps(
    make: Make,
    program: Program,
    *,
    iterated: bool = False,
    restored: list[Seen] | None = None,
) -> list[Seen]:
    """All steps of a program. `restored` are those of another executor, whose state is taken over.

    Raises what is no error of the language: such an exception is a defect.
    """
    found: list[Seen] = []
    executor = make()
    try:
        for number, step in enumerate(program.steps):
            if step.action == "reset":
                executor.reset()
            elif step.action == "restore":
                state = executor.snapshot()
                if restored is not None and restored[number].state is not None:
                    state = restored[number].state
                assert state is not None
                executor.close()
                executor = make()
                executor.restore(state)
                found.append(_look(executor, Seen(state=state), stepped=False))
                continue
            else:
                found.append(_step(executor, dict(step.inputs), iterated))
                continue
            found.append(_look(executor, Seen(), stepped=False))
    finally:
        executor.close()
    return found


def _step(executor: BaseExecutor, inputs: dict[str, Tensor], iterated: bool) -> Seen:
    seen = Seen()
    try:
        executor.insert(**inputs)
        if iterated:
            _iterate(executor, seen)
        else:
            executor.step()
    except (oi.StepError, oi.InputError, oi.UnsupportedError) as error:
        seen.code, seen.message = error.code, error.message
        location = getattr(error, "location", None)
        seen.line = location.line if location is not None else 0
        seen.values.clear()
    return _look(executor, seen, stepped=not seen.code)


def _iterate(executor: BaseExecutor, seen: Seen) -> None:
    for node in executor.iterate():
        event = node.event
        if event.kind not in ("OpExecute", "Transfer", "CacheRead"):
            continue
        nodes = seen.nodes.setdefault(event.block_name, [])
        nodes.append((event.kind, event.node_uuid, *event.output))
        for name in event.output:
            # Members of prefix tables and values that are away have none to show.
            with suppress(oi.InputError):
                value = node.fetch(name)
                seen.values[f"{event.block_name} {len(nodes)} {name}"] = _value(
                    value, name, executor
                )


def _look(executor: BaseExecutor, seen: Seen, *, stepped: bool) -> Seen:
    """What can be fetched now."""
    names = [
        info.name
        for info in executor.variables.values()
        if info.memory == "persistent"
        or (stepped and info.memory == "volatile" and not info.indices)
        or (stepped and info.name in executor.results)
    ]
    for name in names:
        try:
            seen.values[name] = _value(executor.fetch(name), name, executor)
        except oi.InputError as error:
            seen.values[name] = error.code
    for name, value in executor.snapshot().items():
        # Only a table has extents that mean something before it is touched.
        seen.extents[name] = value.extents
        for index, tensor in value.entries.items():
            key = f"{name}{list(index)}"
            seen.values[key] = Value(tensor.dtype.name, np.array(tensor.values()))
    return seen


def _value(value: AnyArray | Tensor, name: str, executor: BaseExecutor) -> Value:
    dtype = executor.variables[name.partition("[")[0]].dtype
    if isinstance(value, Tensor):
        return Value(value.dtype.name, np.array(value.values()))
    return Value(dtype if dtype in DTYPES else value.dtype.name, np.array(value))


def simulated(program: Program, folder: Path) -> Make:
    """Makes executors of the simulator. Raises ProgramError."""
    simulator = oi.Simulator(program.text, program.package(folder))
    return lambda: simulator.make_executor(max_state_bytes=STATE_LIMIT, trace=False)
