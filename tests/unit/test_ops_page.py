"""The op table in the docs is what the registry makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from openinfer.compiler import limitations
from openinfer.compiler import ops_page as page
from openinfer.compiler.limitations import Limitation
from openinfer.compiler.ops_page import executors, ops_page
from openinfer.dialects import opset

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert written == ops_page(), "run `make docs`"


def test_every_op_stands_in_every_table() -> None:
    _, settings, dtypes = ops_page().split("\n## ")[:3]
    for name in opset.names():
        spec = opset.find(name)
        assert spec is not None
        assert f"\n| `{name}` |" in dtypes
        for setting in spec.settings:
            assert f"\n| `{name}` | `{setting.name}`" in settings


def test_limitations_show(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (Limitation("it is too hard", ops=("erf",), dtypes=("f8",)),)
    monkeypatch.setattr(limitations, "LIMITATIONS", rows)
    monkeypatch.setattr(page, "LIMITATIONS", rows)
    spec = opset.find("erf")
    assert spec is not None
    assert [executors(spec, dtype) for dtype in ("f32", "f8", "i8")] == ["SC", "S", ""]
    assert "| `erf` | f8 | it is too hard |" in ops_page()
