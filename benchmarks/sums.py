"""How exact long sums are: relative errors against float64, by length and number of threads.

python -m benchmarks.sums
python -m benchmarks.sums --lengths 100 10000 100000000 --threads 1 2 --strict-math

Each number is the worst of two rows: 0.1 again and again, for which errors of rounding add up, and
numbers drawn from 0 to 1. Of a layer norm it is the absolute error of the result, of rows with a mean
of 1e4 and a deviation of 1. PyTorch stands beside it where it is installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import openinfer as oi

Array = np.ndarray[Any, Any]

LENGTHS = tuple(10**power for power in range(2, 9))
LARGE = 10**7
"""Beyond it sums are measured, and nothing that has a result of that length."""


@dataclass(frozen=True)
class Case:
    """A kind of sum: its program, and what it gives for a row of numbers."""

    name: str
    kind: str
    """The type of x, of a length N."""
    result: str
    statement: str
    shaped: Callable[[Array], Array]
    exact: Callable[[Array], Array | np.floating[Any]]
    torch: Callable[[Any, Any], Any]
    large: bool = False
    """Whether it is measured beyond `LARGE`."""
    far: bool = False
    """Whether the rows lie far from zero, and errors count as they are."""

    @property
    def text(self) -> str:
        return (
            f"dynamic {{ x: {self.kind}; }}\nvolatile {{ y: {self.result}; }}\n"
            f"block entry {{ {self.statement} return y; }}\n"
        )


def _wide(x: Array) -> Array:
    return x.astype(np.float64)


def _shares(x: Array) -> Array:
    power = np.exp(_wide(x))
    return power / power.sum()


def _normal(x: Array) -> Array:
    wide = _wide(x)
    return (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)


def _squares(x: Array) -> np.floating[Any]:
    return np.square(_wide(x)).sum()


CASES = (
    Case(
        "sum over all axes",
        "f32[2, N]",
        "f32[]",
        "op sum_axis(x, axes=[0, 1]) >> y;",
        lambda x: x.reshape(2, -1),
        lambda x: x.sum(dtype=np.float64),
        lambda torch, x: x.sum(),
        large=True,
    ),
    Case(
        "sum over the last axis",
        "f32[1, N]",
        "f32[1]",
        "op sum_axis(x, axes=[1]) >> y;",
        lambda x: x[None],
        lambda x: x.sum(1, dtype=np.float64),
        lambda torch, x: x.sum(1),
        large=True,
    ),
    Case(
        "sum over the first axis",
        "f32[N, 2]",
        "f32[2]",
        "op sum_axis(x, axes=[0]) >> y;",
        lambda x: np.stack([x, x], 1),
        lambda x: x.sum(0, dtype=np.float64),
        lambda torch, x: x.sum(0),
        large=True,
    ),
    Case(
        "mean",
        "f32[N]",
        "f32[]",
        "op mean_axis(x, axes=[0]) >> y;",
        lambda x: x,
        lambda x: x.mean(dtype=np.float64),
        lambda torch, x: x.mean(),
        large=True,
    ),
    Case(
        "product, N terms",
        "f32[1, N]",
        "f32[1, 1]",
        "op matmul(x, x, transpose_b=true) >> y;",
        lambda x: x[None],
        _squares,
        lambda torch, x: x @ x.T,
    ),
    Case(
        "cumsum",
        "f32[N]",
        "f32[N]",
        "op cumsum(x, axis=0) >> y;",
        lambda x: x,
        lambda x: x.cumsum(dtype=np.float64),
        lambda torch, x: x.cumsum(0),
    ),
    Case(
        "softmax",
        "f32[1, N]",
        "f32[1, N]",
        "op softmax(x, axis=1) >> y;",
        lambda x: x[None],
        _shares,
        lambda torch, x: x.softmax(1),
    ),
    Case(
        "layer_norm far from 0",
        "f32[1, N]",
        "f32[1, N]",
        "op layer_norm(x) >> y;",
        lambda x: x[None],
        _normal,
        lambda torch, x: torch.nn.functional.layer_norm(x, (x.shape[1],)),
        far=True,
    ),
)


def rows(length: int, *, far: bool) -> Iterator[Array]:
    """The numbers that are added up."""
    random = np.random.default_rng(length)
    if far:
        yield random.standard_normal(length, dtype=np.float32) + np.float32(1e4)
        return
    yield np.full(length, 0.1, np.float32)
    yield random.random(length, dtype=np.float32)


def measured(
    case: Case, length: int, threads: Sequence[int], *, strict: bool
) -> list[tuple[float, float | None]]:
    """For each number of threads: our error, and PyTorch's where there is one."""
    program = oi.compile(oi.graph(case.text), strict_math=strict)
    worst: list[tuple[float, float | None]] = [(0.0, None)] * len(threads)
    for row in rows(length, far=case.far):
        x = case.shaped(row)
        exact = case.exact(x)

        def error(found: Any, exact: Any = exact) -> float:
            off = np.abs(np.asarray(found, np.float64) - exact)
            return float(np.max(off if case.far else off / np.abs(exact)))

        for place, count in enumerate(threads):
            ours = error(program.make_executor(threads=count).run(x=x)["y"])
            theirs = _in_torch(case, x, count)
            old, old_theirs = worst[place]
            both = None if theirs is None else max(error(theirs), old_theirs or 0.0)
            worst[place] = (max(ours, old), both)
    return worst


def _in_torch(case: Case, x: Array, threads: int) -> Array | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return case.torch(torch, torch.from_numpy(x)).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description="errors of long sums, as a table in Markdown")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--threads", type=int, nargs="+", default=(1, 2))
    parser.add_argument("--strict-math", action="store_true")
    args = parser.parse_args()
    heads = [f"{name}, {n}" for n in args.threads for name in ("openinfer", "PyTorch")]
    print(f"| | length | {' | '.join(heads)} |")
    print(f"|---|---|{'---|' * len(heads)}")
    for case in CASES:
        for length in args.lengths:
            if length > LARGE and not case.large:
                continue
            found = measured(case, length, args.threads, strict=args.strict_math)
            cells = ["" if value is None else f"{value:.1e}" for pair in found for value in pair]
            print(f"| {case.name} | {length:.0e} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
