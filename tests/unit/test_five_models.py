"""Five models as somebody writes them who comes from PyTorch: `tests/models/`, held against eager PyTorch.

Each program takes the `state_dict` of the module here as it is, weights from memory under PyTorch's
names; one compilation serves every shape. `tests/models/before/` has the same five in the long form, without
what the language has learned since; `docs/from-pytorch.md` compares their lengths.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.executor import BaseExecutor

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: scripts/install-extras.sh")
nn: Any = torch.nn

Array = np.ndarray[Any, Any]
TOLERANCE = 4e-6
"""Largest error of a model, as a part of its largest result."""


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 48)
        self.hidden = nn.ModuleList([nn.Linear(48, 48) for _ in range(2)])
        self.last = nn.Linear(48, 7)

    def forward(self, x: Any) -> Any:
        h = self.first(x).relu()
        for layer in self.hidden:
            h = nn.functional.gelu(layer(h))
        return self.last(h).softmax(-1)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 12, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(12)
        self.conv2 = nn.Conv2d(12, 24, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(24)
        self.head = nn.Linear(96, 5)

    def forward(self, image: Any) -> Any:
        h = nn.functional.max_pool2d(self.bn1(self.conv1(image)).relu(), 2)
        h = self.bn2(self.conv2(h)).relu()
        return self.head(nn.functional.adaptive_avg_pool2d(h, 2).flatten(1))


class GRU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(10, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, x: Any) -> Any:
        states, end = self.gru(x)
        return self.head(end[-1]), states


class Layer(nn.Module):
    """One layer of the GPT: attention over everything up to each token, then the MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(48), nn.LayerNorm(48)
        self.c_attn, self.c_proj = nn.Linear(48, 144), nn.Linear(48, 48)
        self.up, self.down = nn.Linear(48, 192), nn.Linear(192, 48)

    def forward(self, h: Any) -> Any:
        parts = self.c_attn(self.ln_1(h)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (4, 12)).transpose(0, 1) for part in parts)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.c_proj(a.transpose(0, 1).flatten(1))
        return h + self.down(nn.functional.gelu(self.up(self.ln_2(h)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(61, 48), nn.Embedding(32, 48)
        self.h = nn.ModuleList([Layer() for _ in range(2)])
        self.ln_f = nn.LayerNorm(48)

    def forward(self, tokens: Any) -> Any:
        h = self.wte(tokens) + self.wpe.weight[: len(tokens)]
        for layer in self.h:
            h = layer(h)
        return self.ln_f(h) @ self.wte.weight.T


class Block(nn.Module):
    """One layer of CLIP's text tower."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(40), nn.LayerNorm(40)
        self.attn = nn.MultiheadAttention(40, 5, batch_first=True)
        self.c_fc, self.c_proj = nn.Linear(40, 160), nn.Linear(160, 40)

    def forward(self, h: Any) -> Any:
        n = self.ln_1(h)
        later = torch.ones(n.shape[1], n.shape[1], dtype=torch.bool).triu(1)
        h = h + self.attn(n, n, n, need_weights=False, attn_mask=later)[0]
        f = self.c_fc(self.ln_2(h))
        return h + self.c_proj(f * torch.sigmoid(1.702 * f))


class TextTower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(97, 40)
        self.positional_embedding = nn.Parameter(torch.randn(16, 40))
        self.resblocks = nn.ModuleList([Block() for _ in range(2)])
        self.ln_final = nn.LayerNorm(40)
        self.text_projection = nn.Parameter(torch.randn(40, 24))

    def forward(self, tokens: Any) -> Any:
        h = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        for block in self.resblocks:
            h = block(h)
        e = self.ln_final(h[torch.arange(len(tokens)), tokens.argmax(-1)])
        return nn.functional.normalize(e @ self.text_projection, dim=-1)


def seeded(kind: Any) -> Any:
    """A module of random weights, the same each time; no norm or bias is left at ones or zeros."""
    torch.manual_seed(14)
    module = kind().eval()
    for name, tensor in module.state_dict().items():
        if tensor.dim() == 1 and tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5) if name.endswith("running_var") else tensor.add_(
                torch.randn_like(tensor), alpha=0.2
            )
    return module


SIZES = {
    "mlp": {"layers": 2},
    "gpt": {"layers": 2, "heads": 4},
    "clip_text": {"layers": 2, "heads": 5},
}
"""What the long forms must be told: a program could not define sizes."""


def executors(repository: Path, name: str, module: Any) -> list[BaseExecutor]:
    """The simulator and the compiled program, both on the weights that the module holds, and the simulator on
    the long form."""
    folder = repository / "tests" / "models"
    graph, before = (oi.graph_file(at / f"{name}.oi") for at in (folder, folder / "before"))
    weights = module.state_dict()
    program, simulator = oi.compile(graph, weights, strict=True), oi.Simulator(graph, weights)
    long = oi.Simulator(before, weights, sizes=SIZES.get(name), strict=True)
    return [simulator.make_executor(), program.make_executor(1), long.make_executor()]


def close(found: Any, expected: Any) -> None:
    """Every element within `TOLERANCE` of the largest one."""
    expected = expected.numpy()
    assert found.shape == expected.shape
    bound = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


def texts(count: int, length: int) -> Any:
    """Token numbers of texts that end, with 96, at different places."""
    tokens = torch.randint(1, 96, (count, length))
    for row in range(count):
        tokens[row, length - 1 - row :] = 0
        tokens[row, length - 1 - row] = 96
    return tokens


MODELS: dict[str, tuple[Any, str, list[Any]]] = {
    "mlp": (MLP, "x", [lambda: torch.randn(3, 20), lambda: torch.randn(17, 20)]),
    "convolutions": (
        Convolutions,
        "image",
        [lambda: torch.randn(2, 3, 16, 16), lambda: torch.randn(1, 3, 21, 14)],
    ),
    "gru": (GRU, "x", [lambda: torch.randn(3, 6, 10), lambda: torch.randn(1, 19, 10)]),
    "clip_text": (TextTower, "tokens", [lambda: texts(4, 9), lambda: texts(1, 16)]),
}


@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_pytorch(repository: Path, name: str) -> None:
    kind, operand, draws = MODELS[name]
    with torch.inference_mode():
        module = seeded(kind)
        inputs = [draw() for draw in draws]
        results = [module(value) for value in inputs]
    for executor in executors(repository, name, module):
        for value, expected in zip(inputs, results):
            found = executor.run(**{operand: value})
            several = expected if isinstance(expected, tuple) else (expected,)
            for one, other in zip(found.values(), several, strict=True):
                close(one, other)


@pytest.mark.parametrize("prompt", [1, 13])
def test_gpt_with_its_cache_is_the_gpt_without(repository: Path, prompt: int) -> None:
    """A prompt in one step, then eight tokens one by one, against all of them in one pass of PyTorch."""
    with torch.inference_mode():
        module = seeded(GPT)
        tokens = torch.randint(0, 61, (prompt + 8,))
        expected = module(tokens)
    for executor in executors(repository, "gpt", module):
        ends = [prompt, *range(prompt + 1, prompt + 9)]
        parts = [
            executor.run(tokens=tokens[start:stop])["scores"]
            for start, stop in zip([0, *ends], ends)
        ]
        close(np.concatenate(parts), expected)


def test_the_page_counts_the_lines(repository: Path) -> None:
    """The table of `docs/from-pytorch.md`; long forms use nothing that they are said to do without."""
    page = (repository / "docs" / "from-pytorch.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[.*\]\(\.\./tests/models/(\w+)\.oi\) \| (\d+) \| (\d+) \|", page, re.M)
    assert {name for name, _, _ in rows} == {*MODELS, "gpt"}
    folder = repository / "tests" / "models"
    for name, *listed in rows:
        before, now = ((at / f"{name}.oi").read_text() for at in (folder / "before", folder))
        assert [len(before.splitlines()), len(now.splitlines())] == [int(n) for n in listed], name
        assert not re.search(r"= op|= cache|linear\(|heads=|^size|\(\w+, \d", before, re.M), name


def test_the_python_of_the_page(repository: Path) -> None:
    page = (repository / "docs" / "from-pytorch.md").read_text(encoding="utf-8")
    (piece,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    with torch.inference_mode():
        exec(compile(piece, "docs/from-pytorch.md", "exec"), {"__name__": "page"})
