"""Where the debugger's lines come from: prompt_toolkit, plain `input`, a pipe, the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from openinfer.compiler.tools.debugging.commands import Commands, Quit
from openinfer.compiler.tools.debugging.completion import complete
from openinfer.compiler.tools.debugging.reply import CommandError, Reply
from openinfer.compiler.tools.report import (
    BAD_INPUT,
    FINE,
    USAGE,
    UsageError,
    diagnostics_of,
    finding_json,
    render,
)
from openinfer.runtime.errors import OpenInferError

if TYPE_CHECKING:
    from prompt_toolkit.document import Document

PROMPT = "(openinfer) "

Reader = Callable[[], str]
"""Gives the next line. Raises EOFError at the end, KeyboardInterrupt when the line is dropped."""


class Console:
    """Runs lines and prints the answers: text, or one JSON object a line."""

    def __init__(self, commands: Commands, *, json: bool) -> None:
        self.commands = commands
        self.json = json

    def interactive(self) -> int:
        """Reads lines from the terminal until the end; mistakes are shown and forgotten."""
        read = terminal_reader(self.commands)
        again = ""
        while True:
            try:
                line = read().strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return FINE
            if not line and not again:
                continue
            try:
                self._answer(line or again)
            except Quit:
                return FINE
            if line:
                again = self._repeated(line)

    def script(self, lines: Iterable[str]) -> int:
        """Runs lines that nobody types: stops at the first mistake.

        Gives 0, 1 when a step of the program failed, 2 for a mistake in a command.
        """
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            try:
                if not self._answer(text):
                    return USAGE
            except Quit:
                break
        return BAD_INPUT if self.commands.session.failures else FINE

    def _repeated(self, line: str) -> str:
        """What an empty line does after this one."""
        word, _, rest = line.partition(" ")
        try:
            row = self.commands.find(word)
        except CommandError:
            return ""
        # `list` goes on where it was; the others do the same again.
        return (row.name if row.name == "list" else f"{word} {rest}") if row.again else ""

    def _answer(self, line: str) -> bool:
        """Runs and shows one line; False for a mistake in it. Raises Quit."""
        try:
            reply = self.commands.run(line)
        except CommandError as error:
            self._show_error(line, UsageError(error.message, error.hint))
            return False
        except OpenInferError as error:
            self._show_error(line, error)
            return False
        self._show(line, reply)
        return True

    def _show(self, line: str, reply: Reply) -> None:
        if self.json:
            print(json.dumps({"command": line, **reply.data}))
        else:
            for text in reply.lines:
                print(text)
        sys.stdout.flush()

    def _show_error(self, line: str, error: OpenInferError | UsageError) -> None:
        text = render(error)
        if self.json:
            found = [finding_json(finding) for finding in diagnostics_of(error)]
            print(json.dumps({"command": line, "error": text, "diagnostics": found}))
        sys.stdout.flush()
        if not self.json:
            print(text, file=sys.stderr)


def terminal_reader(commands: Commands) -> Reader:
    """Reads with prompt_toolkit where it is installed, else with `input` and readline."""
    try:
        return _toolkit_reader(commands)
    except ImportError:
        return _plain_reader(commands)


def _toolkit_reader(commands: Commands) -> Reader:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: Any) -> Iterator[Completion]:
            length, names = complete(commands, document.text_before_cursor)
            return (Completion(name, start_position=-length) for name in names)

    # Completion on Tab only, so that a menu does not cover the output while typing.
    prompt: PromptSession[str] = PromptSession(completer=Words(), complete_while_typing=False)
    return lambda: prompt.prompt(PROMPT)


def _plain_reader(commands: Commands) -> Reader:
    try:
        import readline
    except ImportError:
        pass  # Lines cannot be edited then; everything else is the same.
    else:
        candidates: list[str] = []

        def completed(text: str, state: int) -> str | None:
            if state == 0:
                line = readline.get_line_buffer()[: readline.get_endidx()]
                length, names = complete(commands, line)
                kept = text[: len(text) - length] if length <= len(text) else ""
                candidates[:] = [kept + name for name in names]
            return candidates[state] if state < len(candidates) else None

        readline.set_completer(completed)
        readline.set_completer_delims(" \t,()[]+-*/<>=!")
        readline.parse_and_bind("tab: complete")

    def read() -> str:
        try:
            return input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            print()
            raise

    return read
