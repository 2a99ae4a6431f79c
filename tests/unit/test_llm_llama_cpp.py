"""The oracle of the model families, and an engine's answer, against llama.cpp (the wheel `xllamacpp`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_models import KINDS, SHAPES, VOCABULARY, Model

import openinfer as oi

llama_library = pytest.importorskip("benchmarks.llama_library")
pytest.importorskip(
    "xllamacpp", reason="llama.cpp is not here: pip install 'openinfer[bench-more]'"
)
TEXT = [1, *(int(i) for i in np.random.default_rng(1).integers(3, VOCABULARY, 40))]
ROUGH = {"gemma2": 1e-3, "gemma3": 1e-3, "gpt2": 1e-3}
"""llama.cpp takes GELU from a table in f16."""


def peer(path: Path) -> Any:
    try:
        return llama_library.Llama(path, 128, 1, cache=llama_library.F32)
    except RuntimeError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", SHAPES)
def test_the_oracle_is_right(tmp_path: Path, name: str) -> None:
    model = Model(tmp_path / "m.gguf", SHAPES[name], [KINDS.F32])
    wanted = model.logits(TEXT)
    found = peer(model.path).step(TEXT, every=True)
    assert np.abs(found - wanted).max() < ROUGH.get(name, 3e-6) * np.abs(wanted).max()


def test_64_greedy_tokens(tmp_path: Path) -> None:
    """Those of llama.cpp, on a model in F32 and caches in f32."""
    model = Model(tmp_path / "m.gguf", SHAPES["llama3"], [KINDS.F32])
    with oi.Engine(model.path, device="simulator") as engine:
        answer = engine.generate(TEXT, max_tokens=64, temperature=0, logit_bias={2: -1e9})
        assert "".join(answer)
    llama = peer(model.path)
    logits = llama.step(TEXT)
    tokens: list[int] = []
    for _ in range(64):
        logits[2] = -np.inf
        tokens.append(int(logits.argmax()))
        logits = llama.step(tokens[-1:])
    assert answer.tokens == tokens
