"""The program that the tests of saved programs save, with its package and its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import openinfer as oi
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.program import Program

TEXT = """\
dynamic { x: f32[N, D]; rows: i64[N]; }
constant { W: f32[D, D]; V(l): f32[D, D] @pattern("V.{l}"); k: f32[D]; s: f32; }
persistent { steps: i32 @init(0); seen(t): f32[D] @table; }
volatile { y: f32[N, D]; g: f32[N, D]; n: i32; }
block entry {
  op matmul(x, W) >> y;
  loop layers (l in 0..2) { op matmul(y, V[l]) >> y; }
  op add(y, k) >> y;
  op mul(y, s) >> y;
  op gather(W, rows) >> g;
  cache.write k >> seen[steps];
  cache.increment steps;
  cache.read steps >> n;
  return;
}
"""


def tensors(seed: int = 0) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    names = ("W", "V.0", "V.1", "unused")
    return {name: chance.standard_normal((4, 4)).astype(np.float32) for name in names}


def write_model(path: Path, seed: int = 0, **changes: Any) -> oi.Package:
    metadata: dict[str, Any] = {"k": [1.0, 2.0, 3.0, 4.0], "s": 0.5, "title": "né", "on": True}
    quant = oi.QuantParams("symmetric", oi.QuantScale.per_channel(0, [1, 2, 3, 4]))
    content = {**tensors(seed), **changes}
    content["W"] = oi.TensorSpec(content["W"], quant=quant)
    oi.write_oinf(OinfContent({"D": 4}, metadata, content), path)
    return oi.open_model(path)


def inputs() -> dict[str, Any]:
    chance = np.random.default_rng(1)
    return {"x": chance.standard_normal((3, 4)).astype(np.float32), "rows": np.array([0, 3, 1])}


def two_steps(program: Program) -> list[Any]:
    executor = program.make_executor()
    found = [executor.run(**inputs()) for _ in range(2)]
    assert [int(np.asarray(values["n"])) for values in found] == [1, 2]
    return [values[name] for values in found for name in ("y", "g")]


def agree(one: Program, other: Program) -> None:
    for a, b in zip(two_steps(one), two_steps(other)):
        np.testing.assert_array_equal(a, b)
