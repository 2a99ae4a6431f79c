"""Experts whose matrices lie in blocks: kernels against the unpacked values, format by format."""

from __future__ import annotations

import warnings
from typing import Any

import gguf
import numpy as np
import pytest
from test_block_products import Array, blocks, rounded, values, write

import openinfer as oi
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.errors import ModelWarning

EXPERTS, N, K, MEMBERS = 5, 37, 256, 2

PROGRAM = """
dynamic { x: f32[T, 256]; own: f32[T, 3, 256]; e: i32[T, 3]; }
constant { W(l): f32[5, 37, 256] @pattern("w.{l}") @dtype(_); }
block entry {
    y = op expert_linear(x, W[1], e);
    z = op expert_linear(own, W[0], e);
    return y, z;
}
"""
"""Choices that share a row, and choices with rows of their own."""


def package(folder: Any, kinds: list[str]) -> tuple[list[Array], Any]:
    """The unpacked experts, `[expert, row, column]`, and the model of them."""
    data = [blocks(kind, EXPERTS * N, K, seed=n) for n, kind in enumerate(kinds)]
    tensors = {f"w.{n}": (kind, data[n].reshape(EXPERTS, N, -1)) for n, kind in enumerate(kinds)}
    path = write(folder / "w.gguf", tensors, block_count=len(kinds))
    found = [values(kind, rows).reshape(EXPERTS, N, K) for kind, rows in zip(kinds, data)]
    return found, oi.open_model(path)


def draw(rows: int) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    given = {
        "x": rng.standard_normal((23, K)) * rng.exponential(1, K),
        "own": rng.standard_normal((23, 3, K)),
    }
    # Expert 2 is nobody's choice.
    chosen = rng.choice(np.array([0, 1, 3, 4], np.int32), (23, 3))
    return {**{n: v.astype(np.float32)[:rows] for n, v in given.items()}, "e": chosen[:rows]}


def products(weight: Array, x: Array, chosen: Array) -> tuple[Array, Array]:
    """The products in f64, and their sums of magnitudes."""
    x = np.broadcast_to(x[:, None], (*chosen.shape, K)) if x.ndim == 2 else x
    x = x.astype(np.float64)
    exact = np.einsum("tsnk,tsk->tsn", weight[chosen], x)
    return exact, np.einsum("tsnk,tsk->tsn", np.abs(weight[chosen]), np.abs(x))


def to_bytes(x: Array) -> Array:
    """What products of bytes make of rows."""
    codes, scales = rounded(x.reshape(-1, K))
    return (codes.astype(np.float64) * scales).reshape(x.shape)


CASES = [
    ("q8_0", "q8_0", "avx512", None),
    ("q8_0", "q8_0", "avx2", "q8"),
    ("q4_k", "q6_k", "avx512", "q8"),
    ("q5_1", "iq4_xs", "generic", None),
]


@pytest.mark.parametrize(("first", "second", "target", "precision"), CASES)
def test_experts_in_blocks(
    first: str, second: str, target: str, precision: str | None, tmp_path: Any
) -> None:
    """Nothing is unpacked; a token alone has the same results as among others."""
    weights, model = package(tmp_path, [first, second])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        program = oi.compile(PROGRAM, model, target=target, precision=precision)
    rows = [row for row in program.manifest.weights if row.variable == "W"]
    assert {row.block for row in rows} == {first, second}
    columns = 48 if target == "avx512" else 40  # Whole panels.
    held = sum(
        EXPERTS * columns * K // BLOCKS[k].elements * BLOCKS[k].nbytes for k in (first, second)
    )
    assert sum(row.held for row in rows) == held
    given = draw(23)
    with program.make_executor() as executor:
        found = {name: np.array(value) for name, value in executor.run(**given).items()}
        alone = {name: np.array(value) for name, value in executor.run(**draw(1)).items()}
    for name, weight, rows in (("y", weights[1], given["x"]), ("z", weights[0], given["own"])):
        left = to_bytes(rows) if precision else rows
        wanted, size = products(weight, left, given["e"])
        assert (np.abs(found[name] - wanted) <= 4e-6 * size + 1e-6).all()
        if precision:
            assert np.array_equal(alone[name][0], found[name][0])
        else:
            assert (np.abs(alone[name][0] - found[name][0]) <= 1e-6 * size[0]).all()


def test_experts_in_sixteen_bits_stay_so(tmp_path: Any) -> None:
    """Matrices that a file holds in f16 are widened in registers."""
    data = np.random.default_rng(1).standard_normal((2, EXPERTS, N, K)).astype(np.float16)
    writer = gguf.GGUFWriter(tmp_path / "h.gguf", "llama")
    for n in range(2):
        writer.add_tensor(f"w.{n}", data[n])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    program = oi.compile(PROGRAM, oi.open_model(tmp_path / "h.gguf"))
    assert [row.dtype for row in program.manifest.weights if row.variable == "W"] == ["f16"]
    given = draw(6)
    with program.make_executor() as executor:
        found = executor.run(**given)["y"]
    wanted, size = products(data[1].astype(np.float64), given["x"], given["e"])
    assert (np.abs(found - wanted) <= 4e-6 * size + 1e-6).all()
