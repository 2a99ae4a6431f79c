"""Diagnostics codes of the passes of imports: code → (title, explanation)."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI1580": (
        "model that cannot be given a cache",
        "`stateful` makes tables of keys and values for a causal decoder whose tokens know of each other "
        "through causal attention alone. All that contradicts this is told at once: a mask that inputs say, "
        "attention without `causal`, an op along the tokens, a batch or a number of tokens that is fixed.",
    ),
}
