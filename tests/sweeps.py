"""How much of a long sweep a run takes: a part, or all of it for `OPENINFER_CASES=full` (`make sweeps`)."""

from __future__ import annotations

import os

FULL = os.environ.get("OPENINFER_CASES") == "full"


def sweep(part: int, whole: int) -> int:
    """How many seeds, or draws, a run takes."""
    return whole if FULL else part
