"""Convolutions by Winograd's algorithm: what the simulator says, as exactly as products one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)
Array = np.ndarray[Any, Any]
FUSED = ("avx2", "avx512")
"""Targets that have the schedule."""
HOST = None if cpu_unavailable_reason() else host_target().name


@dataclass(frozen=True)
class Case:
    """A convolution with bias and ReLU; channels, lines, columns, outputs, padding."""

    sizes: tuple[int, int, int, int]
    padding: str = "1"
    batch: int = 1
    dtype: str = "f32"
    pool: bool = False
    residual: bool = False
    threads: int = 1
    target: str | None = None

    @property
    def text(self) -> str:
        channels, height, width, outputs = self.sizes
        lines = [f"h = op conv2d(x, w, b, padding={self.padding});"]
        if self.residual:
            lines.append("h = op add(h, x);")
        lines.append("h = op relu(h);")
        result = "h"
        if self.pool:
            lines.append("p = op max_pool2d(h, kernel_size=2);")
            result = "p"
        return (
            f"dynamic {{ x: {self.dtype}[N, {channels}, {height}, {width}]; }}\n"
            f"constant {{ w: {self.dtype}[{outputs}, {channels}, 3, 3]; b: {self.dtype}[{outputs}]; }}\n"
            f"block entry {{ {' '.join(lines)} return {result}; }}"
        )

    def arrays(self) -> dict[str, Any]:
        channels, height, width, outputs = self.sizes
        random = np.random.default_rng(7)
        drawn = {
            "x": random.standard_normal((self.batch, channels, height, width)),
            "w": random.standard_normal((outputs, channels, 3, 3)) / np.sqrt(9 * channels),
            "b": random.standard_normal(outputs) * 0.1,
        }
        if self.dtype == "bf16":
            return {name: cut(value.astype(np.float32)) for name, value in drawn.items()}
        kind = {"f32": np.float32, "f16": np.float16}[self.dtype]
        return {name: value.astype(kind) for name, value in drawn.items()}


def cut(array: Array) -> oi.Tensor:
    """The upper halves of f32 numbers, as bf16."""
    bits = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16)
    return oi.Tensor(DTYPES["bf16"], array.shape, bits)


CASES = (
    # Vectors that lines fill in part, a last output channel alone, channels that no vector divides.
    Case((24, 13, 15, 25)),
    Case((33, 35, 37, 40), "[0, 2, 1, 0]"),
    Case((24, 14, 70, 24), "0"),
    Case((32, 14, 14, 32), batch=3, residual=True, threads=2),
    # Several blocks of one image.
    Case((40, 60, 60, 24), threads=2),
    Case((32, 15, 15, 30), batch=2, pool=True),
    Case((24, 12, 66, 24), pool=True, threads=2),
    Case((32, 13, 15, 30), dtype="f16"),
    Case((32, 13, 15, 30), dtype="bf16"),
    Case((64, 7, 7, 65), "[3, 1, 2, 4]", target="avx2"),
    Case((24, 12, 44, 24), batch=2, residual=True, target="avx2"),
)


def compiled(case: Case, arrays: dict[str, Any], **options: Any) -> Array:
    graph, weights = oi.graph(case.text), {name: arrays[name] for name in "wb"}
    if case.target is not None:
        options["target"] = case.target
    program = oi.compile(graph, weights, **options)
    outputs = program.make_executor(case.threads).run(x=arrays["x"])
    return wide(next(iter(outputs.values())))


def simulated(case: Case, arrays: dict[str, Any]) -> Array:
    weights = {name: arrays[name] for name in "wb"}
    outputs = oi.Simulator(oi.graph(case.text), weights).make_executor().run(x=arrays["x"])
    return wide(next(iter(outputs.values())))


def wide(value: Any) -> Array:
    if isinstance(value, oi.Tensor):
        return (value.storage.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.asarray(value, np.float64)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_results_are_those_of_the_simulator(case: Case) -> None:
    if HOST not in FUSED:
        pytest.skip("this processor has no schedule by tiles")
    arrays = case.arrays()
    expected, found = simulated(case, arrays), compiled(case, arrays)
    bits = {"f32": 24, "f16": 11, "bf16": 8}[case.dtype]
    # Results are about 1; narrow ones are rounded once, by both.
    tolerance = 3e-6 if case.dtype == "f32" else 2.0 ** (1 - bits) * 8
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_errors_are_as_small_as_those_of_products_one_by_one() -> None:
    case = Case((64, 20, 20, 64))
    arrays = case.arrays()
    wider = {name: value.astype(np.float64) for name, value in arrays.items()}
    exact = simulated(replace(case, dtype="f64"), wider)
    errors = [
        np.abs(compiled(case, arrays, strict_math=strict) - exact).max() for strict in (False, True)
    ]
    assert errors[0] <= 2 * errors[1] + 1e-7, errors


def test_a_result_depends_on_its_window_only() -> None:
    case = Case((24, 12, 12, 24))
    arrays = case.arrays()
    arrays["x"][0, 3, 5, 6] = np.nan
    found, expected = compiled(case, arrays), simulated(case, arrays)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert 0 < np.isnan(expected).sum() < expected.size
