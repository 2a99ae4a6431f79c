"""Text to token ids and back, as the model's file says.

A tokenizer is built from the metadata of a `.gguf` file, or read from the `tokenizer.json` of a Hugging
Face folder. The library `tokenizers` does the encoding. Bytes of tokens are put together here, so that
decoding a whole text and streaming it give the same characters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from openinfer.compiler.llm.pieces import ORDINARY, TextStream, byte_letters, byte_token
from openinfer.compiler.llm.vocabulary import TokenType, Vocabulary, read_vocabulary
from openinfer.compiler.tools.extras import missing_library
from openinfer.runtime.errors import InputError, PackageError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.gguf import GgufPackage

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_HIDDEN = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.UNUSED)
"""Types of tokens that are no text of an answer."""


class Tokenizer:
    """The tokenizer of a model. Calls from several threads wait for each other."""

    def __init__(self, vocabulary: Vocabulary, library: Library, origin: str) -> None:
        self.vocabulary = vocabulary
        self.origin = origin
        """The path of the file, for messages."""
        self.kind = vocabulary.kind
        self.pre = vocabulary.pre
        self.size = len(vocabulary.tokens)
        """Tokens of the vocabulary; the model may have more logits, which stand for nothing."""
        self.bos = vocabulary.ids.get("bos")
        self.eos = vocabulary.ids.get("eos")
        self.add_bos = vocabulary.add_bos
        self.add_eos = vocabulary.add_eos
        self.ends = vocabulary.ends
        """The tokens that end an answer."""
        self.controls: Mapping[str, int] = {
            vocabulary.tokens[number]: number
            for number in vocabulary.of_type(TokenType.CONTROL, TokenType.UNKNOWN)
        }
        """The tokens that only a template may write, by their text."""
        self._control_ids = frozenset(self.controls.values()) - {vocabulary.ids.get("unknown")}
        self._library = library
        self._lock = threading.Lock()
        self._missing = _missing_bytes(vocabulary)
        self._ordinary = ORDINARY[vocabulary.kind]

    @staticmethod
    def of(model: Package) -> Tokenizer:
        """The tokenizer of an opened model.

        Raises UnsupportedError OI0745 for a kind that is not known, OI0734 without the library `tokenizers`,
        PackageError OI0420 for metadata that contradicts itself.
        """
        if find_spec("tokenizers") is None:
            raise missing_library("tokenizers", "llm")
        if not isinstance(model, GgufPackage):
            from openinfer.compiler.llm.hub_tokenizer import open_hub_tokenizer

            vocabulary, library = open_hub_tokenizer(model)
            return Tokenizer(vocabulary, library, model.origin)
        vocabulary = read_vocabulary(model)
        return Tokenizer(vocabulary, _built(vocabulary, model.origin), model.origin)

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of a text, nothing added. Only with `special` do the texts of control tokens, as
        `<|im_end|>`, become these tokens; without, they are ordinary characters.

        Raises InputError OI0582 for a text that no tokens stand for.
        """
        self._check(text)
        with self._lock:
            self._library.encode_special_tokens = not special
            ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        if not special and not self._control_ids.isdisjoint(ids):
            found = next(number for number in ids if number in self._control_ids)
            raise InputError(
                "OI0582",
                f"the text holds {self.token(found)!r:.80}, which this vocabulary cannot write otherwise "
                "than as "
                "a control token",
                hint="leave it out of the text",
            )
        return ids

    def prompt(self, text: str) -> list[int]:
        """The ids of a whole prompt: control tokens in it count as such, and bos and eos stand where the file
        says, bos once even if the text has it already."""
        return self.framed(self.encode(text, special=True))

    def framed(self, ids: Sequence[int]) -> list[int]:
        """`ids` with bos in front, and eos or the separator behind, where the file says so."""
        framed = list(ids)
        if self.add_bos and self.bos is not None and framed[:1] != [self.bos]:
            framed.insert(0, self.bos)
        last = self.eos if self.add_eos else None
        if self.vocabulary.add_sep:
            last = self.vocabulary.ids["seperator"]
        if last is not None and framed[-1:] != [last]:
            framed.append(last)
        return framed

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids; control tokens are shown only with `special`. The space that the vocabulary puts
        before each text is taken off again; bytes that are no UTF-8 become U+FFFD."""
        strip = self.vocabulary.add_space_prefix or self.kind == "wpm"
        stream = TextStream(lambda token: self.piece(token, special=special), strip)
        return "".join(map(stream.push, ids)) + stream.finish()

    def stream(self, *, start: bool = False, shown: Collection[int] = frozenset()) -> TextStream:
        """Text of ids that arrive one by one, as `decode` gives it. With `start` they begin a text;
        without, they continue one, and a space in front stays."""
        strip = start and (self.vocabulary.add_space_prefix or self.kind == "wpm")
        return TextStream(lambda token: self.piece(token, special=token in shown), strip)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that a token adds to a text; they may be a part of a character."""
        kind = self.vocabulary.types[self._checked(token)]
        text = self.vocabulary.tokens[token]
        if kind in _HIDDEN:
            return text.encode() if special else b""
        if kind == TokenType.USER_DEFINED:
            return text.encode()
        if kind == TokenType.BYTE:
            value = byte_token(text)
            return text.encode() if value is None else bytes((value,))
        return self._ordinary(text)

    def token(self, id: int) -> str:
        """The token as the vocabulary writes it."""
        return self.vocabulary.tokens[self._checked(id)]

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise InputError(
                "OI0582",
                f"token {token} is none, the vocabulary has {self.size}",
                hint=f"give ids from 0 to {self.size - 1}",
            )
        return token

    def _check(self, text: str) -> None:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                "OI0582",
                f"character {error.start} of the text, {text[error.start]!r}, is half of a surrogate pair",
                hint="give text that UTF-8 can hold",
            ) from None
        if self._missing and not self._missing.isdisjoint(data):
            value = next(value for value in data if value in self._missing)
            raise InputError(
                "OI0582",
                f"the vocabulary has no token for the byte 0x{value:02X} of the text",
                hint="leave the character out, or use a model whose vocabulary has all bytes",
            )


def _missing_bytes(vocabulary: Vocabulary) -> frozenset[int]:
    """The bytes that have no token, where that means that they would vanish."""
    if vocabulary.kind == "bpe":
        known = set(vocabulary.tokens)
        return frozenset(value for letter, value in byte_letters().items() if letter not in known)
    if vocabulary.kind == "spm" and "unknown" not in vocabulary.ids:
        present = {
            byte_token(vocabulary.tokens[number]) for number in vocabulary.of_type(TokenType.BYTE)
        }
        return frozenset(value for value in range(256) if value not in present)
    return frozenset()


def _built(vocabulary: Vocabulary, origin: str) -> Library:
    """The library's tokenizer of a vocabulary."""
    from openinfer.compiler.llm.building import build

    return guarded(lambda: build(vocabulary), origin)


def guarded(make: Callable[[], Library], origin: str) -> Library:
    """What `make` gives. Where the library refuses, or panics: PackageError OI0420 with its words."""
    try:
        return make()
    except BaseException as error:
        # Panics of the library derive from BaseException; interrupts must pass.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise PackageError(
                "OI0420",
                f"{origin}: no tokenizer can be made of the vocabulary: {error!s:.200}",
                hint="fetch the file again, or convert the model anew",
            ) from None
        raise
