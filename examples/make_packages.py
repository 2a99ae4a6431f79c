"""Makes the packages of the examples that need no training: small weights, always the same.

    python -m examples.make_packages [FOLDER]

The same seed gives the same bytes, so the committed files can be checked against this program.
`mlp.oinf`, `cnn.oinf` and `vit.oinf` hold trained weights: `examples/train_digits.py` makes those.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent

HERE = Path(__file__).resolve().parent


def residual_mlp(width: int = 32, depth: int = 6) -> OinfContent:
    """`depth` layers of `width` x `width` weights, named as the pattern of the program says."""
    random = np.random.default_rng(1)
    tensors: dict[str, Any] = {}
    for layer in range(depth):
        weight = random.standard_normal((width, width), np.float32)  # (inputs, outputs)
        tensors[f"layers.{layer}.weight"] = weight / np.float32(width) ** 0.5
        tensors[f"layers.{layer}.bias"] = random.standard_normal(width, np.float32) * 0.1
    return OinfContent({"width": width, "depth": depth}, {}, tensors)


def guard(width: int = 16) -> OinfContent:
    """One layer whose exponential overflows for inputs far from 0."""
    random = np.random.default_rng(2)
    weight = random.standard_normal((width, width), np.float32)  # (inputs, outputs)
    return OinfContent({"width": width}, {}, {"W": weight})


def audio(hop: int = 80, window: int = 200, mels: int = 20, rate: int = 8000) -> OinfContent:
    """A Hann window, and triangles that are evenly spaced on the mel scale 2595 log10(1 + f/700)."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, mels + 2) / 2595) - 1)  # Hz
    frequencies = np.linspace(0, rate / 2, window // 2 + 1)
    rising = (frequencies[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies[:, None]) / (edges[2:] - edges[1:-1])
    bank = np.maximum(0, np.minimum(rising, falling)).astype(np.float32)  # (frequencies, mels)
    hann = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)).astype(np.float32)
    sizes = {"hop": hop, "window": window, "mels": mels}
    return OinfContent(sizes, {}, {"shape": hann, "bank": bank})


def lstm(inputs: int = 8, hidden: int = 16, outputs: int = 4, batch: int = 2) -> OinfContent:
    """One layer with a read-out."""
    random = np.random.default_rng(3)
    shapes = {
        "w_ih": (4 * hidden, inputs),
        "w_hh": (4 * hidden, hidden),
        "b_ih": (4 * hidden,),
        "b_hh": (4 * hidden,),
        "Wo": (hidden, outputs),
    }
    tensors = {name: random.standard_normal(s, np.float32) * 0.3 for name, s in shapes.items()}
    sizes = {"inputs": inputs, "hidden": hidden, "outputs": outputs, "batch": batch}
    return OinfContent(sizes, {}, tensors)


def decoder(vocabulary: int = 32, dim: int = 16, heads: int = 4, layers: int = 2) -> OinfContent:
    """A decoder that has learned nothing, but says the same thing every time."""
    random = np.random.default_rng(4)
    tensors: dict[str, Any] = {
        # Small, so that what the layers add decides about the next token.
        "tokens": random.standard_normal((vocabulary, dim), np.float32) * 0.2,
        "last": np.ones(dim, np.float32),
    }
    for layer in range(layers):
        for name, rows, columns in (
            ("q", dim, dim),
            ("k", dim, dim),
            ("v", dim, dim),
            ("o", dim, dim),
            ("up", dim, 4 * dim),
            ("down", 4 * dim, dim),
        ):
            weight = random.standard_normal((rows, columns), np.float32)  # (inputs, outputs)
            tensors[f"layers.{layer}.{name}"] = weight / np.float32(rows) ** 0.5
        tensors[f"layers.{layer}.norm"] = np.ones(dim, np.float32)
    sizes = {"vocabulary": vocabulary, "dim": dim, "heads": heads, "layers": layers}
    return OinfContent(sizes, {}, tensors)


def moe(width: int = 16) -> OinfContent:
    """A gate and four experts."""
    random = np.random.default_rng(5)
    tensors: dict[str, Any] = {"gate": random.standard_normal((width, 4), np.float32)}
    for expert in range(4):
        up = random.standard_normal((width, 2 * width), np.float32)
        down = random.standard_normal((2 * width, width), np.float32)
        tensors[f"experts.{expert}.up"] = up / np.float32(width) ** 0.5
        tensors[f"experts.{expert}.down"] = down / np.float32(2 * width) ** 0.5
    return OinfContent({"width": width}, {}, tensors)


def pipeline(width: int = 16) -> OinfContent:
    """One matrix."""
    random = np.random.default_rng(6)
    weight = random.standard_normal((width, width), np.float32) / np.float32(width) ** 0.5
    return OinfContent({"width": width}, {}, {"W": weight})


PACKAGES = {
    "residual_mlp": residual_mlp,
    "guard": guard,
    "audio": audio,
    "lstm": lstm,
    "decoder": decoder,
    "moe": moe,
    "pipeline": pipeline,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, make in PACKAGES.items():
        path = folder / f"{name}.oinf"
        oi.write_oinf(make(), path)
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
