"""What can be done with the case table: check, measure, support, coverage.

`python tests/cases/modes.py MODE [--op NAME] [--dtype NAME]` runs a mode from the command line.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

import numpy as np
from case import dtype_of
from drawing import FLUSHED, draw_inputs, flushed, program_text
from limitations import limitation_of
from table import CASES, Case, tolerance

import openinfer as oi
from openinfer.dialects.opset import find, names
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.tensors import Tensor

Outputs = dict[str, Any]


def simulate(case: Case, *, flush: bool = False) -> Outputs:
    """The results of the simulator."""
    return run(oi.Simulator(oi.graph(program_text(case))).make_executor(), case, flush=flush)


def execute(case: Case, device: str = "cpu") -> Outputs:
    """The results of the compiled program."""
    program = oi.compile(oi.graph(program_text(case)), None, device=device)
    return run(program.make_executor(), case)


def run(executor: BaseExecutor, case: Case, *, flush: bool = False) -> Outputs:
    with executor:
        return executor.run(**draw_inputs(case, flush=flush))


def difference(case: Case, expected: Outputs, found: Outputs, *, flush: bool = False) -> str | None:
    """Why two results differ by more than the tolerance, or None; `flush`: subnormal numbers are zeros."""
    for name, want in expected.items():
        have = found[name]
        left, right = _plain(want), _plain(have)
        if flush and _dtype(want) in FLUSHED:
            left, right = flushed(left), flushed(right)
        if left.shape != right.shape or left.dtype != right.dtype:
            return f"{name}: {left.dtype}{left.shape} against {right.dtype}{right.shape}"
        spec = find(case.op)
        assert spec is not None
        acc = case.settings.get("acc")
        limit = tolerance(spec.name, _dtype(want), acc[0] if isinstance(acc, list) else acc)
        try:
            np.testing.assert_allclose(
                right, left, rtol=limit.rtol, atol=limit.atol, equal_nan=True
            )
        except AssertionError as error:
            return f"{name}: {error}\ntolerance: {limit.reason}\n{program_text(case)}"
    return None


def _plain(value: Any) -> Any:
    return value.values() if isinstance(value, Tensor) else np.asarray(value)


def _dtype(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.dtype.name
    kind = np.asarray(value).dtype
    return {"float32": "f32", "float64": "f64", "float16": "f16"}.get(kind.name, kind.name)


def uncovered() -> list[str]:
    """Ops of the registry without a case."""
    covered = {spec.name for case in CASES.values() if (spec := find(case.op)) is not None}
    return [name for name in names() if name not in covered]


def uncovered_dtypes() -> list[str]:
    """`OP DTYPE` for each dtype that an op's row allows and that no case has."""
    covered = {
        (spec.name, dtype)
        for case in CASES.values()
        if (spec := find(case.op)) is not None and (dtype := dtype_of(case)) is not None
    }
    wanted = ((name, dtype) for name in names() if (spec := find(name)) for dtype in spec.dtypes)
    return [f"{name} {dtype}" for name, dtype in wanted if (name, dtype) not in covered]


def _check(case: Case) -> str:
    row = limitation_of(case)
    if row is not None:
        return f"limited: {row.reason}"
    found = difference(case, simulate(case), execute(case))
    return "ok" if found is None else f"DIFFERS {found}"


def _support(case: Case) -> str:
    row = limitation_of(case)
    try:
        oi.compile(oi.graph(program_text(case)), None)
    except oi.OpenInferError as error:
        return f"no: {error.message}" if row else f"NO, and no limitation says so: {error}"
    return "yes" if row is None else f"YES, but a limitation says: {row.reason}"


def _measure(case: Case) -> str:
    """Microseconds of one step, the median of five, compiled and simulated."""
    executors: list[BaseExecutor] = [
        oi.Simulator(oi.graph(program_text(case))).make_executor(),
        oi.compile(oi.graph(program_text(case)), None).make_executor(),
    ]
    inputs = draw_inputs(case)
    shown: list[str] = []
    for executor in executors:
        times: list[float] = []
        for _ in range(5):
            executor.insert(**inputs)
            begin = time.perf_counter()
            executor.step()
            times.append(time.perf_counter() - begin)
        shown.append(f"{median(times) * 1e6:9.1f} us")
    return "simulated {} compiled {}".format(*shown)


def _coverage(case: Case) -> str:
    simulate(case)
    return "ok"


MODES: dict[str, Callable[[Case], str]] = {
    "check": _check,
    "measure": _measure,
    "support": _support,
    "coverage": _coverage,
}


def select(op: str | None, dtype: str | None) -> Iterable[Case]:
    return (
        case
        for case in CASES.values()
        if (op is None or case.op == op) and (dtype is None or dtype in case.dtypes)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--op")
    parser.add_argument("--dtype")
    arguments = parser.parse_args()
    # A cache of an older build would answer for this one.
    folder = tempfile.TemporaryDirectory(prefix="openinfer-cases-")
    os.environ["OPENINFER_CACHE_DIR"] = folder.name
    failed = 0
    for case in select(arguments.op, arguments.dtype):
        try:
            result = MODES[arguments.mode](case)
        except oi.OpenInferError as error:
            result = f"ERROR {error}"
        failed += result.split(" ")[0].rstrip(",") in ("DIFFERS", "NO", "YES", "ERROR")
        sys.stdout.write(f"{case.name}: {result}\n")
    if arguments.mode == "coverage":
        missing = uncovered()
        failed += len(missing)
        sys.stdout.write(f"ops without a case: {', '.join(missing) or 'none'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
