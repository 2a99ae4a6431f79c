"""The op table in the docs is what the registry makes."""

from __future__ import annotations

from pathlib import Path

from openinfer.compiler.ops_page import ops_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "ops.md").read_text(encoding="utf-8")
    assert written == ops_page(), "run `make docs`"
