"""Trains the weights of `mlp.oi`, `cnn.oi` and `vit.oi` on handwritten digits, a minute on one CPU.

    pip install torch==2.13.0 scikit-learn
    python -m examples.train_digits [NAME …]

Writes `mlp.oinf`, `cnn.oinf`, `vit.oinf`, and `digits.csv` with 100 images that the training did not see
(8 x 8 pixels of 0 to 16, then the digit). The images are the UCI "Optical Recognition of
Handwritten Digits" test set (E. Alpaydin, C. Kaynak, 1998; CC BY 4.0), which scikit-learn carries.
Only this file needs PyTorch; the examples read its results.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent

HERE = Path(__file__).resolve().parent
TRAINED = 1500
KEPT = 100


class Mlp(nn.Module):
    """`mlp.oi` without its softmax."""

    def __init__(self, inputs: int = 64, hidden: int = 128, classes: int = 10) -> None:
        super().__init__()
        self.sizes = {"inputs": inputs, "hidden": hidden, "classes": classes}
        self.layers = nn.ModuleList(
            [nn.Linear(inputs, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, classes)]
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:  # (batch, 8, 8) -> (batch, classes)
        h = images.flatten(1)
        for layer in self.layers[:-1]:
            h = F.relu(layer(h))
        return self.layers[-1](h)

    def content(self) -> OinfContent:
        tensors: dict[str, Any] = {}
        for number, layer in enumerate(self.layers, 1):
            tensors[f"W{number}"] = weight(layer)
            tensors[f"b{number}"] = array(layer.bias)
        return OinfContent(self.sizes, {}, tensors)


class Cnn(nn.Module):
    """`cnn.oi` without its softmax."""

    def __init__(self, channels: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.sizes = {"channels": channels, "classes": classes}
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, 3, padding=1)
        self.classify = nn.Linear(8 * channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:  # (batch, 8, 8) -> (batch, classes)
        h = F.max_pool2d(F.relu(self.first(images[:, None])), 2)
        h = F.max_pool2d(F.relu(self.second(h)), 2)
        return self.classify(h.flatten(1))

    def content(self) -> OinfContent:
        tensors: dict[str, Any] = {
            "W1": array(self.first.weight),
            "b1": array(self.first.bias),
            "W2": array(self.second.weight),
            "b2": array(self.second.bias),
            "Wc": weight(self.classify),
            "bc": array(self.classify.bias),
        }
        return OinfContent(self.sizes, {}, tensors)


class Layer(nn.Module):
    """One layer of `vit.oi`."""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, h: torch.Tensor) -> torch.Tensor:  # (batch, tokens, dim)
        batch, tokens, dim = h.shape
        n = self.norm1(h)
        q, k, v = (
            part(n).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = F.scaled_dot_product_attention(q, k, v)  # (batch, heads, tokens, size)
        h = h + self.output(seen.transpose(1, 2).reshape(batch, tokens, dim))
        return h + self.down(F.gelu(self.up(self.norm2(h))))


class Vit(nn.Module):
    """`vit.oi` without its softmax."""

    def __init__(
        self,
        grid: int = 4,
        patch: int = 2,
        dim: int = 32,
        heads: int = 4,
        layers: int = 3,
        hidden: int = 128,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.sizes = {
            "grid": grid,
            "patch": patch,
            "dim": dim,
            "heads": heads,
            "layers": layers,
            "hidden": hidden,
            "classes": classes,
        }
        self.embed = nn.Linear(patch * patch, dim)
        self.places = nn.Parameter(torch.randn(grid * grid, dim) * 0.1)
        self.layers = nn.ModuleList([Layer(dim, heads, hidden) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.classify = nn.Linear(dim, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:  # (batch, 8, 8) -> (batch, classes)
        grid, patch = self.sizes["grid"], self.sizes["patch"]
        patches = images.view(-1, grid, patch, grid, patch).transpose(2, 3)
        h = self.embed(patches.reshape(-1, grid * grid, patch * patch)) + self.places
        for layer in self.layers:
            h = layer(h)
        return self.classify(self.norm(h).mean(1))

    def content(self) -> OinfContent:
        tensors: dict[str, Any] = {
            "Wp": weight(self.embed),
            "bp": array(self.embed.bias),
            "places": array(self.places),
            "norm_w": array(self.norm.weight),
            "norm_b": array(self.norm.bias),
            "Wc": weight(self.classify),
            "bc": array(self.classify.bias),
        }
        for number, layer in enumerate(self.layers):
            for name, part in layer.named_children():
                values = weight(part) if isinstance(part, nn.Linear) else array(part.weight)
                tensors[f"layers.{number}.{name}.weight"] = values
                tensors[f"layers.{number}.{name}.bias"] = array(part.bias)
        size = self.sizes["dim"] // self.sizes["heads"]
        scale = oi.ScalarValue(size**-0.5, "f32")
        return OinfContent(self.sizes, {"scale": scale}, tensors)


def array(values: Any) -> np.ndarray[Any, Any]:
    """The numbers of a parameter."""
    return values.detach().numpy()


def weight(layer: Any) -> np.ndarray[Any, Any]:
    """A layer's weights as the programs multiply: (inputs, outputs)."""
    return np.ascontiguousarray(array(layer.weight).T)


def shifted(images: torch.Tensor) -> torch.Tensor:
    """The images moved by up to one pixel, so that the model learns shapes, not places."""
    padded = F.pad(images, (1, 1, 1, 1))
    row, column = torch.randint(0, 3, (2,)).tolist()
    return padded[:, row : row + 8, column : column + 8]


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Adam with a falling rate on shuffled batches of 50."""
    steps = epochs * (len(images) // 50)
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.02)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(images)).split(50):
            optimiser.zero_grad()
            loss = F.cross_entropy(model(shifted(images[chosen])), labels[chosen])
            loss.backward()
            optimiser.step()
            rate.step()


def main() -> None:
    torch.set_num_threads(1)
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    pixels, answers = digits.images[order], digits.target[order]
    images = torch.tensor(pixels / 16, dtype=torch.float32)
    labels = torch.tensor(answers)
    wanted = sys.argv[1:] or ["mlp", "cnn", "vit"]
    for name, make, epochs in (("mlp", Mlp, 40), ("cnn", Cnn, 60), ("vit", Vit, 60)):
        if name not in wanted:
            continue
        torch.manual_seed(0)
        model = make()
        train(model, images[:TRAINED], labels[:TRAINED], epochs)
        with torch.no_grad():
            right = (model(images[TRAINED:]).argmax(1) == labels[TRAINED:]).float().mean()
        print(f"{name}: {right:.1%} of {len(images) - TRAINED} unseen digits")
        oi.write_oinf(model.content(), HERE / f"{name}.oinf")
    rows = np.column_stack([pixels.reshape(-1, 64), answers])[TRAINED : TRAINED + KEPT]
    np.savetxt(HERE / "digits.csv", rows, fmt="%d", delimiter=",")


if __name__ == "__main__":
    main()
