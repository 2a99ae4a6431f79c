"""Asks the model fresh questions and says how many answers obey the rules.

    python -m examples.tiny.score
    python -m examples.tiny.score FILE.gguf --questions 1000

Fails below 95 of 100, for which the model was accepted.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import openinfer as oi
from examples.tiny.__main__ import MODEL
from examples.tiny.rules import obeys
from examples.tiny.world import question

SEED = 1_000_001
"""Of the questions: none that `train.py` draws its texts with."""
WANTED = 0.95


def fresh(count: int) -> Iterator[tuple[str, str]]:
    """Kind and text of so many questions, the same at every call."""
    random = Random(SEED)
    return (question(random) for _ in range(count))


def answer(engine: oi.Engine, text: str) -> str:
    """The likeliest answer to a question that begins a conversation."""
    messages = [{"role": "user", "content": text}]
    return "".join(engine.chat(messages, temperature=0.0, max_tokens=200))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.tiny.score", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=MODEL, metavar="FILE.gguf")
    parser.add_argument("--questions", type=int, default=200, help="default 200")
    options = parser.parse_args()
    right, total = Counter[str](), Counter[str]()
    with oi.Engine(options.file) as engine:
        for kind, text in fresh(options.questions):
            total[kind] += 1
            found = answer(engine, text)
            right[kind] += obeys(text, found)
            if not obeys(text, found):
                print(f"wrong: {text}\n       {found}")
    print(", ".join(f"{kind} {right[kind]}/{total[kind]}" for kind in sorted(total)))
    print(f"{right.total()} of {total.total()} answers obey the rules")
    return int(right.total() < WANTED * total.total())


if __name__ == "__main__":
    sys.exit(main())
