"""Tool calls in the text of an answer, for the forms that templates teach models.

| form | in the template | the answer | |---|---|---| | hermes (Qwen, Hermes, SmolLM) | `<tool_call>` |
`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, several | | mistral | `[TOOL_CALLS]` |
`[TOOL_CALLS][{"name": …, "arguments": {…}}, …]` | | llama 3.1 | `"parameters": dictionary of argument name`
| `{"name": …, "parameters": {…}}` and nothing else |

What is not such a call, or not whole, stays text.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

from openinfer.compiler.llm.tokenizer import Tokenizer


@dataclass(frozen=True)
class ToolCall:
    """A function that the model wants called."""

    name: str
    arguments: str
    """An object as JSON."""
    id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")

    def json(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True)
class Form:
    """How a model writes calls: `begin` and `end` are around them; without `begin` the whole answer is a
    call."""

    sign: str
    """What in a template says that it teaches this form."""
    begin: str
    end: str


FORMS: Final = (
    Form("<tool_call>", "<tool_call>", "</tool_call>"),
    Form("[TOOL_CALLS]", "[TOOL_CALLS]", ""),
    Form('"parameters": dictionary of argument name', "", ""),
)


def form_of(source: str) -> Form | None:
    """The form that a template teaches, None for one that is not known."""
    return next((form for form in FORMS if form.sign in source), None)


def shown_tokens(form: Form, tokenizer: Tokenizer) -> frozenset[int]:
    """The control tokens that are part of calls in this form: the text must show them."""
    return frozenset(
        tokenizer.controls[text] for text in (form.begin, form.end) if text in tokenizer.controls
    )


class ToolCallReader:
    """Parts text and calls of an answer that arrives in pieces. Text that may become a call is held back."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._held = ""
        self._plain = False
        """Whether text has left already."""
        self.calls: list[ToolCall] = []

    def push(self, text: str) -> Iterator[str | ToolCall]:
        """What may leave, in its order."""
        self._held += text
        begin, end = self._form.begin, self._form.end
        while begin and end:
            start = self._held.find(begin)
            stop = self._held.find(end, start) if start >= 0 else -1
            if stop < 0:
                break
            inside = self._held[start + len(begin) : stop]
            call = _call(_json(inside))
            before = self._held[: start if call else stop + len(end)]
            self._held = self._held[stop + len(end) :]
            # White space before a call is layout.
            if before := before.rstrip() if call else before:
                yield before
            if call:
                self.calls.append(call)
                yield call
        free = self._free()
        if free:
            self._plain = True
            yield self._held[:free]
            self._held = self._held[free:]

    def finish(self) -> Iterator[str | ToolCall]:
        """What was held back, when the answer is whole."""
        held, self._held = self._held, ""
        begin = self._form.begin
        before, found, inside = held.partition(begin) if begin else ("", "", held)
        alone = not begin and not self._plain
        calls = _calls(_json(inside)) if not self._form.end and (found or alone) else []
        if calls:
            if before := before.rstrip():
                yield before
            self.calls += calls
            yield from calls
        elif held.strip() or not self.calls:
            if held:
                yield held

    def _free(self) -> int:
        """How much of what is held cannot become a call any more."""
        begin, held = self._form.begin, self._held
        if not begin:
            # The whole answer is a call, or none of it.
            maybe = not held.strip() or held.lstrip().startswith("{")
            return 0 if maybe and not self._plain else len(held)
        start = held.find(begin)
        if start < 0:
            size = min(len(begin) - 1, len(held))
            while size and not begin.startswith(held[-size:]):
                size -= 1
            start = len(held) - size
        # White space before a call is not text; it leaves with what follows.
        return len(held[:start].rstrip())


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _calls(value: Any) -> list[ToolCall]:
    """The calls of an object or a list of objects; none if one of them is no call."""
    rows = cast("list[Any]", value) if isinstance(value, list) else [value]
    calls = [call for row in rows if (call := _call(row)) is not None]
    return calls if len(calls) == len(rows) else []


def _call(value: Any) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    row = cast("dict[str, Any]", value)
    name = row.get("name")
    arguments = row.get("arguments", row.get("parameters"))
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return ToolCall(name, json.dumps(arguments, ensure_ascii=False))
