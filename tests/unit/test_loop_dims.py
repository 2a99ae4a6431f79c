"""Dimensions that scalars give temporaries of loops: they fail where they are needed, if they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_executors import agree

F32 = np.float32
DIMS = {
    "a scalar": "k",
    "an unsigned scalar": "u",
    "a difference": "k - 3",
    "a quotient": "M * 4 / k",
    "a product of scalars": "k * u",
    "a difference of a quotient": "12 / k - u",
    "a multiple": "2 * k",
    "a sum": "u + u * u",
}
STEPS = [
    (6, 2, 4), (6, 2, 0), (0, 2, 0), (-3, 1, 0), (0, 1, 2), (3, 1, 2), (-1, 1, 2), (1, 14, 1),
    (2, 1, 3), (-(2**62), 2, 0), (2**50, 2**60, 0), (2**62, 2**63, 0), (2**62, 2**63, 1), (4, 1, 2),
]  # fmt: skip
"""k, u and the rounds of the inner loop."""


def steps() -> list[dict[str, Any]]:
    x = np.arange(1, 4, dtype=F32)
    return [{"k": np.int64(k), "u": np.uint64(u), "n": np.int64(n), "x": x} for k, u, n in STEPS]


PROGRAM = """dynamic {{ k: i64; u: u64; n: i64; x: f32[M]; }} volatile {{ y: f32; z: f32; }}
block entry {{
  loop a (i in 0..M) {{
    loop b (j in 0..n) {{
      assign t: f32[{dim}];
      op fill(t, value=1) >> t;
      op sum_axis(t, axes=[0]) >> z;
      op add(y, z) >> y;
    }}
  }}
  return;
}}"""


@pytest.mark.parametrize("name", DIMS)
def test_dimensions_of_a_loop_that_may_run_no_round(name: str) -> None:
    agree(PROGRAM.format(dim=DIMS[name]), steps())


@pytest.mark.parametrize("name", ["a difference", "a quotient", "a product of scalars"])
def test_a_value_that_stays_from_round_to_round(name: str) -> None:
    text = f"""dynamic {{ k: i64; u: u64; n: i64; x: f32[M]; }} volatile {{ y: f32; z: f32; }}
    block entry {{
      loop a (i in 0..M) {{
        loop b (j in 0..n) {{
          assign t: f32[{DIMS[name]}];
          op add(t, x[i]) >> t;
          op sum_axis(t, axes=[0]) >> z;
          op add(y, z) >> y;
        }}
      }}
      return;
    }}""".replace("x[i]", "y")
    agree(text, steps(), watched=True)


def test_the_same_expression_in_front_of_a_loop_and_in_it() -> None:
    text = """dynamic { k: i64; u: u64; n: i64; x: f32[M]; } volatile { y: f32; z: f32; }
    block entry {
      loop a (i in 0..n) { assign t: f32[k - 3]; op sum_axis(t, axes=[0]) >> z; op add(y, z) >> y; }
      assign s: f32[k - 3]; op fill(s, value=2) >> s; op sum_axis(s, axes=[0]) >> z;
      op add(y, z) >> y; return; }"""
    agree(text, steps())
