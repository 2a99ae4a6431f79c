"""Tokenizers of Hugging Face folders: what the library itself makes of `tokenizer.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Library

import openinfer as oi
from openinfer.compiler.llm.hub_tokenizer import hub_templates
from openinfer.compiler.llm.template import ChatTemplate
from openinfer.compiler.llm.tokenizer import Tokenizer

TEXTS = ["", "hello", " hello  world", "don't 123 🦙\n", "<|im_end|>", "né"]
LINES = ["hello world hello there", "the world says hello don't", "123 hello"] * 5
CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def byte_level() -> Library:
    made = Library(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r" ?\p{L}+| ?\p{N}+|\s+|[^\s\p{L}\p{N}]+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        LINES, trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, show_progress=False)
    )
    special = [AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>", "<bos>")]
    made.add_tokens([*special, AddedToken("<tool>", special=False)])
    made.post_processor = processors.TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", made.token_to_id("<bos>"))]
    )
    made.enable_truncation(4)
    made.enable_padding(length=9)
    return made


def sentence_piece() -> Library:
    letters = [*"▁abcdehilnorstw'123\n", *(f"<0x{value:02X}>" for value in range(256)), "<unk>"]
    vocabulary = {text: number for number, text in enumerate([*letters, "he", "hel", "▁hel"])}
    merges = [("h", "e"), ("he", "l"), ("▁", "hel")]
    made = Library(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return made


def word_piece() -> Library:
    words = ["[UNK]", "[CLS]", "[SEP]", "hello", "wor", "##ld", "un", "##able"]
    made = Library(models.WordPiece({w: n for n, w in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(["[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return made


def folder(path: Path, library: Library, **files: Any) -> Path:
    save_file({"w": np.zeros(1, np.float32)}, path / "model.safetensors")
    library.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def opened(path: Path) -> Tokenizer:
    with oi.open_model(path) as model:
        return Tokenizer.of(model)


@pytest.mark.parametrize("make", [byte_level, sentence_piece, word_piece])
def test_ids_and_texts_are_the_library_s(tmp_path: Path, make: Any) -> None:
    tokenizer = opened(folder(tmp_path, make()))
    library = make()
    library.no_truncation()
    library.no_padding()
    library.encode_special_tokens = True
    for text in TEXTS:
        wanted = library.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == wanted
        assert tokenizer.prompt(text.replace("<", "")) == library.encode(text.replace("<", "")).ids
        if make is not word_piece:
            assert tokenizer.decode(wanted) == library.decode(wanted) == text
    assert tokenizer.decode(tokenizer.encode("hello world")) == "hello world"


def test_what_stands_beside_it(tmp_path: Path) -> None:
    config = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<bos>", "chat_template": CHAT}
    beside = {"tokenizer_config": config, "generation_config": {"eos_token_id": [3, 10**9]}}
    path = folder(tmp_path, byte_level(), **beside)
    with oi.open_model(path) as model:
        tokenizer = Tokenizer.of(model)
        template = ChatTemplate.of(model, tokenizer)
    end = tokenizer.controls["<|im_end|>"]
    assert (tokenizer.eos, tokenizer.ends) == (end, {end, 3})
    assert tokenizer.add_bos
    assert tokenizer.bos == tokenizer.controls["<bos>"]
    assert tokenizer.decode(tokenizer.encode("<tool>")) == "<tool>"
    assert template is not None
    ids = template.encode([{"role": "user", "content": "hi <|im_end|>"}])
    assert ids[0] == tokenizer.bos
    assert ids.count(end) == 1
    # A file of its own goes before, and names are kept.
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    with oi.open_model(path) as model:
        found = ChatTemplate.of(model, tokenizer)
        assert found is not None
        assert (found.source, found.named) == ("a", {"tool_use": "b"})
        (path / "chat_template.jinja").write_text("c")
        found = ChatTemplate.of(model, tokenizer)
        assert found is not None
        assert found.source == "c"


def test_hostile_folders(tmp_path: Path) -> None:
    path = folder(tmp_path, byte_level())
    good = json.loads((path / "tokenizer.json").read_text())

    def refused(words: str, **changes: Any) -> None:
        (path / "tokenizer.json").write_text(json.dumps(good | changes))
        with pytest.raises(oi.OpenInferError, match=words):
            opened(path)

    refused(r"OI0745.*decoder 'Strange'", decoder={"type": "Strange"})
    refused(r"OI0745.*decoder None", decoder=None)
    refused(r"OI0420.*no tokenizer can be made", model={"type": "None"})
    model = good["model"]
    refused(
        r"OI0420.*up to 4000000000", model=model | {"vocab": model["vocab"] | {"far": 4 * 10**9}}
    )
    refused(r"OI0420.*2000 char", model=model | {"vocab": model["vocab"] | {"x" * 2000: 900}})
    twice = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    refused(r"OI0420", post_processor=twice | {"type": "Strange"})
    (path / "tokenizer.json").write_text("{")
    with pytest.raises(oi.PackageError, match=r"OI0420.*not usable JSON"):
        opened(path)
    (path / "tokenizer.json").unlink()
    with pytest.raises(oi.UnsupportedError, match=r"OI0745.*has no tokenizer"):
        opened(path)
    (path / "tokenizer_config.json").write_text('{"chat_template": 3}')
    with oi.open_model(path) as model, pytest.raises(oi.PackageError, match="OI0421"):
        hub_templates(model)
