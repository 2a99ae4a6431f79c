"""The walk of `docs/import.md`: its model is written, imported, edited and run, with what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from openinfer.compiler.tools.openinfer import main

NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")


def pieces(page: str) -> tuple[str, list[tuple[str, str]]]:
    """The Python of the walk, and each command with what it prints."""
    walk = page.partition("\n## A walk\n")[2].partition("\n## ")[0]
    (program,) = re.findall(r"^```python\n(.*?)^```", walk, re.M | re.S)
    consoles = "".join(re.findall(r"^```console\n(.*?)^```", walk, re.M | re.S))
    parts = re.split(r"^\$ (.*)\n", consoles, flags=re.M)[1:]
    return program, list(zip(parts[::2], parts[1::2]))


def shown(command: str, folder: Path, program: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints; those of openinfer and Python run in this process."""
    words = shlex.split(command)
    if words[0] == "python":
        (folder / words[1]).write_text(program)
        exec(compile(program, words[1], "exec"), {"__name__": "net"})
        return ""
    if words[0] == "openinfer":
        assert main(words[1:]) == 0
        return capsys.readouterr().out
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_the_walk(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("torch", reason="make oracle")
    if shutil.which("git") is None:
        pytest.skip("needs git")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    program, steps = pieces((repository / "docs" / "import.md").read_text(encoding="utf-8"))
    assert len(steps) == 8
    for command, wanted in steps:
        found = shown(command, tmp_path, program, capsys)
        # PyTorch draws the weights; their numbers are held to what the page rounds them to.
        assert NUMBER.sub("#", found) == NUMBER.sub("#", wanted), command
        numbers = ([float(one) for one in NUMBER.findall(text)] for text in (found, wanted))
        np.testing.assert_allclose(*numbers, rtol=1e-2, atol=1e-3)
