r"""How each kind of byte-level BPE cuts a text before it merges: by the name in `tokenizer.ggml.pre`.

A file names its rule and does not hold it, so the rules stand here. They are data of the format: the
expressions and which names share them are those of llama.cpp (MIT licence, `src/llama-vocab.cpp` of
github.com/ggml-org/llama.cpp), where it changed a model's own expression only for want of a feature
(`gpt-4o`, `tekken`) those of that model. The expressions of a rule are applied one after the other, each to
the pieces that the one before it left; what an expression does not match stays as a piece of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SUFFIXES = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_REST = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_REST_SLASH = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_HEAD = r"[^\r\n\p{L}\p{N}]?"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = rf"{_SUFFIXES}|{_LETTERS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_SUFFIXES}|{_LETTERS}|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_GPT4O = (
    rf"{_HEAD}{_UPPER}*{_LOWER}+{_SUFFIXES}?|{_HEAD}{_UPPER}+{_LOWER}*{_SUFFIXES}?"
    rf"|\p{{N}}{{1,3}}|{_REST_SLASH}"
)
_TEKKEN = rf"{_HEAD}{_UPPER}*{_LOWER}+|{_HEAD}{_UPPER}+{_LOWER}*|\p{{N}}|{_REST_SLASH}"
_BAILING = (
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = rf"{_SUFFIXES}|{_LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
_EXAONE_MOE = (
    rf"{_SUFFIXES}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_HAN = "[一-龥ࠀ-一가-\ud7ff]+"
_CASED_LETTERS = (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 "
    "388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA "
    "1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 "
    "1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB "
    "1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D "
    "212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 "
    "A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A "
    "FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF "
    "1E900-1E943"
)
"""Code points of letters with capitals, as `deepseek-llm` lists them: fewer than Unicode has by now."""


@dataclass(frozen=True)
class PreTokenizer:
    """A rule: the expressions in their order, in the syntax of Oniguruma."""

    expressions: tuple[str, ...]
    ignore_merges: bool = False
    """A piece that is a token as a whole becomes that token, whatever the merges say."""
    add_bos: bool = False
    """What holds where the file does not say whether a prompt begins with bos."""


def _named(names: str, *expressions: str, **flags: bool) -> dict[str, PreTokenizer]:
    rule = PreTokenizer(expressions, **flags)
    return dict.fromkeys(names.split(), rule)


def _code_points(ranges: str) -> str:
    """Ranges in hexadecimal as they stand in a class of an expression."""
    return re.sub(r"[0-9A-F]+", r"\\x{\g<0>}", ranges).replace(" ", "")


PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {
    **_named(
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        _LLAMA3,
        ignore_merges=True,
        add_bos=True,
    ),
    **_named("dbrx smaug-bpe chatglm-bpe glm4", _LLAMA3),
    **_named(
        "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan megrez solar-open grok-2", _QWEN2
    ),
    **_named("qwen35", _QWEN35),
    **_named(
        "gpt-2 mpt olmo phi-2 jais trillion exaone4 mellum modern-bert roberta-bpe granite-docling jina-es "
        "jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code gigachat a.x-4.0",
        _GPT2,
    ),
    **_named(
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", r"\p{N}", _GPT2
    ),
    **_named("falcon", r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    **_named("default", r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    **_named("deepseek-coder", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _HAN, r"\p{N}"),
    **_named(
        "deepseek-llm",
        r"[\r\n]",
        rf"\s?[{_code_points(_CASED_LETTERS)}]+",
        r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
        r"\s+$",
        _HAN,
        r"\p{N}+",
    ),
    **_named(
        "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        _DEEPSEEK3,
    ),
    **_named("gpt-4o llama4 kanana2 talkie minimax-m2", _GPT4O),
    **_named("tekken", _TEKKEN, ignore_merges=True, add_bos=True),
    **_named("bloom poro-chat gpt3-finnish", _BLOOM),
    **_named("viking", _BLOOM, r"\p{N}"),
    **_named("bailingmoe bailingmoe2 llada-moe", _BAILING),
    **_named("seed-coder", _SEED),
    **_named("exaone-moe", _EXAONE_MOE),
    **_named(
        "minicpm5",
        r"\p{N}{1,3}",
        rf"{_SUFFIXES}|{_LETTERS}|\p{{N}}+|{_REST}",
        ignore_merges=True,
    ),
}
"""Rule of each name. Names that need more than expressions (`kimi-k2`, `afmoe`, `superbpe`) are not here."""
