"""Every case of ONNX's operator suite gives what the list says: right numbers, or a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_cases import Expected, all_cases, expected, in_tenth, listed_version, result_of

from openinfer.compiler.onnx_page import onnx_page

onnx = pytest.importorskip("onnx", reason="onnx is not installed (make oracle)")
pytestmark = pytest.mark.skipif(
    onnx.__version__ != listed_version(), reason=f"the list is that of onnx {listed_version()}"
)
ROWS = expected()
TENTH = [one for one in ROWS if one.result == "pass" and in_tenth(one.name)]
PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> Path:
    """Keeps the cases between runs."""
    cache = request.config.cache
    assert cache is not None
    return cache.mkdir("onnx-cases")


@pytest.mark.parametrize("row", ROWS, ids=lambda one: one.name)
def test_case_on_the_simulator(row: Expected, folder: Path) -> None:
    assert result_of(all_cases(folder)[row.name]) == row.result


@pytest.mark.parametrize("row", TENTH, ids=lambda one: one.name)
def test_compiled_case(row: Expected, folder: Path) -> None:
    assert result_of(all_cases(folder)[row.name], "cpu") == "pass"


def test_the_list_has_every_case(folder: Path) -> None:
    assert {one.name for one in ROWS} == set(all_cases(folder))


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == onnx_page(), "run `make docs`"
