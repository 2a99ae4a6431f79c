"""Small `.gguf` files with a tokenizer and nothing else, one of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf_files as files

from openinfer.compiler.llm.pieces import byte_letters
from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.runtime.packages import open_model

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
Keys = dict[str, tuple[int, Any]]
Words = list[tuple[str, int]]
"""Texts of tokens with their types."""

CHATML = [("<|endoftext|>", CONTROL), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL)]
MERGES = "h e|l l|he ll|hell o|Ġ w|Ġw o|o r|Ġwo r|r l|1 2|12 3|' s|s y|sy s|t e".split("|")


def keys_of(model: str, words: Words) -> Keys:
    return {
        "general.architecture": (files.TEXT, "llama"),
        "tokenizer.ggml.model": (files.TEXT, model),
        "tokenizer.ggml.tokens": (files.ARRAY, (files.TEXT, [text for text, _ in words])),
        "tokenizer.ggml.token_type": (files.ARRAY, (files.I32, [kind for _, kind in words])),
    }


def bpe(pre: str = "gpt-2", control: Words = CHATML) -> Keys:
    """All bytes, a few merges, the tokens of ChatML; bos and eos are `<|endoftext|>`."""
    words: Words = [(letter, NORMAL) for letter in byte_letters()]
    words += [(merge.replace(" ", ""), NORMAL) for merge in MERGES]
    first = len(words)
    words += [*control, ("<tool_call>", USER_DEFINED)]
    made = keys_of("gpt2", words)
    made["tokenizer.ggml.pre"] = (files.TEXT, pre)
    made["tokenizer.ggml.merges"] = (files.ARRAY, (files.TEXT, MERGES))
    if control:
        made["tokenizer.ggml.bos_token_id"] = (files.U32, first)
        made["tokenizer.ggml.eos_token_id"] = (files.U32, first)
    return made


SPM_PIECES = {
    "▁": -9.0,
    "he": -1.0,
    "ll": -2.0,
    "hell": -4.0,
    "lo": -3.0,
    "hello": -5.0,
    "▁hello": -6.0,
    "▁w": -2.5,
    "or": -2.5,
    "▁wor": -7.0,
    "ld": -1.5,
}


def spm() -> Keys:
    """`<unk> <s> </s>`, all bytes, the letters a to z, and a few pieces with scores."""
    words: Words = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    words += [(f"<0x{value:02X}>", BYTE) for value in range(256)]
    scores = [0.0] * len(words)
    for piece, score in SPM_PIECES.items():
        words.append((piece, NORMAL))
        scores.append(score)
    for letter in "abcdefghijklmnopqrstuvwxyz":
        words.append((letter, NORMAL))
        scores.append(-20.0)
    made = keys_of("llama", words)
    made["tokenizer.ggml.scores"] = (files.ARRAY, (files.F32, scores))
    return made


def wpm() -> Keys:
    words: Words = [("[PAD]", CONTROL), ("[UNK]", UNKNOWN), ("[CLS]", CONTROL), ("[SEP]", CONTROL)]
    words += [(text, NORMAL) for text in ("▁hello", "▁wor", "ld", "▁un", "able", "▁,", "▁e")]
    made = keys_of("bert", words)
    made["tokenizer.ggml.cls_token_id"] = (files.U32, 2)
    made["tokenizer.ggml.seperator_token_id"] = (files.U32, 3)
    made["tokenizer.ggml.unknown_token_id"] = (files.U32, 1)
    return made


def ugm() -> Keys:
    words: Words = [("<pad>", CONTROL), ("</s>", CONTROL), ("<unk>", UNKNOWN)]
    scored = {"▁": -3.0, "▁hello": -2.0, "▁he": -2.5, "llo": -2.5, "▁world": -3.0, "s": -4.0}
    words += [(piece, NORMAL) for piece in scored]
    made = keys_of("t5", words)
    made["tokenizer.ggml.scores"] = (files.ARRAY, (files.F32, [0.0] * 3 + [*scored.values()]))
    return made


def write(path: Path, keys: Keys) -> Path:
    return files.write(path, [(key, kind, content) for key, (kind, content) in keys.items()])


def tokenizer(path: Path, keys: Keys) -> Tokenizer:
    with open_model(write(path, keys)) as model:
        return Tokenizer.of(model)
