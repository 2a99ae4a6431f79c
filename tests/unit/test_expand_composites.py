"""Attention and norms in parts: a CPU that wants nothing whole computes what the simulator does."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler.api import compile as compile_program
from openinfer.lowering import demands
from openinfer.lowering.cpu.demands import CpuDemands
from openinfer.lowering.linalg.expand_composites import ExpandComposites
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.tensors import Tensor

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

TOLERANCES = {"f32": 1e-5, "f64": 1e-11, "f16": 4e-3, "bf16": 3e-2}
KINDS = ("nn.attention", "nn.layer_norm", "nn.rms_norm")


class PartsDemands(CpuDemands):
    """The CPU, as a machine that has no kernel for an op that others compute in parts."""

    whole = demands.Demands.whole


LEFT: list[str] = []
"""Names of the ops behind the pass."""


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(demands.DEMANDS, "cpu", f"{__name__}:PartsDemands")
    monkeypatch.setattr(demands, "_LOADED", {})
    # Programs of the usual record stay out of the way, and these out of theirs.
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path))
    LEFT.clear()
    expand = ExpandComposites.apply

    def watched(self: ExpandComposites, ctx: Context, op: ModuleOp) -> None:
        expand(self, ctx, op)
        op.verify()
        LEFT.extend(inner.name for inner in op.walk())

    monkeypatch.setattr(ExpandComposites, "apply", watched)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@cache
def compiled(text: str, **options: Any) -> oi.Program:
    """A program without an op of `KINDS`, made once for all inputs that tests give it."""
    program = compile_program(text, None, **options)
    assert LEFT
    assert not set(KINDS) & set(LEFT)
    return program


def agree(text: str, given: dict[str, Any], dtype: str = "f32", **options: Any) -> np.ndarray:
    """Both executors give the same results; the first of them."""
    program = compiled(text, **options)
    tensors = {
        name: Tensor.from_values(dtype, array) if array.dtype == np.float64 else array
        for name, array in given.items()
    }
    found: list[list[np.ndarray]] = []
    for executor in (oi.Simulator(text).make_executor(), program.make_executor(1)):
        with executor:
            results = executor.run(**tensors).values()
        plain = [one.values() if isinstance(one, Tensor) else one for one in results]
        found.append([np.asarray(one, np.float64) for one in plain])
    for wanted, have in zip(*found, strict=True):
        np.testing.assert_allclose(have, wanted, TOLERANCES[dtype], TOLERANCES[dtype])
    return found[0][0]


def attention(q: str, kv: str, settings: str = "", dtype: str = "f32", mask: str = "") -> str:
    operands = "q, k, v, m" if mask else "q, k, v"
    declared = f"q: {dtype}[{q}]; k: {dtype}[{kv}]; v: {dtype}[{kv}]; {mask}"
    if "window=n" in settings:
        declared += " n: i64;"
    return (
        f"dynamic {{ {declared} }} volatile {{ y: {dtype}[{q}]; }} "
        f"block entry {{ op attention({operands}{settings}) >> y; return; }}"
    )


def heads(queries: int, keys: int, many: int, few: int, size: int = 16) -> dict[str, Any]:
    return {
        "q": drawn(2, many, queries, size),
        "k": drawn(2, few, keys, size, seed=1),
        "v": drawn(2, few, keys, size, seed=2),
    }


@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("settings", ["", ", scale=0.7, causal=true"])
def test_attention(dtype: str, settings: str) -> None:
    text = attention("2, 4, 9, 16", "2, 2, 9, 16", settings, dtype)
    agree(text, heads(9, 9, 4, 2), dtype)


@pytest.mark.parametrize(("queries", "keys"), [(1, 12), (12, 5)])
@pytest.mark.parametrize("settings", [", causal=true", ", causal=true, window=n", ", window=n"])
def test_lengths_and_windows_that_only_the_step_knows(
    queries: int, keys: int, settings: str
) -> None:
    """With fewer keys than queries the first queries see none: their rows are 0."""
    given = heads(queries, keys, 6, 2)
    if "window=n" in settings:
        given["n"] = np.int64(4)
    found = agree(attention("2, 6, L, 16", "2, 2, T, 16", settings), given)
    if "causal" in settings and keys < queries:
        assert not found[:, :, : queries - keys].any()


@pytest.mark.parametrize("shape", ["7, 9", "2, 1, 1, 9", "3, 7, 9"])
@pytest.mark.parametrize("kind", ["bool", "f32", "f16"])
def test_masks(shape: str, kind: str) -> None:
    """A row that may attend to nothing is 0."""
    dims = [int(part) for part in shape.split(",")]
    given = heads(7, 9, 3, 3)
    seen = drawn(*dims, seed=5) > 0
    seen[..., -1, :] = False
    floats = {"f32": np.float32, "f16": np.float16}
    given["m"] = seen if kind == "bool" else np.where(seen, 0.5, -np.inf).astype(floats[kind])
    found = agree(attention("2, 3, 7, 16", "2, 3, 9, 16", mask=f"m: {kind}[{shape}];"), given)
    assert not found[..., -1, :].any()


@pytest.mark.parametrize(
    ("settings", "mask"), [(", causal=true", False), (", window=2", False), ("", True)]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, "both"])
def test_a_hidden_key_is_no_part_of_a_result(settings: str, mask: bool, bad: Any) -> None:
    """What is not finite reaches the rows that see it, and no other."""
    given = heads(6, 6, 4, 2)
    v = given["v"]
    if bad == "both":
        v[:, :, 3, 0], v[:, :, 4, 0] = np.inf, -np.inf
    else:
        v[:, :, 3, :2] = bad
        given["k"][:, :, 5, 0] = bad
    if mask:
        given["m"] = np.tri(6, dtype=np.bool_)
    text = attention("2, 4, 6, 16", "2, 2, 6, 16", settings, mask="m: bool[6, 6];" if mask else "")
    found = agree(text, given)
    assert np.isfinite(found[:, :, :2]).all()
    assert not np.isfinite(found[:, :, 4, 0]).any()


def test_infinite_scores_without_a_mask() -> None:
    given = heads(4, 4, 2, 2)
    given["q"][:, :, 1] = 1.0
    given["k"][:] = np.where(np.arange(16) == 0, -np.inf, 1.0)
    assert not agree(attention("2, 2, 4, 16", "2, 2, 4, 16"), given)[:, :, 1].any()


@pytest.mark.parametrize(
    ("dtype", "strict"), [("f32", False), ("f32", True), ("f64", False), ("f16", False)]
)
def test_norms(dtype: str, strict: bool) -> None:
    """With weight and bias, with a weight, with neither."""
    calls = (
        *("layer_norm(x, w, b)", "layer_norm(x, w)", "layer_norm(x)"),
        *("rms_norm(x, w)", "rms_norm(x)"),
    )
    declared = " ".join(f"y{number}: {dtype}[B, 33];" for number in range(len(calls)))
    nodes = " ".join(f"op {call} >> y{number};" for number, call in enumerate(calls))
    text = (
        f"dynamic {{ x: {dtype}[B, 33]; w: {dtype}[33]; b: {dtype}[33]; }} "
        f"volatile {{ {declared} }} block entry {{ {nodes} return; }}"
    )
    given = {"x": 3 * drawn(5, 33) + 1, "w": drawn(33), "b": drawn(33, seed=1)}
    agree(text, given, dtype, strict_math=strict)
