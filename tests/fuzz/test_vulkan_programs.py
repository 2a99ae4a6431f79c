"""Drawn programs on a Vulkan device do what the simulator does; the driver is watched for mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzzing.compare import difference, other_bits
from fuzzing.flushed import flushing
from fuzzing.runs import Seen, Value, seen_steps
from fuzzing.tree import Program, Step

import openinfer as oi
from openinfer.runtime.tensors import Tensor
from tests.sweeps import sweep

FIRST, CHUNKS, CHUNK = 40, sweep(2, 4), 10
SCRIPT = Path(__file__).parent / "on_vulkan.py"


def run(out: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--out", str(out), "--no-cases", *words]
    environment = {**os.environ, **more}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_drawn_programs_agree_and_the_layer_says_nothing(
    chunk: int, vulkan: None, tmp_path: Path
) -> None:
    first = str(FIRST + chunk * CHUNK)
    words = ("--seed", first, "--programs", str(CHUNK), "--tier", "subgroup")
    done = run(tmp_path / "lines", *words, OPENINFER_VULKAN_VALIDATE="1")
    if "a layer is not present" in done.stdout + done.stderr:
        pytest.skip("the Khronos validation layer is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong: 0" in done.stdout
    assert "VUID" not in done.stdout, done.stdout


def test_the_script_goes_on_where_it_stopped(vulkan: None, tmp_path: Path) -> None:
    """What has a line is not run again; what has a part of one is."""
    lines = tmp_path / "lines"
    row = {"name": "scalar program 1", "defect": "it was wrong", "compared": 3}
    lines.write_text(json.dumps(row) + '\n{"name": "scalar program 2", "def')
    done = run(lines, "--seed", "1", "--programs", "2", "--tier", "scalar", "--jobs", "2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "scalar program 1: it was wrong" in done.stdout
    assert "wrong: 1" in done.stdout
    whole = [line for line in lines.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["name"] for line in whole] == ["scalar program 1", "scalar program 2"]


def test_no_program_begins_after_the_minutes(vulkan: None, tmp_path: Path) -> None:
    done = run(tmp_path / "lines", "--programs", "3", "--tier", "scalar", "--minutes", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong: 0, left to run: 3" in done.stdout


def test_a_device_may_take_subnormal_numbers_for_zeros() -> None:
    """What such a number decides, in a sum or a comparison, is explained by that; nothing else is."""
    text = """
    dynamic { x: f32[4]; }
    block entry {
      assign y: f32[4]; assign c: bool[4];
      op mul(x, 1048576.0) >> y; op lt(x, 0.0) >> c;
      return y, c;
    }"""
    x = np.array([1.0, 1e-40, -1e-40, 3.0], np.float32)
    program = Program(0, [], [], [Step({"x": Tensor.from_values("f32", x)})])

    def run() -> Seen:
        return seen_steps(lambda: oi.Simulator(text).make_executor(trace=False), program)[0]

    exact = run()
    with flushing():
        zeros = run()
    assert other_bits(0, exact, run()) is None, "the simulator computes with them again"
    y, c = zeros.values["y"], zeros.values["c"]
    assert isinstance(y, Value)
    assert isinstance(c, Value)
    assert np.array_equal(y.array, np.array([2**20, 0, 0, 3 * 2**20], np.float32))
    assert not c.array.any()
    assert difference(0, exact, [exact], zeros) is not None
    assert difference(0, exact, [exact, zeros], zeros) is None
    wrong = Seen(values={"y": Value("f32", y.array + np.float32(1)), "c": c}, stepped=True)
    assert difference(0, exact, [exact, zeros], wrong) is not None
