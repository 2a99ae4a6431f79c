"""What a `.gguf` file says of its tokenizer: types, counts and ids, checked before they are used.

The keys and their defaults are those of llama.cpp (`tokenizer.ggml.*`); an id or a score of a hostile file
is an error with the name of its key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NoReturn

from openinfer.compiler.llm.pretokenizers import PRE_TOKENIZERS
from openinfer.runtime.errors import PackageError, UnsupportedError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Array, Number
from openinfer.runtime.suggest import did_you_mean

KINDS: Final = {"gpt2": "bpe", "llama": "spm", "bert": "wpm", "t5": "ugm"}
"""What `tokenizer.ggml.model` calls the kinds of tokenizers: byte-level BPE, SentencePiece's BPE with scores,
WordPiece, SentencePiece's unigram model."""

MAX_TOKENS: Final = 1 << 22
MAX_TOKEN_LENGTH: Final = 1024
"""Longest text of a token, in characters: merges of scores cost its square."""

END_TEXTS: Final = frozenset(
    "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> <|endoftext|> </s> "
    "<|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> <turn|> [e~[ "
    "<｜end▁of▁sentence｜>".split()
)
"""Texts of tokens that end an answer in every vocabulary that has them (llama.cpp, `src/llama-vocab.cpp`)."""
_DEFAULT_IDS: Final = {
    "bpe": {"bos": 11, "eos": 11},
    "spm": {"bos": 1, "eos": 2, "unknown": 0},
    "wpm": {"bos": 101, "seperator": 102, "unknown": 100},
    "ugm": {"eos": 1, "unknown": 2},
}
"""Ids where the file names none (`seperator` is the spelling of the key)."""


class TokenType(IntEnum):
    """The numbers of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model and what the file says of them."""

    kind: str
    """`bpe`, `spm`, `wpm` or `ugm`."""
    pre: str | None
    """The pre-tokenizer that byte-level BPE uses."""
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    scores: tuple[float, ...] | None
    merges: tuple[tuple[str, str], ...]
    ids: Mapping[str, int]
    """Ids of special tokens, by the first part of their key: `bos`, `eos`, `eot`…"""
    add_bos: bool
    add_eos: bool
    add_sep: bool
    add_space_prefix: bool
    remove_extra_whitespaces: bool
    lowercase: bool
    strip_accents: bool
    charsmap: bytes
    """The compiled normalisation table of SentencePiece, empty without one."""
    suppressed: frozenset[int]
    """Tokens that are never drawn."""
    strips_left: frozenset[int] = field(default_factory=frozenset[int])
    strips_right: frozenset[int] = field(default_factory=frozenset[int])
    """Special tokens that swallow the white space at their left or right."""
    more_ends: frozenset[int] = field(default_factory=frozenset[int])
    """Ends that no special token's name says."""

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer: a set, since chat models have several."""
        named = {
            self.ids[name]
            for name in ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
            if name in self.ids
        }
        by_text = {text: number for number, text in enumerate(self.tokens) if text in END_TEXTS}
        found = named | set(by_text.values()) | self.more_ends
        # In the vocabularies of gpt-oss and solar, `<|end|>` only ends a part of the answer.
        calls = "<|call|>" in by_text or "<|calls|>" in by_text
        if calls and ("<|return|>" in by_text or "<|flush|>" in by_text) and "<|end|>" in by_text:
            found.discard(by_text["<|end|>"])
        return frozenset(found)

    def of_type(self, *types: TokenType) -> Iterable[int]:
        return (number for number, kind in enumerate(self.types) if kind in types)


def read_vocabulary(model: GgufPackage) -> Vocabulary:
    """The vocabulary of a model.

    Raises UnsupportedError OI0745 for a kind of tokenizer or pre-tokenizer that is not known, PackageError
    OI0420 for a key that is missing, of another type, or contradicts the others.
    """
    return _Reader(model).vocabulary()


def check_rows(model: Package, count: int, origin: str) -> None:
    """Raises PackageError OI0420 where the embedding of a model has fewer rows than its vocabulary tokens."""
    embedding = model.tensors.get("token_embd.weight")
    if embedding is not None and embedding.shape and embedding.shape[0] < count:
        raise PackageError(
            "OI0420",
            f"{origin}: the vocabulary has {count} tokens, but the embedding `token_embd.weight` has "
            f"{embedding.shape[0]} rows",
            hint="vocabulary and weights are of different models; get the model anew",
        )


class _Reader:
    def __init__(self, model: GgufPackage) -> None:
        self.model = model
        self.fields = model.fields

    def vocabulary(self) -> Vocabulary:
        kind = self._kind()
        pre = self._pre() if kind == "bpe" else None
        tokens = self._tokens()
        count = len(tokens)
        types = self._types(tokens)
        rule = PRE_TOKENIZERS[pre] if pre is not None else None
        ids = self._ids(kind, types)
        add_bos = self._flag("add_bos_token", rule.add_bos if rule else kind in ("spm", "wpm"))
        add_eos = self._flag("add_eos_token", kind == "ugm")
        add_sep = self._flag("add_sep_token", kind == "wpm")
        for wanted, name in ((add_bos, "bos"), (add_eos, "eos"), (add_sep, "seperator")):
            if wanted and name not in ids:
                self._wrong(f"{name}_token_id", "is missing, but prompts are to have that token")
        if kind in ("wpm", "ugm") and "unknown" not in ids:
            self._wrong("unknown_token_id", "is missing, and no token is of that type")
        lowercase = self._flag("normalizer.lowercase", True)
        left, right = self._stripping(tokens, types)
        return Vocabulary(
            kind=kind,
            pre=pre,
            tokens=tokens,
            types=types,
            scores=self._scores(count) if kind in ("spm", "ugm") else None,
            merges=self._merges(tokens) if kind == "bpe" else (),
            ids=ids,
            add_bos=add_bos,
            add_eos=add_eos,
            add_sep=add_sep,
            add_space_prefix=self._flag("add_space_prefix", kind in ("spm", "ugm")),
            remove_extra_whitespaces=self._flag("remove_extra_whitespaces", kind == "ugm"),
            lowercase=lowercase,
            strip_accents=self._flag("normalizer.strip_accents", lowercase),
            charsmap=self._charsmap() if kind == "ugm" else b"",
            suppressed=self._suppressed(count),
            strips_left=left,
            strips_right=right,
        )

    def _kind(self) -> str:
        found = self.fields.get("tokenizer.ggml.model")
        if found is None or found in ("no_vocab", "none"):
            raise UnsupportedError(
                "OI0745",
                f"{self.model.path}: the file holds no tokenizer",
                hint="give a file of the model that has `tokenizer.ggml.model`, or token ids for text",
            )
        if not isinstance(found, str):
            self._wrong("model", "is no text")
        if found not in KINDS:
            known = ", ".join(sorted(KINDS))
            raise UnsupportedError(
                "OI0745",
                f"{self.model.path}: the tokenizer is of the kind {found!r:.80}, which openinfer does not "
                f"have; {known} are known",
                hint="use another file of the model, or give token ids for text",
            )
        return KINDS[found]

    def _pre(self) -> str:
        found = self.fields.get("tokenizer.ggml.pre", "default")
        if not isinstance(found, str):
            self._wrong("pre", "is no text")
        if found not in PRE_TOKENIZERS:
            raise UnsupportedError(
                "OI0745",
                f"{self.model.path}: the pre-tokenizer {found!r:.80} is not known",
                hint=f"{did_you_mean(found, PRE_TOKENIZERS)}another rule would give wrong tokens without "
                "a word; add it to "
                "compiler/llm/pretokenizers.py, or give token ids for text",
            )
        return found

    def _tokens(self) -> tuple[str, ...]:
        array = self._array("tokens", ("str",))
        if array is None:
            self._wrong("tokens", "is missing")
        if not 0 < array.count <= MAX_TOKENS:
            self._wrong("tokens", f"has {array.count} texts, 1 to {MAX_TOKENS} are possible")
        check_rows(self.model, array.count, self.model.origin)
        tokens: list[str] = []
        places: dict[str, int] = {}
        for number, text in enumerate(array.each_text(array.count)):
            if len(text) > MAX_TOKEN_LENGTH:
                self._wrong(
                    "tokens",
                    f"has {len(text)} characters in token {number}, at most {MAX_TOKEN_LENGTH} are possible",
                )
            text = text or f"[EMPTY_{number}]"
            first = places.setdefault(text, number)
            if first != number:
                self._wrong("tokens", f"has {text!r:.80} twice: {first} and {number}")
            tokens.append(text)
        return tuple(tokens)

    def _types(self, tokens: tuple[str, ...]) -> tuple[int, ...]:
        array = self._array("token_type", ("i32", "u32"))
        if array is None:
            types = [int(TokenType.NORMAL)] * len(tokens)
        else:
            self._counted("token_type", array, len(tokens))
            types = [int(value) for value in array.numbers()[: len(tokens)]]
        # Converters have marked these as ordinary text; as such, a user could write them.
        for number, text in enumerate(tokens):
            if text in END_TEXTS:
                types[number] = TokenType.CONTROL
        return tuple(types)

    def _scores(self, count: int) -> tuple[float, ...]:
        array = self._array("scores", ("f32", "i32"))
        if array is None:
            self._wrong("scores", "is missing")
        self._counted("scores", array, count)
        scores = tuple(float(value) for value in array.numbers()[:count])
        for number, score in enumerate(scores):
            if not math.isfinite(score):
                self._wrong("scores", f"has {score} for token {number}, must be finite")
        return scores

    def _merges(self, tokens: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        array = self._array("merges", ("str",))
        if array is None:
            self._wrong("merges", "is missing")
        known = set(tokens)
        merges: list[tuple[str, str]] = []
        for number, text in enumerate(array.each_text(array.count)):
            place = text.find(" ", 1)
            left, right = text[:place], text[place + 1 :]
            if place < 0 or left not in known or right not in known or left + right not in known:
                self._wrong(
                    "merges", f"has {text!r:.80} at {number}: no two tokens that make a third"
                )
            merges.append((left, right))
        return tuple(merges)

    def _ids(self, kind: str, types: tuple[int, ...]) -> dict[str, int]:
        ids: dict[str, int] = {}
        for name, default in _DEFAULT_IDS[kind].items():
            # A default that is no special token would end answers at a word.
            if default < len(types) and types[default] in (TokenType.CONTROL, TokenType.UNKNOWN):
                ids[name] = default
        names = ["bos", "eos", "eot", "eom", "unknown", "seperator", "cls"]
        for name in [*names, "fim_pad", "fim_rep", "fim_sep"]:
            key = f"{name}_token_id"
            value = self.fields.get(f"tokenizer.ggml.{key}")
            if value is None:
                continue
            if (
                not isinstance(value, Number)
                or isinstance(value.value, bool)
                or value.dtype[0] not in "ui"
            ):
                self._wrong(key, "is no integer")
            if not 0 <= value.value < len(types):
                self._wrong(key, f"is {value.value}, the vocabulary has {len(types)} tokens")
            ids[name] = int(value.value)
        if kind == "wpm" and "cls" in ids:
            ids["bos"] = ids["cls"]
        if "unknown" not in ids and TokenType.UNKNOWN in types:
            ids["unknown"] = types.index(TokenType.UNKNOWN)
        return ids

    def _stripping(
        self, tokens: tuple[str, ...], types: tuple[int, ...]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """What converters do not write into files: special tokens that swallow white space."""
        name = self.fields.get("general.name")
        pre = self.fields.get("tokenizer.ggml.pre")
        masked = self.model.architecture in ("nomic-bert-moe", "jina-bert-v3") or pre in (
            "jina-v2-de",
            "jina-v2-es",
            "jina-v2-code",
        )
        if masked and "<mask>" in tokens:
            return frozenset({tokens.index("<mask>")}), frozenset()
        if isinstance(name, str) and ("phi-3" in name.lower() or "phi3" in name.lower()):
            special = (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)
            kept = {"<unk>", "<s>", "<|endoftext|>"}
            return frozenset(), frozenset(
                number
                for number, kind in enumerate(types)
                if (kind in special or tokens[number] == "</s>") and tokens[number] not in kept
            )
        return frozenset(), frozenset()

    def _charsmap(self) -> bytes:
        array = self._array("precompiled_charsmap", ("i8", "u8"))
        return array.numbers().tobytes() if array is not None else b""

    def _suppressed(self, count: int) -> frozenset[int]:
        array = self._array("suppress_tokens", ("i32", "u32"))
        if array is None:
            return frozenset()
        return frozenset(int(value) for value in array.numbers() if 0 <= value < count)

    def _array(self, name: str, dtypes: tuple[str, ...]) -> Array | None:
        found = self.fields.get(f"tokenizer.ggml.{name}")
        if found is None:
            return None
        if not isinstance(found, Array) or found.dtype not in dtypes:
            shown = f"an array of {found.dtype}" if isinstance(found, Array) else "no array"
            self._wrong(name, f"is {shown}, must be one of {' or '.join(dtypes)}")
        return found

    def _counted(self, name: str, array: Array, count: int) -> None:
        if array.count < count:
            self._wrong(name, f"has {array.count} entries for {count} tokens")

    def _flag(self, name: str, default: bool) -> bool:
        found = self.fields.get(f"tokenizer.ggml.{name}")
        if found is None:
            return default
        if not isinstance(found, Number) or not isinstance(found.value, bool):
            self._wrong(name, "is no bool")
        return found.value

    def _wrong(self, name: str, problem: str) -> NoReturn:
        raise PackageError(
            "OI0420",
            f"{self.model.path}: metadata 'tokenizer.ggml.{name}' {problem}",
            hint="fetch the file again, or convert the model anew",
        )
