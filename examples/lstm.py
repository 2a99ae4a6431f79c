"""Feeds a sequence to `lstm.oi` in pieces and at once: `python -m examples.lstm`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from examples.checking import check, steps_checked


def main() -> None:
    x = np.random.default_rng(3).standard_normal((24, 2, 8), np.float32)  # (time, batch, inputs)
    (whole,) = steps_checked("lstm", [{"x": x}])
    for lengths in ((1,) * 24, (5, 7, 12)):
        edges = np.cumsum((0, *lengths))
        pieces = [{"x": x[a:b]} for a, b in pairwise(edges)]
        streamed = np.concatenate([results["y"] for results in steps_checked("lstm", pieces)])
        check(np.allclose(streamed, whole["y"], 1e-4, 1e-5), "pieces give another result")
        print(f"{len(lengths):2} pieces give what the whole sequence gives")


if __name__ == "__main__":
    main()
