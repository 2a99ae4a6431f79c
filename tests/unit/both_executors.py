"""A program on both executors, step by step: results, states and errors must agree."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.compiler.api import compile as compile_program
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.tensors import Tensor

Inputs = Mapping[str, Any]


def tensor(dtype: str, shape: Sequence[int], values: Sequence[Any]) -> Tensor:
    """A tensor of any dtype from its values in order."""
    return Tensor.from_values(
        dtype, np.array(values, np.float64 if not values else None).reshape(shape)
    )


def agree(
    text: str,
    steps: Sequence[Inputs | str],
    *,
    tensors: Mapping[str, Tensor] | None = None,
    threads: int = 1,
    watched: bool = False,
    tolerance: float = 1e-5,
    **options: Any,
) -> None:
    """Runs the steps on both; "reset" and "restore" stand for what happens between two.

    `watched` steps are iterated. Floats agree within `tolerance`, everything else exactly.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = None
        if tensors is not None:
            path = Path(folder) / "weights.oinf"
            oi.write_oinf(OinfContent(tensors=dict(tensors)), path)
            model = oi.open_model(path)
        simulator = oi.Simulator(text, model)
        program = compile_program(text, model, **options)
        pair = [simulator.make_executor(), program.make_executor(threads)]
        for number, step in enumerate(steps):
            if step == "reset":
                for executor in pair:
                    executor.reset()
            elif step == "restore":
                state = pair[0].snapshot()
                pair = [simulator.make_executor(), program.make_executor(threads)]
                for executor in pair:
                    executor.restore(state)
            else:
                assert not isinstance(step, str)
                codes = [_code(executor, step, watched) for executor in pair]
                assert codes[0] == codes[1], f"step {number}: {codes}"
                _same(number, pair[0], pair[1], not codes[0], tolerance)


def _code(executor: BaseExecutor, inputs: Inputs, watched: bool) -> str:
    """The code of the error of a step, empty for none."""
    try:
        executor.insert(**inputs)
        if watched:
            for _ in executor.iterate():
                pass
        else:
            executor.step()
    except oi.OpenInferError as error:
        return error.code
    return ""


def _same(
    number: int, simulator: BaseExecutor, compiled: BaseExecutor, stepped: bool, tolerance: float
) -> None:
    for info in simulator.variables.values():
        shown = info.memory == "volatile" or info.name in simulator.results
        if info.memory == "persistent" or (stepped and shown and not info.indices):
            want, have = (_fetched(executor, info.name) for executor in (simulator, compiled))
            _equal(f"step {number}, {info.name}", want, have, tolerance)
    before, after = simulator.snapshot(), compiled.snapshot()
    for name, value in before.items():
        assert not value.entries or after[name].extents == value.extents, f"step {number}, {name}"
        for index, entry in value.entries.items():
            have = after[name].entries[index].values()
            _equal(f"step {number}, {name}{list(index)}", entry.values(), have, tolerance)


def _fetched(executor: BaseExecutor, name: str) -> Any:
    try:
        value = executor.fetch(name)
    except oi.InputError as error:
        return error.code
    return value.values() if isinstance(value, Tensor) else value


def _equal(what: str, want: Any, have: Any, tolerance: float) -> None:
    if isinstance(want, str) or isinstance(have, str):
        # Why there is none may be said in other words.
        assert isinstance(want, str), f"{what}: {have} instead of a value"
        assert isinstance(have, str), f"{what}: a value instead of {want}"
    elif np.asarray(want).dtype.kind == "f":
        np.testing.assert_allclose(have, want, tolerance, tolerance, err_msg=what)
    else:
        np.testing.assert_array_equal(have, want, err_msg=what)
