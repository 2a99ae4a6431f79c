"""One op on arrays: by its NumPy twin, by the simulator and by the compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import TensorSpec, find, infer_outputs
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.tensors import Tensor

Array = np.ndarray[Any, Any]
Settings = Mapping[str, Any]
Names = Mapping[int, Sequence[str]]
"""For some operands, their dimensions as written: names of sizes that only the inputs fix."""


class Draws:
    """Random arrays and settings of one test file."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def normal(self, *shape: int) -> Array:
        return self.random.normal(size=shape)

    def pick(self, low: int, high: int, count: int = 2) -> list[int]:
        return [int(n) for n in self.random.integers(low, high + 1, count)]


def torch_functions() -> Any:
    """PyTorch's functions; without PyTorch the test is skipped."""
    return pytest.importorskip("torch.nn.functional", reason="PyTorch is not installed")


def to_torch(array: Array) -> Any:
    return pytest.importorskip("torch").from_numpy(array)


def by_twin(
    op: str, arrays: Sequence[Array], settings: Settings | None = None, outputs: int = 1
) -> list[Array]:
    """The results of the twin; the dtypes are those of the arrays."""
    dtypes = [_dtype(array) for array in arrays]
    return evaluate(op, arrays, dtypes, settings or {}, outputs=outputs)


def by_program(
    op: str,
    arrays: Sequence[Array],
    settings: Settings | None = None,
    outputs: int = 1,
    *,
    names: Names | None = None,
    dtype: str | None = None,
) -> list[tuple[Array, Array]]:
    """(simulated, compiled) of each result of a program of one op node.

    `dtype` replaces the floats' dtype; `names` makes dimensions run-time sizes.
    """
    text, tensors = program(op, arrays, settings or {}, outputs, names or {}, dtype)
    graph = oi.graph(text)
    simulated = _run(oi.Simulator(graph).make_executor(), tensors)
    compiled = _run(oi.compile(graph, None).make_executor(), tensors)
    return [(simulated[name], compiled[name]) for name in simulated]


def program(
    op: str,
    arrays: Sequence[Array],
    settings: Settings,
    outputs: int,
    names: Names,
    dtype: str | None = None,
) -> tuple[str, dict[str, Tensor]]:
    """The text and the inputs `a0`, `a1`, … of a program of one op node."""
    spec = find(op)
    assert spec is not None
    specs: list[TensorSpec] = []
    tensors: dict[str, Tensor] = {}
    for number, array in enumerate(arrays):
        kind = dtype if dtype is not None and array.dtype.kind == "f" else _dtype(array)
        specs.append(TensorSpec.of(kind, list(names.get(number, array.shape))))
        tensors[f"a{number}"] = Tensor.from_values(kind, array)
    results = infer_outputs(spec, specs, settings, outputs)
    declared = [f"  a{i}: {_declared(s)};" for i, s in enumerate(specs)]
    written = [f"  r{i}: {_declared(s)};" for i, s in enumerate(results)]
    arguments = [f"a{i}" for i in range(len(arrays))]
    arguments += [f"{name}={_literal(value)}" for name, value in settings.items()]
    targets = ", ".join(f"r{i}" for i in range(outputs))
    lines = ["dynamic {", *declared, "}", "volatile {", *written, "}", "block entry {"]
    lines += [f"  op {op}({', '.join(arguments)}) >> {targets};", "  return;", "}", ""]
    return "\n".join(lines), tensors


def _run(executor: BaseExecutor, tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    with executor:
        found = executor.run(**tensors)
    return {
        name: np.asarray(value.values() if isinstance(value, Tensor) else value)
        for name, value in found.items()
    }


def _dtype(array: Array) -> str:
    kind = {"f": "f", "i": "i", "u": "u", "b": "bool"}[array.dtype.kind]
    return kind if kind == "bool" else f"{kind}{array.dtype.itemsize * 8}"


def _declared(spec: TensorSpec) -> str:
    # A quotient or an extreme is left open: taken from the value that is written.
    dims = ", ".join("_" if "(" in str(size) else str(size) for size in spec.dims)
    return f"{spec.dtype}[{dims}]" if dims else spec.dtype


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(v) for v in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
