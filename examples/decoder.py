"""Writes on from some tokens with the cache of `decoder.oi`: `python -m examples.decoder`."""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.checking import check, steps_checked

PROMPT = [3, 14, 15, 9, 26]
COUNT = 12


def main() -> None:
    ids = list(PROMPT)
    given: list[dict[str, Any]] = [{"ids": np.array(ids, np.int32)}]
    for _ in range(COUNT):
        results = steps_checked("decoder", given)
        ids.append(int(results[-1]["next"][0]))
        given.append({"ids": np.array(ids[-1:], np.int32)})
    print("tokens:", *ids)
    # All at once, without anything cached: the same scores for the token after the last one.
    (whole,) = steps_checked("decoder", [{"ids": np.array(ids[:-1], np.int32)}])
    same = np.allclose(results[-1]["scores"], whole["scores"], 1e-3, 1e-4)
    check(same, "what was cached differs from what is computed anew")
    print(f"{COUNT} tokens one by one give the scores of {len(ids) - 1} at once")


if __name__ == "__main__":
    main()
