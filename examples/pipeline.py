"""One producer, three consumers, in any order: `python -m examples.pipeline`."""

from __future__ import annotations

import numpy as np

from examples.checking import check, package, state_checked, steps_checked


def main() -> None:
    with package("pipeline") as model:
        weights = np.asarray(model.read("W"))
    random = np.random.default_rng(6)
    steps = [{"x": random.standard_normal((8, len(weights)), np.float32)} for _ in range(10)]
    results = steps_checked("pipeline", steps)
    products = [step["x"] @ weights for step in steps]
    for h, found in zip(products, results):
        # The consumers saw the value as it was yielded, also the ones beside its writer.
        check(np.allclose(found["mean"], h.mean(axis=0), 1e-3, 1e-4), "the mean is another one")
        check(np.allclose(found["spread"], h.var(axis=0), 1e-3, 1e-3), "the spread is another one")
    highest = state_checked("pipeline", steps, "highest")
    check(np.allclose(highest, np.max(products, axis=(0, 1)), 1e-3, 1e-4), "a maximum is lost")
    print(f"{len(steps)} steps; the highest value so far is {highest.max():.3f}")


if __name__ == "__main__":
    main()
