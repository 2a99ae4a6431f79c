"""`--dump-dir` of a real program: one readable file per phase, each goes on to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from openinfer.compiler.pipeline import PIPELINES
from openinfer.compiler.tools.openinfer_opt import main

PHASES = [phase.name for phase in PIPELINES["cpu"]]
PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "mlp.oi"
FLAGS = ["--pipeline", "cpu", "--target-cpu", "avx2"]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not PROGRAM.exists():
        pytest.skip("examples/mlp.oi is not there")
    folder = tmp_path_factory.mktemp("dumps")
    output = folder / "final.mlir"
    assert main([str(PROGRAM), *FLAGS, "--dump-dir", str(folder), "-o", str(output)]) == 0
    return folder


def test_one_file_per_phase(dumps: Path) -> None:
    names = sorted(path.name for path in dumps.glob("0*.mlir"))
    assert names == [f"{index:02}-{phase}.mlir" for index, phase in enumerate(PHASES)]
    kernels = [path.name for path in (dumps / "04-kernels").iterdir()]
    assert kernels
    assert "step.mlir" not in kernels


@pytest.mark.parametrize("phase", PHASES)
def test_resume(phase: str, dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model package is not needed again: `bind-model` put what it says into the IR."""
    path = dumps / f"{PHASES.index(phase):02}-{phase}.mlir"
    assert main([str(path), *FLAGS, "--from", phase]) == 0
    assert capsys.readouterr().out == (dumps / "final.mlir").read_text()


def test_an_edited_program_is_checked(
    dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All mistakes of a dump of level `graph` are said, each with its line of the program."""
    text = (dumps / "00-graph.mlir").read_text()
    assert text.count("graph.op matmul(") > 1
    wrong = text.replace("graph.op matmul(", "graph.op matmull(", 1)
    wrong = wrong.replace("graph.op matmul(", "graph.op matmul(nothing, ", 1)
    path = tmp_path / "edited.mlir"
    path.write_text(wrong)
    assert main([str(path), *FLAGS, "--from", "graph"]) != 0
    shown = capsys.readouterr().err
    assert "error[OI0214]: unknown op `matmull`" in shown
    assert "error[OI0210]: undefined variable `nothing`" in shown
    assert "error[OI0217]: `matmul` takes 2 operands, got 3" in shown


def test_same_input_same_bytes(dumps: Path, tmp_path: Path) -> None:
    output = tmp_path / "again.mlir"
    assert main([str(PROGRAM), *FLAGS, "--dump-dir", str(tmp_path), "-o", str(output)]) == 0
    for first in dumps.rglob("*.mlir"):
        second = tmp_path / first.relative_to(dumps)
        if first.name != "final.mlir":
            assert first.read_bytes() == second.read_bytes(), first.name
    assert output.read_bytes() == (dumps / "final.mlir").read_bytes()
