"""Perplexity: how surprised a model is by a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openinfer.compiler.llm.engine import Engine
from openinfer.runtime.errors import InputError


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean of -ln p over the scored tokens."""

    value: float
    error: float
    """Standard error of `value`."""
    tokens: int
    """How many were scored."""
    windows: int


def perplexity(engine: Engine, ids: Sequence[int], window: int) -> Perplexity:
    """The perplexity of a text given as tokens without bos, in windows of so many tokens.

    Each window is computed from its beginning, where bos stands in place of its first token if the model
    wants one; the tokens behind its first half are scored. Raises InputError OI0796 for a text of less than
    one window.
    """
    if window < 4 or len(ids) < window:
        raise InputError(
            "OI0796",
            f"the text has {len(ids)} tokens, a window {window}",
            hint="give a longer text, or smaller windows of 4 tokens at least: -c N",
        )
    bos = engine.tokenizer.bos if engine.tokenizer.add_bos else None
    surprise: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    for start in range(0, len(ids) - window + 1, window):
        part = list(ids[start : start + window])
        fed = part if bos is None else [bos, *part[1:]]
        # The last token scores nothing of this window.
        logits = engine.logits(fed[:-1])[window // 2 :].astype(np.float64)
        largest = logits.max(axis=1, keepdims=True)
        norm = np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0]
        wanted = np.array(part[window // 2 + 1 :])
        surprise.append(norm - logits[np.arange(len(wanted)), wanted])
    values = np.concatenate(surprise)
    mean = float(values.mean())
    error = float(values.std() / np.sqrt(max(len(values) - 1, 1)))
    return Perplexity(float(np.exp(mean)), float(np.exp(mean)) * error, len(values), len(surprise))
