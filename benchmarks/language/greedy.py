"""The same greedy tokens from llama.cpp, the compiled program and the simulator.

    python -m benchmarks.language.greedy --questions 200

Asks the model of `examples/tiny` over an F32 file of the same weights, so that nobody rounds operands.
Where an answer differs, it says by how little the two tokens do: the difference of their logits, relative
to the largest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import openinfer as oi
from benchmarks.llama_library import F32, Llama
from examples.tiny.__main__ import MODEL
from examples.tiny.export import export
from examples.tiny.score import fresh

MOST = 200
NEAR = 1e-5
"""Logits nearer to each other than this, relative to the largest, are a tie."""


@dataclass(frozen=True)
class Difference:
    """Where an engine would have gone on otherwise than llama.cpp did."""

    engine: str
    question: str
    place: int
    """Tokens of the answer before it."""
    gap: float

    @property
    def near_tie(self) -> bool:
        return self.gap < NEAR


def unpacked(path: Path) -> Path:
    """The committed weights as an F32 file."""
    with oi.open_model(MODEL) as model:
        export({name: model.tensor(name).values() for name in model.tensors}, path, "f32")
    return path


def greedy(llama: Llama, prompt: Sequence[int], ends: frozenset[int]) -> list[int]:
    """llama.cpp's likeliest tokens behind a prompt, the one that ends the answer included."""
    llama.cut(0)
    logits, found = llama.step(prompt), list[int]()
    while len(found) < MOST:
        token = int(logits.argmax())
        found.append(token)
        if token in ends:
            break
        logits = llama.step([token])
    return found


def differences(count: int, folder: Path) -> Iterator[Difference]:
    """One for each engine and question where tokens are not the same.

    The compiled program chooses tokens one by one, as llama.cpp does; the simulator, which is slow, reads
    llama.cpp's whole answer and says at each place which token it would have chosen.
    """
    path = unpacked(folder / "tiny-f32.gguf")
    llama = Llama(path, 512, 1, cache=F32)
    with oi.Engine(path) as compiled, oi.Engine(path, device="simulator") as simulator:
        assert compiled.template is not None
        ends = compiled.tokenizer.ends
        for _, text in fresh(count):
            prompt = compiled.template.encode([{"role": "user", "content": text}])
            wanted = greedy(llama, prompt, ends)
            whole = [*prompt, *wanted[:-1]]
            answer = compiled.generate(prompt, temperature=0.0, max_tokens=MOST)
            for _ in answer:
                pass
            for engine, found in (("compiled", answer.tokens), ("simulator", None)):
                logits = None
                if found is None:
                    logits = simulator.logits(whole)[len(prompt) - 1 :]
                    found = logits.argmax(axis=-1).tolist()
                if found == wanted:
                    continue
                place = next(i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1])
                if logits is None:
                    logits = compiled.logits(whole)[len(prompt) - 1 :]
                row = logits[place]
                gap = float(row[found[place]] - row[wanted[place]]) / float(np.abs(row).max())
                yield Difference(engine, text, place, gap)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.language.greedy", description=__doc__
    )
    parser.add_argument("--questions", type=int, default=200, help="default 200")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(differences(options.questions, Path(folder)))
    for each in found:
        print(f"{each.engine}, {each.question!r}, token {each.place}: {each.gap:.1e} apart")
    print(f"{options.questions} answers, {len(found)} differences")
    return int(len(found) > 1 or not all(each.near_tie for each in found))


if __name__ == "__main__":
    sys.exit(main())
