"""The quick part of the case table on a Vulkan device, small values too, against the simulator."""

from __future__ import annotations

import pytest
from batches import batches_of, first_cases, flushes, run_program, text_of
from modes import difference, simulate
from table import CASES

import openinfer as oi

_QUICK = {name: case for name, case in CASES.items() if not case.full}
_BATCHES = batches_of(first_cases(_QUICK))


@pytest.mark.parametrize("number", range(len(_BATCHES)))
def test_device_agrees_with_the_simulator(number: int, everything_on_vulkan: None) -> None:
    batch = _BATCHES[number]
    flush = flushes("vulkan")
    program = oi.compile(oi.graph(text_of(batch)), None, device="vulkan")
    found = run_program(program, batch, flush=flush)
    wrong: dict[str, str] = {}
    for name in batch:
        case, expected = CASES[name], simulate(CASES[name], flush=flush)
        text = difference(case, expected, found[name], flush=flush)
        if text is not None:
            wrong[name] = text
    assert not wrong
