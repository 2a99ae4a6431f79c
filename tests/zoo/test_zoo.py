"""CI's slice of the zoo (`scripts/zoo.py`), and that the page has every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest
from architectures import Architecture, architectures
from measuring import Program, Row, measured
from zoo_page import LIBRARIES, Measured, merged, page

from tests.sweeps import FULL

BY_ONNX = ("U-Net", "Llama")
"""Those that CI exports to ONNX, and runs on a GPU."""
COMPILED = ("BERT", "U-Net")
"""Those that it gives to `torch.compile`, which compiles a program for each way in which sizes vary."""


QUICK = [one for one in architectures() if one.quick]


@pytest.mark.parametrize("architecture", QUICK, ids=lambda one: one.name)
def test_an_architecture(architecture: Architecture) -> None:
    ways = ["torch", "compile"] if architecture.name in COMPILED or FULL else ["torch"]
    row = measured(architecture, ways)
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
    assert not missing, f"{missing} are missing: python scripts/zoo.py --page zoo.json"


def test_what_was_measured_in_parts_is_one_row(tmp_path: Path) -> None:
    found = Measured(dict.fromkeys(["sources", "cpu", *LIBRARIES], "1"), commit="beef")
    ran = Program(9, 3, 1, {"simulator": 1e-7, "cpu": 2e-7})
    compiled = Program(errors={"torch.compile": 3e-7})
    failed = Program(8, 4, errors={"simulator": 1e-7}, why={"cpu": "error[OI0001]: no"})
    for row in (Row("MLP", "plain", torch=compiled), Row("MLP", "plain", torch=ran, onnx=failed)):
        found.add(row)
        found.write(tmp_path / "zoo.json")
        found = Measured.read(tmp_path / "zoo.json")
    text = page(found)
    assert "| MLP | plain | 9 | 3 | 1 | 1e-07 | 2e-07 | 3e-07 |  |" in text
    assert "| MLP | plain | 8 | 4 | 0 | 1e-07 | – | cpu: error[OI0001]: no |" in text
    assert "1 of 1 are imported" in text
    assert "of the sources, commit beef." in text
    assert "0 of 1 are imported" in text
    assert "| BERT | text | | | | | | | not measured |" in text


def test_files_of_two_states_make_no_page() -> None:
    with pytest.raises(ValueError, match="two states"):
        merged([Measured({"sources": one}) for one in "12"])
