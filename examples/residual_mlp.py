"""Runs `residual_mlp.oi` and checks it against four lines of NumPy: see `README.md` here."""

from __future__ import annotations

import numpy as np

import openinfer as oi
from examples.checking import HERE, check, run_checked


def main() -> None:
    x = np.random.default_rng(0).standard_normal((3, 32), np.float32)  # (batch, width)
    y = run_checked("residual_mlp", x=x)["y"]  # (batch, width)

    with oi.open_model(HERE / "residual_mlp.oinf") as model:
        wanted = x.astype(np.float64)
        for layer in range(model.sizes["depth"]):
            weight, bias = (model.read(f"layers.{layer}.{part}") for part in ("weight", "bias"))
            h = wanted @ weight + bias
            wanted = wanted + h / (1 + np.exp(-h))
        print(f"{model.sizes['depth']} layers of width {model.sizes['width']}")
    off = float(np.abs(y - wanted).max())
    print(f"largest difference from NumPy in double precision: {off:.1e}")
    check(off < 1e-3, "the loop and NumPy disagree")


if __name__ == "__main__":
    main()
