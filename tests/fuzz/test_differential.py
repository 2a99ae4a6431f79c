"""The compiled program does what the simulator does, on programs that nobody wrote.

`OPENINFER_FUZZ=500` runs more of them, `OPENINFER_FUZZ_START=1000` others. A failure prints the
program with its sizes and leaves it as a `.oi` file with its package beside it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generator import Program, generate

import openinfer as oi
from openinfer.runtime.tensors import Tensor

COUNT = int(os.environ.get("OPENINFER_FUZZ", "40"))
START = int(os.environ.get("OPENINFER_FUZZ_START", "0"))
SEEDS = range(START, START + COUNT)
OTHER_SIZES = {"N": 2, "M": 3}
WILD = 1e6
"""Values beyond it have lost their digits; only their being there is checked."""
ALLOWED = {"f32": 2e-4, "f64": 2e-4, "f16": 2e-2, "bf16": 1e-1}
"""A dozen ops deep, relative to the largest element, for the loosest float of a program."""


def plain(value: Any) -> Any:
    return value.values() if isinstance(value, Tensor) else np.asarray(value)


def difference(name: str, expected: Any, found: Any, allowed: float) -> str | None:
    """Why two values of a variable differ, or None."""
    want, have = plain(expected), plain(found)
    if want.shape != have.shape or want.dtype != have.dtype:
        return f"{name}: {want.dtype}{want.shape} against {have.dtype}{have.shape}"
    if want.dtype.kind != "f":
        return None if np.array_equal(want, have) else f"{name}: {want} against {have}"
    want, have = want.astype(np.float64), have.astype(np.float64)
    largest = float(np.abs(want).max(initial=0.0))
    if not np.isfinite(want).all() or largest > WILD:
        return None
    error = float(np.abs(want - have).max(initial=0.0))
    if error <= allowed * max(1.0, largest):
        return None
    return f"{name}: off by {error:.3g} with values up to {largest:.3g}"


def fail(program: Program, folder: Path, why: str) -> None:
    path = folder / f"fuzz_{program.seed}.oi"
    path.write_text(program.text)
    oi.write_oinf(program.package, path.with_suffix(".oinf"))
    sizes = " ".join(f"--size {name}={value}" for name, value in program.sizes.items())
    pytest.fail(f"{why}\nopeninfer compare {path} {sizes}\n{program.text}", pytrace=False)


def model_of(program: Program, folder: Path) -> oi.Package:
    oi.write_oinf(program.package, folder / "weights.oinf")
    return oi.open_model(folder / "weights.oinf")


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_agrees_with_the_simulator(seed: int, tmp_path: Path) -> None:
    program = generate(seed)
    model = model_of(program, tmp_path)
    simulator = oi.Simulator(program.text, model).make_executor()
    try:
        compiled = oi.compile(program.text, model).make_executor(threads=1 + seed % 3)
    except oi.OpenInferError as error:
        fail(program, tmp_path, f"does not compile: {error}")
        return
    names = [n for n, info in simulator.variables.items() if info.memory == "volatile"]
    # The first sizes again at the end: nothing of the steps between may be left.
    for sizes in (program.sizes, OTHER_SIZES, program.sizes):
        for executor in (simulator, compiled):
            executor.insert(**program.draw(sizes))
            executor.step()
        for name in names:
            found = difference(
                name, simulator.fetch(name), compiled.fetch(name), ALLOWED[program.loosest]
            )
            if found is not None:
                fail(program, tmp_path, f"{sizes}: {found}")


@pytest.mark.parametrize("seed", SEEDS[: max(1, COUNT // 4)])
def test_every_node_agrees_when_it_is_watched(seed: int, tmp_path: Path) -> None:
    program = generate(seed)
    model = model_of(program, tmp_path)
    seen: list[list[tuple[str, str, Any]]] = []
    for executor in (
        oi.Simulator(program.text, model).make_executor(),
        oi.compile(program.text, model).make_executor(),
    ):
        executor.insert(**program.draw())
        values: list[tuple[str, str, Any]] = []
        for node in executor.iterate():
            if node.event.kind in ("OpExecute", "Transfer"):
                name = node.event.output[0]
                values.append((node.event.node_uuid, name, node.fetch(name)))
        seen.append(values)
    expected, found = seen
    assert [v[:2] for v in expected] == [v[:2] for v in found], program.text
    for (_, name, want), (_, _, have) in zip(expected, found):
        why = difference(name, want, have, ALLOWED[program.loosest])
        if why is not None:
            fail(program, tmp_path, why)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_a_seed_gives_one_program(seed: int) -> None:
    first, second = generate(seed), generate(seed)
    assert first.text == second.text
    for name, value in first.draw().items():
        np.testing.assert_array_equal(plain(value), plain(second.draw()[name]))


def test_the_generator_reaches_every_form() -> None:
    texts = "\n".join(generate(seed).text for seed in range(60))
    for form in (
        "loop ",
        "in 0..N)",
        "branch ",
        "barrier;",
        "transfer ",
        "V[i",
        "transpose_b=true",
        "op softmax",
        "op gather",
        "op where",
        "op concat",
        "f16[",
        "bf16[",
        "f64[",
    ):
        assert form in texts, form
