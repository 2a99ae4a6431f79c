"""The chain of sampling against its definitions written anew, its seeds, stop strings, grammars."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf_files as files
import llm_vocabularies as vocabularies
import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.llm.sampling import Sampler, Sampling
from openinfer.compiler.llm.stops import StopStrings
from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.runtime.packages import open_model

PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
LOGITS = np.random.default_rng(3).normal(size=300).astype(np.float32) * 3


def reachable(logits: Any, **settings: Any) -> dict[int, float]:
    """The share of each token among the draws of many positions."""
    given: dict[str, Any] = PLAIN | {"seed": 7} | settings
    sampler = Sampler(Sampling(**given))
    drawn = [sampler.choose(logits, position, []) for position in range(2000)]
    tokens, counts = np.unique(drawn, return_counts=True)
    return dict(zip(tokens.tolist(), (counts / len(drawn)).tolist()))


def softmax(logits: Any) -> Any:
    weights = np.exp(np.asarray(logits, np.float64) - np.max(logits))
    return weights / weights.sum()


def expected(settings: dict[str, Any]) -> dict[int, float]:
    """The chain, one definition after the other, on pairs of logit and token."""
    rows = sorted(
        ((float(logit), token) for token, logit in enumerate(LOGITS)), key=lambda r: (-r[0], r[1])
    )
    if settings.get("top_k", 0):
        rows = rows[: settings["top_k"]]
    if settings.get("typical", 1.0) < 1:
        p = softmax([row[0] for row in rows])
        entropy = -sum(x * math.log(x) for x in p)
        order = sorted(range(len(rows)), key=lambda i: abs(-math.log(p[i]) - entropy))
        kept, mass = [], 0.0
        for i in order:
            kept.append(i)
            mass += p[i]
            if mass >= settings["typical"]:
                break
        rows = [rows[i] for i in sorted(kept)]
    if settings.get("top_p", 1.0) < 1:
        mass, count = 0.0, 0
        for x in softmax([row[0] for row in rows]):
            mass, count = mass + x, count + 1
            if mass >= settings["top_p"]:
                break
        rows = rows[:count]
    if settings.get("min_p", 0.0):
        p = softmax([row[0] for row in rows])
        rows = [row for row, x in zip(rows, p) if x >= settings["min_p"] * p[0]]
    p = softmax([row[0] / settings.get("temperature", 1.0) for row in rows])
    return {row[1]: float(x) for row, x in zip(rows, p)}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"top_k": 5},
        {"top_p": 0.6},
        {"min_p": 0.2},
        {"typical": 0.5},
        {"temperature": 0.3},
        {"temperature": 2.5, "top_k": 3},
        {"top_k": 40, "typical": 0.9, "top_p": 0.8, "min_p": 0.1, "temperature": 0.7},
    ],
    ids=str,
)
def test_the_chain(settings: dict[str, Any]) -> None:
    found, wanted = reachable(LOGITS, **settings), expected(settings)
    assert found.keys() <= wanted.keys()
    for token, share in wanted.items():
        # Five standard deviations of 2000 draws.
        assert abs(found.get(token, 0.0) - share) < 5 * math.sqrt(share * (1 - share) / 2000) + 1e-3


def test_top_k_of_equals_and_large_vocabularies() -> None:
    logits = np.zeros(1000, np.float32)
    logits[[900, 5, 77]] = 2.0
    assert set(reachable(logits, top_k=2)) == {5, 77}
    assert set(reachable(logits, top_k=4)) == {5, 77, 900, 0}
    drawn = np.random.default_rng(1).normal(size=5000).astype(np.float32)
    best = np.argsort(-drawn)[:20].tolist()
    assert [token for token, _ in Sampler.logprobs(drawn, 0, 20)[1]] == best


def test_greedy_takes_the_first_of_equals() -> None:
    sampler = Sampler(Sampling(temperature=0.0))
    assert sampler.choose(np.array([1, 3, 3, 2], np.float32), 0, []) == 1


def test_temperatures_near_zero() -> None:
    assert set(reachable(LOGITS, temperature=1e-9)) == {int(LOGITS.argmax())}


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    settings = Sampling(seed=11)
    first = [Sampler(settings).choose(LOGITS, position, []) for position in range(50)]
    other = Sampler(settings)
    assert [other.choose(LOGITS, position, []) for position in reversed(range(50))] == first[::-1]
    assert [Sampler(Sampling(seed=12)).choose(LOGITS, p, []) for p in range(50)] != first
    assert Sampler(Sampling()).seed != Sampler(Sampling()).seed


def test_penalties_and_bias() -> None:
    logits = np.array([2.0, 1.9, -1.0, -1.1], np.float32)
    kept = logits.copy()

    def greedy(history: list[int], **settings: Any) -> int:
        return Sampler(Sampling(temperature=0.0, **settings)).choose(logits, 0, history)

    assert greedy([0], repeat_penalty=1.1) == 1
    assert greedy([0, 1], repeat_penalty=1.1) == 0
    assert greedy([0], repeat_penalty=1.1, repeat_last=0) == 0
    assert greedy([0, 2, 2], repeat_penalty=1.1, repeat_last=2) == 0
    assert greedy([0, 2, 2], repeat_penalty=1.1, repeat_last=-1) == 1
    assert greedy([0, 0, 1], frequency_penalty=0.2) == 1
    assert greedy([0, 0, 1], presence_penalty=0.2) == 0
    assert greedy([0], presence_penalty=0.2) == 1
    assert greedy([], logit_bias={3: 10.0}) == 3
    assert greedy([], logit_bias={0: -math.inf, 1: -100.0, 9: 5.0}) == 2
    # Negative logits are multiplied.
    assert Sampler(Sampling(temperature=0.0, repeat_penalty=2.0)).choose(logits[2:], 0, [0]) == 1
    assert (logits == kept).all()


def test_tokens_beyond_the_vocabulary_are_not_drawn() -> None:
    logits = np.array([0, 1, 9], np.float32)
    assert Sampler(Sampling(temperature=0.0), size=2).choose(logits, 0, []) == 1


def test_logprobs_are_of_the_raw_logits() -> None:
    chosen, best = Sampler.logprobs(LOGITS, 7, 3)
    wanted = np.log(softmax(LOGITS))
    assert chosen == pytest.approx(wanted[7])
    assert [token for token, _ in best] == np.argsort(-LOGITS)[:3].tolist()
    assert [value for _, value in best] == pytest.approx(sorted(wanted)[:-4:-1])


def test_logits_that_are_none() -> None:
    for values in ([math.nan, 1.0], [1.0, math.nan], [math.nan] * 2):
        logits = np.array(values, np.float32)
        for temperature in (0.0, 1.0):
            with pytest.raises(oi.StepError, match=r"OI0631.*NaN"):
                Sampler(Sampling(temperature=temperature)).choose(logits, 0, [])
    with pytest.raises(oi.StepError, match=r"OI0631.*forbidden"):
        Sampler(Sampling()).choose(np.full(4, -np.inf, np.float32), 0, [])


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": "hot"},
        {"temperature": True},
        {"top_p": 1.1},
        {"min_p": -1},
        {"typical": 2},
        {"top_k": -1},
        {"top_k": 1.5},
        {"repeat_penalty": 0},
        {"repeat_last": -2},
        {"seed": -1},
        {"seed": 1 << 64},
        {"frequency_penalty": math.inf},
        {"logit_bias": {1: math.nan}},
        {"logit_bias": {-1: 0.0}},
        {"logit_bias": dict.fromkeys(range(5000), 0.0)},
    ],
    ids=str,
)
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(oi.InputError, match=r"OI0584"):
        Sampling(**settings)


def test_what_a_file_recommends(tmp_path: Path) -> None:
    more = {
        "general.sampling.temp": (files.F32, 0.25),
        "general.sampling.top_k": (files.I32, 7),
        "general.sampling.min_p": (files.TEXT, "no number"),
        "tokenizer.ggml.suppress_tokens": (files.ARRAY, (files.I32, [3])),
    }
    with open_model(vocabularies.write(tmp_path / "v.gguf", vocabularies.bpe() | more)) as model:
        found = Sampling.of(model, top_k=9, seed=None, logit_bias={5: 1.0})
        assert (found.temperature, found.top_k, found.min_p, found.seed) == (0.25, 9, 0.05, None)
        assert found.logit_bias == {5: 1.0, 3: -math.inf}
        with pytest.raises(oi.InputError, match=r"'heat' is no setting"):
            Sampling.of(model, heat=3)


def stopped(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    stop = StopStrings(stops)
    text = ""
    for piece in pieces:
        more, done = stop.push(piece)
        text += more
        if done:
            return text, stop.found
    return text + stop.finish(), None


def test_stop_strings_over_borders() -> None:
    assert stopped(["END"], ["ab E", "N", "Dcd"]) == ("ab ", "END")
    assert stopped(["END"], ["ab E", "N", "ded"]) == ("ab ENded", None)
    assert stopped(["END"], ["EEND"]) == ("E", "END")
    assert stopped(["b", "abc"], ["ab", "c"]) == ("a", "b")
    assert stopped([], ["a", "b"]) == ("ab", None)
    assert stopped(["END"], ["x", "EN"]) == ("xEN", None)
    stop = StopStrings(["END"])
    assert stop.push("abE") == ("ab", False)
    assert stop.push("x") == ("Ex", False)


def test_stop_strings_are_what_a_search_finds() -> None:
    generator = np.random.default_rng(2)
    for _ in range(300):
        text = "".join(generator.choice(list("ab"), size=12))
        stops = ["".join(generator.choice(list("ab"), size=size)) for size in (3, 4)]
        cuts = sorted(generator.integers(0, 12, size=4).tolist())
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, 12])]
        places = [place for stop in stops if (place := text.find(stop)) >= 0]
        wanted = text[: min(places)] if places else text
        found, which = stopped(stops, pieces)
        # A stop that ends earlier may begin later; nothing that left can be taken back.
        assert found == wanted or (which is not None and text.startswith(found + which))
        assert (which is None) == (not places)


@pytest.mark.parametrize("stops", [[""], ["a"] * 17, ["a" * 2000], [3]])
def test_stop_strings_are_checked(stops: Any) -> None:
    with pytest.raises(oi.InputError, match=r"OI0584"):
        StopStrings(stops)


needs_llguidance = pytest.mark.skipif(
    find_spec("llguidance") is None, reason="the extra `grammar` is not installed"
)


@pytest.fixture(scope="module", params=[vocabularies.bpe, vocabularies.spm])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Tokenizer:
    return vocabularies.tokenizer(tmp_path_factory.mktemp("v") / "v.gguf", request.param())


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"enum": ["hello", "world"]},
        "count": {"type": "integer", "maximum": 99},
    },
    "required": ["name", "count"],
    "additionalProperties": False,
}


@needs_llguidance
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_answers_follow_a_schema(tokenizer: Tokenizer, temperature: float) -> None:
    from openinfer.compiler.llm.grammar import Grammar

    generator = np.random.default_rng(4)
    sampler = Sampler(Sampling(temperature=temperature, seed=5, min_p=0.0, top_k=0))
    for _ in range(5):
        grammar, ids = Grammar(tokenizer, SCHEMA), list[int]()
        while not ids or ids[-1] not in tokenizer.ends:
            logits = generator.normal(size=tokenizer.size).astype(np.float32)
            logits[list(tokenizer.ends)] += 5
            token = sampler.choose(logits, len(ids), ids, constraint=grammar)
            assert grammar.mask(tokenizer.size)[token]
            grammar.accept(token)
            ids.append(token)
            assert len(ids) < 400
        answer = json.loads(tokenizer.decode(ids))
        assert answer["name"] in ("hello", "world")
        assert isinstance(answer["count"], int)
        assert answer["count"] <= 99


@needs_llguidance
def test_schemas_that_are_none(tokenizer: Tokenizer) -> None:
    from openinfer.compiler.llm.grammar import Grammar

    for schema in ({"type": "nonsense"}, {"$ref": "#/no"}, {"enum": ["a" * 70_000]}, {"a": {1}}):
        with pytest.raises(oi.InputError, match=r"OI0585"):
            Grammar(tokenizer, schema)
    grammar = Grammar(tokenizer, None)
    with pytest.raises(oi.InputError, match=r"OI0585"):
        grammar.accept(tokenizer.encode("x")[-1])
