"""Every FileCheck file as one test, so that all counts are in one place; and that a file can fail."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lit.Test
import pytest
from lit.discovery import find_tests_for_inputs
from lit.LitConfig import LitConfig

FOLDER = Path(__file__).resolve().parent


def files_of(folder: Path) -> list[Any]:
    """The files below a folder as lit finds them, with what the `lit.cfg.py` in it says."""
    config: Any = LitConfig("lit", [], "note", False, False, [], False, False, False, "lexical", {})
    return list(find_tests_for_inputs(config, [str(folder)]))


@pytest.mark.parametrize("test", files_of(FOLDER), ids=lambda test: "/".join(test.path_in_suite))
def test_lit(test: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test.suite, "exec_root", str(tmp_path))
    result = test.config.test_format.execute(test, None)
    assert result.code is lit.Test.PASS, result.output


MODULE = "func.func @f() { return }\n"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("RUN: openinfer-opt %s | filecheck %s\nCHECK: func.func @g", "func.func @g"),
        ("RUN: openinfer-opt %s | filecheck %s\nCHECK-NOT: @f", "@f"),
        ("RUN: openinfer-opt %s -p no-such-pass | filecheck %s\nCHECK: x", "no-such-pass"),
        ("RUN: openinfer-opt %s -p no-such-pass | true", "no-such-pass"),
        ("RUN: not openinfer-opt %s", "func.func @f"),
        ("RUN: true\nRUN: openinfer-opt %s > %t\nRUN: diff %t %s", "RUN: at line 3"),
    ],
)
def test_a_file_that_does_not_hold_fails(lines: str, says: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "lit.cfg.py", tmp_path)
    text = "".join(f"// {line}\n" for line in lines.splitlines())
    (tmp_path / "wrong.mlir").write_text(text + MODULE)
    (test,) = files_of(tmp_path)
    result = test.config.test_format.execute(test, None)
    assert result.code is lit.Test.FAIL
    assert says in result.output
