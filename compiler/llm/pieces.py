"""The bytes of each token, and text out of bytes: what decoding and streaming are made of."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

SPACE: Final = "▁"
"""What SentencePiece writes for a space."""


def byte_letters() -> dict[str, int]:
    """The letters that byte-level BPE writes for bytes, as GPT-2 fixed them: a printable byte of Latin-1 is
    itself, the others are the letters from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [value for value in range(256) if value not in printable]
    letters = {chr(value): value for value in printable}
    return letters | {chr(256 + index): value for index, value in enumerate(others)}


_LETTERS: Final = byte_letters()


def bpe_bytes(text: str) -> bytes:
    """The bytes of an ordinary token of byte-level BPE; letters that stand for no byte are taken as they
    are."""
    return b"".join(
        bytes((_LETTERS[letter],)) if letter in _LETTERS else letter.encode() for letter in text
    )


def spm_bytes(text: str) -> bytes:
    """The bytes of an ordinary token of SentencePiece, or of WordPiece, whose words begin with a space in
    the files."""
    return text.replace(SPACE, " ").encode()


ORDINARY: Final[dict[str, Callable[[str], bytes]]] = {
    "bpe": bpe_bytes,
    "spm": spm_bytes,
    "wpm": spm_bytes,
    "ugm": spm_bytes,
}


def byte_token(text: str) -> int | None:
    """The byte that a token such as `<0x0A>` stands for, None for another text."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        try:
            return int(text[3:5], 16)
        except ValueError:
            return None
    return None


class TextStream:
    """Text out of tokens that arrive one by one: a character leaves when all of its bytes are there."""

    def __init__(self, piece: Callable[[int], bytes], strip_space: bool) -> None:
        self._piece = piece
        self._strip = strip_space
        # Bytes that are no UTF-8 become U+FFFD, as in `Tokenizer.decode`.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that `token` completes, often empty in the middle of a character."""
        return self._stripped(self._decoder.decode(self._piece(token)))

    def finish(self) -> str:
        """What is left of a character that never became whole: U+FFFD, or nothing."""
        return self._stripped(self._decoder.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text
