"""Many cases in one program: what a program costs whatever is in it is paid once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from case import Case
from drawing import batch_text, draw_inputs
from limitations import limitation_of
from table import CASES

import openinfer as oi
from openinfer.dialects.opset import find

SIZE = 30
"""Cases of a program. Larger ones are no quicker, and say less when they fail."""


def first_cases(cases: Mapping[str, Case]) -> list[str]:
    """The first case of each op and set of dtypes, and its edges.

    Of the columns that are made from other rows one for each dtype and family of ops.
    """
    first: dict[tuple[str, tuple[str, ...], str], str] = {}
    for name, case in cases.items():
        spec = find(case.op)
        what = spec.family if case.column and spec is not None else case.op
        edge = case.draw if case.draw.startswith("edge") else ""
        if case.inplace is not None:
            edge = f"over {case.inplace}"
        first.setdefault((what, tuple(dict.fromkeys(case.dtypes)), edge), name)
    return list(first.values())


def batches_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The cases by batches; each case whose sizes only its inputs fix has one to itself."""
    alone = [(name,) for name in names if CASES[name].names or CASES[name].runtime]
    taken = {name for (name,) in alone}
    rest = [name for name in names if name not in taken and limitation_of(CASES[name]) is None]
    return [*(tuple(rest[i : i + SIZE]) for i in range(0, len(rest), SIZE)), *alone]


def text_of(batch: Sequence[str]) -> str:
    """The program of a batch."""
    return batch_text([CASES[name] for name in batch], _suffixes(batch))


@cache
def flushes(device: str) -> bool:
    """Whether a device takes subnormal numbers for zeros, as it may where it offers no other way."""
    text = (
        "dynamic { x: f32[300]; } block entry { assign y: f32[300]; op mul(x, x) >> y; return y; }"
    )
    x = np.full(300, 2.0**-70, np.float32)
    with oi.compile(text, device=device).make_executor() as executor:
        found: Any = executor.run(x=x)["y"]
    return not found.any()


def run_program(
    program: oi.Program, batch: Sequence[str], *, flush: bool = False
) -> dict[str, dict[str, Any]]:
    """The results of each case of a batch, by its name, under the names of the case alone."""
    pairs = list(zip(batch, _suffixes(batch), strict=True))
    inputs = {
        f"{operand}{suffix}": value
        for name, suffix in pairs
        for operand, value in draw_inputs(CASES[name], flush=flush).items()
    }
    with program.make_executor() as executor:
        results = executor.run(**inputs)
    return {
        name: {f"r{i}": results[f"r{i}{suffix}"] for i in range(CASES[name].outputs)}
        for name, suffix in pairs
    }


@cache
def host_results(batch: tuple[str, ...]) -> Mapping[str, dict[str, Any]]:
    """The results of a batch on this machine, computed once in a process."""
    return run_program(oi.compile(oi.graph(text_of(batch)), None), batch)


def _suffixes(batch: Sequence[str]) -> list[str]:
    return [f"_{number}" for number in range(len(batch))] if len(batch) > 1 else [""]
