"""Hugging Face folders as language models, against the same weights in a `.gguf` file."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_models import KINDS, SHAPES, VOCABULARY, Model
from safetensors.numpy import save_file

import openinfer as oi
from openinfer.compiler.llm.families import open_language_model, program_text
from openinfer.compiler.llm.hub_model import ARCHITECTURES, HubModel
from openinfer.compiler.llm.runner import Runner

NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
"""Of a layer: in a `.gguf` file and in a folder."""


def folder(path: Path, model: Model, kind: str, **more: Any) -> Path:
    """The folder that the model's file was converted from: queries and keys in the order of halves."""
    shape = model.shape
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    for name, values in model.weights.items():
        parts = name.split(".")
        if parts[0] == "blk":
            name = f"model.layers.{parts[1]}.{NAMES[parts[2]]}.{parts[3]}"
        elif name in ("token_embd.weight", "output_norm.weight", "output.weight"):
            name = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}.get(
                parts[0], "lm_head"
            ) + ".weight"
        else:
            continue
        if not shape.neox and parts[2:3] in (["attn_q"], ["attn_k"]):
            values = values.reshape(-1, shape.size // 2, 2, values.shape[1]).swapaxes(1, 2)
            values = values.reshape(-1, values.shape[-1])
        tensors[name] = np.ascontiguousarray(values, np.float32)
    config = {
        "model_type": kind,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.hidden,
        "head_dim": shape.size,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.eps,
        "rope_theta": int(shape.base),
        "tie_word_embeddings": shape.tied,
        "vocab_size": VOCABULARY,
        "embedding_multiplier": shape.embedding_scale,
        "residual_multiplier": shape.residual_scale,
        "logits_scaling": shape.logit_divisor,
        "attention_multiplier": shape.attention_scale,
        **more,
    }
    path.mkdir()
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return path


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
