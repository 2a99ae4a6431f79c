"""`docs/families.md`: what is measured, and that the page has every row."""

from __future__ import annotations

from pathlib import Path

import llm_hub
import pytest
from llm_models import KINDS, SHAPES, Model
from llm_table import HEAD, PROMPT, TOKENS, TRANSFORMERS, TYPES, Row, measured, off

PAGE = Path(__file__).parents[2] / "docs" / "families.md"


@pytest.mark.parametrize("name", SHAPES)
def test_the_oracle_is_that_of_transformers(tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    model = Model(tmp_path / "m.gguf", SHAPES[name], [KINDS.F32])
    assert off(llm_hub.logits(model, PROMPT), model.logits(PROMPT)) < TRANSFORMERS


def test_a_row_of_the_table(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="pip install 'openinfer[bench-more]'")
    row = measured("qwen2", "Q8_0", tmp_path, ["simulator"])
    if row.absent:
        pytest.skip(str(row.absent))
    assert row.wrong() == []
    assert row.greedy == {"float64": TOKENS}
    assert row.errors["llama.cpp"] > 1e-4, "it rounds rows to eight bits"


def test_what_is_wrong_is_said() -> None:
    row = Row("gpt2", "F32", {"compiled": 2e-5, "llama.cpp": 5e-4}, {"float64": 3})
    assert row.wrong() == ["compiled 2.0e-05 > 1e-05", "token 3 is not float64's"]
    assert row.cells()[-1] == "float64 to 3"
    assert Row("qwen2", "F32", {"llama.cpp": 5e-4}).wrong() == ["llama.cpp 5.0e-04 > 3e-06"]


def test_the_page_has_every_row() -> None:
    lines = [
        line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if "| " in line
    ]
    assert lines[0] == list(HEAD)
    rows = [(line[0], line[1]) for line in lines[2:]]
    assert rows == [(name, kind) for name in SHAPES for kind in TYPES]
    for model, kind, *cells, greedy in lines[2:]:
        errors = {c: float(cell) for c, cell in zip(HEAD[2:], cells) if cell.strip()}
        assert {"compiled", "simulator", "llama.cpp"} <= set(errors)
        assert Row(model, kind, errors).wrong() == []
        assert greedy in ("float64", "float64, transformers", "float64, llama.cpp, transformers")
