"""What is measured: models with their weights, and the inputs that every runtime is given."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from examples.minilm.weights import find_weights
from openinfer.runtime.packages.oinf_writer import OinfContent

Array = np.ndarray[Any, Any]
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAMS = {"minilm": EXAMPLES / "minilm" / "minilm.oi", "mlp": EXAMPLES / "mlp.oi"}
RESULTS = {"minilm": "embedding", "mlp": "y"}
MLP = {"inputs": 784, "hidden": 512, "classes": 10}


@dataclass(frozen=True)
class Problem:
    """A model and the size of its input: tokens for MiniLM, the batch for the MLP."""

    name: str
    title: str
    model: str
    size: int
    tolerance: float
    """Largest difference from the simulator that still counts as the same answer."""

    def inputs(self) -> dict[str, Array]:
        """The arrays of one call: always the same, drawn from a seed."""
        random = np.random.default_rng(self.size)
        if self.model == "mlp":
            return {"x": random.standard_normal((self.size, MLP["inputs"]), np.float32)}
        tokens = random.integers(1000, 30000, (1, self.size), np.int64)  # (batch, length)
        tokens[:, 0], tokens[:, -1] = 101, 102
        return {"tokens": tokens, "mask": np.ones_like(tokens)}

    def operations(self) -> float:
        """Floating point operations of the matrix products of one call."""
        if self.model == "mlp":
            inputs, hidden, classes = MLP.values()
            return 2.0 * self.size * (inputs * hidden + hidden * hidden + hidden * classes)
        width, inner, layers = 384, 1536, 6
        products = 4 * width * width + 2 * width * inner
        return 2.0 * layers * self.size * (products + 2 * self.size * width)


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("minilm-16", "MiniLM, 16 tokens", "minilm", 16, 2e-5),
        Problem("minilm-128", "MiniLM, 128 tokens", "minilm", 128, 2e-5),
        Problem("minilm-512", "MiniLM, 512 tokens", "minilm", 512, 2e-5),
        Problem("mlp-1", "MLP 784-512-512-10, batch 1", "mlp", 1, 1e-5),
        Problem("mlp-64", "MLP 784-512-512-10, batch 64", "mlp", 64, 1e-5),
    )
}


def package_path(model: str, folder: Path) -> Path:
    """The weights of a model; `folder` holds those that `write_packages` made.

    Raises PackageError when MiniLM's are not installed.
    """
    if model == "mlp":
        return folder / "mlp.oinf"
    return find_weights() / "model.safetensors"


def write_packages(folder: Path) -> None:
    """Writes the MLP's package: seeded weights, scaled so that values keep their size."""
    random = np.random.default_rng(0)
    widths = [MLP["inputs"], MLP["hidden"], MLP["hidden"], MLP["classes"]]
    tensors: dict[str, Array] = {}
    for number, (wide, narrow) in enumerate(pairwise(widths), 1):
        weight = random.standard_normal((wide, narrow), np.float32)  # (inputs, outputs)
        tensors[f"W{number}"] = weight * np.float32(np.sqrt(2 / wide))
        tensors[f"b{number}"] = random.standard_normal(narrow, np.float32) * np.float32(0.1)
    oi.write_oinf(OinfContent(dict(MLP), {}, dict(tensors)), folder / "mlp.oinf")


def weights(model: str, folder: Path) -> dict[str, Array]:
    """All tensors of a model by name, as copies, for the peers."""
    with oi.open_model(package_path(model, folder)) as package:
        return {name: np.array(package.read(name)) for name in package.tensors}
