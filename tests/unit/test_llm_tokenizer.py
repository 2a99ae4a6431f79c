"""Text to tokens and back: against rules written anew, against llama.cpp's own cases, and hostile files."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf_files as files
import llm_vocabularies as vocabularies
import pytest

import openinfer as oi
from openinfer.compiler.llm.pieces import byte_letters
from openinfer.compiler.llm.pretokenizers import PRE_TOKENIZERS
from openinfer.compiler.llm.tokenizer import Tokenizer

LLAMA_CPP = next(
    (
        folder
        for parent in Path(__file__).resolve().parents
        if (folder := parent / "shared" / "data" / "vocab").is_dir()
    ),
    None,
)
NAMES = "bert-bge deepseek-coder falcon gpt-2 llama-bpe llama-spm mpt phi-3 qwen2 refact starcoder".split()
TEXTS = [
    "",
    "hello",
    " hello  world",
    "say hello's 1234",
    "Ünïcode 🦙 ½",
    "a\n\n b\t",
    "<|im_end|>",
]


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.tokenizer(tmp_path_factory.mktemp("bpe") / "v.gguf", vocabularies.bpe())


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return vocabularies.tokenizer(tmp_path_factory.mktemp("spm") / "v.gguf", vocabularies.spm())


def texts_of(letters: str) -> Iterator[str]:
    generator = random.Random(5)
    for _ in range(200):
        yield "".join(generator.choices(letters, k=generator.randrange(1, 30)))


@pytest.mark.skipif(LLAMA_CPP is None, reason="../shared/data/vocab is not there")
@pytest.mark.parametrize("name", NAMES)
def test_cases_of_llama_cpp(name: str) -> None:
    assert LLAMA_CPP is not None
    path = LLAMA_CPP / f"ggml-vocab-{name}.gguf"
    with oi.open_model(path) as model:
        tokenizer = Tokenizer.of(model)
    cases = Path(f"{path}.inp").read_text("utf-8").split("\n__ggml_vocab_test__\n")
    expected = Path(f"{path}.out").read_text("utf-8").split("\n")
    assert len(cases) == len(expected) > 40
    for text, ids in zip(cases, expected):
        found = tokenizer.encode(text)
        assert found == [int(token) for token in ids.split()], text
        if tokenizer.kind != "wpm":
            assert tokenizer.decode(found) == text


def test_bpe_merges_as_a_rule_written_anew_does(bpe: Tokenizer) -> None:
    letters = {value: letter for letter, value in byte_letters().items()}
    ranks = {merge: rank for rank, merge in enumerate(vocabularies.MERGES)}
    # The expression of gpt-2, for ASCII; what it leaves is a piece, too.
    words = re.compile(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s"
    )
    numbers = {bpe.token(number): number for number in range(bpe.size)}
    for text in texts_of("helo wrd123's. \n"):
        expected: list[int] = []
        for word in words.findall(text):
            parts = [letters[value] for value in word.encode()]
            while pairs := [
                (ranks[joined], place)
                for place, pair in enumerate(itertools.pairwise(parts))
                if (joined := " ".join(pair)) in ranks
            ]:
                place = min(pairs)[1]
                parts[place : place + 2] = ["".join(parts[place : place + 2])]
            expected += [numbers[part] for part in parts]
        assert bpe.encode(text) == expected, text


def test_spm_joins_the_pair_of_the_best_score(spm: Tokenizer) -> None:
    numbers = {spm.token(number): number for number in range(spm.size)}
    for text in texts_of("helo wrld"):
        parts = list("▁" + text.replace(" ", "▁"))
        while pairs := [
            (-vocabularies.SPM_PIECES[joined], place)
            for place in range(len(parts) - 1)
            if (joined := "".join(parts[place : place + 2])) in vocabularies.SPM_PIECES
        ]:
            place = min(pairs)[1]
            parts[place : place + 2] = ["".join(parts[place : place + 2])]
        assert spm.encode(text) == [numbers[part] for part in parts], text


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back(bpe: Tokenizer, spm: Tokenizer, text: str) -> None:
    for tokenizer in (bpe, spm):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        stream = tokenizer.stream(start=True)
        pieces = [stream.push(token) for token in ids]
        assert "".join(pieces) + stream.finish() == text
        assert "�" not in "".join(pieces), "a character was split"


def test_streams_hold_back_parts_of_characters(bpe: Tokenizer) -> None:
    ids = bpe.encode("🦙a")
    assert len(ids) == 5
    stream = bpe.stream()
    assert [stream.push(token) for token in ids] == ["", "", "", "🦙", "a"]
    stream = bpe.stream()
    assert stream.push(ids[0]) == ""
    assert stream.finish() == "�" == bpe.decode(ids[:1])


def test_a_stream_that_continues_keeps_its_space(spm: Tokenizer) -> None:
    ids = spm.encode("hello")
    assert spm.stream(start=True).push(ids[0]) == "hello"
    assert spm.stream().push(ids[0]) == " hello"


def test_control_tokens_are_text_unless_asked_for(bpe: Tokenizer) -> None:
    end = bpe.controls["<|im_end|>"]
    assert end not in bpe.encode("a<|im_end|>")
    assert bpe.encode("a<|im_end|>", special=True)[-1] == end
    assert bpe.decode([end]) == ""
    assert bpe.decode([end], special=True) == "<|im_end|>"
    # Tokens that users define are found in any text.
    assert bpe.token(bpe.encode("<tool_call>")[0]) == "<tool_call>"


def test_ends_are_a_set(bpe: Tokenizer, spm: Tokenizer) -> None:
    assert {bpe.token(token) for token in bpe.ends} == {"<|endoftext|>", "<|im_end|>"}
    assert {spm.token(token) for token in spm.ends} == {"</s>"}


def test_bos_stands_once(spm: Tokenizer, bpe: Tokenizer) -> None:
    assert spm.add_bos
    assert spm.prompt("hello") == [1, *spm.encode("hello")]
    assert spm.prompt("<s>hello") == spm.prompt("hello")
    assert not bpe.add_bos
    assert bpe.prompt("hello") == bpe.encode("hello")


def test_a_default_id_that_is_a_word_ends_nothing(tmp_path: Path) -> None:
    """llama.cpp's bos and eos are token 11 where a file names none."""
    tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", vocabularies.bpe(control=[]))
    assert (tokenizer.bos, tokenizer.eos, tokenizer.ends) == (None, None, frozenset())


def test_word_pieces(tmp_path: Path) -> None:
    tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", vocabularies.wpm())
    words = [tokenizer.token(token) for token in tokenizer.prompt("Hello, unable WORLD é zzz")]
    assert words == [
        *("[CLS]", "▁hello", "▁,", "▁un", "able", "▁wor", "ld", "▁e", "[UNK]", "[SEP]")
    ]
    assert tokenizer.decode(tokenizer.encode("hello world")) == "hello world"


def test_unigrams(tmp_path: Path) -> None:
    tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", vocabularies.ugm())
    words = [tokenizer.token(token) for token in tokenizer.prompt("  hello   worlds ")]
    assert words == ["▁hello", "▁world", "s", "</s>"]
    assert tokenizer.decode(tokenizer.encode("hello worlds")) == "hello worlds"


def test_every_expression_is_understood(tmp_path: Path) -> None:
    """One name of each rule: the library takes its expressions, and no text is lost."""
    rules = {rule.expressions: name for name, rule in PRE_TOKENIZERS.items()}
    text = "Hello WORLD's  12345 naïve 漢字かな\r\n\t don't!? ...//\n"
    for name in rules.values():
        tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", vocabularies.bpe(name))
        assert tokenizer.decode(tokenizer.encode(text)) == text, name


CUTS = {
    # By hand, from the expressions that the models' own tokenizer.json has.
    "gpt-4o": ("HelloWorld's ABCdef 12345!?\n\n", "Hello|World's| ABCdef| |123|45|!?\n\n"),
    "tekken": ("HelloWorld's 123", "Hello|World|'s| |1|2|3"),
    "deepseek-v3": ("a1234 b!\n中文x", "a|123|4| b|!\n|中文|x"),
    "llama-bpe": ("I'M 1234  x", "I|'M| |123|4| | x"),
    "qwen2": ("don't 12", "don|'t| |1|2"),
    "gpt-2": ("don't 12  x", "don|'t| 12| | x"),
    "falcon": ("a 1234+5", "a| |123|4|+|5"),
    "starcoder": ("a 12", "a| |1|2"),
    "viking": ("ab, 12", "ab|,| |1|2"),
    "minicpm5": ("x1234 y", "x|123|4| y"),
}


@pytest.mark.parametrize("name", CUTS)
def test_where_texts_are_cut(name: str, tmp_path: Path) -> None:
    text, wanted = CUTS[name]
    # With no merge at all, tokens are bytes; the cuts are asked of the library itself.
    from openinfer.compiler.llm.building import build
    from openinfer.compiler.llm.vocabulary import read_vocabulary
    from openinfer.runtime.packages.gguf import GgufPackage

    with oi.open_model(vocabularies.write(tmp_path / "v.gguf", vocabularies.bpe(name))) as model:
        assert isinstance(model, GgufPackage)
        library = build(read_vocabulary(model))
    assert library.pre_tokenizer is not None
    places = [place for _, place in library.pre_tokenizer.pre_tokenize_str(text)]
    assert "|".join(text[begin:end] for begin, end in places) == wanted


def test_special_tokens_of_phi_3_swallow_white_space(tmp_path: Path) -> None:
    keys = vocabularies.bpe() | {"general.name": (files.TEXT, "Phi-3-mini")}
    tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", keys)
    end = tokenizer.controls["<|im_end|>"]
    assert tokenizer.encode("<|im_end|> \n hello", special=True) == [
        end,
        *tokenizer.encode("hello"),
    ]
    text_end = tokenizer.controls["<|endoftext|>"]
    assert tokenizer.encode("<|endoftext|> h", special=True) == [
        text_end,
        *tokenizer.encode(" h"),
    ]


@pytest.mark.parametrize("text", ["a\ud800b", "\udc80"])
def test_half_a_character_is_refused(bpe: Tokenizer, text: str) -> None:
    with pytest.raises(oi.InputError, match=r"OI0582.*surrogate"):
        bpe.encode(text)


def test_bytes_without_a_token_are_refused(tmp_path: Path) -> None:
    keys = vocabularies.bpe()
    kind, (element, words) = keys["tokenizer.ggml.tokens"]
    keys["tokenizer.ggml.tokens"] = (kind, (element, [*words[:5], "unusual", *words[6:]]))
    tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", keys)
    with pytest.raises(oi.InputError, match=r"OI0582.*no token for the byte 0x26"):
        tokenizer.encode("hello & co")
    assert tokenizer.decode(tokenizer.encode("hello")) == "hello"


@pytest.mark.parametrize("token", [-1, 10**6])
def test_ids_are_checked(bpe: Tokenizer, token: int) -> None:
    with pytest.raises(oi.InputError, match=r"OI0582"):
        bpe.decode([token])


def array(kind: int, items: list[Any]) -> tuple[int, Any]:
    return files.ARRAY, (kind, items)


HOSTILE = {
    "no tokenizer": (vocabularies.bpe, "model", None, r"OI0745.*holds no tokenizer"),
    "kind": (vocabularies.bpe, "model", (files.TEXT, "rwkv"), r"OI0745.*'rwkv'"),
    "kind that is a number": (vocabularies.bpe, "model", (files.U32, 3), "OI0420.*is no text"),
    "pre": (
        vocabularies.bpe,
        "pre",
        (files.TEXT, "qwen2x"),
        r"(?s)OI0745.*'qwen2x'.*did you mean qwen2",
    ),
    "pre that is a number": (vocabularies.bpe, "pre", (files.U32, 1), "OI0420.*is no text"),
    "tokens missing": (vocabularies.bpe, "tokens", None, "OI0420.*tokens' is missing"),
    "tokens of numbers": (
        vocabularies.bpe,
        "tokens",
        array(files.U32, [1]),
        "OI0420.*array of u32",
    ),
    "no tokens": (vocabularies.bpe, "tokens", array(files.TEXT, []), "OI0420.*has 0 texts"),
    "a token twice": (vocabularies.bpe, "tokens", array(files.TEXT, ["a", "a"]), "OI0420.*twice"),
    "a long token": (
        vocabularies.bpe,
        "tokens",
        array(files.TEXT, ["a" * 2000]),
        "OI0420.*2000 char",
    ),
    "too few types": (
        vocabularies.bpe,
        "token_type",
        array(files.I32, [1]),
        "OI0420.*1 entries for",
    ),
    "types of floats": (
        vocabularies.bpe,
        "token_type",
        array(files.F32, [1.0]),
        "OI0420.*array of f32",
    ),
    "merges missing": (vocabularies.bpe, "merges", None, "OI0420.*merges' is missing"),
    "a merge of one": (vocabularies.bpe, "merges", array(files.TEXT, ["hello"]), "OI0420.*at 0"),
    "a merge that makes none": (
        vocabularies.bpe,
        "merges",
        array(files.TEXT, ["h e", "h h"]),
        "OI0420.*'h h' at 1",
    ),
    "eos beyond": (vocabularies.bpe, "eos_token_id", (files.U32, 5000), "OI0420.*is 5000"),
    "eos negative": (vocabularies.bpe, "eos_token_id", (files.I32, -5), "OI0420.*is -5"),
    "eos a bool": (vocabularies.bpe, "eos_token_id", (files.BOOL, 1), "OI0420.*no integer"),
    "add_bos a number": (vocabularies.bpe, "add_bos_token", (files.U32, 1), "OI0420.*no bool"),
    "bos wanted, not named": (
        lambda: vocabularies.bpe(control=[]),
        "add_bos_token",
        (files.BOOL, 1),
        "OI0420.*bos_token_id' is missing",
    ),
    "scores missing": (vocabularies.spm, "scores", None, "OI0420.*scores' is missing"),
    "too few scores": (vocabularies.spm, "scores", array(files.F32, [0.0]), "OI0420.*1 entries"),
    "a score that is none": (
        vocabularies.spm,
        "scores",
        array(files.F32, [float("nan")] * 400),
        "OI0420.*nan for token 0",
    ),
    "a charsmap that is none": (
        vocabularies.ugm,
        "precompiled_charsmap",
        array(files.U8, [255, 255, 255, 255, 1]),
        "OI0420",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path: Path, name: str) -> None:
    make, key, entry, message = HOSTILE[name]
    keys = make()
    keys.pop(f"tokenizer.ggml.{key}", None)
    if entry is not None:
        keys[f"tokenizer.ggml.{key}"] = entry
    with pytest.raises(oi.OpenInferError, match=message):
        vocabularies.tokenizer(tmp_path / "v.gguf", keys)


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    """Bytes changed anywhere: a tokenizer that works, or an error of ours, and nothing else."""
    generator = random.Random(9)
    refused = 0
    for make in (vocabularies.spm, vocabularies.bpe, vocabularies.wpm, vocabularies.ugm):
        path = vocabularies.write(tmp_path / "v.gguf", make())
        good = path.read_bytes()
        for _ in range(60):
            data = bytearray(good)
            for _ in range(generator.choice((1, 1, 4, 16))):
                data[generator.randrange(len(data))] = generator.randrange(256)
            path.write_bytes(data)
            try:
                with oi.open_model(path) as model:
                    tokenizer = Tokenizer.of(model)
                tokenizer.decode(tokenizer.prompt("hello w 12 <|im_end|>"))
            except oi.OpenInferError:
                refused += 1
    assert 60 < refused < 240


def test_more_tokens_than_rows_of_the_embedding(tmp_path: Path) -> None:
    keys = [(key, kind, content) for key, (kind, content) in vocabularies.spm().items()]
    entry = files.tensor("token_embd.weight", (8, 4), 0, 0)
    path = files.write(tmp_path / "v.gguf", keys, [entry], bytes(8 * 4 * 4))
    with oi.open_model(path) as model, pytest.raises(oi.PackageError, match=r"OI0420.*4 rows"):
        Tokenizer.of(model)


def test_a_package_without_a_tokenizer() -> None:
    with pytest.raises(oi.UnsupportedError, match=r"OI0745"):
        Tokenizer.of(oi.open_model({}))
