"""Heads that are parts of the last axis: attention, rotation, and tables whose entry is one position."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, Draws, by_program, by_twin

import openinfer as oi
from openinfer.runtime.errors import OpenInferError

DRAWS = Draws(11)


def attended(q: Array, k: Array, v: Array, heads: int, groups: int, seen: Any = True) -> Array:
    """Attention of q [Lq, heads * size] over k, v [Lk, groups * size] in f64, head by head."""
    size, parts = q.shape[-1] // heads, []
    for head in range(heads):
        at = head * groups // heads
        own = k[:, at * size : (at + 1) * size]
        scores = q[:, head * size : (head + 1) * size] @ own.T / np.sqrt(size)
        weights = np.exp(np.where(seen, scores, -np.inf))
        width = v.shape[-1] // groups
        parts.append(weights / weights.sum(-1, keepdims=True) @ v[:, at * width : (at + 1) * width])
    return np.concatenate(parts, -1)


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (6, 1), (1, 1)])
@pytest.mark.parametrize("apart", [False, True])
def test_attention_of_parts_of_the_last_axis(heads: int, groups: int, apart: bool) -> None:
    q, k = DRAWS.normal(2, 5, heads * 8), DRAWS.normal(2, 7, groups * 8)
    v = DRAWS.normal(2, 7, groups * 6)
    expected = [attended(*one, heads, groups) for one in zip(q, k, v)]
    if apart:
        k, v = k.reshape(2, 7, groups, 8), v.reshape(2, 7, groups, 6)
    settings = {"heads": heads, **({} if apart else {"kv_heads": groups})}
    found = [*by_twin("attention", [q, k, v], settings)]
    found += by_program("attention", [q, k, v], settings)[0]
    for value in found:
        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)


def test_rotation_of_parts_of_the_last_axis() -> None:
    """It is that of heads as an axis, and none of another head is mixed in."""
    x, places = DRAWS.normal(2, 5, 24), np.array([[3, 0, 9, 1, 2], [7, 7, 0, 4, 5]])
    apart = x.reshape(2, 5, 3, 8)
    (expected,) = by_twin("rope", [apart, places], {"layout": "blhd", "dims": 6})
    (found,) = by_twin("rope", [x, places], {"heads": 3, "dims": 6})
    assert np.array_equal(found, expected.reshape(2, 5, 24))
    for value in by_program("rope", [x, places], {"heads": 3, "dims": 6})[0]:
        np.testing.assert_allclose(value, found, rtol=1e-12, atol=1e-12)


DECODER = """
dynamic {{ q: {x}[L, 32]; k: {x}[L, {entry}]; v: {x}[L, {entry}]; }}
persistent {{
    T: i32;
    K(l, t): {x}[{entry}] @table;
    V(l, t): {x}[{entry}] @table;
}}
block entry {{
    assign keys: {x}[T + L, {entry}];
    assign values: {x}[T + L, {entry}];
    cache.write k >> K[1, T..T + L];
    cache.write v >> V[1, T..T + L];
    cache.read K[1, 0..T + L] >> keys;
    cache.read V[1, 0..T + L] >> values;
    a = op attention(q, keys, values, heads=4{more}, causal=true);
    loop taken (n in 0..L) {{ cache.increment T; }}
    return a;
}}
"""
ENTRIES = {"2, 8": "", "16": ", kv_heads=2"}
"""What an entry of the tables is, and what attention must be told of it."""


def decoded(executor: Any, inputs: list[Array], entry: str, lengths: list[int]) -> Array:
    """The results of steps of these lengths, one behind the other."""
    shape = [int(n) for n in entry.split(",")]
    found: list[Array] = []
    start = 0
    for length in lengths:
        q, k, v = (array[start : start + length] for array in inputs)
        given = {"q": q, "k": k.reshape(-1, *shape), "v": v.reshape(-1, *shape)}
        found.append(np.array(executor.run(**given)["a"], np.float64))
        start += length
    return np.concatenate(found)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("device", ["simulator", "cpu", "vulkan"])
def test_tables_of_positions(entry: str, device: str, request: pytest.FixtureRequest) -> None:
    """A first step of several positions, then one by one, as all positions at once give it."""
    if device == "vulkan":
        request.getfixturevalue("everything_on_vulkan")
    lengths = [3, 1, 1, 2, 1]
    count = sum(lengths)
    inputs = [DRAWS.normal(count, width).astype(np.float32) for width in (32, 16, 16)]
    text = DECODER.format(x="f32", entry=entry, more=ENTRIES[entry])
    program = oi.Simulator(text) if device == "simulator" else oi.compile(text, device=device)
    with program.make_executor() as executor:
        found = decoded(executor, inputs, entry, lengths)
    seen = np.tril(np.ones((count, count), np.bool_))
    q, k, v = (array.astype(np.float64) for array in inputs)
    expected = attended(q, k, v, 4, 2, seen)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_width_that_only_the_step_knows() -> None:
    """It is divided where the step runs, and refused where it does not divide."""
    text = """
        dynamic { q: f32[L, D]; k: f32[T, D]; v: f32[T, D]; }
        block entry { y = op attention(q, k, v, heads=4); return y; }
    """
    executors = [program.make_executor() for program in (oi.Simulator(text), oi.compile(text))]
    for width in (8, 32):
        q, k = DRAWS.normal(3, width).astype(np.float32), DRAWS.normal(5, width).astype(np.float32)
        expected = attended(q.astype(np.float64), k, k, 4, 4)
        for executor in executors:
            np.testing.assert_allclose(executor.run(q=q, k=k, v=k)["y"], expected, 1e-5, 1e-5)
    odd = np.ones((3, 30), np.float32)
    for executor in executors:
        with pytest.raises(OpenInferError, match=r"OI0602.*"):
            executor.run(q=odd, k=odd, v=odd)
    for executor in executors:
        assert np.asarray(executor.run(q=q[:0], k=k, v=k)["y"]).shape == (0, 32)


def test_heads_may_be_named(tmp_path: Any) -> None:
    """By a size or a metadata entry of the package."""
    text = """
        constant { table: f32[heads, 2]; }
        dynamic { q: f32[3, 8]; }
        block entry {
            y = op attention(q, q, q, heads=heads, kv_heads=groups);
            z = op rope(q, heads=groups);
            return y, z;
        }
    """
    content = oi.OinfContent(
        sizevars={"heads": 2},
        metadata={"groups": 2},
        tensors={"table": np.ones((2, 2), np.float32)},
    )
    oi.write_oinf(content, tmp_path / "model.oinf")
    model = oi.open_model(tmp_path / "model.oinf")
    q = DRAWS.normal(3, 8).astype(np.float32)
    for program in (oi.Simulator(text, model), oi.compile(text, model)):
        found = program.make_executor().run(q=q)
        np.testing.assert_allclose(
            found["y"], attended(q.astype(np.float64), q, q, 2, 2), 1e-5, 1e-5
        )
        np.testing.assert_allclose(found["z"], by_twin("rope", [q], {"heads": 2})[0], 1e-5, 1e-5)
