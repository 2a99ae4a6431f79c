"""Routes inputs to the experts of `moe.oi`: `python -m examples.moe`."""

from __future__ import annotations

import numpy as np

from examples.checking import check, state_checked, steps_checked


def main() -> None:
    random = np.random.default_rng(5)
    steps = [{"x": random.standard_normal((1, 16), np.float32)} for _ in range(40)]
    results = steps_checked("moe", steps)
    chosen = np.array([int(r["chosen"][0]) for r in results])
    counts = np.bincount(chosen, minlength=4)
    print("experts chosen:", *counts)
    check(bool((counts > 0).all()), "some expert never works")
    check(bool((state_checked("moe", steps, "used") == counts).all()), "the counts are wrong")


if __name__ == "__main__":
    main()
