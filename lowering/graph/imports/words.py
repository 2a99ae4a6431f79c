"""Words for names: what modules, tensors and source lines are called becomes what a person would write."""

from __future__ import annotations

import re

from openinfer.lowering.program.sources import PLACEHOLDER
from openinfer.runtime.dtypes import DTYPES

_DROPPED = ("self", "dense", "layer", "model", "module", "transformer", "l")
_KINDS = {
    "weight": "w",
    "bias": "b",
    "gamma": "w",
    "beta": "b",
    "running_mean": "mean",
    "running_var": "var",
}
_SHORT = {
    "hidden_states": "h",
    "hidden_state": "h",
    "inputs_embeds": "x",
    "embeddings": "x",
    "query_states": "q",
    "query_layer": "q",
    "key_states": "k",
    "key_layer": "k",
    "value_states": "v",
    "value_layer": "v",
    "attn_output": "a",
    "attn_weights": "weights",
    "context_layer": "a",
    "attention_output": "a",
    "relative_position_bias": "bias",
    "input": "x",
    "_": "",
}
_NORM = re.compile(r"layer_?norm|rms_?norm", re.IGNORECASE)
_UNIT = re.compile(r"(Re|Ge|Si|Se|Ce|E)LU")
"""Activations in the names of classes: one word."""
_OTHERS = ("inf", "nan", "true", "false", *DTYPES)
"""Words that settings and operands mean something else by."""


def component(text: str) -> str:
    """A part of a module's path as a word: `LayerNorm` is `norm`, `input_layernorm` is `input_norm`."""
    word = _UNIT.sub(lambda found: found.group().capitalize(), _NORM.sub("norm", text))
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()
    word = re.sub(r"[^a-z0-9_]+", "_", word).strip("_")
    return word or "v"


def path_words(path: str) -> list[str]:
    """The words of a path that say something: without `self`, `dense`, `model`, and the index of a
    loop; `mlp.0` is `mlp0`."""
    parts: list[str] = []
    for part in re.split(r"[./:]+", PLACEHOLDER.sub("{l}", path)):
        if part.isdigit() and parts:
            parts[-1] += f"{'_' if parts[-1][-1].isdigit() else ''}{part}"
        elif part and part != "{l}":
            parts.append(part.replace("_{l}", "").replace("{l}", ""))
    kept = [part for part in parts if part.lower() not in _DROPPED]
    return [component(part) for part in kept or parts[-1:]]


def parameter_words(name: str) -> tuple[list[str], list[str], str]:
    """What layers and the tensor's module in a layer are called, and what the tensor is of it: `w`, `b`."""
    head, _, last = name.rpartition(".")
    path, kind = (head, _KINDS[last]) if last in _KINDS and head else (name, "")
    path = PLACEHOLDER.sub("{l}", path)
    outer, mark, inner = path.partition("{l}.")
    if not mark:
        return [], path_words(path), kind
    return path_words(outer) if outer else [], path_words(inner), kind


def joined(words: list[str], kind: str = "") -> str:
    """The words as a name."""
    text = "_".join([*words, *([kind] if kind else [])])
    return safe(text)


def safe(text: str) -> str:
    """The text as a name that a program can have."""
    clean = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") or "v"
    return f"v{clean}" if clean[0].isdigit() or clean in _OTHERS else clean


def short(variable: str) -> str:
    """What the source calls a value, the longest of the usual names shortened."""
    name = _SHORT.get(variable, variable)
    return safe(name) if name else ""


def op_word(name: str) -> str:
    """An op in the name of a block: `conv` of `conv2d`, `bn` of `batch_norm`, `norm` of others."""
    word = re.sub(r"\d+d$", "", name)
    return {"batch_norm": "bn", "layer_norm": "norm", "rms_norm": "norm"}.get(word, word)
