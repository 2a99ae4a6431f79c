"""Tool calls in answers: each form, cut anywhere, and what only looks like one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import llm_vocabularies as vocabularies
import numpy as np
import pytest

from openinfer.compiler.llm.server.tool_calls import (
    FORMS,
    Form,
    ToolCall,
    ToolCallReader,
    form_of,
    shown_tokens,
)

HERMES, MISTRAL, LLAMA = FORMS
ONE = '{"name": "f", "arguments": {"x": "<é>"}}'
TWO = '{"name": "g", "parameters": {}}'


def read(sign: str, text: str, cuts: list[int]) -> tuple[str, list[tuple[str, str]]]:
    """Text and calls of an answer that arrives in pieces."""
    form = form_of(sign)
    assert form is not None
    reader = ToolCallReader(form)
    parts: list[str | ToolCall] = []
    for start, stop in itertools.pairwise([0, *cuts, len(text)]):
        parts += reader.push(text[start:stop])
    parts += reader.finish()
    calls = [(part.name, part.arguments) for part in parts if isinstance(part, ToolCall)]
    assert len(reader.calls) == len(calls)
    return "".join(part for part in parts if isinstance(part, str)), calls


F, G = ("f", '{"x": "<é>"}'), ("g", "{}")
CASES = [
    (HERMES, f"<tool_call>\n{ONE}\n</tool_call>", "", [F]),
    (
        HERMES,
        f"Well.\n<tool_call>{ONE}</tool_call>\n<tool_call>{TWO}</tool_call>\n",
        "Well.",
        [F, G],
    ),
    (HERMES, f"<tool_call>{ONE}</tool_call> then", " then", [F]),
    (HERMES, "no <tool call> at all <", "no <tool call> at all <", []),
    (HERMES, "<tool_call>{}</tool_call>.", "<tool_call>{}</tool_call>.", []),
    (HERMES, f"<tool_call>{ONE}", f"<tool_call>{ONE}", []),
    (HERMES, "  spaces  ", "  spaces  ", []),
    (MISTRAL, f"[TOOL_CALLS] [{ONE}, {TWO}]", "", [F, G]),
    (MISTRAL, f"I do. [TOOL_CALLS][{ONE}]", "I do.", [F]),
    (MISTRAL, f"[TOOL_CALLS][{ONE}, 3]", f"[TOOL_CALLS][{ONE}, 3]", []),
    (MISTRAL, "[TOOL", "[TOOL", []),
    (LLAMA, TWO, "", [G]),
    (LLAMA, f" {TWO}\n", "", [G]),
    (LLAMA, f"Here: {TWO}", f"Here: {TWO}", []),
    (LLAMA, '{"answer": 3}', '{"answer": 3}', []),
    (LLAMA, '{"name": "g", "parameters": 3}', '{"name": "g", "parameters": 3}', []),
    (LLAMA, "[" * 5000, "[" * 5000, []),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1][:40])
def test_calls_however_the_text_is_cut(case: tuple[Form, str, str, list[tuple[str, str]]]) -> None:
    form, text, wanted, calls = case
    generator = np.random.default_rng(6)
    for count in (0, 1, 3, len(text) if len(text) < 200 else 5):
        cuts = sorted(generator.integers(0, len(text) + 1, size=count).tolist())
        assert read(form.sign, text, cuts) == (wanted, calls)


def test_calls_are_told_as_soon_as_they_are_whole() -> None:
    reader = ToolCallReader(HERMES)
    assert list(reader.push("so <tool")) == ["so"]
    assert list(reader.push("_call>")) == []
    (call,) = reader.push(f"{ONE}</tool_call>")
    assert isinstance(call, ToolCall)
    assert call.json()["function"] == {
        "name": "f",
        "arguments": json.dumps({"x": "<é>"}, ensure_ascii=False),
    }


def test_templates_say_their_form(tmp_path: Path) -> None:
    assert form_of("{{ '<tool_call>' }}") == HERMES
    assert form_of("plain") is None
    control = [*vocabularies.CHATML, ("[TOOL_CALLS]", vocabularies.CONTROL)]
    tokenizer = vocabularies.tokenizer(tmp_path / "v.gguf", vocabularies.bpe(control=control))
    (token,) = shown_tokens(MISTRAL, tokenizer)
    assert tokenizer.token(token) == "[TOOL_CALLS]"
    assert tokenizer.stream(shown={token}).push(token) == "[TOOL_CALLS]"
    assert tokenizer.stream().push(token) == ""
