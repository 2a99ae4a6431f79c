"""CI's slice of the zoo (`scripts/zoo.py`), and that the page has every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
from architectures import Architecture, architectures
from measuring import measured


@pytest.mark.parametrize(
    "architecture", [one for one in architectures() if one.quick], ids=lambda one: one.name
)
def test_an_architecture(architecture: Architecture) -> None:
    row = measured(architecture)
    assert not row.why
    assert row.right, row


def test_the_page_has_every_architecture() -> None:
    page = (Path(__file__).parents[2] / "docs/zoo.md").read_text()
    missing = [one.name for one in architectures() if f"| {one.name} |" not in page]
    assert not missing, f"{missing} are missing: python scripts/zoo.py --page"
