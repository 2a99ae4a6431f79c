"""`tokenizers.Tokenizer` objects out of the vocabulary of a `.gguf` file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from openinfer.compiler.llm.pieces import SPACE
from openinfer.compiler.llm.pretokenizers import PRE_TOKENIZERS
from openinfer.compiler.llm.vocabulary import TokenType, Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def build(vocabulary: Vocabulary) -> Tokenizer:
    """The tokenizer of a vocabulary, with its special tokens; it adds no bos by itself."""
    from tokenizers import AddedToken

    made = _BUILDERS[vocabulary.kind](vocabulary)
    special: list[AddedToken] = []
    for number in vocabulary.of_type(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED):
        special.append(
            AddedToken(
                vocabulary.tokens[number],
                special=vocabulary.types[number] != TokenType.USER_DEFINED,
                normalized=False,
                lstrip=number in vocabulary.strips_left,
                rstrip=number in vocabulary.strips_right,
            )
        )
    made.add_tokens(special)
    return made


def _bpe(vocabulary: Vocabulary) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    rule = PRE_TOKENIZERS[vocabulary.pre or "default"]
    made = Tokenizer(
        models.BPE(
            vocab=_numbers(vocabulary),
            merges=list(vocabulary.merges),
            ignore_merges=rule.ignore_merges,
        )
    )
    cuts = [pre_tokenizers.Split(Regex(text), "isolated") for text in rule.expressions]
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*cuts, as_bytes])
    return made


def _spm(vocabulary: Vocabulary) -> Tokenizer:
    """SentencePiece's BPE joins the two neighbours that make the piece of the best score: the same as
    merges, all ways to make each piece of two others, in the order of the scores."""
    from tokenizers import Tokenizer, models, normalizers

    numbers = _numbers(vocabulary)
    scores = vocabulary.scores or ()
    found = sorted(
        (-scores[number], number, place)
        for number in vocabulary.of_type(TokenType.NORMAL, TokenType.USER_DEFINED)
        for place in _splits(vocabulary.tokens[number], numbers)
    )
    merges = [
        (vocabulary.tokens[number][:place], vocabulary.tokens[number][place:])
        for _, number, place in found
    ]
    unknown = vocabulary.ids.get("unknown")
    made = Tokenizer(
        models.BPE(
            vocab=numbers,
            merges=merges,
            unk_token=None if unknown is None else vocabulary.tokens[unknown],
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    spaces = normalizers.Replace(" ", SPACE)
    if vocabulary.add_space_prefix:
        made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
    else:
        made.normalizer = spaces
    return made


def _splits(text: str, numbers: dict[str, int]) -> Iterator[int]:
    """Where a piece can be cut so that both parts are pieces."""
    for place in range(1, len(text)):
        if text[:place] in numbers and text[place:] in numbers:
            yield place


def _ugm(vocabulary: Vocabulary) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    pairs = list(zip(vocabulary.tokens, vocabulary.scores or ()))
    made = Tokenizer(models.Unigram(pairs, unk_id=vocabulary.ids["unknown"]))
    steps: list[normalizers.Normalizer] = []
    if vocabulary.charsmap:
        steps.append(normalizers.Precompiled(vocabulary.charsmap))
    if vocabulary.remove_extra_whitespaces:
        steps.append(normalizers.Strip())
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    made.normalizer = normalizers.Sequence(steps)
    scheme = "always" if vocabulary.add_space_prefix else "never"
    made.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme)
    return made


def _wpm(vocabulary: Vocabulary) -> Tokenizer:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbers: dict[str, int] = {}
    unknown = vocabulary.ids["unknown"]
    for number, text in enumerate(vocabulary.tokens):
        if vocabulary.types[number] == TokenType.NORMAL and number != unknown:
            # Files mark the beginning of a word, the library its continuation.
            text = text[1:] if text.startswith(SPACE) else f"##{text}"
        numbers.setdefault(text, number)
    word = vocabulary.tokens[unknown]
    made = Tokenizer(models.WordPiece(vocab=numbers, unk_token=word))
    made.normalizer = normalizers.BertNormalizer(
        lowercase=vocabulary.lowercase, strip_accents=vocabulary.strip_accents
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def _numbers(vocabulary: Vocabulary) -> dict[str, int]:
    return {text: number for number, text in enumerate(vocabulary.tokens)}


_BUILDERS: dict[str, Callable[[Vocabulary], Tokenizer]] = {
    "bpe": _bpe,
    "spm": _spm,
    "wpm": _wpm,
    "ugm": _ugm,
}
