"""Weights that no cache holds are read in another way; what a program computes stays, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile as compile_without
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.host import cache_sizes, cpu_unavailable_reason, last_cache
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.target import TARGETS, describe_target, named_target

LEVELS = ("generic", "avx2", "avx512")
BEST = host_target().name if not cpu_unavailable_reason() else "generic"

PROGRAM = """
dynamic { x: f32[T, 40]; }
constant { W(l): f32[40, 40] @pattern("W.{l}"); V: f16[40, 70]; U: i8[40, 70]; }
volatile { y: f32[T, 70]; z: f32[T, 70]; }
block entry {
    assign h: f32[T, 40];
    assign v: f32[40, 70];
    assign u: f32[40, 70];
    transfer x >> h;
    loop layers (l in 0..3) { op matmul(h, W[l]) >> h; op relu(h) >> h; }
    op cast(V, to=f32) >> v;
    op cast(U, to=f32) >> u;
    op matmul(h, v) >> y;
    op matmul(h, u) >> z;
    return y, z;
}
"""


@pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)
@pytest.mark.parametrize("target", LEVELS[: LEVELS.index(BEST) + 1])
def test_bits_stay(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(TARGETS, target, replace(named_target(target), last_cache=4096))
    random = np.random.default_rng(0)
    tensors: dict[str, Any] = {
        f"W.{layer}": random.standard_normal((40, 40), np.float32) / 6 for layer in range(3)
    }
    tensors["V"] = random.standard_normal((40, 70), np.float32).astype(np.float16)
    tensors["U"] = random.integers(-128, 127, (40, 70), np.int8)
    oi.write_oinf(OinfContent({}, {}, tensors), tmp_path / "weights.oinf")
    model = oi.open_model(tmp_path / "weights.oinf")
    streamed = oi.compile(PROGRAM, model, target=target)
    plain = compile_without(PROGRAM, model, target=target, without=["stream-weights"])
    assert streamed.parts != plain.parts
    for rows in (1, 2, 3, 9):
        x = random.standard_normal((rows, 40), np.float32)
        expected = plain.make_executor(1).run(x=x)
        for threads in (1, 2):
            found = streamed.make_executor(threads).run(x=x)
            for name, value in expected.items():
                np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_the_last_cache_is_that_of_the_machine():
    assert last_cache() == (cache_sizes()[max(cache_sizes())] if cache_sizes() else 32 << 20)
    assert all(size > 0 for size in cache_sizes().values())
    plain = named_target("avx2")
    other = describe_target(plain.triple, plain.cpu, {}, plain.last_cache // 2)
    assert other.last_cache == plain.last_cache // 2
    assert other.key != describe_target(plain.triple, plain.cpu, {}).key
    if not cpu_unavailable_reason():
        assert host_target().last_cache == last_cache()
