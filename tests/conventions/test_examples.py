"""Every program of `examples/` runs and compares with no further arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_tree import REPOSITORY, shown

from openinfer.compiler.tools.openinfer import main

Capture = pytest.CaptureFixture[str]
PROGRAMS = sorted((REPOSITORY / "examples").glob("*.oi"))


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
@pytest.mark.parametrize("executor", ["simulator", "cpu"])
def test_example_runs(path: Path, executor: str, capsys: Capture) -> None:
    assert main(["run", str(path), "--executor", executor, "--json"]) == 0
    outputs = json.loads(capsys.readouterr().out)["outputs"]
    assert outputs, f"{shown(path)} gives no result"
    assert all(value["values"] != [] for value in outputs.values())


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_example_compares(path: Path, capsys: Capture) -> None:
    assert main(["compare", str(path)]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_example_inspects(path: Path, capsys: Capture) -> None:
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blocks"]


def test_minilm_names_what_it_lacks(capsys: Capture) -> None:
    programs = sorted((REPOSITORY / "examples" / "minilm").glob("*.oi"))
    if not programs:
        pytest.skip("examples/minilm has no program")
    assert main(["run", str(programs[0])]) == 1
    message = capsys.readouterr().err
    assert "--model" in message
    assert "Traceback" not in message
