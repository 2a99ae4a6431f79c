"""What openinfer understands of the tokenizer and the chat template of a `.gguf` model."""

from __future__ import annotations

from typing import Any, Final

from openinfer.compiler.llm.template import CHATML, template_of
from openinfer.compiler.llm.vocabulary import TokenType, Vocabulary, read_vocabulary
from openinfer.runtime.errors import OpenInferError
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.shown import quoted

_KINDS: Final = {
    "bpe": "byte-level BPE",
    "spm": "SentencePiece BPE",
    "wpm": "WordPiece",
    "ugm": "SentencePiece unigram",
}


def language_model_json(model: GgufPackage) -> dict[str, Any]:
    """Kind of the tokenizer, special tokens and ends, where the template comes from; `problem` where it is
    not usable."""
    try:
        vocabulary = read_vocabulary(model)
        controls = {vocabulary.tokens[number] for number in vocabulary.of_type(TokenType.CONTROL)}
        source, _ = template_of(model, controls)
    except OpenInferError as error:
        return {"problem": {"code": error.code, "message": error.message, "fix": error.hint}}
    return {
        "kind": _KINDS[vocabulary.kind],
        "pre": vocabulary.pre,
        "bos": _token(vocabulary, "bos"),
        "eos": _token(vocabulary, "seperator" if vocabulary.add_sep else "eos"),
        "adds_bos": vocabulary.add_bos,
        "adds_eos": vocabulary.add_eos or vocabulary.add_sep,
        "ends": [vocabulary.tokens[number] for number in sorted(vocabulary.ends)],
        "chat": None if source is None else "ChatML" if source == CHATML else "template",
    }


def language_model_lines(model: GgufPackage) -> list[str]:
    """The same as lines of the view of a package."""
    found = language_model_json(model)
    if "problem" in found:
        return [f"; not usable: error[{found['problem']['code']}]: {found['problem']['message']}"]
    pre = f", cut as {quoted(found['pre'])}" if found["pre"] is not None else ""
    bos = f", prompts begin with {quoted(found['bos'])}" if found["adds_bos"] else ""
    eos = f" and end with {quoted(found['eos'])}" if found["adds_eos"] else ""
    ends = " ".join(quoted(text) for text in found["ends"]) or "no token"
    chat = {
        "template": "as the template says",
        "ChatML": "in ChatML, whose tokens it has: the file has no template",
        None: "no: a base model, which continues text",
    }
    return [
        f"; understood: {found['kind']}{pre}{bos}{eos}; answers end at {ends}",
        f"; chats: {chat[found['chat']]}",
    ]


def _token(vocabulary: Vocabulary, name: str) -> str | None:
    number = vocabulary.ids.get(name)
    return None if number is None else vocabulary.tokens[number]
