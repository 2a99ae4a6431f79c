"""Devices, and the places kept for what comes later: rows 6, 7 and 85 to 100 of the feature table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from both import Make, close, equal, package

import openinfer as oi
from openinfer.compiler.pipeline import PIPELINES
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.target import TARGETS

X = np.array([1, -2, 3], np.float32)
TEXT = "dynamic { x: f32[B]; } block entry { assign y: f32[B]; op exp(x) >> y; return y; }"


def test_an_absent_device_is_named_with_those_there_are() -> None:
    with pytest.raises(oi.UnsupportedError) as caught:
        oi.compile(TEXT, device="metal")
    assert caught.value.code == "OI0730"
    assert caught.value.hint is not None
    assert "cpu" in caught.value.hint
    assert "cpu" in PIPELINES


@pytest.mark.parametrize("target", TARGETS)
def test_code_for_every_kind_of_processor(target: str) -> None:
    """Compiled for each; run where this machine can."""
    program = oi.compile(TEXT, target=target)
    try:
        executor = program.make_executor()
    except oi.ArtefactError as error:
        pytest.skip(error.message)
    close(executor.run(x=X)["y"], np.exp(X))


def test_state_starts_from_the_package(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, tensors={"ring": X, "start": np.float32(7)})
    executor = make(
        """
        persistent { ring: f32[3]; n: f32 @ref("start"); own: f32[3] @init(1); }
        block entry { cache.increment n; return; }
        """,
        model,
    )
    executor.step()
    executor.step()
    equal(executor.fetch("ring"), X)
    equal(executor.fetch("n"), 9)
    executor.reset()
    executor.step()
    equal(executor.fetch("n"), 8)


def test_quantisation_records_are_kept_beside_their_tensor(make: Make, tmp_path: Path) -> None:
    """The record travels; a program computes with it by `dequantize`."""
    quant = oi.QuantParams("symmetric", oi.QuantScale.per_tensor(0.5))
    codes = np.array([-4, 0, 6], np.int8)
    model = package(tmp_path, tensors={"w": oi.TensorSpec(codes, quant=quant)})
    record = model.info("w").quant
    assert record is not None
    assert record.scheme == "symmetric"
    assert main(["inspect", str(tmp_path / "model.oinf")]) == 0
    executor = make(
        """
        constant { w: i8[3] @quant("symmetric"); scale: f32 @init(0.5); }
        block entry { assign y: f32[3]; op dequantize(w, scale) >> y; return y; }
        """,
        model,
    )
    equal(executor.run()["y"], [-2, 0, 3])


def test_every_level_can_be_resumed(tmp_path: Path) -> None:
    """Plans are files: each level prints, and compiling goes on from it."""
    source = tmp_path / "p.oi"
    source.write_text(TEXT)
    opt = [sys.executable, "-m", "openinfer.compiler.tools.openinfer_opt"]
    levels = tmp_path / "levels"
    dump = [*opt, str(source), "--pipeline", "cpu", "--dump-dir", str(levels)]
    subprocess.run(dump, check=True, capture_output=True)
    files = sorted(levels.glob("*.mlir"))
    assert [path.stem.partition("-")[2] for path in files][:2] == ["graph", "nn"]
    (linalg,) = [path for path in files if path.stem.endswith("linalg")]
    rest = [*opt, str(linalg), "--pipeline", "cpu", "--from", "linalg", "--to", "kernels"]
    done = subprocess.run(rest, check=True, capture_output=True, text=True)
    assert "math.exp" in done.stdout or "vector" in done.stdout
