"""Whole programs whose products are computed in blocks: as the simulator, alike for any threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.lowering.cpu.schedules import blocked_product
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.packages.oinf_writer import OinfContent

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

PROGRAM = """
dynamic { x: f32[2, L, 96]; z: f32[96, N]; }
constant { W: f32[96, 200]; b: f32[200]; V: f32[96, 200]; }
volatile { y: f32[2, L, 200]; u: f32[2, L, 200]; c: f32[2, L, N]; }
block entry {
    op matmul(x, W) >> y;
    op add(y, b) >> y;
    op gelu(y) >> y;
    op matmul(x, V) >> u;
    op matmul(x, z) >> c;
    return y, u, c;
}
"""


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_a_program_in_blocks(
    precision: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache does not know what is changed here.
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    for name, value in {"NEAR_BYTES": 0, "STEP_BYTES": 128, "TILES": 2}.items():
        monkeypatch.setattr(blocked_product, name, value)
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return random.standard_normal(shape, np.float32)

    path = tmp_path / "weights.oinf"
    tensors = {"W": normal(96, 200), "b": normal(200), "V": normal(96, 200)}
    oi.write_oinf(OinfContent({}, {}, tensors), path)
    model = oi.open_model(path)
    given = {"x": normal(2, 75, 96), "z": normal(96, 150)}
    options: dict[str, Any] = {"precision": precision} if precision else {}
    program = oi.compile(PROGRAM, model, sizes={"L": 75, "N": 150}, **options)
    one = program.make_executor(1).run(**given)
    two = program.make_executor(2).run(**given)
    expected = oi.Simulator(PROGRAM, model, {"L": 75, "N": 150}).make_executor().run(**given)
    tolerance = 0.2 if precision else 1e-4
    for name, value in expected.items():
        np.testing.assert_array_equal(one[name], two[name])
        np.testing.assert_allclose(one[name], value, rtol=tolerance, atol=tolerance)
