"""`grid_sample` against PyTorch, by the twin and compiled, and what its rule refuses."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.lowering.reference.twins import evaluate

SHAPES: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {
    4: ((2, 3, 4, 5), (2, 6, 7, 2)),
    5: ((2, 3, 4, 5, 3), (2, 2, 3, 4, 3)),
}
FORMS = [
    (rank, mode, padding, corners)
    for rank, mode, padding, corners in product(
        (4, 5), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    )
    if (rank, mode) != (5, "bicubic")
]


def drawn(rank: int) -> tuple[Any, Any]:
    random = np.random.default_rng(rank)
    x, grid = SHAPES[rank]
    places = random.uniform(-1.6, 1.6, grid).astype(np.float32)
    return random.standard_normal(x, dtype=np.float32), places


def test_twin_is_pytorchs() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for rank, mode, padding, corners in FORMS:
        x, grid = drawn(rank)
        want = torch.nn.functional.grid_sample(
            torch.from_numpy(x),
            torch.from_numpy(grid),
            mode=mode,
            padding_mode=padding,
            align_corners=corners,
        )
        settings = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        (found,) = evaluate("grid_sample", [x, grid], ["f32", "f32"], settings)
        np.testing.assert_allclose(found, want.numpy(), rtol=1e-5, atol=4e-6, err_msg=str(settings))


def test_compiled_is_the_twin() -> None:
    """All forms in one program, sizes of places and of one image known to the inputs alone."""
    lines = [
        f'y{number} = op grid_sample(x{rank}, g{rank}, mode="{mode}", padding_mode="{padding}", '
        f"align_corners={str(corners).lower()});"
        for number, (rank, mode, padding, corners) in enumerate(FORMS)
        if number % 4 == 0
    ]
    names = ", ".join(line.partition(" ")[0] for line in lines)
    text = f"""
    dynamic {{
        x4: f32[N, 3, H, W]; g4: f32[N, P, Q, 2];
        x5: f32[2, 3, 4, 5, 3]; g5: f32[2, R, 3, 4, 3];
    }}
    block entry {{ {" ".join(lines)} return {names}; }}
    """
    (x4, g4), (x5, g5) = drawn(4), drawn(5)
    g4[0, 0, 0] = np.nan
    g4[0, 0, 1] = np.inf
    feeds = {"x4": x4, "g4": g4, "x5": x5, "g5": g5}
    program = oi.graph(text)
    with oi.Simulator(program).make_executor() as executor:
        want = {name: np.array(value) for name, value in executor.run(**feeds).items()}
    with oi.compile(program).make_executor() as executor:
        for name, value in executor.run(**feeds).items():
            np.testing.assert_allclose(np.asarray(value), want[name], rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize(
    ("x", "grid", "dtype", "settings", "error", "message"),
    [
        ((2, 3, 4), (2, 3, 2), "f32", {}, ShapeError, "and the grid"),
        ((2, 3, 4, 5), (2, 6, 7, 3), "f32", {}, ShapeError, "has not 2 elements"),
        ((2, 3, 4, 5), (1, 6, 7, 2), "f32", {}, ShapeError, "different batches"),
        ((2, 3, 4, 5), (2, 6, 7, 2), "i64", {}, OpDTypeError, "the grid is i64"),
        ((2, 3, 4, 5, 6), (2, 6, 7, 1, 3), "f32", {"mode": "bicubic"}, SettingError, "two axes"),
        ((2, 3, 4, 5), (2, 6, 7, 2), "f32", {"padding_mode": "wrap"}, SettingError, "zeros"),
    ],
)
def test_what_the_rule_refuses(
    x: Any, grid: Any, dtype: str, settings: Any, error: type[OpError], message: str
) -> None:
    values = [np.zeros(x, np.float32), np.zeros(grid, np.int64 if dtype == "i64" else np.float32)]
    with pytest.raises(error, match=message):
        evaluate("grid_sample", values, ["f32", dtype], settings)


def test_an_image_of_nothing_is_an_error() -> None:
    text = """
    dynamic { x: f32[1, 1, H, W]; g: f32[1, 2, 2, 2]; }
    block entry { y = op grid_sample(x, g); return y; }
    """
    feeds = {"x": np.zeros((1, 1, 0, 3), np.float32), "g": np.zeros((1, 2, 2, 2), np.float32)}
    for made in (oi.Simulator(oi.graph(text)), oi.compile(oi.graph(text))):
        with made.make_executor() as executor, pytest.raises(oi.OpenInferError):
            executor.run(**feeds)
