"""The programs of the model families, on random weights, against a forward pass in float64."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from llm_models import KINDS, SHAPES, VOCABULARY, Model

import openinfer as oi
from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.llm.families import FAMILIES, program_text
from openinfer.compiler.llm.runner import Part, Runner
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.packages.base import Package
from tests.sweeps import FULL

MIXED = [KINDS.F32, KINDS.Q8_0, KINDS.Q4_K]
TESTED = tuple(SHAPES)
COMPILED = TESTED if FULL else ("llama", "qwen3")
"""Families that every run compiles; the simulator has all of them."""
TEXT = [int(i) for i in np.random.default_rng(1).integers(0, VOCABULARY, 23)]
OTHER = [int(i) for i in np.random.default_rng(2).integers(0, VOCABULARY, 9)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    """Models by the name of their shape, each made once, its tensors in three formats by turns."""
    folder = tmp_path_factory.mktemp("models")
    made: dict[str, Model] = {}

    def model(name: str) -> Model:
        if name not in made:
            made[name] = Model(folder / f"{name}.gguf", SHAPES[name], MIXED)
        return made[name]

    return model


def runner(make: Callable[..., Any], package: Package, text: str | None = None) -> Runner:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oi.ModelWarning)
        executor = make(text or program_text(package, cache="f32"), package).make_executor()
    return Runner(executor, 64, VOCABULARY, slots=3, chunk=10)


def close(found: Any, wanted: Any) -> bool:
    return np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


EXECUTORS = [(name, oi.Simulator) for name in TESTED] + [(name, oi.compile) for name in COMPILED]


@pytest.mark.parametrize(
    ("name", "make"), EXECUTORS, ids=[f"{name}-{make.__name__}" for name, make in EXECUTORS]
)
def test_a_family_agrees_with_float64(
    models: Callable[[str], Model], name: str, make: Callable[..., Any]
) -> None:
    """A prompt in chunks, then two sequences of unequal lengths in steps together."""
    model = models(name)
    wanted, other = model.logits(TEXT), model.logits(OTHER)
    with oi.open_model(model.path) as package:
        run = runner(make, package)
        assert close(run.feed(2, TEXT[:20], "all").logits, wanted[:20])
        run.step([Part(0, OTHER[:6], 0, "none")])
        for n in range(3):
            parts = [Part(2, TEXT[20 + n : 21 + n], 20 + n), Part(0, OTHER[6 + n : 7 + n], 6 + n)]
            one, two = run.step(parts)
            assert close(one.logits, wanted[20 + n]), n
            assert close(two.logits, other[6 + n]), n
        assert run.reusable(2, TEXT[:9]) == 8
        assert close(run.feed(2, TEXT[:9]).logits, wanted[8])


def test_keys_and_values_in_sixteen_bits(models: Callable[[str], Model]) -> None:
    """The default of commands: what rounding them costs, 2e-4 in llama.cpp."""
    model = models("llama")
    wanted = model.logits(TEXT)
    with oi.open_model(model.path) as package:
        text = program_text(package)
        assert "f16[KV]" in text
        found = runner(oi.Simulator, package, text).feed(0, TEXT, "all").logits
        exact = program_text(package, cache="f32")
        assert exact == text.replace("f16", "f32")
        with pytest.raises(
            oi.InputError, match=r"OI0793.*'q4_0'(.|\n)*there are f16, bf16, f32, q8_0"
        ):
            program_text(package, cache="q4_0")
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-5 < error < 2e-3


@pytest.mark.parametrize("make", [oi.Simulator, oi.compile])
def test_keys_and_values_in_blocks(
    models: Callable[[str], Model], make: Callable[..., Any]
) -> None:
    """Each element of a row is off by up to 1 / 254 of the largest in its block."""
    model = models("llama")
    wanted = model.logits(TEXT)
    with oi.open_model(model.path) as package:
        text = program_text(package, cache=("q8_0", "f16"))
        assert "K(l, s, t): u8[KV/32*34]" in text
        assert "V(l, s, t): f16[KV]" in text
        text = program_text(package, cache="q8_0")
        assert formatted(text, "llama") == text
        run = runner(make, package, text)
        found = run.feed(2, TEXT[:20], "all").logits
        more = [run.feed(2, TEXT[: 21 + n]).logits for n in range(3)]
    error = np.abs(np.concatenate([found, *more]) - wanted).max() / np.abs(wanted).max()
    assert 1e-4 < error < 2e-2


def test_experts_beside_rows_in_eight_bits(tmp_path: Path) -> None:
    """Rows of two products are rounded by equal kernels, which small kernels of one text call."""
    model = Model(tmp_path / "m.gguf", SHAPES["mixtral"], [KINDS.Q8_0])
    with oi.Engine(model.path, cache="f32", context=64) as engine:
        found = engine.logits(OTHER)
    wanted = model.logits(OTHER)
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert 1e-4 < error < 5e-2


def test_every_family_is_tested() -> None:
    assert {SHAPES[name].architecture for name in TESTED} | {"mixtral"} == set(FAMILIES)
    assert "mixtral" in TESTED


def test_llama_is_short(models: Callable[[str], Model]) -> None:
    """The program that people read first."""
    with oi.open_model(models("llama").path) as package:
        assert len(program_text(package).splitlines()) <= 60


@pytest.mark.parametrize("name", TESTED)
def test_programs_are_in_canonical_layout(models: Callable[[str], Model], name: str) -> None:
    with oi.open_model(models(name).path) as package:
        text = program_text(package)
    assert formatted(text, name) == text
    assert " if " not in text


def test_frequencies_follow_the_context(models: Callable[[str], Model]) -> None:
    """Phi has some for texts as long as it was first trained for, and others for longer ones."""
    with oi.open_model(models("phi4").path) as package:
        assert "rope_factors_long" in program_text(package)
        assert "rope_factors_long" in program_text(package, context=33)
        assert "rope_factors_short" in program_text(package, context=32)


def written(path: Path, architecture: str | None, **more: Any) -> Package:
    """A file with an architecture, a few keys and one tensor."""
    writer = gguf.GGUFWriter(path, architecture or "none")
    if architecture is None:
        writer.kv_data[0].clear()
    for key, value in more.items():
        if isinstance(value, float):
            writer.add_float32(f"{architecture}.{key}", value)
        else:
            writer.add_tensor(key, value)
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return oi.open_model(path)


@pytest.mark.parametrize(
    ("architecture", "more", "code", "message"),
    [
        ("mamba", {}, "OI0791", "no program for the architecture 'mamba'(.|\n)*--program my.oi"),
        ("qwen33", {}, "OI0791", "did you mean qwen3"),
        (None, {}, "OI0790", "general.architecture"),
        ("llama", {"sinks": np.zeros(4, np.float32)}, "OI0792", "does not read: sinks"),
        ("llama", {"rope.scaling.yarn_beta_fast": 8.0}, "OI0792", "yarn_beta_fast = 8.0"),
        ("llama", {"attention.clamp_kqv": 8.0}, "OI0792", "attention_clamp_kqv = 8.0"),
    ],
)
def test_models_without_a_program(
    tmp_path: Path, architecture: str | None, more: dict[str, Any], code: str, message: str
) -> None:
    with written(tmp_path / "m.gguf", architecture, **more) as package:
        with pytest.raises(oi.PackageError, match=message) as error:
            program_text(package)
        assert error.value.code == code
        assert "block entry" in program_text(package, "llama")
        with pytest.raises(oi.InputError, match=r"OI0793.*lama(.|\n)*did you mean llama"):
            program_text(package, "lama")


def test_tensors_and_metadata_that_are_missing(
    models: Callable[[str], Model], tmp_path: Path
) -> None:
    with written(tmp_path / "m.gguf", "llama", block_count=-1.0) as package:
        with pytest.raises(oi.PackageError) as error:
            program_text(package)
    assert error.value.code == "OI0797"
    assert "lacks llama.embedding_length, llama.attention.head_count" in str(error.value)
    assert "llama.block_count (not as a number above 0)" in str(error.value)
    assert "more" in str(error.value)


@pytest.mark.parametrize(
    ("sizes", "without", "message"),
    [
        ({}, "blk.1.ffn_up.weight", "lacks tensor blk.1.ffn_up.weight"),
        ({"block_count": 1 << 60}, "", r"lacks tensor blk.2.attn_norm.weight, (.|\n)* more"),
        ({"attention_head_count": 3}, "", "head_count is 3, no multiple of .*head_count_kv, 2"),
        ({"attention_head_count": 6}, "", "head_count is 6, but blk.0.attn_q.weight is 256x256"),
        ({"embedding_length": 128}, "", r"length is 128, but token_embd.weight is \d+x256"),
    ],
)
def test_models_that_contradict_themselves(
    models: Callable[[str], Model],
    monkeypatch: pytest.MonkeyPatch,
    sizes: dict[str, int],
    without: str,
    message: str,
) -> None:
    with oi.open_model(models("llama").path) as package:
        tensors = {name: info for name, info in package.tensors.items() if name != without}
        monkeypatch.setattr(package, "tensors", tensors)
        monkeypatch.setattr(package, "sizes", {**package.sizes, **sizes})
        with pytest.raises(oi.PackageError, match=message) as error:
            program_text(package)
    assert error.value.code == "OI0797"


def test_the_command_prints_the_program(
    models: Callable[[str], Model], capsys: pytest.CaptureFixture[str]
) -> None:
    path = models("llama").path
    assert main(["program", str(path)]) == 0
    printed = capsys.readouterr().out
    with oi.open_model(path) as package:
        assert printed == program_text(package)
    assert '@ref("output.weight")' not in printed
    assert main(["program", str(path), "--family", "qwen3", "--json"]) == 0
    assert "k_norm" in json.loads(capsys.readouterr().out)["program"]


ONE = """
dynamic {{ tokens: i64[N]; {positions} }}
persistent {{ T: i32; K(t): f32[4] @table; }}
constant {{ E: f32[8, 4]; }}
block entry {{
    h = op embedding(E, tokens);
    cache.write h >> K[{at}..{at} + N];
    seen = cache.read K[0..{at} + N];
    cache.increment N T;
    logits = op matmul(h, seen, transpose_b=true);
    return logits;
}}
"""


def test_programs_of_one_sequence() -> None:
    """With a counter of their own, they go on or begin again."""
    table = {"E": np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)}
    text = ONE.format(positions="", at="T")
    run = Runner(oi.Simulator(text, table).make_executor(), 9, 8, chunk=2)
    first = run.feed(0, [1, 2, 3]).logits
    assert first.shape == (1, 3)
    assert run.reusable(0, [1, 2, 3, 4]) == 3
    assert run.feed(0, [1, 2, 3, 4]).logits.shape == (1, 4)
    assert run.reusable(0, [1, 2, 3]) == 0
    np.testing.assert_array_equal(run.feed(0, [1, 2, 3]).logits, first)
    with pytest.raises(oi.InputError, match=r"OI0796.*stands at 3, not at 1"):
        run.step([Part(0, [5], 1)])
    with pytest.raises(oi.UnsupportedError, match=r"OI0794.*one sequence at a time, not 2"):
        Runner(run.executor, 9, 8, slots=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dynamic { ids: i32[N]; } block entry { return ids; }", "no input `tokens`"),
        ("dynamic { tokens: i32[N]; x: i32; } block entry { return tokens; }", "asks for x"),
        ("dynamic { tokens: i32[N]; } block entry { return tokens; }", "not return `logits`"),
        (
            "dynamic { tokens: f32[N]; } block entry { logits = op neg(tokens); return logits; }",
            "declares tokens: f32.N., which is no list of i32 or i64",
        ),
    ],
)
def test_programs_of_something_else(text: str, message: str) -> None:
    with pytest.raises(oi.UnsupportedError, match=f"OI0794.*{message}"):
        Runner(oi.Simulator(text).make_executor(), 9, 8)


@pytest.mark.parametrize(
    ("parts", "code", "message"),
    [
        ([Part(0, [1] * 60, 0)], "OI0795", "60 tokens, the context has room for 9"),
        ([Part(0, [8], 0)], "OI0796", "token 8 is none: the model has 8 tokens"),
        ([Part(0, [-1], 0)], "OI0796", "token -1 is none"),
        ([Part(0, [1], 1)], "OI0796", "at position 1 of slot 0, which holds 0"),
        ([Part(0, [], 0)], "OI0796", "0 tokens"),
        ([Part(1, [1], 0)], "OI0796", "slot 1 is none of the 1"),
    ],
)
def test_parts_that_do_not_fit(parts: list[Part], code: str, message: str) -> None:
    table = {"E": np.zeros((8, 4), np.float32)}
    text = ONE.format(positions="positions: i32[N];", at="T")
    run = Runner(oi.Simulator(text, table).make_executor(), 9, 8)
    with pytest.raises(oi.InputError, match=message) as error:
        run.step(parts)
    assert error.value.code == code
    with pytest.raises(oi.InputError, match=r"OI0796.*no token"):
        run.feed(0, [])
