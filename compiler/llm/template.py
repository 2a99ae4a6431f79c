"""Chat templates: a conversation as the tokens that the model was trained on.

A template is a program in Jinja that the model's file holds. It is rendered in a process of its own
(`template_worker.py`). What it writes becomes tokens in two ways: the texts of control tokens become these
tokens where the template wrote them, and stay ordinary characters where they come from a message. For that,
a letter that occurs nowhere else (the mark) is put into the messages before the places where such a text
begins, and taken out of what was rendered.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast
from weakref import finalize

from openinfer.compiler.llm.template_worker import PROCESSOR_SECONDS
from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.compiler.tools.extras import missing_library
from openinfer.runtime.errors import InputError, PackageError, UnsupportedError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.gguf import GgufPackage

MAX_SOURCE: Final = 64 << 10
"""Characters that a template may have."""
ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_KEY: Final = "tokenizer.chat_template"
_WALL_SECONDS: Final = 30.0
"""Where the processor's time is not counted, or nothing is computed, this much is waited."""
_MARKS: Final = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
"""Letters that Unicode reserves for uses like this one."""
CHATML: Final = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The form that many models share; used where a file has its tokens, but no template."""


class ChatTemplate:
    """The template of a model, with the tokenizer that reads what it writes."""

    def __init__(
        self, source: str, tokenizer: Tokenizer, *, named: Mapping[str, str] | None = None
    ) -> None:
        self.source = source
        self.named = dict(named or {})
        """Templates for special uses, by name: `tool_use`, `rag`."""
        self.tokenizer = tokenizer
        for text in (source, *self.named.values()):
            if len(text) > MAX_SOURCE:
                raise PackageError(
                    "OI0421",
                    f"{tokenizer.origin}: the chat template has {len(text)} characters, at most "
                    f"{MAX_SOURCE} are "
                    "possible",
                    hint="give another file of the model",
                )
        self._controls = _Controls(tokenizer)

    @staticmethod
    def of(model: Package, tokenizer: Tokenizer) -> ChatTemplate | None:
        """The template in the file, ChatML where it has none but the tokens `<|im_start|>` and
        `<|im_end|>`; None for a base model, which was not trained to answer.

        Raises PackageError OI0421 for one that is no text or too long.
        """
        source, named = template_of(model, tokenizer.controls)
        return ChatTemplate(source, tokenizer, named=named) if source is not None else None

    def encode(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> list[int]:
        """The ids of a conversation, ready for the model: bos stands once in front if the model wants it.

        `messages` are objects with `role` and `content`, as in OpenAI's interface. No text in them becomes
        a control token. `kwargs` are further variables of the template, as `enable_thinking`. Raises
        InputError OI0583 for messages that are none or that the template refuses, PackageError OI0421 for a
        template that fails.
        """
        text, mark = self._render(messages, tools, add_generation_prompt, kwargs)
        return self._controls.encode(text, mark)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """The text of a conversation, to be read by people: tokens of it are `encode`'s matter."""
        text, mark = self._render(messages, tools, add_generation_prompt, kwargs)
        return text.replace(mark, "")

    def close(self) -> None:
        """Ends the process that renders; the next conversation starts another."""
        _WORKER.close()

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        more: Mapping[str, Any],
    ) -> tuple[str, str]:
        """What the template writes, and the mark in it."""
        messages = plain_messages(messages)
        source = self.source
        if tools:
            source = self.named.get("tool_use", source)
        answer, mark = self._answer(source, messages, tools, add_generation_prompt, more)
        if "system" in answer.get("error", "").lower() and (folded := folded_system(messages)):
            other, other_mark = self._answer(source, folded, tools, add_generation_prompt, more)
            if "error" not in other:
                return other["text"], other_mark
        if "error" in answer:
            raise InputError(
                "OI0583",
                f"the chat template refuses the conversation: {answer['error'].replace(mark, '')}",
                hint="see the template with `openinfer inspect`",
            )
        return answer["text"], mark

    def _answer(
        self,
        source: str,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        more: Mapping[str, Any],
    ) -> tuple[dict[str, str], str]:
        """What the process that renders says, and the mark in it."""
        given: dict[str, Any] = {"messages": messages, "tools": list(tools) if tools else None}
        given |= more
        try:
            written = json.dumps(given, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise _unusable(f"what is given to the template is not JSON: {error}") from None
        mark = next((mark for mark in _MARKS if mark not in written and mark not in source), None)
        if mark is None:
            raise _unusable("the messages hold all of the code points U+FDD0 to U+FDEF")
        variables = cast("dict[str, Any]", self._controls.marked(given, mark))
        variables["add_generation_prompt"] = add_generation_prompt
        tokens = self.tokenizer
        for name, number in (("bos_token", tokens.bos), ("eos_token", tokens.eos)):
            variables[name] = tokens.token(number) if number is not None else ""
        answer = _WORKER.ask({"template": source, "variables": variables})
        if answer is None:
            raise PackageError(
                "OI0421",
                f"{tokens.origin}: the chat template takes more than {PROCESSOR_SECONDS:g} s of the "
                "processor, or "
                "more memory than it may",
                hint="send a shorter conversation; with any conversation, the template is at fault",
            )
        return answer, mark


def no_template(origin: str) -> UnsupportedError:
    """The error where somebody wants to chat with a model that has no template."""
    return UnsupportedError(
        "OI0746",
        f"{origin}: the file has no chat template, nor the tokens of ChatML: it is a base model, which "
        "continues "
        "text and was not trained to answer",
        hint="use `openinfer generate` or `/v1/completions`, or the instruct version of the model",
    )


def plain_messages(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages as templates expect them: contents are texts, arguments of calls are objects.

    Raises InputError OI0583 for what is no message with a known role.
    """
    if isinstance(messages, str | bytes) or not messages:
        raise _unusable("there are no messages")
    plain: list[dict[str, Any]] = []
    for number, message in enumerate(cast("Sequence[object]", messages)):
        if not isinstance(message, Mapping):
            raise _unusable(f"message {number} is a {type(message).__name__}, not an object")
        # A role is written between the brackets of control tokens: a free text could make any of them.
        message = cast("Mapping[str, Any]", message)
        role = message.get("role")
        if role not in ROLES:
            raise _unusable(
                f"message {number} has the role {role!r:.40}, not one of {', '.join(ROLES)}"
            )
        made = dict(message)
        made["content"] = _plain_content(number, message.get("content"))
        if message.get("tool_calls"):
            made["tool_calls"] = [_plain_call(number, call) for call in _list(number, message)]
        plain.append(made)
    return plain


def folded_system(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The conversation with its system message in front of what the user says first, for templates without
    the role; empty where it does not begin so."""
    if len(messages) < 2:
        return []
    system, user, *others = (dict(message) for message in messages)
    if system["role"] not in ("system", "developer") or user["role"] != "user":
        return []
    user["content"] = f"{system['content']}\n\n{user['content']}".strip()
    return [user, *others]


def _plain_content(number: int, content: Any) -> str:
    """A content as one text: OpenAI's interface allows a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _unusable(f"message {number} has a {type(content).__name__} as content, not a text")
    pieces: list[str] = []
    for part in cast("list[Any]", content):
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            raise _unusable(
                f"message {number} has a part that is no text: only texts are understood"
            )
        pieces.append(text)
    return "".join(pieces)


def _list(number: int, message: Mapping[str, Any]) -> list[Any]:
    calls = message["tool_calls"]
    if not isinstance(calls, list):
        raise _unusable(f"message {number} has tool_calls that are no list")
    return cast("list[Any]", calls)


def _plain_call(number: int, call: Any) -> dict[str, Any]:
    """A call whose arguments are an object: OpenAI's interface has them as text, templates write them as
    JSON."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        raise _unusable(f"message {number} has a tool call without `function`")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise _unusable(
                f"message {number} has a tool call whose arguments are no JSON"
            ) from None
    made = dict(cast("Mapping[str, Any]", call))
    made["function"] = {**cast("Mapping[str, Any]", function), "arguments": arguments}
    return made


def _unusable(problem: str) -> InputError:
    return InputError(
        "OI0583",
        problem,
        hint='give a list of objects such as {"role": "user", "content": "Hello"}',
    )


def template_of(model: Package, controls: Collection[str]) -> tuple[str | None, dict[str, str]]:
    """The template of a model, and those for special uses by their names.

    Without one in the file, `CHATML` where the texts of the control tokens say that the model knows it,
    else None.
    """
    source, named = _sources(model)
    if source is None and named:
        source = named.get("default", next(iter(named.values())))
    if source is None and "<|im_start|>" in controls and "<|im_end|>" in controls:
        source = CHATML
    return source, named


def _sources(model: Package) -> tuple[str | None, dict[str, str]]:
    """The templates that stand in the files of a model."""
    if not isinstance(model, GgufPackage):
        from openinfer.compiler.llm.hub_tokenizer import hub_templates

        return hub_templates(model)
    named: dict[str, str] = {}
    source: str | None = None
    for key, value in model.fields.items():
        if key != _KEY and not key.startswith(f"{_KEY}."):
            continue
        if not isinstance(value, str):
            raise PackageError(
                "OI0421",
                f"{model.origin}: metadata {key!r} is no text",
                hint="give another file of the model",
            )
        if key == _KEY:
            source = value
        else:
            named[key.removeprefix(f"{_KEY}.")] = value
    return source, named


class _Controls:
    """Finds the texts of control tokens, in what a template wrote and in what it was given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.ids = tokenizer.controls
        self.strips = tokenizer.vocabulary.strips_right
        lengths: dict[str, set[int]] = {}
        self.beginnings: set[str] = set()
        """Every beginning of a control token that is shorter than it."""
        self.ends: set[str] = set()
        for text in self.ids:
            lengths.setdefault(text[0], set()).add(len(text))
            self.beginnings |= {text[:size] for size in range(1, len(text))}
            self.ends |= {text[-size:] for size in range(1, len(text))}
        self.lengths = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
        """The lengths of the tokens that begin with a letter, longest first."""
        self.longest = max((len(text) for text in self.ids), default=0)

    def at(self, text: str, place: int) -> str | None:
        """The longest control token that begins at `place`."""
        for size in self.lengths.get(text[place], ()):
            if (found := text[place : place + size]) in self.ids:
                return found
        return None

    def marked(self, value: Any, mark: str, key: str | None = None) -> Any:
        """`value` with the mark in all of its texts where a control token could begin."""
        if isinstance(value, str):
            return value if key == "role" else self._marked_text(value, mark)
        if isinstance(value, Mapping):
            return {
                self._marked_text(str(name), mark): self.marked(part, mark, str(name))
                for name, part in cast("Mapping[Any, Any]", value).items()
            }
        if isinstance(value, list | tuple):
            return [self.marked(part, mark) for part in cast("Iterable[Any]", value)]
        return value

    def _marked_text(self, text: str, mark: str) -> str:
        if not text:
            return text
        places = [place for place in range(len(text)) if self.at(text, place) is not None]
        # The beginning of a token at the end of a text, to which the template adds the rest.
        for size in range(1, min(self.longest, len(text) + 1)):
            if text[-size:] in self.beginnings:
                places.append(len(text) - size)
        # The rest of a token at the beginning: the mark parts it from what the template wrote.
        if any(text[:size] in self.ends for size in range(1, min(self.longest, len(text) + 1))):
            places.append(0)
        pieces: list[str] = []
        last = 0
        for place in sorted(set(places)):
            pieces.append(text[last:place])
            last = place
        return mark.join([*pieces, text[last:]])

    def encode(self, text: str, mark: str) -> list[int]:
        """The ids of a rendered text: what is marked is no control token."""
        tokenizer = self.tokenizer
        ids: list[int] = []
        start = place = 0
        strip = False
        while place < len(text):
            found = None
            if text[place] in self.lengths and (place == 0 or text[place - 1] != mark):
                found = self.at(text, place)
            if found is None:
                place += 1
                continue
            ids += self._plain(text[start:place], mark, strip)
            ids.append(self.ids[found])
            strip = self.ids[found] in self.strips
            place += len(found)
            start = place
        ids += self._plain(text[start:], mark, strip)
        if tokenizer.add_bos and tokenizer.bos is not None and ids[:1] != [tokenizer.bos]:
            ids.insert(0, tokenizer.bos)
        return ids

    def _plain(self, text: str, mark: str, strip: bool) -> list[int]:
        text = text.replace(mark, "")
        return self.tokenizer.encode(text.lstrip() if strip else text) if text else []


class _Worker:
    """The process that renders; started when it is needed, and again after it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to a request; None where the process died of it, or did not answer."""
        with self._lock:
            process = self._started()
            clock = threading.Timer(_WALL_SECONDS, process.kill)
            clock.daemon = True
            clock.start()
            line = ""
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                # The process died before it had read all.
                pass
            finally:
                clock.cancel()
                if not line.endswith("\n"):
                    self._end()
            return cast("dict[str, Any]", json.loads(line)) if line.endswith("\n") else None

    def close(self) -> None:
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        if find_spec("jinja2") is None:
            raise missing_library("jinja2", "llm")
        script = Path(__file__).with_name("template_worker.py")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        finalize(self, _stop, self._process)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _stop(process)


_WORKER: Final = _Worker()
"""One process for all templates of this process."""


def _stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
