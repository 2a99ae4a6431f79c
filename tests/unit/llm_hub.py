"""Random language models under the names of Hugging Face: as a folder, and as models of transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llm_models import VOCABULARY, Matrix, Model, Shape
from safetensors.numpy import save_file

KINDS = {"gemma3": "gemma3_text", "qwen3moe": "qwen3_moe"}
"""`model_type`, where it is not the architecture."""
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
_GPT2_WHOLE = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}


def kind_of(shape: Shape) -> str:
    """`model_type` of a shape."""
    if shape.experts and shape.architecture == "llama":
        return "mixtral"
    return KINDS.get(shape.architecture, shape.architecture)


def state(model: Model) -> dict[str, Matrix]:
    """The weights by the names of transformers; queries and keys in the order of halves."""
    shape, found = model.shape, dict[str, Matrix]()
    gemma = shape.architecture.startswith("gemma")
    for name, values in model.weights.items():
        if name.startswith("rope_f") or "_exps." in name:
            continue
        *block, part, suffix = name.split(".")
        if shape.layer_norms:
            whole = _GPT2_WHOLE.get(part)
            path = whole if whole else f"h.{block[1]}.{_GPT2[part]}"
            # Its products have weights of [in, out].
            turned = whole is None and values.ndim > 1
            found[f"transformer.{path}.{suffix}"] = values.T if turned else values
            continue
        if not shape.neox and part in ("attn_q", "attn_k"):
            values = values.reshape(-1, shape.size // 2, 2, values.shape[1]).swapaxes(1, 2)
            values = values.reshape(-1, values.shape[-1])
        if gemma and part.endswith("norm"):
            values = values - 1
        path = _WHOLE.get(part)
        if path is None:
            path = f"model.layers.{block[1]}.{_LAYER[part]}"
            if part == "ffn_norm" and gemma:
                path = path.replace("post_attention_layernorm", "pre_feedforward_layernorm")
            if part == "ffn_up" and shape.fused:
                path = path.replace("up_proj", "gate_up_proj")
        found[f"{path}.{suffix}"] = values
    for layer in range(shape.layers if shape.experts else 0):
        gate, up, down = (
            model.weights[f"blk.{layer}.ffn_{x}_exps.weight"] for x in ("gate", "up", "down")
        )
        experts = f"model.layers.{layer}.mlp.experts."
        found[experts + "gate_up_proj"] = np.concatenate([gate, up], axis=1)
        found[experts + "down_proj"] = down
    return found


def config(shape: Shape, kind: str) -> dict[str, Any]:
    """`config.json`."""
    made: dict[str, Any] = {
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
    }
    if kind == "granite":
        made |= {
            "embedding_multiplier": shape.embedding_scale,
            "residual_multiplier": shape.residual_scale,
            "logits_scaling": shape.logit_divisor,
            "attention_multiplier": shape.attention_scale,
        }
    return made


def folder(path: Path, model: Model, kind: str, **more: Any) -> Path:
    """The folder that the model's file was converted from."""
    path.mkdir()
    tensors = {name: np.ascontiguousarray(w, np.float32) for name, w in state(model).items()}
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config(model.shape, kind) | more))
    return path


def logits(model: Model, ids: Sequence[int]) -> Matrix:
    """What transformers computes behind each of the tokens, in f32: [len(ids), VOCABULARY]."""
    import torch
    import transformers

    shape, kind = model.shape, kind_of(model.shape)
    made = config(shape, kind) | _more(model)
    del made["model_type"]
    settings = transformers.AutoConfig.for_model(kind, **made, pad_token_id=None)
    make: Any = transformers.AutoModelForCausalLM.from_config
    peer = make(settings, attn_implementation="eager").float().eval()
    weights = {
        name: torch.tensor(np.ascontiguousarray(w, np.float32)) for name, w in state(model).items()
    }
    said = peer.load_state_dict(weights, strict=False)
    tied = {"lm_head.weight"} if shape.tied else set[str]()
    assert set(said.missing_keys) <= tied, said
    assert not said.unexpected_keys, said
    peer.tie_weights()
    if shape.frequencies:
        rope = peer.model.rotary_emb
        rope.inv_freq = rope.inv_freq / torch.tensor(model.weights["rope_freqs.weight"]).float()
    with torch.no_grad():
        return peer(torch.tensor([list(ids)])).logits[0].double().numpy()


def _more(model: Model) -> dict[str, Any]:
    """What only transformers reads."""
    shape, made = model.shape, dict[str, Any]()
    if shape.rope_factor != 1 and not shape.yarn:
        made["rope_scaling"] = {"rope_type": "linear", "factor": shape.rope_factor}
    if shape.yarn:
        made["rope_scaling"] = {
            "rope_type": "yarn",
            "factor": shape.rope_factor,
            "original_max_position_embeddings": shape.yarn,
        }
    if shape.long_factors:
        made["original_max_position_embeddings"] = 32
        made["rope_scaling"] = {
            "rope_type": "longrope",
            "attention_factor": shape.attn_factor,
            "original_max_position_embeddings": 32,
            **{
                f"{which}_factor": model.weights[f"rope_factors_{which}.weight"].tolist()
                for which in ("long", "short")
            },
        }
    if shape.turned:
        made["partial_rotary_factor"] = shape.turned / shape.size
    if shape.architecture == "phi3":
        made |= {"sliding_window": None}
    if shape.plain_every:
        made["no_rope_layer_interval"] = shape.plain_every
    if shape.architecture.startswith("gemma"):
        made |= {
            "query_pre_attn_scalar": shape.size,
            "attn_logit_softcapping": shape.softcap,
            "final_logit_softcapping": shape.final_softcap,
            "sliding_window": shape.window,
            "rope_local_base_freq": shape.local_base,
        }
    if shape.experts:
        made |= {
            "num_local_experts": shape.experts,
            "num_experts": shape.experts,
            "num_experts_per_tok": shape.experts_used,
            "moe_intermediate_size": shape.hidden,
            "norm_topk_prob": True,
        }
    if shape.layer_norms:
        made |= {
            "n_embd": shape.width,
            "n_layer": shape.layers,
            "n_head": shape.heads,
            "n_positions": shape.context,
            "n_inner": shape.hidden,
            "layer_norm_epsilon": shape.eps,
        }
    return made
