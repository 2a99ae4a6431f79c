"""`torch.compile(module, backend="openinfer")` as users call it: shapes, views, writes in place, options."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from torch_imports import torch

from openinfer.compiler.importers.torch.backend import openinfer as backend
from openinfer.runtime.errors import InputError, UnsupportedError

nn: Any = torch.nn
F: Any = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def agree(module: Any, *inputs: Sequence[Any], **options: Any) -> None:
    """Both give the same results, and leave the same inputs and state, call by call."""
    ours, theirs = copy.deepcopy(module), copy.deepcopy(module)
    compiled = torch.compile(ours, backend=backend, **options)
    with torch.no_grad():
        for given in inputs:
            one, other = given, copy.deepcopy(given)
            torch.testing.assert_close(compiled(*one), theirs(*other))
            torch.testing.assert_close(one, other)
            if isinstance(module, nn.Module):
                torch.testing.assert_close(ours.state_dict(), theirs.state_dict())


def test_torch_compile() -> None:
    """By the entry point, at sizes that vary, with weights that change, with a result that is a size."""

    class Sized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return F.relu(self.layer(x)), x.shape[0], None

    module = Sized().eval()
    if "openinfer" not in torch.compiler.list_backends():
        pytest.skip("this installation of openinfer has no entry points: pip install -e .")
    compiled = torch.compile(module, backend="openinfer")
    with torch.no_grad():
        for rows in (2, 5, 6, 1):
            x = torch.randn(rows, 4)
            found, count, nothing = compiled(x)
            torch.testing.assert_close(found, module(x)[0])
            assert (count, nothing) == (rows, None)
        module.layer.weight.mul_(2)
        torch.testing.assert_close(compiled(x)[0], module(x)[0])
    with pytest.raises(InputError) as caught:
        compiled(torch.randn(2, 4, requires_grad=True))
    assert caught.value.code == "OI1506"


@pytest.mark.parametrize("dynamic", [None, True])
def test_shapes_and_strides(dynamic: bool | None) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    wide = torch.randn(6, 9)
    shapes = [(torch.randn(n, 4),) for n in (3, 5, 1, 0)]
    agree(
        module,
        *shapes,
        (wide[::2, 1:5],),
        (wide[:, ::2][:, :4],),
        (torch.randn(2, 3, 4),),
        dynamic=dynamic,
    )


def test_numbers_of_a_call() -> None:
    """An integer is a size or a number that the program is made for, a float is an operand."""
    x = torch.randn(9)
    agree(lambda x, n, s: (x[:n] * s, n + 1), *[(x, n, n / 7) for n in (2, 3, 4)])


def test_floats_that_decide() -> None:
    """With `dynamic=True` an epsilon comes as a tensor: the program is made for it, and not for a factor."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4)

        def forward(self, x: Any, factor: float) -> Any:
            return self.norm(x) * factor

    calls = [(torch.randn(n, 4), factor) for n, factor in ((3, 0.5), (5, 2.5), (2, 0.5))]
    agree(Scaled().eval(), *calls, dynamic=True)


@pytest.mark.parametrize("first", [False, True])
def test_encoder_layers(first: bool) -> None:
    """Without gradients PyTorch has one op for a layer."""

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(
                8, 2, 12, batch_first=True, norm_first=first, activation="gelu" if first else "relu"
            )
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, x: Any, places: Any, padding: Any) -> Any:
            both = self.encoder(x, mask=places, src_key_padding_mask=padding)
            return self.encoder(x), self.encoder(x, places), both

    x = torch.randn(2, 4, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    padding = torch.tensor([[False, False, True, True], [False, False, False, True]])
    agree(Encoder().eval(), (x, causal, padding))


def test_dtypes_of_results() -> None:
    agree(
        lambda x: (
            x.argmax(-1),
            x.topk(2).indices,
            x > 0,
            x.to(torch.int8),
            x.half(),
            x.shape[0],
            None,
        ),
        (torch.randn(3, 5),),
    )
    agree(nn.Linear(4, 3).bfloat16().eval(), (torch.randn(2, 4).bfloat16(),))


def test_a_graph_that_breaks() -> None:
    def broken(x: Any) -> Any:
        y = F.relu(x + 1)
        torch._dynamo.graph_break()
        return y * 2 if y.sum() > 0 else y - 1

    agree(broken, (torch.ones(3, 2),), (-torch.ones(3, 2),))


class Written(nn.Module):
    """Writes a buffer, its batch norm's statistics, and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("rows", torch.zeros(4, 3))

    def forward(self, x: Any, place: Any) -> Any:
        x.mul_(2)
        self.rows.index_copy_(0, place, x)
        return self.norm(x), self.rows.sum(0)


def test_what_is_written_in_place() -> None:
    given = [(torch.randn(2, 3), torch.tensor([n, 3 - n])) for n in (0, 1)]
    agree(Written().train(), *given)


def test_results_that_are_views_of_inputs() -> None:
    class Views(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3, 4))

        def forward(self, x: Any) -> Any:
            x.add_(1)
            return x.view(-1)[1:3], x, self.w.t(), x.sum()

    module = Views()
    x = torch.randn(2, 3)
    agree(module, (x,), (torch.randn(4, 5),))
    compiled = torch.compile(module, backend=backend)
    with torch.no_grad():
        part, same, weight, _ = compiled(x)
        part.zero_()
        weight.zero_()
    assert same is x
    assert float(x.flatten()[1:3].abs().sum()) == 0
    assert float(module.w.detach().abs().sum()) == 0


def test_inputs_in_one_memory_are_not_written() -> None:
    def write(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    x = torch.randn(4)
    with pytest.raises(UnsupportedError, match="shares its memory") as caught:
        torch.compile(write, backend=backend)(x, x.view(2, 2))
    assert caught.value.code == "OI1500"


def test_options() -> None:
    module = nn.Linear(4, 3).eval()
    agree(
        module, (torch.randn(2, 4),), options={"device": "cpu", "threads": 1, "strict_math": True}
    )
    agree(module, (torch.randn(2, 4),), mode="max-autotune")
    with pytest.raises(InputError, match="'devise'") as option:
        backend(None, (), options={"devise": "cpu"})
    with pytest.raises(InputError, match="'fastest'") as mode:
        backend(None, (), mode="fastest")
    assert (option.value.code, mode.value.code) == ("OI1509", "OI1509")
    with pytest.raises(UnsupportedError) as unknown:
        backend(None, (), options={"device": "abacus"})
    assert unknown.value.code == "OI0730"


def test_dropout_in_training_is_refused() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    with torch.no_grad(), pytest.raises(UnsupportedError, match=r"\.eval\(\)") as caught:
        torch.compile(module, backend=backend)(torch.randn(2, 4))
    assert caught.value.code == "OI1500"
