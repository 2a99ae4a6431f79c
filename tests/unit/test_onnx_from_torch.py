"""What PyTorch exports to ONNX computes what PyTorch does, at other shapes than the example's."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi

onnx = pytest.importorskip("onnx", reason="onnx is not installed (make oracle)")
torch = pytest.importorskip("torch", reason="PyTorch is not installed (make oracle)")
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Residual(nn.Module):
    """Convolutions with batch norms around a shortcut, pools, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.conv1, self.norm1 = nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.BatchNorm2d(16)
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = functional.max_pool2d(functional.relu(self.norm(self.stem(x))), 3, 2, 1)
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))
        return self.head(functional.adaptive_avg_pool2d(y, 1).flatten(1))


class Layer(nn.Module):
    """One layer of a transformer, its norms behind the sums, or before the products."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)

    def attend(self, x: Any, mask: Any) -> Any:
        batch, length, _ = x.shape
        parts = self.qkv(x).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        if self.causal:
            # Two heads of keys and values serve two heads of queries each.
            k, v = (
                one[:, :2, None].expand(batch, 2, 2, length, 4).reshape(batch, 4, length, 4)
                for one in (k, v)
            )
        a = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(a.transpose(1, 2).reshape(batch, length, 16))

    def forward(self, x: Any, mask: Any = None) -> Any:
        if self.causal:
            x = x + self.attend(self.norm1(x), mask)
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """BERT in small: words, places, layers under a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(64, 16)
        self.layers = nn.ModuleList(Layer(False) for _ in range(2))

    def forward(self, tokens: Any, mask: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        visible = mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, visible)
        return x


class Decoder(nn.Module):
    """GPT-2 in small: causal layers, scores by the table of words."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 16), nn.Embedding(64, 16)
        self.layers = nn.ModuleList(Layer(True) for _ in range(2))
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.words.weight.T


def ready(module: Any) -> Any:
    """With weights, norms and statistics that hide no mistake."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for one in module.parameters():
            one.add_(0.1 * torch.randn(one.shape, generator=generator))
        for name, one in module.named_buffers():
            if "running" in name:
                one.copy_(0.5 + torch.rand(one.shape, generator=generator))
    return module.eval()


def exported(
    module: Any, example: Sequence[Any], axes: Sequence[dict[int, str]], *, dynamo: bool
) -> Any:
    """The ModelProto of a module, by PyTorch's newer or older exporter."""
    names = [f"x{place}" for place in range(len(example))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            pytest.importorskip("onnxscript", reason="onnxscript is not installed (make oracle)")
            sizes = [{axis: torch.export.Dim(name) for axis, name in one.items()} for one in axes]
            program = torch.onnx.export(
                module,
                tuple(example),
                dynamo=True,
                dynamic_shapes=tuple(sizes),
                input_names=names,
                verbose=False,
            )
            return program.model_proto
        buffer = io.BytesIO()
        torch.onnx.export(
            module,
            tuple(example),
            buffer,
            dynamo=False,
            input_names=names,
            dynamic_axes=dict(zip(names, axes)),
        )
    return onnx.load_model_from_string(buffer.getvalue())


def agree(module: Any, model: Any, inputs: Sequence[Sequence[Any]]) -> str:
    """Compares both executors with PyTorch on each set of inputs; gives the text of the program."""
    graph, package = oi.from_onnx(model)
    names = [one.name for one in model.graph.input]
    for made in (oi.Simulator(graph, package), oi.compile(graph, package)):
        with made.make_executor() as executor:
            for given in inputs:
                with torch.no_grad():
                    want = module(*given).numpy()
                found = executor.run(**{name: one.numpy() for name, one in zip(names, given)})
                (result,) = (np.asarray(one) for one in found.values())
                np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())
    return str(graph)


def tokens(batch: int, length: int) -> Any:
    return torch.randint(0, 20, (batch, length), generator=torch.Generator().manual_seed(length))


def test_a_residual_network() -> None:
    module = ready(Residual())
    images = [torch.randn(batch, 3, 32, 32) for batch in (2, 1, 3)]
    model = exported(module, images[:1], [{0: "N"}], dynamo=False)
    agree(module, model, [(one,) for one in images])


def test_an_encoder() -> None:
    module = ready(Encoder())
    given: list[tuple[Any, Any]] = []
    for batch, length in ((2, 10), (1, 7), (3, 33)):
        mask = torch.ones(batch, length, dtype=torch.long)
        mask[0, length // 2 :] = 0
        given.append((tokens(batch, length), mask))
    model = exported(module, given[0], [{0: "B", 1: "L"}] * 2, dynamo=False)
    text = agree(module, model, given)
    assert "in 0..2" in text, "both layers are one loop"


def test_a_decoder() -> None:
    module = ready(Decoder())
    given = [(tokens(batch, length),) for batch, length in ((2, 10), (1, 7), (3, 33))]
    text = agree(module, exported(module, given[0], [{0: "B", 1: "L"}], dynamo=True), given)
    assert "[B, L]" in text
    assert "causal=true" in text
    assert "softmax" not in text
    assert "expand" not in text, "attention repeats heads itself"


def test_groups_of_channels() -> None:
    module = ready(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU()))
    images = [torch.randn(batch, 3, height, 6) for batch, height in ((2, 6), (1, 9), (3, 5))]
    model = exported(module, images[:1], [{0: "N", 2: "H"}], dynamo=True)
    text = agree(module, model, [(one,) for one in images])
    assert "group_norm" in text
    assert "reshape" not in text
