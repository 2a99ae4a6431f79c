"""Sizes of the model, shared by what trains it and what writes its file."""

from examples.tiny.words import SIZE as TOKENS

WIDTH, LAYERS, INNER = 256, 3, 256
HEADS, KV_HEADS, HEAD = 4, 2, 64
CONTEXT = 512
BASE, EPSILON = 10_000.0, 1e-5

__all__ = [
    "BASE",
    "CONTEXT",
    "EPSILON",
    "HEAD",
    "HEADS",
    "INNER",
    "KV_HEADS",
    "LAYERS",
    "TOKENS",
    "WIDTH",
]
