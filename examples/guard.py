"""Sends good and bad inputs through the branch of `guard.oi`: `python -m examples.guard`."""

from __future__ import annotations

import numpy as np

from examples.checking import check, run_checked


def main() -> None:
    small = np.random.default_rng(0).standard_normal((2, 16), np.float32) / 4  # (batch, width)
    large = small.copy()
    large[0, 3] = 1e30
    missing = small.copy()
    missing[1, 5] = np.nan
    for name, x, healthy in (
        ("small", small, True),
        ("large", large, False),
        ("missing", missing, False),
    ):
        results = run_checked("guard", x=x)
        way = "kept" if results["healthy"] else "repaired"
        print(f"{name:>8} inputs: {way}, largest result {results['y'].max():.3g}")
        check(bool(results["healthy"]) == healthy, f"{name} inputs took the other way")
        check(bool(np.isfinite(results["y"]).all()), f"{name} inputs gave infinity or NaN")


if __name__ == "__main__":
    main()
