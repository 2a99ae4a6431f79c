"""Runs the case table: every op has a case, every case simulates, and compiled agrees.

By default the compiled check runs a part of the table that covers every op and dtype once;
`OPENINFER_CASES=full` runs all of it. Cases are compiled many at a time (`batches.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import edge_rows
import pytest
from batches import batches_of, first_cases, host_results
from limitations import LIMITATIONS, limitation_of
from modes import difference, execute, simulate, uncovered, uncovered_dtypes
from table import CASES, Case, tolerance

import openinfer as oi
from openinfer.dialects import opset
from tests.sweeps import FULL


def _quick() -> Mapping[str, Case]:
    """The table, without the rows that only the full one has."""
    if FULL:
        return CASES
    return {name: case for name, case in CASES.items() if not case.full}


def _part() -> list[str]:
    """The first cases of each op and set of dtypes, or the whole table."""
    if FULL:
        return list(CASES)
    return first_cases(_quick())


_BATCH_OF = {name: batch for batch in batches_of(_part()) for name in batch}


def test_every_op_has_a_case():
    assert uncovered() == []


def test_every_elementwise_op_has_a_drawn_case():
    """Edge cases are made of the registry for every op; ordinary numbers need a row of the table."""
    edges = {case.name for case in edge_rows.rows()}
    drawn = {case.op for case in CASES.values() if case.name not in edges and not case.column}
    specs = [spec for name in opset.names() if (spec := opset.find(name)) is not None]
    elementwise = {spec.name for spec in specs if spec.family in ("elementwise", "compare")}
    assert elementwise - drawn == set()


def test_every_dtype_of_every_op_has_a_case():
    assert uncovered_dtypes() == []


def test_names_are_unique_and_tolerances_give_reasons():
    assert len({case.name for case in CASES.values()}) == len(CASES)
    for case in CASES.values():
        for dtype in case.dtypes:
            assert tolerance(case.op, dtype).reason


def _written() -> list[str]:
    """The cases that somebody wrote, or the whole table."""
    return [name for name, case in _quick().items() if FULL or not case.column]


@pytest.mark.parametrize("name", _written())
def test_case_simulates(name: str):
    assert simulate(CASES[name])


@pytest.mark.parametrize("name", _part())
def test_compiled_agrees_with_the_simulator(name: str):
    case: Case = CASES[name]
    row = limitation_of(case)
    if row is not None:
        with pytest.raises((oi.UnsupportedError, oi.ProgramError)):
            execute(case)
        return
    found = difference(case, simulate(case), host_results(_BATCH_OF[name])[name])
    assert found is None, found


def test_limitations_are_used():
    for row in LIMITATIONS:
        assert any(limitation_of(case) is row for case in CASES.values()), row.reason


def test_the_table_stands_alone():
    folder = Path(__file__).parent
    assert {p.stem for p in folder.glob("*.py")} >= {"table", "limitations", "drawing", "modes"}
