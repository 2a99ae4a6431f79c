"""Every FileCheck file as one test, so that all counts are in one place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
FILES = sorted(
    path.relative_to(FOLDER).as_posix()
    for pattern in ("*.mlir", "*.oi")
    for path in FOLDER.rglob(pattern)
    if not {"Output", "Inputs"} & set(path.relative_to(FOLDER).parts)
)


@pytest.mark.parametrize("name", FILES)
def test_lit(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OPENINFER_LIT_OUTPUT": str(tmp_path)}
    run_lit = "from lit.main import main; main()"
    command = [sys.executable, "-c", run_lit, "-v", str(FOLDER / name)]
    done = subprocess.run(
        command, env=environment, cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert "Passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
