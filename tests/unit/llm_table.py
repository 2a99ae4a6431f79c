"""What a family's program computes beside what others do: the rows of `docs/families.md`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llm_hub
import numpy as np
from llm_models import KINDS, SHAPES, VOCABULARY, Matrix, Model

import openinfer as oi

TYPES = {"F32": KINDS.F32, "Q8_0": KINDS.Q8_0, "Q4_K": KINDS.Q4_K}
PROMPT = [1, *(int(i) for i in np.random.default_rng(1).integers(3, VOCABULARY, 40))]
TOKENS = 64
EXACT = 1e-5
"""How far logits of an exact program may lie from those in float64, as a part of the largest."""
LLAMA_CPP = {"F32": 3e-6, "Q8_0": 5e-2, "Q4_K": 5e-2}
"""The same for llama.cpp, and for precision q8: beside weights in blocks rows are rounded to eight bits."""
GELU = {"gemma2": 1e-3, "gemma3": 1e-3, "gpt2": 1e-3}
"""For F32 where llama.cpp takes GELU from a table in f16."""
TRANSFORMERS = 5e-6
"""The same for transformers, in f32."""
EXPERTS = 0.6
"""Of rows in eight bits: a token whose router is near a tie goes to other experts. In a Mixtral in Q8_0 that
is one of 104 tokens, 0.27 off; all others are at most 0.025 off."""
HEAD = (
    *("model", "weights", "compiled", "simulator", "compiled, q8", "llama.cpp", "transformers"),
    *("compiled to llama.cpp", "compiled to transformers", f"{TOKENS} greedy tokens as"),
)
"""Columns of the table."""


@dataclass
class Row:
    """A model with its weights in one type."""

    model: str
    weights: str
    errors: dict[str, float] = field(default_factory=dict[str, float])
    """By column: the largest difference of two logits, as a part of the largest logit."""
    greedy: dict[str, int] = field(default_factory=dict[str, int])
    """How many of our greedy tokens, from the first on, somebody else chooses too."""
    absent: dict[str, str] = field(default_factory=dict[str, str])
    """Who could not run, and why."""

    def cells(self) -> list[str]:
        errors = [f"{self.errors[c]:.1e}" if c in self.errors else "" for c in HEAD[2:-1]]
        told = [f"{n} to {at}" if at < TOKENS else n for n, at in self.greedy.items()]
        return [self.model, self.weights, *errors, ", ".join(told)]

    def wrong(self) -> list[str]:
        """What lies beyond its bound."""
        llama = LLAMA_CPP[self.weights]
        if self.weights == "F32":
            llama = GELU.get(self.model, llama)
        elif SHAPES[self.model].experts:
            llama = EXPERTS
        bounds = {
            **{"compiled": EXACT, "simulator": EXACT, "compiled, q8": llama},
            **{"llama.cpp": llama, "transformers": TRANSFORMERS},
            **{"compiled to llama.cpp": llama + EXACT},
            **{"compiled to transformers": TRANSFORMERS + EXACT},
        }
        found = [
            f"{column} {self.errors[column]:.1e} > {bound:.0e}"
            for column, bound in bounds.items()
            if column in self.errors and not self.errors[column] <= bound
        ]
        return found + [
            f"token {n} is not {name}'s" for name, n in self.greedy.items() if n < TOKENS
        ]


def off(found: Any, wanted: Any) -> float:
    """The largest difference, as a part of the largest number."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def measured(
    name: str, weights: str, folder: Path, executors: Sequence[str] = ("compiled", "simulator")
) -> Row:
    """One row. Greedy tokens are those of the first of `executors`."""
    model = Model(
        folder / f"{name}-{weights}.gguf".replace(" ", "-"), SHAPES[name], [TYPES[weights]]
    )
    row = Row(name, weights)
    with engine(model.path, executors[0]) as first:
        # The token that ends a text is forbidden, so that all of them are chosen.
        answer = first.generate(PROMPT, max_tokens=TOKENS, temperature=0, logit_bias={2: -1e9})
        for _ in answer:
            pass
        text = [*PROMPT, *answer.tokens]
        ours = first.logits(text)
    wanted = model.logits(text)
    row.errors[executors[0]] = off(ours, wanted)
    row.greedy["float64"] = agreeing(wanted)(answer.tokens)
    for executor in executors[1:]:
        with engine(model.path, executor) as other:
            row.errors[executor] = off(other.logits(text), wanted)
    if weights != "F32" and "compiled" in executors:
        with engine(model.path, "compiled", "q8") as rounded:
            row.errors["compiled, q8"] = off(rounded.logits(text), wanted)
    try:
        peer = llama_cpp(model.path, text)
        row.errors["llama.cpp"] = off(peer, wanted)
        row.errors["compiled to llama.cpp"] = off(ours, peer)
    except (ImportError, RuntimeError) as error:
        row.absent["llama.cpp"] = str(error)
    else:
        # In blocks its rounding may choose otherwise.
        if weights == "F32" and name not in GELU:
            row.greedy["llama.cpp"] = agreeing(peer)(answer.tokens)
    if weights == "F32":
        hub = llm_hub.logits(model, text)
        row.errors["transformers"] = off(hub, wanted)
        row.errors["compiled to transformers"] = off(ours, hub)
        row.greedy["transformers"] = agreeing(hub)(answer.tokens)
    model.path.unlink()
    return row


def engine(path: Path, executor: str, precision: str | None = None) -> oi.Engine:
    """An engine with keys and values in f32, exact unless said otherwise."""
    device = "cpu" if executor == "compiled" else executor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oi.ModelWarning)
        return oi.Engine(
            path, device=device, precision=precision, cache="f32", context=128, chunk=10
        )


def agreeing(logits: Matrix) -> Any:
    """How many tokens behind the prompt are the likeliest ones of `logits`, up to the first that is not."""
    chosen = logits[len(PROMPT) - 1 : -1].copy()
    chosen[:, 2] = -np.inf
    best = chosen.argmax(axis=-1).tolist()

    def count(tokens: Sequence[int]) -> int:
        return next(
            (i for i, pair in enumerate(zip(tokens, best)) if pair[0] != pair[1]), len(best)
        )

    return count


def llama_cpp(path: Path, text: Sequence[int]) -> Matrix:
    """Its logits behind each token: the prompt in one call, the others one by one. Raises ImportError
    or RuntimeError where its library is not here or another one."""
    from benchmarks.llama_library import F32, Llama

    llama = Llama(path, 128, 1, cache=F32)
    parts = [llama.step(PROMPT, every=True)]
    parts += [llama.step([token], every=True) for token in text[len(PROMPT) :]]
    return np.concatenate(parts).astype(np.float64)
