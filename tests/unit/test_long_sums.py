"""Sums of many floats: their error does not grow with their length, and no thread changes a bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.tolerance import difference
from openinfer.runtime.tensors import Tensor

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

PROMISED = 1e-6
"""The relative error of a sum of f32 of equal signs."""

TARGETS = ("generic", "avx2", "host")


def outcome(
    text: str, inputs: Arrays, threads: int = 1, target: str = "host", **options: Any
) -> Array:
    program = oi.compile(oi.graph(text), target=target, **options)
    return np.asarray(program.make_executor(threads=threads).run(**inputs)["y"])


def simulated(text: str, inputs: Arrays) -> Array:
    return np.asarray(oi.Simulator(oi.graph(text)).make_executor().run(**inputs)["y"])


def program(inputs: Mapping[str, str], result: str, *body: str) -> str:
    declared = " ".join(f"{name}: {kind};" for name, kind in inputs.items())
    lines = "\n    ".join(body)
    return (
        f"dynamic {{ {declared} }}\nvolatile {{ y: {result}; }}\n"
        f"block entry {{\n    {lines}\n    return y;\n}}\n"
    )


def error(found: Array, exact: Array | np.float64) -> float:
    return float(np.max(np.abs(found.astype("f8") - exact) / np.abs(exact)))


def drawn(length: int, kind: str) -> Array:
    """Numbers of one sign: all the same, which errors of rounding add up for, or drawn."""
    if kind == "same":
        return np.full(length, 0.1, "f4")
    return np.random.default_rng(length).random(length, dtype="f4")


def all_axes(x: Array) -> tuple[str, Arrays, Array]:
    text = program({"x": "f32[N]"}, "f32[]", "op sum_axis(x, axes=[0]) >> y;")
    return text, {"x": x}, x.astype("f8").sum()


def mean(x: Array) -> tuple[str, Arrays, Array]:
    text = program({"x": "f32[N]"}, "f32[]", "op mean_axis(x, axes=[0]) >> y;")
    return text, {"x": x}, x.astype("f8").mean()


def last_axis(x: Array) -> tuple[str, Arrays, Array]:
    rows = np.stack([x, x[::-1]])
    text = program({"x": "f32[R, N]"}, "f32[R]", "op sum_axis(x, axes=[1]) >> y;")
    return text, {"x": rows}, rows.astype("f8").sum(1)


def first_axis(x: Array) -> tuple[str, Arrays, Array]:
    columns = np.repeat(x[:, None], 3, axis=1)
    text = program({"x": "f32[N, C]"}, "f32[C]", "op sum_axis(x, axes=[0]) >> y;")
    return text, {"x": columns}, columns.astype("f8").sum(0)


def middle_axis(x: Array) -> tuple[str, Arrays, Array]:
    cube = x[: len(x) // 10 * 10].reshape(2, -1, 5)
    text = program({"x": "f32[A, N, C]"}, "f32[A, C]", "op sum_axis(x, axes=[1]) >> y;")
    return text, {"x": cube}, cube.astype("f8").sum(1)


def outer_axes(x: Array) -> tuple[str, Arrays, Array]:
    cube = x[: len(x) // 20 * 20].reshape(-1, 2, 10)
    text = program({"x": "f32[A, N, C]"}, "f32[N]", "op sum_axis(x, axes=[0, 2]) >> y;")
    return text, {"x": cube}, cube.astype("f8").sum((0, 2))


def of_products(x: Array) -> tuple[str, Arrays, Array]:
    text = program(
        {"x": "f32[N]"},
        "f32[]",
        "assign z: f32[N];",
        "op mul(x, x) >> z;",
        "op sum_axis(z, axes=[0]) >> y;",
    )
    return text, {"x": x}, (x * x).astype("f8").sum()


def mean_of_halves(x: Array) -> tuple[str, Arrays, Array]:
    halves = (x * 64).round().clip(1).astype("f2")
    text = program({"x": "f16[N]"}, "f32[]", "op mean_axis(x, axes=[0]) >> y;")
    return text, {"x": halves}, halves.astype("f8").mean()


def prefixes(x: Array) -> tuple[str, Arrays, Array]:
    text = program({"x": "f32[N]"}, "f32[N]", "op cumsum(x, axis=0) >> y;")
    return text, {"x": x}, x.astype("f8").cumsum()


def weights(x: Array) -> tuple[str, Arrays, Array]:
    rows = x[None]
    text = program({"x": "f32[R, N]"}, "f32[R, N]", "op softmax(x, axis=1) >> y;")
    power = np.exp(rows.astype("f8"))
    return text, {"x": rows}, power / power.sum(1, keepdims=True)


def weights_across(x: Array) -> tuple[str, Arrays, Array]:
    columns = np.repeat(x[:, None], 2, axis=1)
    text = program({"x": "f32[N, C]"}, "f32[N, C]", "op softmax(x, axis=0) >> y;")
    power = np.exp(columns.astype("f8"))
    return text, {"x": columns}, power / power.sum(0)


def root_mean_square(x: Array) -> tuple[str, Arrays, Array]:
    rows = x[None] + np.float32(0.1)
    wide = rows.astype("f8")
    text = program({"x": "f32[R, N]"}, "f32[R, N]", "op rms_norm(x, eps=0) >> y;")
    return text, {"x": rows}, wide / np.sqrt((wide * wide).mean(1, keepdims=True))


SUMS: Sequence[Callable[[Array], tuple[str, Arrays, Array]]] = (
    all_axes,
    mean,
    last_axis,
    first_axis,
    middle_axis,
    outer_axes,
    of_products,
    mean_of_halves,
    prefixes,
    weights,
    weights_across,
    root_mean_square,
)


@pytest.mark.parametrize("kind", ["same", "drawn"])
@pytest.mark.parametrize("make", SUMS, ids=lambda make: make.__name__)
def test_the_error_of_a_sum_does_not_grow(
    make: Callable[[Array], tuple[str, Arrays, Array]], kind: str
) -> None:
    for length in (100, 1000, 12_345, 1_000_000):
        text, inputs, exact = make(drawn(length, kind))
        found = outcome(text, inputs)
        assert error(found, exact) <= PROMISED, length
        assert found.tobytes() == outcome(text, inputs, threads=2).tobytes()
        assert error(simulated(text, inputs), exact) <= PROMISED, length


@pytest.mark.parametrize("make", [all_axes, first_axis], ids=["all", "first"])
def test_ten_million(make: Callable[[Array], tuple[str, Arrays, Array]]) -> None:
    text, inputs, exact = make(drawn(10_000_000, "same"))
    assert error(outcome(text, inputs), exact) <= PROMISED


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [63, 64, 65, 127, 128, 129, 1023, 1025, 4097, 65_536])
def test_lengths_around_blocks(target: str, length: int) -> None:
    for make in (all_axes, first_axis, outer_axes):
        text, inputs, exact = make(drawn(length, "same"))
        assert error(outcome(text, inputs, target=target), exact) <= PROMISED


@pytest.mark.parametrize("length", [65, 300, 5000, 20_000])
def test_known_lengths(length: int) -> None:
    for make in (all_axes, last_axis, first_axis):
        text, inputs, exact = make(drawn(length, "same"))
        known = text.replace("N]", f"{length}]").replace("[N,", f"[{length},")
        assert error(outcome(known, inputs), exact) <= PROMISED


def test_wide_sums() -> None:
    x = np.full(1_000_003, 0.1)
    text = program({"x": "f64[N]"}, "f64[]", "op sum_axis(x, axes=[0]) >> y;")
    assert error(outcome(text, {"x": x}), np.float64(0.1) * 1_000_003) <= 1e-14


PRODUCT = "op matmul(a, b) >> y;"
PRODUCTS = {
    # rows, columns, statement: a dot product, a few rows, a tile, many panels of a large left operand
    "dot": (1, 1, PRODUCT),
    "rows with rows": (2, 3, "op matmul(a, b, transpose_b=true) >> y;"),
    "tile": (9, 40, PRODUCT),
}


@pytest.mark.parametrize("form", PRODUCTS)
def test_long_products(form: str) -> None:
    rows, columns, statement = PRODUCTS[form]
    for length in (8400, 100_000):
        a, b = (np.full((n, length), 0.1, "f4") for n in (rows, columns))
        turned = "transpose_b" in statement
        kinds = {"a": "f32[M, K]", "b": "f32[N, K]" if turned else "f32[K, N]"}
        inputs = {"a": a, "b": b if turned else np.ascontiguousarray(b.T)}
        text = program(kinds, "f32[M, N]", statement)
        exact = np.float64(np.float32(0.1)) ** 2 * length
        found = outcome(text, inputs)
        assert error(found, exact) <= 2 * PROMISED
        assert found.tobytes() == outcome(text, inputs, threads=2).tobytes()
        assert error(simulated(text, inputs), exact) <= PROMISED


@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}], ids=["f32", "bf16"])
def test_products_in_blocks_of_the_contraction(options: Mapping[str, Any]) -> None:
    """The left operand is above 8 MiB, so that the sums of its rows wait in memory."""
    rows, depth, columns = 70, 40_000, 160
    a, b = np.full((rows, depth), 0.125, "f4"), np.full((depth, columns), 0.1, "f4")
    text = program(
        {"a": f"f32[{rows}, {depth}]", "b": f"f32[{depth}, {columns}]"},
        f"f32[{rows}, {columns}]",
        "op matmul(a, b) >> y;",
        "op relu(y) >> y;",
    )
    factor = np.float64(np.float32(0.1)) if not options else 0.10009765625
    found = outcome(text, {"a": a, "b": b}, **options)
    assert error(found, np.float64(0.125 * depth * factor)) <= PROMISED


def test_long_products_of_a_convolution() -> None:
    """9216 products of each result, in eight blocks of channels where output channels are the lanes."""
    channels, outputs = 1024, 256
    x = np.full((1, channels, 5, 5), 0.1, "f4")
    w = np.full((outputs, channels, 3, 3), 0.1, "f4")
    text = (
        f"dynamic {{ x: f32[1, {channels}, 5, 5]; }} constant {{ w: f32[{outputs}, {channels}, 3, 3]; }} "
        f"volatile {{ y: f32[1, {outputs}, 2, 2]; }} "
        "block entry { op conv2d(x, w, stride=2) >> y; return y; }"
    )
    exact = np.float64(np.float32(0.1)) ** 2 * channels * 9
    for target in TARGETS:
        compiled = oi.compile(oi.graph(text), {"w": w}, target=target)
        found = np.asarray(compiled.make_executor(threads=1).run(x=x)["y"])
        assert error(found, exact) <= 2 * PROMISED


def test_attention_over_many_keys() -> None:
    for queries in (1, 20):
        keys, size = 50_000, 8
        q, k = np.zeros((1, 1, queries, size), "f4"), np.zeros((1, 1, keys, size), "f4")
        v = np.full((1, 1, keys, size), 0.1, "f4")
        text = program(
            {"q": "f32[1, 1, Q, 8]", "k": "f32[1, 1, T, 8]", "v": "f32[1, 1, T, 8]"},
            "f32[1, 1, Q, 8]",
            "op attention(q, k, v) >> y;",
        )
        inputs = {"q": q, "k": k, "v": v}
        assert error(outcome(text, inputs), v[:, :, :1].astype("f8")) <= 2e-6


def test_a_huge_window() -> None:
    image = np.full((1, 1, 700, 700), 0.1, "f4")
    text = program(
        {"x": "f32[1, 1, H, W]"},
        "f32[1, 1, H - 698, W - 698]",
        "op avg_pool2d(x, kernel_size=699, stride=1) >> y;",
    )
    assert error(outcome(text, {"x": image}), np.float64(np.float32(0.1))) <= PROMISED


def test_values_that_are_not_finite() -> None:
    text = program({"x": "f32[N]"}, "f32[]", "op sum_axis(x, axes=[0]) >> y;")
    wide = program({"x": "f64[N]"}, "f64[]", "op sum_axis(x, axes=[0]) >> y;")
    for kind, source in (("f4", text), ("f8", wide)):
        for place in (0, 70_000, 99_999):
            x = np.ones(100_000, kind)
            x[place] = np.inf
            assert outcome(source, {"x": x}) == np.inf
            x[1] = -np.inf
            assert np.isnan(outcome(source, {"x": x}))
            x[1] = np.nan
            assert np.isnan(outcome(source, {"x": x}))
    largest = np.full(100_000, np.finfo("f4").max, "f4")
    assert outcome(text, {"x": largest}) == np.inf
    zeros = np.full(100_000, -0.0, "f4")
    assert outcome(text, {"x": zeros}) == 0


def test_compare_sees_no_difference() -> None:
    for make in (all_axes, first_axis, prefixes, weights):
        text, inputs, _ = make(drawn(1_000_000, "same"))
        graph = oi.graph(text)
        found = oi.compile(graph).make_executor()
        expected = oi.Simulator(graph).make_executor()
        results = (executor.run(**inputs)["y"] for executor in (expected, found))
        left, right = (Tensor.from_values("f32", result) for result in results)
        assert difference(left, right) is None


def test_strict_sums_keep_their_order() -> None:
    """By index, one after another: the bits of a plain loop, and the error that it has."""
    x = drawn(100_000, "same")
    text, inputs, exact = all_axes(x)
    found = outcome(text, inputs, strict_math=True)
    assert found == np.cumsum(x, dtype="f4")[-1]
    assert error(found, exact) > 1e-4
    text, inputs, _ = prefixes(x)
    found = outcome(text, inputs, strict_math=True)
    assert found.tobytes() == np.cumsum(x, dtype="f4").tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [64, 384, 1000])
def test_a_layer_norm_far_from_zero(target: str, size: int) -> None:
    """The mean of a row is rounded; its error does not reach the result (PyTorch: 1e-3)."""
    random = np.random.default_rng(0)
    x = (random.standard_normal((4, size)) + 1e4).astype("f4")
    wide = x.astype("f8")
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    text = program({"x": f"f32[R, {size}]"}, f"f32[R, {size}]", "op layer_norm(x) >> y;")
    assert np.abs(outcome(text, {"x": x}, target=target) - exact).max() <= 5e-6


def test_a_layer_norm_of_equal_elements() -> None:
    x = np.full((3, 384), 123456.78, "f4")
    text = program({"x": "f32[R, 384]"}, "f32[R, 384]", "op layer_norm(x, eps=1e-12) >> y;")
    assert np.abs(outcome(text, {"x": x})).max() <= 1e-2
