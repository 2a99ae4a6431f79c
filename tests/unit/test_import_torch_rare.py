"""Rarer ops of ATen against eager PyTorch: orders, scattered elements, distances, signs, resampling; with
NaN, infinities, ties, axes from the end, tensors without axes and without elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch_imports import Function, check, torch

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.graph_writer import Imported

F = torch.nn.functional
INF, NAN = float("inf"), float("nan")


def drawn(*shape: int, seed: int = 3) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def signs(x: Any, y: Any) -> dict[str, Any]:
    numbers = x.nan_to_num().clamp(-99, 99)
    i = numbers.to(torch.int8)
    found = {
        "signbit": x.signbit(),
        "of_ints": i.signbit(),
        "of_bytes": i.abs().to(torch.uint8).signbit(),
        "of_bools": (numbers > 0).signbit(),
        "of_a_number": x[0].signbit(),
    }
    copied = {
        "copied": torch.copysign(x, y),
        "to_ints": torch.copysign(i, y),
        "from_ints": torch.copysign(y, i),
        "negative": torch.copysign(x, -2),
        "positive": torch.copysign(x, 2.0),
        "negative_zero": torch.copysign(x, -0.0),
    }
    return found | copied | {f"sign_of_{name}": one.signbit() for name, one in copied.items()}


def test_signs() -> None:
    x = torch.tensor([0.0, -0.0, 1.5, -2.5, INF, -INF, 3.0, -3.0])
    y = torch.tensor([-0.0, 0.0, -1.0, 1.0, -INF, INF, -0.0, 0.0])
    check(Function(signs), {"x": x, "y": y})


def ends(x: Any, y: Any) -> dict[str, Any]:
    return {f"{w}": torch.lerp(x, y, w) for w in (0.0, 0.25, 0.5, 0.75, 1.0)} | {
        "by_tensor": torch.lerp(x, y, torch.linspace(0, 1, x.shape[0]))
    }


def test_between_infinite_ends() -> None:
    x = torch.tensor([1.0, -INF, INF, 2.0, 3.0, NAN, 5.0])
    y = torch.tensor([INF, 1.0, 4.0, -INF, 7.0, 1.0, INF])
    check(Function(ends), {"x": x, "y": y})


def orders(x: Any, y: Any) -> dict[str, Any]:
    """Where equal elements stand is PyTorch's choice: their places are compared by what stands there."""
    found: dict[str, Any] = {}
    i = y.to(torch.int32)
    for name, z in (("x", x), ("y", y), ("i", i)):
        for axis in (0, -1):
            calls = {
                "median": torch.median(z, axis),
                "kept": torch.median(z, axis, keepdim=True),
                "second": torch.kthvalue(z, 2, axis),
                "second_kept": torch.kthvalue(z, 2, axis, keepdim=True),
            }
            for kind, (values, places) in calls.items():
                found[f"{name}{axis}{kind}"] = values
                wide = places if "kept" in kind else places.unsqueeze(axis)
                found[f"{name}{axis}{kind}_there"] = z.gather(axis, wide)
            for kind, (values, places) in (
                ("most", torch.cummax(z, axis)),
                ("least", torch.cummin(z, axis)),
            ):
                found[f"{name}{axis}{kind}"] = values
                found[f"{name}{axis}{kind}_places"] = places
        found[f"{name}_of_all"] = z.median()
    found["number_median"], found["number_place"] = torch.median(x[0, 0], 0)
    found["number_kth"] = torch.kthvalue(x[0, 0], 1)[0]
    found["number_most"], found["number_most_place"] = torch.cummax(x[0, 0], 0)
    found["bools"], found["bool_places"] = torch.cummin(y > 0, 1)
    found["nan_median"] = torch.nanmedian(x, 1)[0]
    found["nan_median_of_all"] = torch.nanmedian(x)
    found["nan_median_kept"] = torch.nanmedian(y, 0, keepdim=True)[0]
    return found


def _orders_inputs(rows: int) -> dict[str, Any]:
    x = drawn(rows, 6, seed=rows)
    x[0, 2] = x[0, 4] = NAN
    x[1] = -INF
    x[2, :3] = INF
    return {"x": x, "y": (2 * drawn(rows, 6, seed=9)).round()}


def test_orders() -> None:
    check(Function(orders), _orders_inputs(4))


def test_orders_of_axes_that_vary() -> None:
    names = {"x": ("B",), "y": ("B",)}
    check(Function(orders), _orders_inputs(4), names, [_orders_inputs(5)], compiled=False)


def quantiles(x: Any, y: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in ("linear", "lower", "higher", "midpoint", "nearest"):
        for q in (0.0, 0.3, 0.5, 1.0):
            found[f"{kind}{q}"] = torch.quantile(x, q, dim=-1, interpolation=kind)
        found[f"{kind}_kept"] = torch.quantile(y, 0.7, dim=0, keepdim=True, interpolation=kind)
    found["of_all"] = torch.quantile(y, 0.25)
    found["several"] = torch.quantile(x, torch.tensor([0.1, 0.9]), dim=1)
    found["numbers"] = torch.nanquantile(x, 0.4, dim=1)
    return found


def test_quantiles() -> None:
    check(Function(quantiles), _orders_inputs(4))


def test_running_extremes_of_nothing() -> None:
    def running(x: Any, y: Any) -> Any:
        return torch.cummax(x, 1) + torch.cummin(y.to(torch.uint8), 0)

    check(Function(running), {"x": torch.zeros(3, 0), "y": torch.tensor([3.0, 1.0, 2.0, 1.0, 0.0])})


def reduced(x: Any, y: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    index = torch.tensor([[0, 2, 2, 0], [2, 2, 2, 2], [0, 0, 1, 1]])
    tall = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0]])
    i, j = (one.nan_to_num(0, 0, 0).mul(9).to(torch.int32) for one in (x, y))
    for kind in ("sum", "prod", "mean", "amax", "amin"):
        for own in (True, False):
            name = f"{kind}_{own}"
            found[name] = x.scatter_reduce(1, index, y, kind, include_self=own)
            found[f"{name}_first"] = x.scatter_reduce(-2, tall, y[:2], kind, include_self=own)
            found[f"{name}_ints"] = i.scatter_reduce(1, index, j, kind, include_self=own)
            found[f"{name}_row"] = x[0].scatter_reduce(
                0, index[0, :3], y[0, :3], kind, include_self=own
            )
    return found


def test_scattered_and_reduced() -> None:
    x, y = drawn(3, 4), drawn(3, 4, seed=4)
    x[0, 0] = x[1, 1] = y[2, 0] = y[0, 1] = NAN
    x[2, 2], y[1, 3] = INF, -INF
    check(Function(reduced), {"x": x, "y": y})


def reduced_bools(x: Any, y: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    index = torch.tensor([[0, 2, 2, 0], [2, 2, 2, 2], [0, 0, 1, 1]])
    for kind in ("sum", "prod", "amax", "amin"):
        for own in (True, False):
            name = f"{kind}_{own}"
            found[name] = x.scatter_reduce(1, index, y, kind, include_self=own)
    many = torch.zeros(256, dtype=torch.int64)
    return found | {
        "added": x.scatter_add(1, index, y),
        "times": x.scatter(1, index, y, reduce="multiply"),
        "many": x[0].scatter_add(0, many, y[0, :1].expand(256)),
    }


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("seed", range(3))
def test_scattered_and_reduced_bools(seed: int) -> None:
    check(Function(reduced_bools), {"x": drawn(3, 4, seed=seed) > 0, "y": drawn(3, 4, seed=9) > 0})


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
@pytest.mark.parametrize("count", [200, 255, 256, 300])
def test_means_whose_counts_wrap(dtype: str, count: int) -> None:
    """PyTorch counts in the dtype, too."""

    def means(x: Any, y: Any) -> Any:
        index = torch.arange(count + 3) // count
        return [x.scatter_reduce(0, index, y, "mean", include_self=own) for own in (True, False)]

    y = (drawn(count + 3) * 20).abs().to(getattr(torch, dtype))
    check(Function(means), {"x": torch.tensor([7, 9, 11]).to(y.dtype), "y": y})


def masked(x: Any, y: Any) -> dict[str, Any]:
    diagonal = torch.diagonal_scatter
    cube = torch.stack([x, x + 1])
    none = torch.zeros(0)
    return {
        "masked": x.masked_scatter(x > 0, y),
        "row": x.masked_scatter(torch.tensor([True, False, True, True, False]), y),
        "none": x.masked_scatter(x > 1e9, y),
        "of_nothing": x.masked_scatter(x > 1e9, none),
        "nothing_of_nothing": x[:0].masked_scatter(x[:0] > 0, none),
        "masked_bools": (x > 0).masked_scatter(x < 1, y > 0),
        "wider": x[0].masked_scatter(x > 0, y),
        "ints": x.to(torch.int64).masked_scatter(x > 0, y.to(torch.int64)),
        "number": x[0, 0].masked_scatter(x[0, 0] < 9, y),
        "diagonal": diagonal(x, y[0, :4]),
        "above": diagonal(x, y[0, :3], 2),
        "below": diagonal(x, y[0, :2], -2),
        "beside": diagonal(x, none, 5),
        "far_beside": diagonal(x, none, 9),
        "beneath": diagonal(x, none, -4),
        "far_beneath": diagonal(x, none, -6),
        "beneath_a_cube": diagonal(cube, none.reshape(4, 0), -6, 0, 2),
        "of_cubes": diagonal(cube, y[:2, :4], 0, -2, -1),
        "turned": diagonal(cube, y[:4, :2], 0, 2, 0),
        "bools": diagonal(x > 0, y[0, :4] > 0),
    }


def test_masked() -> None:
    check(Function(masked), {"x": drawn(4, 5), "y": drawn(5, 5)})


def test_too_few_elements_for_a_mask() -> None:
    def few(x: Any, y: Any) -> Any:
        return x.masked_scatter(x > 0, y)

    given = {"x": torch.tensor([1.0, -1.0, 1.0]), "y": torch.tensor([5.0, 6.0])}
    _fails_with_ones(check(Function(few), given), given["y"])


def test_no_elements_for_a_mask() -> None:
    def of_nothing(x: Any, y: Any) -> Any:
        return x.masked_scatter(x > 0, y[:0])

    given = {"x": -torch.ones(3), "y": torch.ones(2)}
    _fails_with_ones(check(Function(of_nothing), given), given["y"])


def test_elements_for_a_mask_that_vary() -> None:
    def of_some(x: Any, y: Any) -> Any:
        return x.masked_scatter(x > 0, y)

    x = torch.tensor([1.0, -1.0, 1.0])
    given = [{"x": x, "y": torch.arange(2.0)}, {"x": x, "y": torch.arange(5.0)}]
    given.append({"x": -x.abs(), "y": torch.zeros(0)})
    imported = check(Function(of_some), given[0], {"y": (("N", 0, 8),)}, given[1:])
    _fails_with_ones(imported, torch.zeros(0))
    _fails_with_ones(imported, torch.zeros(2))


def _fails_with_ones(imported: Imported, y: Any) -> None:
    """A step whose mask is all true, and y too short for it, on both executors."""
    graph = oi.graph(print_program(imported.module))
    for program in (oi.Simulator(graph, imported.tensors), oi.compile(graph, imported.tensors)):
        with pytest.raises(oi.StepError):
            program.make_executor().run(x=torch.ones(3).numpy(), y=y.numpy())


def distances(x: Any, y: Any) -> dict[str, Any]:
    found = {f"p{p}": torch.cdist(x, y, p) for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF)}
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        found[mode] = torch.cdist(x, y + 3, compute_mode=mode)
    return found | {
        "broadcast": torch.cdist(x, y[0] + 3),
        "of_nothing": torch.cdist(x[..., :0], y[..., :0]),
        "to_nothing": torch.cdist(x, y[:, :0]),
    }


def test_distances() -> None:
    check(Function(distances), {"x": drawn(2, 4, 3), "y": drawn(2, 5, 3, seed=5)}, tolerance=5e-5)


def test_distances_that_are_no_numbers() -> None:
    def exact(x: Any, y: Any) -> dict[str, Any]:
        return {f"p{p}": torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, INF)}

    x, y = drawn(3, 3), drawn(4, 3, seed=5)
    x[0, 1], y[2, 0], y[3, 2] = NAN, INF, -INF
    check(Function(exact), {"x": x, "y": y})


VOLUMES: list[dict[str, Any]] = [
    {},
    {"stride": 2},
    {"stride": (1, 2, 3), "padding": (0, 1, 2), "output_padding": (0, 1, 1)},
    {"stride": 2, "dilation": 2, "padding": 3, "output_padding": 1},
    {"padding": 2},
    {"stride": 3, "groups": 2},
    {"padding": 1, "groups": 2, "dilation": (1, 2, 1)},
]


@pytest.mark.parametrize("settings", VOLUMES, ids=str)
def test_transposed_volumes(settings: dict[str, Any]) -> None:
    layer = torch.nn.ConvTranspose3d(4, 6, (3, 2, 3), **settings)
    weight, bias = drawn(*layer.weight.shape), drawn(6)

    def volumes(x: Any, y: Any) -> dict[str, Any]:
        convolve = F.conv_transpose3d
        return {
            "batch": convolve(x, weight, bias, **settings),
            "one": convolve(x[0], y, **settings),
        }

    given = {"x": drawn(2, 4, 4, 5, 4), "y": drawn(*layer.weight.shape, seed=8)}
    check(Function(volumes), given, tolerance=2e-5)


def resized(x: Any, y: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for mode in ("bilinear", "bicubic"):
        for size in ((3, 5), (4, 4), (11, 14), (1, 20), (7, 9)):
            for corners in (False, True):
                found[f"{mode}{size}{corners}"] = F.interpolate(
                    x, size, mode=mode, align_corners=corners, antialias=True
                )
        found[f"{mode}_by_factor"] = F.interpolate(y, scale_factor=0.4, mode=mode, antialias=True)
        found[f"{mode}_by_factors"] = F.interpolate(
            y,
            scale_factor=(1.7, 0.5),
            mode=mode,
            antialias=True,
            recompute_scale_factor=True,
        )
    return found


def test_antialiased() -> None:
    check(Function(resized), {"x": drawn(2, 3, 7, 9), "y": drawn(1, 2, 8, 10)}, tolerance=2e-5)


def test_antialiased_numbers_stay_among_their_neighbours() -> None:
    def smaller(x: Any, y: Any) -> Any:
        small = F.interpolate(x, (3, 5), mode="bilinear", antialias=True)
        return small, F.interpolate(y, (3, 4), mode="bicubic", antialias=True)

    x, y = drawn(1, 2, 7, 9), drawn(2, 7, 9)[None]
    x[0, 0, 1, 1] = y[0, 1, 5, 3] = INF
    x[0, 1, 5, 3] = NAN
    check(Function(smaller), {"x": x, "y": y}, tolerance=2e-5)


def varied(x: Any, y: Any) -> dict[str, Any]:
    index = (x * 100).long() % x.shape[0]
    return {
        "masked": x.masked_scatter(x > 0, y),
        "distance": torch.cdist(x, y),
        "diagonal": torch.diagonal_scatter(x @ x.T, y[:, 0]),
        "mean": x.scatter_reduce(0, index, y, "mean", include_self=False),
        "largest": x.scatter_reduce(0, index, y, "amax"),
        "quantile": torch.quantile(x, 0.3, dim=0),
    }


def test_sizes_that_vary() -> None:
    given = [{"x": drawn(rows, 6), "y": drawn(rows, 6, seed=rows)} for rows in (5, 4, 7)]
    check(
        Function(varied),
        given[0],
        {"x": ("B",), "y": ("B",)},
        given[1:],
        compiled=False,
        tolerance=5e-5,
    )


def other_floats(x: Any, y: Any) -> dict[str, Any]:
    index = (y.float() * 9).long().clamp(0, 4)
    return {
        "most": torch.cummax(x, 1)[0],
        "least": torch.cummin(x, 1)[1],
        "second": torch.kthvalue(x, 2, 1)[0],
        "median": torch.median(x, 1)[0],
        "smallest": x.scatter_reduce(1, index, y, "amin", include_self=False),
        "mean": x.scatter_reduce(1, index, y, "mean"),
        "copied": torch.copysign(x, y),
        "between": torch.lerp(x, y, 0.75),
    }


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats(dtype: str) -> None:
    kind = getattr(torch, dtype)
    given = {"x": drawn(3, 5).to(kind), "y": drawn(3, 5, seed=4).to(kind)}
    check(Function(other_floats), given, tolerance=1e-6 if dtype == "float64" else 1e-2)


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (
        lambda x, y: (x > 0).scatter_reduce(1, (y < 0).long(), y > 0, "mean"),
        "a mean of bools",
    ),
    (lambda x, y: x.view(-1)[:0].median(), "a median of nothing"),
    (
        lambda x, y: F.interpolate(
            (x[None, None] * 9).to(torch.uint8), (2, 2), mode="bilinear", antialias=True
        ),
        "antialiasing of u8",
    ),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_refused(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(oi.UnsupportedError, match=reason):
        check(Function(function), {"x": drawn(3, 4), "y": drawn(3, 4)})
