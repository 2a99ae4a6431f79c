"""Each level of each example is a text that is read again and goes on to the same program."""

from __future__ import annotations

from pathlib import Path

import pytest

from openinfer.compiler import pipeline
from openinfer.compiler.tools.openinfer_opt import main
from tests.sweeps import FULL

EXAMPLES = sorted(Path(__file__).resolve().parents[2].joinpath("examples").glob("*.oi"))
LEVELS = [phase.name for phase in pipeline.PIPELINES["cpu"]]
SMALL = ("mlp", "residual_mlp")
"""Resumed from every level; the others, whose levels are read and printed as well, from their kernels."""
LONG = ("nn", "linalg", "llvm")
"""Levels that even a full sweep resumes none of the others from."""


def code(text: str) -> str:
    """A text of IR without the comments that a dump begins with."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("//"))


def instructions(path: Path) -> list[str]:
    """LLVM IR without its comments, which name lines of the program."""
    return [line.partition("  ; ")[0] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_levels_print_read_and_resume(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ["--target-cpu", "avx2"]
    dumps, whole, again = tmp_path / "levels", tmp_path / "whole.ll", tmp_path / "again"
    line = [str(example), "--pipeline", "cpu", *target, "--dump-dir", str(dumps)]
    assert main([*line, "-t", "llvm-ir", "-o", str(whole)]) == 0, capsys.readouterr().err
    files = sorted(dumps.glob("*.mlir"))
    assert [path.stem.partition("-")[2] for path in files] == LEVELS
    for level, path in zip(LEVELS, files):
        if level == "graph":
            continue
        assert main([str(path), "-o", str(again)]) == 0, (level, capsys.readouterr().err)
        assert again.read_text() == code(path.read_text()), level
        if example.stem not in SMALL and (level in LONG if FULL else level != "kernels"):
            continue
        line = [str(path), "--pipeline", "cpu", "--from", level, *target]
        assert main([*line, "-t", "llvm-ir", "-o", str(again)]) == 0, capsys.readouterr().err
        assert instructions(again) == instructions(whole), level
