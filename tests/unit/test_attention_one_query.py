"""One query over cached keys: blocks of keys and of values, bundles of groups, any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from op_runs import Draws

import openinfer as oi
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)
DRAWS = Draws(41)
TEXT = """
dynamic {{ q: f32[B, 1, {q}]; k: {x}[B, T, {k}]; v: {x}[B, T, {k}]; }}
block entry {{
    y = op attention(q, k, v, heads={heads}, kv_heads={groups}, causal=true, window=70, scale=0.2);
    return y;
}}
"""


@pytest.mark.parametrize(
    ("heads", "groups", "size", "x"),
    [
        (8, 2, 64, "f16"),  # Four heads meet a key together, where there are 32 registers.
        (6, 3, 40, "f32"),  # Two, and the last vector of a head is filled in part.
        (66, 2, 16, "f32"),  # More heads in a group than scores have room for.
    ],
)
def test_lengths_around_blocks(heads: int, groups: int, size: int, x: str) -> None:
    """The same as the simulator, and the same bits for any number of threads."""
    text = TEXT.format(q=heads * size, k=groups * size, heads=heads, groups=groups, x=x)
    simulator, program = oi.Simulator(text).make_executor(), oi.compile(text)
    narrow = np.float16 if x == "f16" else np.float32
    with program.make_executor(threads=1) as one, program.make_executor(threads=2) as two:
        for length in (1, 15, 16, 31, 33, 64, 65, 97, 200):
            given = {
                "q": DRAWS.normal(2, 1, heads * size).astype(np.float32),
                "k": DRAWS.normal(2, length, groups * size).astype(narrow),
                "v": DRAWS.normal(2, length, groups * size).astype(narrow),
            }
            found = np.array(one.run(**given)["y"])
            np.testing.assert_allclose(found, simulator.run(**given)["y"], 1e-5, 2e-6)
            assert np.array_equal(two.run(**given)["y"], found)
