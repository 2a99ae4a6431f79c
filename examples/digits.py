"""Handwritten digits that the models of `mlp.oi` and `vit.oi` did not see while they learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SHADES = " .:-=+*#%"


def load_digits() -> tuple[Array, Array]:
    """Images, f32 [100, 8, 8] from 0 to 1, and the digit that each shows, i64 [100]."""
    rows = np.loadtxt(Path(__file__).with_name("digits.csv"), np.int64, delimiter=",")
    images = rows[:, :64].reshape(-1, 8, 8).astype(np.float32) / 16
    return images, rows[:, 64]


def picture(image: Array) -> str:
    """An image, f32 [8, 8], drawn with letters."""
    steps = (image * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(SHADES[step] * 2 for step in row).rstrip() for row in steps)
