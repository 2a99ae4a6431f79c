"""The quick part of the case table on a Vulkan device, small values too, against the simulator."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from batches import batches_of, first_cases, run_program, text_of
from modes import difference, simulate
from table import CASES

import openinfer as oi

_QUICK = {name: case for name, case in CASES.items() if not case.full}
_BATCHES = batches_of(first_cases(_QUICK))


@cache
def _flushes() -> bool:
    """Whether the device takes subnormal numbers for zeros, as it may where it offers no other way."""
    text = (
        "dynamic { x: f32[300]; } block entry { assign y: f32[300]; op mul(x, x) >> y; return y; }"
    )
    x = np.full(300, 2.0**-70, np.float32)
    with oi.compile(text, device="vulkan").make_executor() as executor:
        found: Any = executor.run(x=x)["y"]
    return not found.any()


@pytest.mark.parametrize("number", range(len(_BATCHES)))
def test_device_agrees_with_the_simulator(number: int, everything_on_vulkan: None) -> None:
    batch = _BATCHES[number]
    if _flushes():
        # These are full of subnormal numbers.
        batch = tuple(name for name in batch if "edge" not in CASES[name].draw)
        if not batch:
            pytest.skip("the device takes subnormal numbers for zeros")
    found = run_program(oi.compile(oi.graph(text_of(batch)), None, device="vulkan"), batch)
    wrong = {
        name: text
        for name in batch
        if (text := difference(CASES[name], simulate(CASES[name]), found[name])) is not None
    }
    assert not wrong
