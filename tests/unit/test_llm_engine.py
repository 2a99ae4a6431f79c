"""The engine: answers, what is reused, snapshots, and the commands that use it."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llm_models import KINDS, SHAPES, VOCABULARY, Model

import openinfer as oi
from openinfer.compiler.llm.engine import default_cache, used_precision
from openinfer.compiler.llm.families import program_text
from openinfer.compiler.llm.perplexity import perplexity
from openinfer.compiler.llm.runner import Part
from openinfer.compiler.tools import language_model
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.cpu import early_memory
from openinfer.runtime.devices.cpu.early_memory import EarlyMemory
from openinfer.runtime.devices.vulkan.device import VulkanDevice

TEXT = [1, *(int(i) for i in np.random.default_rng(4).integers(3, VOCABULARY, 20))]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = tmp_path_factory.mktemp("engine") / "m.gguf"
    return Model(path, SHAPES["llama"], [KINDS.Q8_0], template=TEMPLATE)


@pytest.fixture(scope="module")
def engine(model: Model) -> Iterator[oi.Engine]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oi.ModelWarning)
        with oi.Engine(model.path, slots=2, precision=None) as made:
            yield made


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oi.ModelWarning)
        yield


def test_memory_for_weights_is_asked_for_early(
    model: Model, engine: oi.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights lie in it, and the answers are the same."""
    monkeypatch.setattr(early_memory, "WORTH_A_THREAD", 0)
    monkeypatch.setattr(early_memory, "_SMALL", 0)
    taken: list[Any] = []
    real = EarlyMemory.take

    def take(self: EarlyMemory, nbytes: int) -> Any:
        taken.append(real(self, nbytes))
        return taken[-1]

    monkeypatch.setattr(EarlyMemory, "take", take)
    expected = engine.generate(TEXT, max_tokens=4, temperature=0)
    text = "".join(expected)
    with oi.Engine(model.path, slots=2, precision=None) as other:
        assert sum(block is not None for block in taken) > 10
        found = other.generate(TEXT, max_tokens=4, temperature=0)
        assert "".join(found) == text
        assert found.tokens == expected.tokens


def test_greedy_tokens_are_those_of_float64(model: Model, engine: oi.Engine) -> None:
    """64 of them: compiled, simulated, and by the oracle, each behind those before it."""
    answer = engine.generate(TEXT, max_tokens=64, temperature=0, logit_bias={2: -1e9})
    text = "".join(answer)
    with oi.Engine(model.path, device="simulator", precision=None) as other:
        simulated = other.generate(TEXT, max_tokens=64, temperature=0, logit_bias={2: -1e9})
        assert "".join(simulated) == text
    assert simulated.tokens == answer.tokens
    logits = model.logits([*TEXT, *answer.tokens])[len(TEXT) - 1 : -1]
    logits[:, 2] = -np.inf
    assert answer.tokens == logits.argmax(axis=1).tolist()
    assert answer.finish == "length"
    assert answer.prompt == TEXT


def test_pieces_are_the_text_of_the_tokens(engine: oi.Engine) -> None:
    answer = engine.generate("the cat", max_tokens=30, seed=3)
    pieces = list(answer)
    assert answer.prompt == engine.tokenize("the cat")
    assert answer.prompt[0] == engine.tokenizer.bos
    stream = engine.tokenizer.stream()
    wanted = "".join(map(stream.push, answer.tokens)) + stream.finish()
    assert "".join(pieces) == wanted
    again = engine.generate("the cat", max_tokens=30, seed=3)
    assert "".join(again) == wanted
    assert again.reused == len(again.prompt) - 1
    other = engine.generate("the cat", max_tokens=30, seed=4)
    assert "".join(other) != wanted


def test_answers_end(engine: oi.Engine) -> None:
    """At an end token, a stop string, the number of tokens, the end of the context."""
    ended = engine.generate(TEXT, logit_bias={2: 1e9})
    assert list(ended) == []
    assert (ended.tokens, ended.finish) == ([2], "stop")
    text = "".join(engine.generate(TEXT, max_tokens=12, temperature=0, logit_bias={2: -1e9}))
    stop = text[3:5]
    stopped = engine.generate(TEXT, max_tokens=12, temperature=0, logit_bias={2: -1e9}, stop=stop)
    assert "".join(stopped) == text[: text.index(stop)]
    assert stopped.finish == "stop"
    none = engine.generate(TEXT, max_tokens=0)
    assert list(none) == []
    assert none.finish == "length"
    long = [1] * (engine.runner.context - 1)
    engine.runner.context, context = len(TEXT) + 2, engine.runner.context
    try:
        filled = engine.generate(TEXT, logit_bias={2: -1e9})
        list(filled)
        assert len(filled.tokens) == 2
        assert filled.finish == "length"
        with pytest.raises(oi.InputError, match=rf"OI0795.*{len(long)} tokens.*room for 23"):
            engine.generate(long)
    finally:
        engine.runner.context = context


def test_answers_that_take_turns(engine: oi.Engine) -> None:
    """In one slot each computes anew what the other has overwritten; in two nothing is lost."""
    options: dict[str, Any] = {"max_tokens": 8, "temperature": 0, "logit_bias": {2: -1e9}}
    prompts = TEXT, TEXT[:9]
    wanted = [list(engine.generate(prompt, **options)) for prompt in prompts]
    for slots in ((0, 0), (0, 1)):
        one, two = (engine.generate(p, slot=s, **options) for p, s in zip(prompts, slots))
        found: tuple[list[str], list[str]] = ([], [])
        for _ in range(12):
            for answer, pieces in zip((one, two), found):
                pieces += [piece for piece in [next(answer, None)] if piece is not None]
        assert list(found) == wanted


def test_a_snapshot_in_the_middle_of_a_text(model: Model, engine: oi.Engine) -> None:
    options: dict[str, Any] = {"temperature": 0, "logit_bias": {2: -1e9}}
    whole = engine.generate(TEXT, max_tokens=12, **options)
    list(whole)
    half = engine.generate(TEXT, max_tokens=6, **options)
    list(half)
    saved = engine.snapshot()
    list(engine.generate([1, 5, 6, 7], max_tokens=3, **options))
    engine.restore(saved)
    rest = engine.generate([*TEXT, *half.tokens], max_tokens=6, **options)
    list(rest)
    assert rest.reused == len(TEXT) + 5
    assert [*half.tokens, *rest.tokens] == whole.tokens
    with oi.Engine(model.path, device="simulator") as other:
        with pytest.raises(oi.InputError, match=r"OI0796.*2 slots, this engine has 1"):
            other.restore(saved)


def test_tables_beyond_4096_positions(model: Model, engine: oi.Engine) -> None:
    text = [1, *(int(i) for i in np.random.default_rng(5).integers(3, VOCABULARY, 4109))]
    wanted = model.logits(text)
    assert engine.runner.reusable(1, text) < 30
    found = engine.runner.feed(1, text).logits[0]
    assert np.abs(found - wanted[-1]).max() < 1e-5 * np.abs(wanted).max()
    next_found = engine.runner.step([Part(1, [7], len(text))])[0].logits[0]
    assert np.isfinite(next_found).all()


def test_rows_in_eight_bits(model: Model, engine: oi.Engine, capsys: Any, tmp_path: Path) -> None:
    """What commands choose for weights in blocks, and say; the bound is that of docs/numerics.md."""
    assert (engine.precision, engine.cache) == (None, ("f32", "f32"))
    assert main(["generate", str(model.path), "the cat", "-n", "2", "--temp", "0"]) == 0
    assert "precision q8" in capsys.readouterr().err
    with oi.Engine(model.path) as rounded:
        assert (rounded.precision, rounded.cache) == ("q8", ("f16", "f16"))
        wanted, found = engine.logits(TEXT), rounded.logits(TEXT)
    assert not np.array_equal(found, wanted)
    assert np.abs(found - wanted).max() < 3e-2 * np.abs(wanted).max()
    plain = Model(tmp_path / "plain.gguf", SHAPES["llama"], [KINDS.F32])
    with oi.open_model(plain.path) as package:
        assert used_precision("q8", "cpu", package) is None
        assert default_cache("q8", package) == "f32"


def test_embeddings(engine: oi.Engine) -> None:
    found = engine.embed(["the cat", "and the hat"])
    assert found.shape == (2, 256)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(engine.embed("the cat")[0], found[0], rtol=1e-4, atol=1e-5)
    hidden = engine.runner.feed(0, engine.tokenize("the cat"), "all").hidden
    assert hidden is not None
    mean = hidden.mean(axis=0)
    np.testing.assert_allclose(mean / np.linalg.norm(mean), found[0], rtol=1e-4, atol=1e-5)


def test_a_program_of_ones_own(model: Model, tmp_path: Path) -> None:
    """The family's text, changed: logits twice as large."""
    with oi.open_model(model.path) as package:
        text = program_text(package)
    assert "    return logits" in text
    changed = text.replace(
        "    return logits", "    logits = op mul(logits, 2.0);\n    return logits"
    )
    (tmp_path / "my.oi").write_text(changed)
    with oi.Engine(model.path, device="simulator") as plain:
        wanted = plain.logits(TEXT[:5])
    with oi.Engine(model.path, device="simulator", program=tmp_path / "my.oi") as mine:
        np.testing.assert_allclose(mine.logits(TEXT[:5]), 2 * wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dynamic { tokens: i32[N]; } block entry { return tokens; }", "not return `logits`"),
        (
            "dynamic { tokens: i32[N]; } block entry { logits = op cast(tokens, to=f32); return logits; }",
            "no row for each token",
        ),
    ],
)
def test_programs_of_something_else(model: Model, text: str, message: str) -> None:
    with pytest.raises(oi.UnsupportedError, match=f"OI0794.*{message}"):
        oi.Engine(model.path, device="simulator", program=text)


def test_conversations(engine: oi.Engine) -> None:
    messages = [{"role": "user", "content": "the cat"}]
    answer = engine.chat(messages, max_tokens=4, seed=1)
    assert engine.tokenizer.decode(answer.prompt).strip() == "user: the cat"
    assert "".join(answer) == "".join(engine.generate(answer.prompt, max_tokens=4, seed=1))


def test_engines_that_cannot_be(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr("openinfer.compiler.api.compile", None)
        changed.setattr(VulkanDevice, "unavailable_reason", lambda self: "no driver")
        with pytest.raises(oi.UnsupportedError, match=r"OI0733.*no driver"):
            oi.Engine(model.path, device="vulkan")
    with pytest.raises(oi.InputError, match=r"OI0796.*context is 0"):
        oi.Engine(model.path, device="simulator", context=0)
    learned = Model(tmp_path / "gpt2.gguf", SHAPES["gpt2"], [KINDS.F32])
    with pytest.raises(oi.InputError, match=r"OI0795.*513.*512 positions"):
        oi.Engine(learned.path, device="simulator", context=513)
    with oi.Engine(learned.path, device="simulator") as engine:
        with pytest.raises(oi.UnsupportedError, match=r"OI0746.*base model"):
            engine.chat([{"role": "user", "content": "x"}])
        with pytest.raises(oi.InputError, match="OI0796"):
            engine.generate("the", max_tokens=-1)
        with pytest.raises(oi.InputError, match="OI0796"):
            engine.generate([])


def test_perplexity(model: Model, engine: oi.Engine) -> None:
    """Windows of eight: bos in front, the tokens behind the fourth are scored."""
    ids = TEXT[1:] * 2
    found = perplexity(engine, ids, 8)
    surprise: list[float] = []
    for start in range(0, 40, 8):
        part = ids[start : start + 8]
        logits = model.logits([1, *part[1:]])
        norm = np.log(np.exp(logits).sum(axis=1))
        surprise += [float(norm[n] - logits[n, part[n + 1]]) for n in range(4, 7)]
    assert (found.tokens, found.windows) == (len(surprise), 5)
    assert found.value == pytest.approx(np.exp(np.mean(surprise)), rel=1e-5)
    with pytest.raises(oi.InputError, match=r"OI0796.*40 tokens, a window 64"):
        perplexity(engine, ids, 64)


def test_a_library_that_is_missing_is_told_before_the_model_is_compiled(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oi.Engine, "__init__", None)
    monkeypatch.setattr(language_model, "find_spec", lambda name: None)
    assert main(["generate", str(model.path), "the cat"]) == 1
    assert "`tokenizers` is not installed" in capsys.readouterr().err


def test_commands(
    model: Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """generate, perplexity and chat: text, JSON, a prompt from a file, lines from a pipe."""
    common = [str(model.path), "-t", "1", "--precision", "f32"]
    sampling = ["-n", "6", "--temp", "0"]
    assert main(["generate", *common, "the cat", *sampling, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert len(facts["tokens"]) <= 6
    (tmp_path / "prompt.txt").write_text("the cat")
    assert main(["generate", *common, "--file", str(tmp_path / "prompt.txt"), *sampling]) == 0
    assert capsys.readouterr().out == facts["text"] + "\n"
    capsys.readouterr()
    assert main(["generate", *common, *sampling]) == 2
    assert "there is no prompt" in capsys.readouterr().err
    assert (
        main(["generate", *common, "a", "--temp", "0", "-n", "-1", "--seed", "-1", "-c", "6"]) == 0
    )
    (tmp_path / "text.txt").write_bytes(b"the \xff cat")
    for command in (["generate", "-f"], ["perplexity"]):
        assert main([command[0], *common, *command[1:], str(tmp_path / "text.txt")]) == 1
        assert "text.txt is not UTF-8 text: byte 4 is 0xff" in capsys.readouterr().err
    assert main(["generate", *common, "the cat in the hat", "-c", "3"]) == 1
    assert "the context has room for 3" in capsys.readouterr().err
    (tmp_path / "text.txt").write_text("the cat in the hat " * 20)
    assert main(["perplexity", *common, str(tmp_path / "text.txt"), "-c", "32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["windows"] > 2
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat\n\n/clear\nthe cat\nthe hat\n"))
    assert main(["chat", *common, *sampling, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 3
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "MODEL", "the cat"],
        ["chat", "MODEL"],
        ["perplexity", "MODEL", "TEXT"],
        ["serve", "MODEL", "--port", "0"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_runs_an_engine(
    arguments: list[str],
    model: Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There is no second way to run a model: without engines no command does."""

    def broken(*_: Any, **__: Any) -> None:
        raise oi.InputError("OI0796", "no engine can be made")

    monkeypatch.setattr(oi.Engine, "__init__", broken)
    (tmp_path / "text.txt").write_text("the cat")
    places = {"MODEL": str(model.path), "TEXT": str(tmp_path / "text.txt")}
    assert main([places.get(one, one) for one in arguments]) == 1
    assert "no engine can be made" in capsys.readouterr().err


def test_benchmarks_run_an_engine(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.language.engines import Ours

    def broken(*_: Any, **__: Any) -> None:
        raise oi.InputError("OI0796", "no engine can be made")

    monkeypatch.setattr(oi.Engine, "__init__", broken)
    with pytest.raises(oi.InputError, match="no engine"):
        Ours(model.path, 1, "cpu")
