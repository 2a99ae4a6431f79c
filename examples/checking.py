"""What the drivers of the examples share: build, run, and hold against the simulator."""

from __future__ import annotations

from collections.abc import Mapping
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
    graph = oi.graph_file(HERE / f"{name}.oi")
    with oi.open_model(HERE / f"{name}.oinf") as model:
        with oi.compile(graph, model).make_executor() as executor:
            found = executor.run(**inputs)
        with oi.Simulator(graph, model).make_executor() as executor:
            wanted = executor.run(**inputs)
    results: dict[str, Array] = {}
    for key, value in found.items():
        results[key] = np.asarray(value)
        near = np.allclose(results[key], np.asarray(wanted[key]), tolerance, tolerance)
        check(near, f"{key} differs between the compiled program and the simulator")
    return results
