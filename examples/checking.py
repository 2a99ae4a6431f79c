"""What the drivers of the examples share: build, run, and hold against the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi

HERE = Path(__file__).resolve().parent
Array = np.ndarray[Any, Any]


def check(right: bool, message: str) -> None:
    """Ends the example with a message when something is not as it must be."""
    if not right:
        raise SystemExit(f"wrong: {message}")


def run_checked(name: str, tolerance: float = 1e-4, **inputs: Array) -> Mapping[str, Array]:
    """The results of one step of `examples/NAME.oi`, compiled; the simulator must agree."""
    (results,) = steps_checked(name, [inputs], tolerance)
    return results


def steps_checked(
    name: str, steps: Sequence[Mapping[str, Array]], tolerance: float = 1e-4
) -> list[Mapping[str, Array]]:
    """The results of some steps of one executor, compiled; the simulator must agree in each."""
    return _run(name, steps, tolerance)[0]


def state_checked(
    name: str, steps: Sequence[Mapping[str, Array]], variable: str, tolerance: float = 1e-4
) -> Array:
    """What a persistent variable holds after some steps; the simulator must agree."""
    _, found, wanted = _run(name, steps, tolerance, variable)
    check(np.allclose(found, wanted, tolerance, tolerance), f"{variable} differs in the end")
    return found


def package(name: str) -> oi.Package:
    """The package `examples/NAME.oinf`, opened."""
    return oi.open_model(HERE / f"{name}.oinf")


def _run(
    name: str,
    steps: Sequence[Mapping[str, Array]],
    tolerance: float,
    variable: str | None = None,
) -> tuple[list[Mapping[str, Array]], Array, Array]:
    """Results of the compiled program, and a variable in the end, of it and of the simulator."""
    graph = oi.graph_file(HERE / f"{name}.oi")
    rows: list[Mapping[str, Array]] = []
    ends: list[Array] = []
    with package(name) as model:
        programs = (oi.compile(graph, model), oi.Simulator(graph, model))
        with programs[0].make_executor() as compiled, programs[1].make_executor() as simulator:
            for number, inputs in enumerate(steps):
                found, wanted = compiled.run(**inputs), simulator.run(**inputs)
                row = {key: np.asarray(value) for key, value in found.items()}
                for key, value in row.items():
                    near = np.allclose(value, np.asarray(wanted[key]), tolerance, tolerance)
                    check(near, f"step {number}: {key} differs from the simulator's")
                rows.append(row)
            for executor in (compiled, simulator):
                end = executor.fetch(variable) if variable is not None else np.zeros(0)
                ends.append(np.asarray(end))
    return rows, ends[0], ends[1]
