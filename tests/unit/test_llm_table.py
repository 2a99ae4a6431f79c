"""What `scripts/families.py` measures: the oracle beside transformers, and a row of its table."""

from __future__ import annotations

from pathlib import Path

import llm_hub
import pytest
from llm_models import KINDS, SHAPES, Model
from llm_table import PROMPT, TOKENS, TRANSFORMERS, Row, measured, off


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
