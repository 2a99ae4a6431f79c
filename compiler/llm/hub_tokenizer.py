"""The tokenizer and the chat template of a Hugging Face folder: `tokenizer.json` and what stands beside it.

`tokenizer.json` is the library's own form; `tokenizer_config.json` names bos, eos and the template, and
`generation_config.json` and `config.json` the tokens that end an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from openinfer.compiler.llm.pieces import SPACE, byte_token
from openinfer.compiler.llm.vocabulary import (
    MAX_TOKEN_LENGTH,
    MAX_TOKENS,
    TokenType,
    Vocabulary,
    check_rows,
)
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.files import read_bytes, read_text
from openinfer.runtime.packages.base import Package

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_LIMIT: Final = 256 << 20
_TEMPLATE_LIMIT: Final = 1 << 20
_DECODERS: Final = {
    "ByteLevel": "bpe",
    "ByteFallback": "spm",
    "Metaspace": "ugm",
    "WordPiece": "wpm",
}
"""The kind of a vocabulary, by the decoder that puts its tokens together."""


def open_hub_tokenizer(model: Package) -> tuple[Vocabulary, Library]:
    """The tokenizer beside a package of weights.

    Raises UnsupportedError OI0745 without one and for a decoder that is not known, PackageError OI0420 for
    files that contradict themselves.
    """
    path = _beside(model, "tokenizer.json")
    if path is None:
        raise UnsupportedError(
            "OI0745",
            f"{model.origin}: the model has no tokenizer",
            hint="put `tokenizer.json` beside the weights, give a .gguf file, or token ids for text",
        )
    vocabulary, library = _Folder(path).opened()
    check_rows(model, len(vocabulary.tokens), str(path))
    return vocabulary, library


def hub_templates(model: Package) -> tuple[str | None, dict[str, str]]:
    """The chat template beside a package of weights, and those for special uses by their names.

    Raises PackageError OI0421 for one that is no text.
    """
    path = _beside(model, "chat_template.jinja")
    if path is not None:
        try:
            return read_text(path, _TEMPLATE_LIMIT), {}
        except (OSError, UnicodeDecodeError) as error:
            raise _template_error(path, str(error)) from None
    path = _beside(model, "tokenizer_config.json")
    found = _object(path).get("chat_template") if path is not None else None
    if path is None or found is None or isinstance(found, str):
        return found, {}
    named: dict[str, str] = {}
    for row in cast("list[Any]", found) if isinstance(found, list) else [None]:
        entry = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
        name, text = entry.get("name"), entry.get("template")
        if not isinstance(name, str) or not isinstance(text, str):
            raise _template_error(
                path, "'chat_template' is no text, nor a list of names and templates"
            )
        named[name] = text
    return named.pop("default", None), named


class _Folder:
    """A `tokenizer.json` with the files that say more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = _object(path)
        self.config = self._other("tokenizer_config.json")

    def opened(self) -> tuple[Vocabulary, Library]:
        from tokenizers import Tokenizer as Library

        from openinfer.compiler.llm.tokenizer import guarded

        kind = self._kind()
        library = guarded(lambda: Library.from_str(json.dumps(self.content)), str(self.path))
        # What a training script left in the file: a text is as long as it is.
        library.no_truncation()
        library.no_padding()
        tokens, types, strips = self._tokens(kind, library)
        ids, add_bos, add_sep = self._frame(library, {text: n for n, text in enumerate(tokens)})
        plain = library.encode("a", add_special_tokens=False).ids
        prefix = bool(plain) and tokens[plain[0]].startswith(SPACE)
        if kind == "wpm":
            tokens = [
                _word(text) if types[n] == TokenType.NORMAL else text
                for n, text in enumerate(tokens)
            ]
        vocabulary = Vocabulary(
            kind=kind,
            pre=None,
            tokens=tuple(tokens),
            types=tuple(types),
            scores=None,
            merges=(),
            ids=ids,
            add_bos=add_bos,
            add_eos=False,
            add_sep=add_sep,
            add_space_prefix=prefix,
            remove_extra_whitespaces=False,
            lowercase=False,
            strip_accents=False,
            charsmap=b"",
            suppressed=frozenset(),
            strips_right=strips,
            more_ends=self._ends(len(tokens)),
        )
        return vocabulary, library

    def _kind(self) -> str:
        decoder = self.content.get("decoder")
        decoder = cast("dict[str, Any]", decoder) if isinstance(decoder, dict) else {}
        rows = decoder.get("decoders")
        parts = [decoder, *cast("list[Any]", rows if isinstance(rows, list) else [])]
        names = [part.get("type") for part in parts if isinstance(part, dict)]
        for name, kind in _DECODERS.items():
            if name in names:
                return kind
        raise UnsupportedError(
            "OI0745",
            f"{self.path}: the decoder {decoder.get('type')!r:.80} is not known; {', '.join(_DECODERS)} are",
            hint="give a .gguf file of the model, or token ids for text",
        )

    def _tokens(self, kind: str, library: Library) -> tuple[list[str], list[int], frozenset[int]]:
        """Texts and types by id, and which of them swallow the white space at their right."""
        numbers = library.get_vocab(with_added_tokens=True)
        size = max(numbers.values(), default=-1) + 1
        if not 0 < size <= MAX_TOKENS:
            self._wrong(f"has ids up to {size - 1}, 1 to {MAX_TOKENS} tokens are possible")
        tokens = [f"[EMPTY_{number}]" for number in range(size)]
        types = [int(TokenType.UNUSED)] * size
        for text, number in numbers.items():
            if len(text) > MAX_TOKEN_LENGTH:
                self._wrong(
                    f"has a token of {len(text)} characters, at most {MAX_TOKEN_LENGTH} are possible"
                )
            byte = kind == "spm" and byte_token(text) is not None
            tokens[number] = text
            types[number] = TokenType.BYTE if byte else TokenType.NORMAL
        strips: set[int] = set()
        for number, row in library.get_added_tokens_decoder().items():
            types[number] = TokenType.CONTROL if row.special else TokenType.USER_DEFINED
            if row.rstrip:
                strips.add(number)
        return tokens, types, frozenset(strips)

    def _frame(
        self, library: Library, numbers: Mapping[str, int]
    ) -> tuple[dict[str, int], bool, bool]:
        """Ids of special tokens, and whether a prompt begins and ends with one: what the file's own rule puts
        around a text."""
        ids: dict[str, int] = {}
        rule = self.content.get("model")
        word = cast("dict[str, Any]", rule).get("unk_token") if isinstance(rule, dict) else None
        if isinstance(word, str) and word in numbers:
            ids["unknown"] = numbers[word]
        for name in ("bos", "eos"):
            found = self.config.get(f"{name}_token")
            found = (
                cast("dict[str, Any]", found).get("content") if isinstance(found, dict) else found
            )
            if isinstance(found, str) and found in numbers:
                ids[name] = numbers[found]
        plain = library.encode("a", add_special_tokens=False).ids
        framed = library.encode("a", add_special_tokens=True).ids
        front = next((n for n in range(3) if framed[n : n + len(plain)] == plain), None)
        behind = framed[front + len(plain) :] if front is not None else []
        if front is None or front > 1 or len(behind) > 1:
            self._wrong("puts more than one token in front of a text or behind it")
        if front:
            ids["bos"] = framed[0]
        if behind:
            ids["seperator"] = behind[0]
        given = self.config.get("add_bos_token")
        add_bos = given if isinstance(given, bool) and "bos" in ids else bool(front)
        return ids, add_bos, bool(behind)

    def _ends(self, count: int) -> frozenset[int]:
        """The tokens that end an answer, by the files that say how texts are generated."""
        ends: set[int] = set()
        for name in ("generation_config.json", "config.json"):
            found = self._other(name).get("eos_token_id")
            for token in cast("list[Any]", found) if isinstance(found, list) else [found]:
                if type(token) is int and 0 <= token < count:
                    ends.add(token)
        return frozenset(ends)

    def _other(self, name: str) -> dict[str, Any]:
        path = self.path.with_name(name)
        return _object(path) if path.is_file() else {}

    def _wrong(self, problem: str) -> NoReturn:
        raise PackageError(
            "OI0420", f"{self.path}: the tokenizer {problem}", hint="fetch the model again"
        )


def _word(text: str) -> str:
    """A token of WordPiece as `.gguf` files write it: they mark the beginning of a word, not its
    continuation."""
    return text[2:] if text.startswith("##") else SPACE + text


def _beside(model: Package, name: str) -> Path | None:
    """A file in the folder of a model."""
    path = getattr(model, "path", None)
    found = path.with_name(name) if isinstance(path, Path) and path.name else None
    return found if found is not None and found.is_file() else None


def _object(path: Path) -> dict[str, Any]:
    """A file that holds a JSON object. Raises PackageError OI0420."""
    try:
        found = json.loads(read_bytes(path, _LIMIT).decode("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it holds no object")
    except (OSError, ValueError, RecursionError) as error:
        raise PackageError(
            "OI0420", f"{path}: not usable JSON: {error!s:.200}", hint="fetch the model again"
        ) from None
    return cast("dict[str, Any]", found)


def _template_error(path: Path, problem: str) -> PackageError:
    return PackageError("OI0421", f"{path}: {problem}", hint="fetch the model again")
