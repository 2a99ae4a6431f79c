"""CI's slice of the zoo (`scripts/zoo.py`), and that the page has every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
from architectures import Architecture, architectures
from measuring import measured

BY_ONNX = ("U-Net", "Llama")
"""Those that CI exports to ONNX, and runs on a GPU."""


QUICK = [one for one in architectures() if one.quick]


@pytest.mark.parametrize("architecture", QUICK, ids=lambda one: one.name)
def test_an_architecture(architecture: Architecture) -> None:
    row = measured(architecture)
    assert row.right, row


@pytest.mark.parametrize(
    "architecture", [one for one in QUICK if one.name in BY_ONNX], ids=lambda one: one.name
)
def test_an_architecture_by_onnx(architecture: Architecture) -> None:
    pytest.importorskip("onnxscript", reason="torch.onnx.export needs onnxscript")
    row = measured(architecture, ["onnx"])
    assert row.right, row


@pytest.mark.parametrize(
    "architecture", [one for one in QUICK if one.name in BY_ONNX], ids=lambda one: one.name
)
def test_an_architecture_on_vulkan(architecture: Architecture, vulkan: None) -> None:
    row = measured(architecture, ["torch"], ["vulkan"])
    assert row.right, row


def test_the_page_has_every_architecture() -> None:
    page = (Path(__file__).parents[2] / "docs/zoo.md").read_text()
    missing = [one.name for one in architectures() if page.count(f"| {one.name} |") != 2]
    assert not missing, f"{missing} are missing: python scripts/zoo.py --page"
