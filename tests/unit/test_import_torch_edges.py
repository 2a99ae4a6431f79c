"""ATen's ops where PyTorch has a rule of its own: quotients rounded down, infinities and NaN, places that are
counted from the end, operands that broadcast."""

from __future__ import annotations

from typing import Any

from torch_imports import Function, check, torch

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")


def odd_numbers(x: Any, y: Any) -> dict[str, Any]:
    bounds = torch.tensor([-1.0, 0.0, 1.0])
    return {
        "down": x // y,
        "down_by_tenths": x // 0.1,
        "down_by_negative": torch.div(x, -0.3, rounding_mode="floor"),
        "down_by_halves": x // 0.5,
        "down_by_nothing": torch.div(x, 0.0, rounding_mode="floor"),
        "number_down": 1.0 // y,
        "logs_added": torch.logaddexp(x, y),
        "logs_of_equal": torch.logaddexp(x, x),
        "threshold": F.threshold(x, 0.1, 20.0),
        "hard": F.hardsigmoid(x),
        "positive": x.clamp(min=0),
        "limited": x.clamp(0, 2),
        "buckets": torch.bucketize(x, bounds),
        "buckets_right": torch.bucketize(x, bounds, right=True),
    }


def test_odd_numbers() -> None:
    x = torch.tensor([1.0, 2.0, 0.3, -1.0, 7.0, -7.0, 5.0, -5.0, 1.0, INF, -INF, INF, NAN])
    y = torch.tensor([0.1, -0.1, 0.1, 0.1, INF, INF, 0.0, 0.0, -INF, INF, -INF, 2.0, 1.0])
    check(Function(odd_numbers), {"x": x, "y": y})


def sampled(x: Any, y: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            corners = padding == "border"
            read = F.grid_sample(x, y, mode, padding, align_corners=corners)
            found[f"{mode}_{padding}"] = read
    return found


def test_samples_of_a_grid() -> None:
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(2, 3, 4, 5, generator=generator)
    grid = torch.randn(2, 3, 3, 2, generator=generator)
    check(Function(sampled), {"x": x, "y": grid}, compiled=False, tolerance=2e-5)


def places(x: Any, y: Any) -> dict[str, Any]:
    index = torch.tensor([[3, 0, 2]])
    return {
        "chosen_for_all": torch.take_along_dim(x, index, 1),
        "chosen_of_one": torch.take_along_dim(y, torch.tensor([[3, 0], [1, 1]]), 1),
        "chosen_of_all": torch.take_along_dim(x, torch.tensor([5, 0]), None),
        "second_from_the_end": x[:, -5::2],
        "third_from_the_end": x[:, -6:-1:3],
        "last_two": torch.narrow(x, 1, -2, 2) * 2,
    }


def test_places() -> None:
    generator = torch.Generator().manual_seed(5)
    x, y = (torch.randn(rows, 6, generator=generator) for rows in (3, 1))
    check(Function(places), {"x": x, "y": y})


def powers(x: Any, y: Any) -> dict[str, Any]:
    return {
        "whole_log2": torch.log2(x).floor(),
        "whole_log10": torch.log10(y).floor(),
        "exp2": torch.exp2(torch.log2(x)).long(),
        "narrow": torch.exp2(torch.log2(x).bfloat16() / 2),
        "tails": torch.erfc(torch.log2(x) / 4) * x,
    }


def test_powers_are_exact() -> None:
    """Rounded in the middle, `floor(log2(8192))` was 12."""
    x, y = 2.0 ** torch.arange(30), 10.0 ** torch.arange(30)
    check(Function(powers), {"x": x, "y": y})


def strided(x: Any, y: Any) -> dict[str, Any]:
    table = torch.zeros(x.shape[0], 12)
    table[:, 0::2] = x.sin()
    table[:, 1::2] = x.cos()
    rows = x.clone()
    rows[1::3] = y
    rows[-1, ::5] += 7
    return {"table": table, "rows": rows}


def test_writes_with_a_step() -> None:
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(7, 6, generator=generator)
    check(Function(strided), {"x": x, "y": torch.ones(2, 6)})


def test_places_from_an_open_end() -> None:
    """As many elements as steps fit, wherever the axis ends."""

    def last(x: Any, y: Any) -> Any:
        return x[-5::2] + y

    given = [{"x": torch.arange(2.0 * n).view(n, 2), "y": torch.ones(2)} for n in (8, 5, 11)]
    check(Function(last), given[0], {"x": ("L",)}, given[1:], compiled=False)


def attention(x: Any, y: Any) -> dict[str, Any]:
    one, many = x[:1], torch.cat([y, y], 1)
    attend = F.scaled_dot_product_attention
    return {
        "one_query_batch": attend(one, y, y),
        "one_query_head": attend(x[:, :1], y, y),
        "one_key_batch": attend(x, y[:1], y[:1]),
        "one_key_head": attend(x, y[:, :1], y[:, :1]),
        "one_value_head": attend(x, y, y[:, :1]),
        "groups": attend(torch.cat([x, x], 1), y, y, enable_gqa=True),
        "one_matrix": attend(x[0, 0], y[0, 0], y[0, 0]),
        "query_matrices": attend(x[0, :1], many[0], many[0]),
    }


def test_attention_broadcasts() -> None:
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(2, 3, 4, 8, generator=generator)
    y = torch.randn(2, 3, 5, 8, generator=generator)
    check(Function(attention), {"x": x, "y": y})
