"""The Python of `docs/running.md` runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from openinfer.runtime import options


def test_pieces_of_the_page(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (repository / "docs" / "running.md").read_text(encoding="utf-8")
    pieces = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(pieces) == 9
    monkeypatch.chdir(repository)
    names: dict[str, Any] = {}
    for piece in pieces:
        exec(compile(piece, "docs/running.md", "exec"), names)


def test_the_environment_is_listed(repository: Path) -> None:
    page = (repository / "docs" / "running.md").read_text(encoding="utf-8")
    for name in set(re.findall(r"OPENINFER_[A-Z_]+", options.__doc__ or "")):
        assert f"| `{name}` |" in page
