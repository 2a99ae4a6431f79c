"""The model of `examples/tiny`: its rules, its file, and what it answers on every executor."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import util
from pathlib import Path

import pytest

import openinfer as oi
from examples.tiny import shape, world
from examples.tiny.__main__ import MODEL, main
from examples.tiny.rules import expected, obeys, story_holds
from examples.tiny.score import answer, fresh
from examples.tiny.words import CONTROL, learned
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Array

STORY = (
    "Once upon a time, Tom had a red lamp. One day, Tom took the lamp to the park. "
    "There he met Zoe, who had a blue hat. Tom and Zoe swapped. "
    "Now Tom has the hat and Zoe has the lamp. The end."
)


def test_rules_and_world_agree() -> None:
    """Two texts that know nothing of each other: one draws answers, the other computes them."""
    drawn = random.Random(3)
    for _ in range(2000):
        kind, asked, answered = world.pair(drawn, world.Talk())
        assert obeys(asked, answered), (kind, asked, answered)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Now Tom has the hat and Zoe has the lamp", "Now Tom has the lamp and Zoe has the hat"),
        ("There he met", "There she met"),
        ("to the park. There he", "to the park. In the barn, Tom"),
        ("who had a blue hat", "who had a blue lamp"),
        ("met Zoe", "met Tom"),
        ("The end.", "The end"),
        ("Tom and Zoe swapped", "Tom and Mia swapped"),
        ("Tom and Zoe swapped", "The cow in the park said baa. Tom and Zoe swapped"),
    ],
)
def test_a_story_that_contradicts_itself_breaks_the_rules(right: str, wrong: str) -> None:
    assert right in STORY
    assert story_holds(STORY)
    assert not story_holds(STORY.replace(right, wrong))


def test_a_story_is_about_what_was_asked_for() -> None:
    assert obeys("Tell me a story about Tom and a lamp.", STORY)
    assert not obeys("Tell me a story about Tom and a hat.", STORY)
    assert not obeys("Tell me a story about Zoe.", STORY)


def test_facts_are_followed() -> None:
    told = "Mia has a red kite. Tom has a blue drum. Mia gives the kite to Leo."
    assert expected(f"{told} Who has the kite?") == "Leo has the kite."
    assert expected(f"{told} What colour is the kite?") == "The kite is red."
    assert expected(f"{told} What does Tom have?") == "Tom has a blue drum."
    assert (
        expected("Ann is in the shop. Ann goes to the barn. Where is Ann?") == "Ann is in the barn."
    )
    assert expected("Count from 3 to 1.") == "3, 2, 1."
    assert expected("What is the meaning of life?") == world.UNKNOWN


def test_the_file_is_what_the_scripts_say() -> None:
    assert MODEL.stat().st_size < 1_500_000
    with oi.open_model(MODEL) as model:
        assert isinstance(model, GgufPackage)
        tokens = model.fields["tokenizer.ggml.tokens"]
        assert isinstance(tokens, Array)
        assert tokens.texts() == learned().tokens
        assert model.sizes["embedding_length"] == shape.WIDTH
        assert model.sizes["block_count"] == shape.LAYERS
        assert model.sizes["context_length"] == shape.CONTEXT
        dtypes = {model.info(name).dtype.name for name in model.tensors if "norm" not in name}
    assert dtypes == {"q8_0"}


def test_the_vocabulary_is_that_of_every_reader_of_the_file() -> None:
    pytest.importorskip("tokenizers")
    from openinfer.compiler.llm.template import ChatTemplate
    from openinfer.compiler.llm.tokenizer import Tokenizer

    words, drawn = learned(), random.Random(4)
    with oi.open_model(MODEL) as model:
        tokenizer = Tokenizer.of(model)
        template = ChatTemplate.of(model, tokenizer)
        assert template is not None
        assert {tokenizer.token(end) for end in tokenizer.ends} == {world.END, world.TEXT_END}
        assert words.encode("".join(CONTROL)) == [tokenizer.size - 3 + i for i in range(3)]
        for _ in range(100):
            text = world.document(drawn)
            ids = words.encode(text)
            assert tokenizer.encode(text, special=True) == ids
            assert words.decode(ids) == text
        _, asked = world.question(drawn)
        wanted = words.encode(world.message("user", asked) + f"{world.START}assistant\n")
        assert template.encode([{"role": "user", "content": asked}]) == wanted


@pytest.fixture(scope="module")
def engine() -> Iterator[oi.Engine]:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    with oi.Engine(MODEL) as made:
        yield made


def test_answers_obey_the_rules(engine: oi.Engine) -> None:
    """Thirty of the two hundred of `python -m examples.tiny.score`."""
    asked = [text for _, text in fresh(30)]
    wrong = [text for text in asked if not obeys(text, answer(engine, text))]
    assert len(wrong) <= 1, wrong


def test_a_story_begins_anywhere(engine: oi.Engine) -> None:
    begin = "Once upon a time"
    assert story_holds(begin + "".join(engine.generate(begin, temperature=0.0, max_tokens=200)))


def test_a_conversation_is_remembered(engine: oi.Engine) -> None:
    messages = [{"role": "user", "content": "My name is Ida."}]
    told = "".join(engine.chat(messages, temperature=0.0))
    messages += [
        {"role": "assistant", "content": told},
        {"role": "user", "content": "What is my name?"},
    ]
    assert told == "Hello, Ida! I am Tiny."
    assert "".join(engine.chat(messages, temperature=0.0)) == "Your name is Ida."


def test_greedy_tokens_are_those_of_llama_cpp_and_the_simulator(tmp_path: Path) -> None:
    """Four of the two hundred answers of `python -m benchmarks.language.greedy`."""
    if util.find_spec("xllamacpp") is None:
        pytest.skip("llama.cpp is not installed (the extra bench-more)")
    from benchmarks.language.greedy import differences

    assert list(differences(4, tmp_path)) == []


def test_the_command_asks_what_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tokenizers")
    pytest.importorskip("jinja2")
    assert main(["What is 3 plus 4?"]) == 0
    assert capsys.readouterr().out == "> What is 3 plus 4?\n3 plus 4 is 7.\n\n"
