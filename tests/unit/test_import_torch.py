"""Modules of PyTorch as programs: traps of exports, state, control flow and refusals."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from torch_imports import Function, assert_same, check, ops_of, torch

import openinfer as oi
from openinfer.compiler.importers.torch.export import import_module
from openinfer.compiler.importers.torch.places import provenance_of_node
from openinfer.runtime.errors import InputError, OpenInferError, UnsupportedError

nn, F = torch.nn, torch.nn.functional


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 4)
        self.head = nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        return {"logits": self.head(self.embedding(x)), "hidden": self.embedding(x)}


def test_tied_weights_are_one_tensor_and_borrowed() -> None:
    module = Tied()
    imported = check(module, {"x": torch.arange(4)}, {"x": ("L",)}, [{"x": torch.arange(7)}])
    assert list(imported.tensors) == ["embedding.weight"]
    assert np.shares_memory(imported.tensors["embedding.weight"], module.embedding.weight.detach())
    graph, package = oi.from_torch(module, (torch.arange(4),), {"x": ("L",)})
    assert "return logits, hidden" in str(graph)
    assert package.tensors["embedding.weight"].shape == (9, 4)


class Counter(nn.Module):
    """State: a step counter, and a cache that each step writes a row of."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.tensor(2))
        self.register_buffer("rows", torch.zeros(6, 3))

    def forward(self, x: Any) -> Any:
        self.rows.index_copy_(0, self.steps[None], x[None])
        self.steps.add_(1)
        return self.rows.sum(0) * self.steps


def test_buffers_that_the_module_writes_are_state() -> None:
    module = Counter()
    graph, package = oi.from_torch(module, (torch.zeros(3),))
    assert "persistent {" in str(graph)
    executors = [
        oi.Simulator(graph, package).make_executor(),
        oi.compile(graph, package).make_executor(),
    ]
    for step in range(3):
        x = torch.full((3,), float(step + 1))
        want = module(x).numpy()
        for executor in executors:
            (found,) = executor.run(x=x.numpy()).values()
            np.testing.assert_allclose(found, want)


def test_running_statistics_of_training_are_state() -> None:
    module = nn.BatchNorm1d(4)
    graph, package = oi.from_torch(module, (torch.randn(5, 4),), {"input": ("B",)})
    executor = oi.Simulator(graph, package).make_executor()
    module.eval()
    fresh = nn.BatchNorm1d(4)
    for rows in (5, 3):
        x = torch.randn(rows, 4)
        (found,) = executor.run(input=x.numpy()).values()
        np.testing.assert_allclose(found, fresh(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def branches(x: Any, y: Any) -> Any:
    return torch.cond(
        x.sum() > 0, lambda a, b: (a.sin(), b * 3), lambda a, b: (a * 2, a + b), (x, y)
    )


def loops(x: Any, y: Any) -> Any:
    from torch._higher_order_ops import map as map_rows  # pyright: ignore
    from torch._higher_order_ops import scan, while_loop  # pyright: ignore

    last, rows = scan(lambda c, a: (c + a, c * a), torch.zeros(3), x)
    powers = while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 1.5), (torch.tensor(2), y))
    mapped = map_rows(lambda a, b: a.sin() + b, x, y.sum(0))
    return last, rows, powers[0], powers[1], mapped


@pytest.mark.parametrize("function", [branches, loops])
def test_control_flow(function: Any) -> None:
    pair = {"x": torch.randn(2, 3), "y": torch.rand(2, 3)}
    other = {"x": -torch.ones(4, 3), "y": torch.rand(4, 3)}
    check(Function(function), pair, {"x": ("B",), "y": ("B",)}, [other])


def uncounted(x: Any, y: Any) -> Any:
    from torch._higher_order_ops import while_loop  # pyright: ignore

    return while_loop(lambda a: a.sum() < 5, lambda a: (a * 1.5,), (x,))


def unknown(x: Any, y: Any) -> Any:
    first = torch.linalg.solve(x, y)
    second = torch.linalg.solve(y, first)
    return second + torch.rand(3, 3), x[x > 0], F.dropout(x, 0.5), x.to(torch.complex64)


def test_a_size_that_the_export_fixed_is_refused() -> None:
    """PyTorch takes a size that became 1 in the example for the number 1."""
    module = nn.Sequential(
        nn.Conv2d(1, 1, 3, stride=2, padding=1), nn.Conv2d(1, 1, 3, stride=2), nn.BatchNorm2d(1)
    ).eval()
    with pytest.raises(UnsupportedError, match=r"fixed a size of its result, f32\[B, 1, 1, 1\]"):
        oi.from_torch(module, (torch.randn(2, 1, 6, 6),), {"input": ("B", None, "H", "W")})


def test_all_refusals_come_at_once_with_their_lines() -> None:
    pair = (torch.rand(3, 3), torch.rand(3, 3))
    with pytest.raises(UnsupportedError) as caught:
        oi.from_torch(Function(unknown), pair)
    text = caught.value.message
    assert caught.value.code == "OI1500"
    assert "2 x aten._linalg_solve_ex" in text
    assert "aten.rand: a result that is random" in text
    assert "the size of its result depends on data" in text
    assert "complex64 is no dtype" in text or "complex64, which is no dtype" in text
    assert ".eval()" in text
    assert "torch_imports.py:" in text
    with pytest.raises(UnsupportedError, match="rounds is not known"):
        oi.from_torch(Function(uncounted), pair)


def test_sources_beside_pytorch_are_the_users() -> None:
    """torchvision lies in a folder whose name begins as that of PyTorch does."""
    folder = Path(torch.__file__).parent
    trace = f'  File "{folder}vision/net.py", line 7, in forward\n    y = self.relu(x)\n'
    trace += f'  File "{folder / "nn" / "relu.py"}", line 3, in forward\n    z = relu(x)\n'
    node = SimpleNamespace(meta={"stack_trace": trace}, target="aten.relu.default")
    found = provenance_of_node(node)
    assert (found.file, found.line) == (f"{folder}vision/net.py", 7)
    assert found.variable == "y"


def test_a_constant_that_is_written_is_refused() -> None:
    class Cached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache = torch.zeros(3)

        def forward(self, x: Any) -> Any:
            return self.cache.add_(x) * 2

    with pytest.raises(OpenInferError, match=r"no buffer of the module|refuses Cached"):
        oi.from_torch(Cached(), (torch.ones(3),))


@pytest.mark.parametrize(
    ("dynamic", "example", "reason"),
    [
        ({"z": ("B",)}, torch.rand(2, 3), "no input|does not have"),
        ({"x": ("B", "N", "M")}, torch.rand(2, 3), "names 3 axes of x, which has 2"),
        ({"x": ("B",)}, torch.rand(1, 3), "could not vary"),
        ({"x": ("B", "N")}, torch.rand(2, 3), "N cannot vary"),
        ({"x": ("B C",)}, torch.rand(2, 3), "no name of an axis"),
    ],
)
def test_sizes_that_contradict_the_module(dynamic: Any, example: Any, reason: str) -> None:
    class Fixed(nn.Module):
        def forward(self, x: Any) -> Any:
            return x @ torch.ones(3, 2)

    with pytest.raises(InputError, match=reason) as caught:
        oi.from_torch(Fixed(), (example,), dynamic)
    assert caught.value.code == "OI1503"


def test_what_is_no_module() -> None:
    for given, example in ((3, ()), (nn.ReLU(), None), (nn.ReLU(), ())):
        with pytest.raises(InputError) as caught:
            oi.from_torch(given, example)
        assert caught.value.code == "OI1504"


def test_names_of_results_and_sizes() -> None:
    class Named(nn.Module):
        def forward(self, x: Any) -> Any:
            return {"f16": x * 2, "x": x + 1, "B": x.shape[0], "none": None}

    imported = import_module(Named(), (torch.ones(3, 2),), {"x": ("B",)})
    graph, package = oi.from_torch(Named(), (torch.ones(3, 2),), {"x": ("B",)})
    found = oi.Simulator(graph, package).make_executor().run(x=np.ones((5, 2), np.float32))
    assert list(found) == ["f16_out", "x_out", "B_out"]
    assert found["B_out"] == 5
    assert "reshape" not in ops_of(imported)


def test_narrow_floats_stay() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU()).to(torch.bfloat16)
    imported = check(module, {"input": torch.randn(2, 3).bfloat16()}, tolerance=1e-2)
    assert imported.tensors["0.weight"].dtype.name == "bf16"


def test_an_exported_program_names_sizes_by_their_place() -> None:
    auto = torch.export.Dim.AUTO
    exported = torch.export.export(
        Function(lambda x, y: x * 2 + y),
        (torch.randn(4, 3), torch.randn(3)),
        dynamic_shapes={"x": {0: auto, 1: auto}, "y": {0: auto}},
    )
    graph, _ = oi.from_torch(exported)
    assert "x: f32[B, L];" in str(graph)
    assert "y: f32[L];" in str(graph)


class _Positions(torch.nn.Module):
    """Takes up to 12 tokens; from 9 on it does something else."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.places = torch.nn.Parameter(torch.randn(12, 4))

    def forward(self, x: Any) -> Any:
        y = x + self.places[: x.shape[1]]
        return torch.sin(y) if x.shape[1] > 8 else torch.cos(y)


@pytest.mark.parametrize(
    ("axis", "example", "bound"),
    [
        ("L", 5, "size L <= 8;"),
        ("L", 10, "size 9 <= L <= 12;"),
        (("L", 1, None), 5, "size 1 <= L <= 8;"),
        (("L", 2, 6), 5, "size 2 <= L <= 6;"),
        (("L", None, 512), 5, "size L <= 8;"),
    ],
)
def test_bounds_of_sizes(axis: Any, example: int, bound: str) -> None:
    module, x = _Positions().eval(), torch.randn(2, example, 4)
    graph, package = oi.from_torch(module, (x,), dynamic={"x": ("B", axis)})
    assert [line for line in str(graph).splitlines() if line.startswith("size")] == [bound]
    with oi.Simulator(graph, package).make_executor() as executor:
        assert_same(executor.run(x=x.numpy())["output"], module(x).detach().numpy(), bound)
        with pytest.raises(oi.StepError, match="OI0612"):
            executor.run(x=np.zeros((2, 1 if example == 10 else 9, 4), np.float32))


def test_a_dim_of_pytorch_bounds_a_size() -> None:
    axis = torch.export.Dim("L", min=2, max=6)
    graph, _ = oi.from_torch(
        torch.nn.ReLU(), (torch.ones(2, 5),), dynamic={"input": {1: axis, 0: "B"}}
    )
    assert "size 2 <= L <= 6;" in str(graph)
    free = torch.export.Dim("L")
    graph, _ = oi.from_torch(torch.nn.ReLU(), (torch.ones(2, 5),), dynamic={"input": {1: free}})
    assert "size" not in str(graph)


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (("L", 1), r"\('L', 1\) is no axis with limits"),
        (("L", -1, 4), "is no axis with limits"),
        (("L", 1, 4.5), "is no axis with limits"),
        (("L", 7, 4), "L is to be at least 7 and at most 4"),
        (("L", 6, 9), r"axis 1 of the example x is 5 long, and L is to be 6\.\.9"),
        (("L", None, 4), r"and L is to be \.\.4"),
        (("1", 1, 9), "is no name of an axis"),
    ],
)
def test_bounds_that_mean_nothing(axis: Any, message: str) -> None:
    with pytest.raises(oi.InputError, match=f"OI1503.*{message}"):
        oi.from_torch(_Positions(), (torch.ones(2, 5, 4),), dynamic={"x": ("B", axis)})
