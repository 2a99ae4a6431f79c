"""Runs a program on one executor and keeps all that can be seen of it after every step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import numpy as np

import openinfer as oi
from fuzzing.tree import Program, Step
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.state import State
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

STATE_LIMIT = 1 << 22
"""Bytes that the persistent variables of a fuzzed program may take."""


ROUNDS = 10
"""How often callers of one executor call each step again."""


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
    stepped: bool = False
    """Whether this is a step, whatever came of it."""


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
                try:
                    executor.restore(state)
                except oi.OpenInferError as error:
                    # The simulator keeps a table's used entries, compiled code has room for all.
                    if error.code != "OI0609":
                        raise
                    found.append(Seen(code=error.code, message=str(error)))
                    return found
                found.append(_look(executor, Seen(state=state), stepped=False))
                continue
            else:
                found.append(_step(executor, dict(step.inputs), iterated))
                continue
            found.append(_look(executor, Seen(), stepped=False))
    finally:
        executor.close()
    return found


def seen_calls(make: Make, program: Program, callers: int) -> list[Seen] | None:
    """The steps by `run`, which so many threads call at once; each keeps its first answers.

    None for a program with state, whose steps follow each other. Raises AssertionError when two
    callers see different answers, and what is no error of the language.
    """
    with make() as executor:
        if any(info.memory == "persistent" for info in executor.variables.values()):
            return None
        steps = [s for s in program.steps if s.action == "run"]
        found: list[list[Seen]] = [[] for _ in range(callers)]
        failures: list[BaseException] = []

        def call(own: list[Seen], first: int) -> None:
            try:
                order = [(first + n) % len(steps) for n in range(len(steps))]
                answers = {number: _call(executor, steps[number]) for number in order}
                for _ in range(ROUNDS):
                    for number in order:
                        again = _call(executor, steps[number])
                        why = _mixed(answers[number], again)
                        assert why is None, f"step {number}, called again: {why}"
                own += [answers[n] for n in range(len(steps))]
            except BaseException as error:
                failures.append(error)

        threads = [Thread(target=call, args=(own, n)) for n, own in enumerate(found)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        for other in found[1:]:
            for number, (left, right) in enumerate(zip(found[0], other)):
                why = _mixed(left, right)
                assert why is None, f"step {number}, of two callers: {why}"
        answers = iter(found[0])
        return [next(answers) if s.action == "run" else Seen() for s in program.steps]


def _call(executor: BaseExecutor, step: Step) -> Seen:
    seen = Seen(stepped=True)
    try:
        results = executor.run(**step.inputs)
        seen.values = {n: _value(v, n, executor) for n, v in results.items()}
    except (oi.StepError, oi.InputError, oi.UnsupportedError) as error:
        seen.code, seen.message = error.code, error.message
    return seen


def _mixed(left: Seen, right: Seen) -> str | None:
    if left.code != right.code:
        return f"{right.code or 'no error'} ({right.message}) and {left.code or 'no error'}"
    for name, value in left.values.items():
        other = right.values[name]
        assert isinstance(value, Value)
        assert isinstance(other, Value)
        if value.array.tobytes() != other.array.tobytes():
            return f"{name} has other bits"
    return None


def _step(executor: BaseExecutor, inputs: dict[str, Tensor], iterated: bool) -> Seen:
    seen = Seen(stepped=True)
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
