"""Makes the packages of `residual_mlp.oi` and `guard.oi`: small random weights, always the same.

    python -m examples.make_packages [FOLDER]

The same seed gives the same bytes, so the committed files can be checked against this program.
`mlp.oinf` and `vit.oinf` hold trained weights: `examples/train_digits.py` makes those.
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


PACKAGES = {"residual_mlp": residual_mlp, "guard": guard}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, make in PACKAGES.items():
        path = folder / f"{name}.oinf"
        oi.write_oinf(make(), path)
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
