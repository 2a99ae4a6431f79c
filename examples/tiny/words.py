"""The model's vocabulary: byte pair encoding, learned from texts of the world.

The result is what a `tokenizer.json` or a GGUF file calls a byte-level BPE with the pre-tokenizer of
qwen2, so that every reader of such files has a tokenizer for it. It is learned here because there is
little to learn: the world has a few hundred different words.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from random import Random

from examples.tiny.world import END, START, TEXT_END, document

SIZE = 608
CONTROL = (TEXT_END, START, END)
SEED, TEXTS, LEAST = 1, 20_000, 300
"""Texts to learn from, and how often a word must occur there: the rest is drawn letters."""

_PIECES = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pre-tokenizer of qwen2, for texts in ASCII."""
_CONTROL = re.compile("(" + "|".join(map(re.escape, CONTROL)) + ")")


def byte_letters() -> list[str]:
    """A printable letter for each byte, as GPT-2 chose them: its own where it has one, else from 256 on."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


class Words:
    """Texts to ids and back.

    `tokens` are all tokens in the order of their ids, `merges` the pairs that are joined, first come
    first. Control tokens stand last.
    """

    def __init__(self, merges: list[tuple[str, str]]) -> None:
        self.merges = merges
        self._letters = byte_letters()
        self.tokens = [*sorted(self._letters), *(left + right for left, right in merges), *CONTROL]
        self._ids = {token: number for number, token in enumerate(self.tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._known: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of an ASCII text; control tokens are those ids that they name."""
        ids: list[int] = []
        for part in _CONTROL.split(text):
            if part in CONTROL:
                ids.append(self._ids[part])
                continue
            for piece in _PIECES.findall(part):
                if piece not in self._known:
                    self._known[piece] = [self._ids[token] for token in self._joined(piece)]
                ids += self._known[piece]
        return ids

    def _joined(self, piece: str) -> list[str]:
        tokens = [self._letters[byte] for byte in piece.encode()]
        while pairs := [pair for pair in pairwise(tokens) if pair in self._ranks]:
            tokens = join(tokens, min(pairs, key=self._ranks.__getitem__))
        return tokens

    def decode(self, ids: list[int]) -> str:
        """The text of ids, control tokens included."""
        numbers = {letter: byte for byte, letter in enumerate(self._letters)}
        parts = [self.tokens[number] for number in ids]
        found = [
            p.encode() if p in CONTROL else bytes(numbers[letter] for letter in p) for p in parts
        ]
        return b"".join(found).decode(errors="replace")


def join(tokens: list[str], pair: tuple[str, str]) -> list[str]:
    """The tokens with every occurrence of the pair made one, from the left."""
    joined: list[str] = []
    for token in tokens:
        if joined and (joined[-1], token) == pair:
            joined[-1] += token
            # A token that was just made is not the left of the same pair again.
            continue
        joined.append(token)
    return joined


@cache
def learned() -> Words:
    """The vocabulary of `SIZE` tokens; the same at every call."""
    random = Random(SEED)
    counts: Counter[str] = Counter()
    for _ in range(TEXTS):
        for part in _CONTROL.split(document(random)):
            if part not in CONTROL:
                counts.update(_PIECES.findall(part))
    letters = byte_letters()
    pieces = [
        ([letters[byte] for byte in piece.encode()], count)
        for piece, count in sorted(counts.items())
        if count >= LEAST
    ]
    merges: list[tuple[str, str]] = []
    while len(merges) < SIZE - 256 - len(CONTROL):
        pairs: Counter[tuple[str, str]] = Counter()
        for tokens, count in pieces:
            for pair in pairwise(tokens):
                pairs[pair] += count
        if not pairs:
            raise ValueError(f"the texts hold only {len(merges)} pairs to join")
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        pieces = [(join(tokens, best), count) for tokens, count in pieces]
    return Words(merges)
