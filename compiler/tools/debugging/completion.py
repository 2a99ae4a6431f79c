"""Completion of what a person types to the debugger: commands, variables, blocks, ops."""

from __future__ import annotations

import re
from collections.abc import Iterable

from openinfer.compiler.tools.debugging.commands import Commands
from openinfer.compiler.tools.debugging.reply import CommandError
from openinfer.compiler.tools.debugging.targets import FORMS
from openinfer.runtime.condition_syntax import ELEMENTWISE, FUNCTIONS
from openinfer.runtime.step_values import COUNTERS

_WORD = re.compile(r"[A-Za-z_][\w.]*$|$")
_EXPRESSIONS = ("print", "watch", "display")
_PLACES = ("break", "tbreak", "until")


def complete(commands: Commands, text: str) -> tuple[int, list[str]]:
    """What may stand at the end of `text`: how many characters it replaces, and the candidates."""
    command, _, rest = text.lstrip().partition(" ")
    if not rest and not text.endswith(" "):
        return len(command), _fitting(command, commands.table)
    try:
        name = commands.find(command).name
    except CommandError:
        return 0, []
    found = _WORD.search(text)
    word = found[0] if found else ""
    if name in _EXPRESSIONS or (name in _PLACES and " if " in f" {rest}"):
        return _in_expression(commands, word)
    return len(word), _fitting(word, _arguments(commands, name, rest))


def _arguments(commands: Commands, name: str, rest: str) -> list[str]:
    session = commands.session
    blocks, ops = list(session.outline.blocks), sorted(session.outline.forms)
    if name in _PLACES:
        first = rest.partition(" ")[0] if " " in rest else ""
        return {"block": blocks, "op": ops}.get(first, [*FORMS, *blocks, *ops])
    if name == "delete":
        return [str(entry.number) for entry in session.entries]
    if name == "info":
        return ["breakpoints", "sizes", "state", "vars"]
    return {"list": blocks, "help": list(commands.table)}.get(name, [])


def _in_expression(commands: Commands, word: str) -> tuple[int, list[str]]:
    _, dot, last = word.rpartition(".")
    if dot:
        return len(last), _fitting(last, [f for f in FUNCTIONS if f not in ELEMENTWISE])
    session = commands.session
    sizes = {n for v in session.executor.variables.values() for d in v.dims for n in d.names}
    names = [
        *session.executor.variables,
        *sorted(session.outline.loop_names | session.outline.call_names),
        *sorted(sizes - {"_"}),
    ]
    return len(word), _fitting(word, [*names, *COUNTERS, *FUNCTIONS])


def _fitting(word: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(word)]
