"""Hugging Face folders as language models, against the same weights in a `.gguf` file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_hub import folder
from llm_models import KINDS, SHAPES, VOCABULARY, Model
from safetensors.numpy import save_file

import openinfer as oi
from openinfer.compiler.llm.families import open_language_model, program_text
from openinfer.compiler.llm.hub_model import ARCHITECTURES, HubModel
from openinfer.compiler.llm.runner import Runner


@pytest.mark.parametrize("kind", sorted(ARCHITECTURES))
def test_a_folder_is_its_file(tmp_path: Path, kind: str) -> None:
    model = Model(tmp_path / "m.gguf", SHAPES[ARCHITECTURES[kind]], [KINDS.F32])
    ids = [int(i) for i in np.random.default_rng(3).integers(0, VOCABULARY, 12)]
    wanted = model.logits(ids)
    with open_language_model(folder(tmp_path / "hub", model, kind)) as package:
        executor = oi.Simulator(program_text(package, cache="f32"), package).make_executor()
        found = Runner(executor, 64, VOCABULARY).feed(0, ids, "all").logits
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_frequencies_of_llama3(tmp_path: Path) -> None:
    """Short waves stay, long ones are divided by the factor."""
    model = Model(tmp_path / "m.gguf", SHAPES["llama"], [KINDS.F32])
    scaling = {
        **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "original_max_position_embeddings": 64,
    }
    path = folder(tmp_path / "hub", model, "llama", rope_scaling=scaling)
    with open_language_model(path) as package:
        divisors = np.asarray(package.read("rope_freqs.weight"))
    waves = 2 * np.pi * 10000.0 ** (np.arange(0, 64, 2) / 64)
    assert (divisors[waves < 64 / 4] == 1).all()
    np.testing.assert_allclose(divisors[waves > 64], 8, rtol=1e-6)
    between = divisors[(waves > 64 / 4) & (waves < 64)]
    assert len(between)
    assert ((between > 1) & (between < 8)).all()


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"model_type": "mamba"}, "OI0791", "model type 'mamba'"),
        ({"model_type": None}, "OI0791", "model type None"),
        ({"rope_scaling": {"rope_type": "dynamic"}}, "OI0792", "type 'dynamic'"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "OI0792", "without 'original_max_pos"),
        ({"rope_scaling": {"type": "linear", "factor": "x"}}, "OI0792", "could not convert"),
    ],
)
def test_configurations_that_do_not_fit(
    tmp_path: Path, changes: dict[str, Any], code: str, message: str
) -> None:
    model = Model(tmp_path / "m.gguf", SHAPES["llama"], [KINDS.F32])
    path = folder(tmp_path / "hub", model, "llama", **changes)
    with pytest.raises(oi.PackageError, match=message) as error:
        open_language_model(path)
    assert error.value.code == code


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    save_file({"x": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(oi.PackageError, match=r"OI0790.*which architecture"):
        open_language_model(tmp_path)
    with open_language_model(tmp_path, named=False) as package:
        assert not isinstance(package, HubModel)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oi.ModelWarning)
        yield
