"""The models in PyTorch, eager: plain modules' functions, its fused attention, no Python overhead
beyond the calls themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

Array = np.ndarray[Any, Any]
Values = dict[str, torch.Tensor]
HEADS = 12
EPSILON = 1e-12


def mlp(weights: Mapping[str, Array]) -> Callable[..., torch.Tensor]:
    """x (batch, inputs) to probabilities (batch, classes)."""
    # F.linear takes (outputs, inputs).
    w = {name: torch.from_numpy(np.ascontiguousarray(value.T)) for name, value in weights.items()}

    def run(x: torch.Tensor) -> torch.Tensor:
        h = F.relu(F.linear(x, w["W1"], w["b1"]))
        h = F.relu(F.linear(h, w["W2"], w["b2"]))
        return torch.softmax(F.linear(h, w["W3"], w["b3"]), -1)

    return run


def minilm(weights: Mapping[str, Array]) -> Callable[..., torch.Tensor]:
    """tokens, mask (batch, length) to unit vectors (batch, width)."""
    w: Values = {name: torch.from_numpy(value) for name, value in weights.items()}
    layers = sum(name.endswith("attention.self.query.weight") for name in w)
    width = w["embeddings.LayerNorm.weight"].shape[0]

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"], EPSILON)

    def run(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length = tokens.shape
        h = F.embedding(tokens, w["embeddings.word_embeddings.weight"])
        h = h + w["embeddings.token_type_embeddings.weight"][0]
        h = norm(h + w["embeddings.position_embeddings.weight"][:length], "embeddings.LayerNorm")
        visible = mask.bool()[:, None, None, :]
        for layer in range(layers):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                linear(h, f"{name}.attention.self.{part}")
                .view(batch, length, HEADS, -1)
                .transpose(1, 2)
                for part in ("query", "key", "value")
            )
            a = F.scaled_dot_product_attention(q, k, v, visible)
            a = a.transpose(1, 2).reshape(batch, length, width)
            a = linear(a, f"{name}.attention.output.dense")
            h = norm(a + h, f"{name}.attention.output.LayerNorm")
            f = F.gelu(linear(h, f"{name}.intermediate.dense"))
            h = norm(linear(f, f"{name}.output.dense") + h, f"{name}.output.LayerNorm")
        weight = mask[..., None].to(h.dtype)
        mean = (h * weight).sum(1) / weight.sum(1)
        return F.normalize(mean, dim=1)

    return run
