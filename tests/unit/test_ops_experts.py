"""Layers of a mixture of experts: a router, and products with the matrices that it chose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, Draws

import openinfer as oi
from openinfer.runtime.errors import OpenInferError

DRAWS = Draws(31)
EXPERTS, SIZE, HIDDEN = 7, 40, 67

LAYER = """
dynamic { x: f32[T, 40]; }
constant { R: f32[7, 40]; G: f16[7, 67, 40]; U: f16[7, 67, 40]; D: f32[7, 40, 67]; }
block entry {
    scores = op linear(x, R);
    shares = op softmax(scores);
    best, chosen = op topk(shares, k=3);
    total = op sum_axis(best, axes=[1], keepdims=true);
    part = op div(best, total);
    g = op expert_linear(x, G, chosen);
    u = op expert_linear(x, U, chosen);
    s = op silu(g);
    h = op mul(s, u);
    y = op expert_linear(h, D, chosen);
    weight = op unsqueeze(part, axes=[2]);
    weighted = op mul(y, weight);
    out = op sum_axis(weighted, axes=[1]);
    return out;
}
"""


@pytest.fixture(scope="module")
def tensors() -> dict[str, Array]:
    shapes = {"R": (7, 40), "G": (7, 67, 40), "U": (7, 67, 40), "D": (7, 40, 67)}
    found = {name: DRAWS.normal(*shape) / 6 for name, shape in shapes.items()}
    return {n: v.astype(np.float16 if n in "GU" else np.float32) for n, v in found.items()}


def mixture(x: Array, tensors: dict[str, Array]) -> Array:
    """The layer in f64, token by token."""
    router, gate, up, down = (tensors[name].astype(np.float64) for name in "RGUD")
    rows: list[Array] = []
    for row in x.astype(np.float64):
        scores = np.exp(router @ row)
        best = np.argsort(-scores, kind="stable")[:3]
        parts = scores[best] / scores[best].sum()
        total = np.zeros(SIZE)
        for expert, part in zip(best, parts):
            g = gate[expert] @ row
            total += part * (down[expert] @ (g / (1 + np.exp(-g)) * (up[expert] @ row)))
        rows.append(total)
    return np.array(rows)


@pytest.mark.parametrize("device", ["simulator", "cpu", "vulkan"])
def test_a_layer(device: str, tensors: dict[str, Array], request: pytest.FixtureRequest) -> None:
    """One token, and so many that experts are shared."""
    if device == "vulkan":
        request.getfixturevalue("vulkan")
    program: Any = oi.Simulator(LAYER, tensors) if device == "simulator" else None
    program = program or oi.compile(LAYER, tensors, device=device)
    x = DRAWS.normal(29, SIZE).astype(np.float32)
    with program.make_executor() as executor:
        found = np.array(executor.run(x=x)["out"])
        alone = np.array(executor.run(x=x[5:6])["out"])
    np.testing.assert_allclose(found, mixture(x, tensors), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(alone[0], found[5], rtol=1e-5, atol=1e-6)


CHOSEN = """
dynamic { x: f32[T, 40]; e: i64[T, 3]; }
constant { G: f16[7, 67, 40]; }
block entry { y = op expert_linear(x, G, e); return y; }
"""


def test_rows_are_the_same_bits_in_any_company(tensors: dict[str, Array]) -> None:
    """Whoever else chose an expert, and for every number of threads."""
    program = oi.compile(CHOSEN, {"G": tensors["G"]})
    x = DRAWS.normal(23, SIZE).astype(np.float32)
    chosen = np.random.default_rng(3).integers(0, EXPERTS, (23, 3))
    with program.make_executor(threads=1) as one, program.make_executor(threads=2) as two:
        expected = np.array(one.run(x=x, e=chosen)["y"])
        assert np.array_equal(two.run(x=x, e=chosen)["y"], expected)
        for row in (0, 11, 22):
            part = slice(row, row + 1)
            assert np.array_equal(one.run(x=x[part], e=chosen[part])["y"], expected[part])


@pytest.mark.parametrize("wrong", [7, -1, 2**40])
def test_an_expert_that_is_not_there(wrong: int, tensors: dict[str, Array]) -> None:
    given = {"x": np.ones((2, SIZE), np.float32), "e": np.zeros((2, 3), np.int64)}
    given["e"][1, 2] = wrong
    for program in (
        oi.Simulator(CHOSEN, {"G": tensors["G"]}),
        oi.compile(CHOSEN, {"G": tensors["G"]}),
    ):
        with program.make_executor() as executor, pytest.raises(OpenInferError) as caught:
            executor.run(**given)
        assert caught.value.code == "OI0601"
        assert f"index {wrong}" in str(caught.value)


@pytest.mark.parametrize(
    ("x", "w", "e", "said"),
    [
        ("f32[4, 8]", "f32[3, 5, 8]", "f32[4, 2]", "the experts are f32"),
        ("f32[4, 8]", "f32[5, 8]", "i32[4, 2]", r"w is \[experts, out, in\]"),
        ("f32[4, 8]", "f32[0, 5, 8]", "i32[4, 2]", "no experts"),
        ("f32[4, 8]", "f32[3, 8, 5]", "i32[4, 2]", "8 features"),
        ("f32[4, 8]", "f32[3, 5, 8]", "i32[3, 2]", r"experts are \[..., k\]"),
        ("f32[4, 3, 8]", "f32[3, 5, 8]", "i32[4, 2]", r"experts are \[..., k\]"),
        ("f32[4, 8]", "i32[3, 5, 8]", "i32[4, 2]", "w is i32"),
        ("f32[4]", "f32[3, 5, 4]", "i32", r"experts are \[..., k\]"),
    ],
)
def test_operands_that_do_not_fit(x: str, w: str, e: str, said: str) -> None:
    text = (
        f"dynamic {{ x: {x}; w: {w}; e: {e}; }} "
        "block entry { y = op expert_linear(x, w, e); return y; }"
    )
    with pytest.raises(OpenInferError, match=said):
        oi.Simulator(text)
