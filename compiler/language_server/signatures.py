"""What a call takes, while its arguments are typed: ops, and blocks with parameters."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.language_server.analysis import Analysis
from openinfer.compiler.language_server.hover import setting_text, signature
from openinfer.compiler.language_server.symbols import Symbol
from openinfer.dialects import opset

_OPENING = {")": "(", "]": "["}


@dataclass(frozen=True)
class Signature:
    """A call: `conv(x, path, stride=1)`."""

    label: str
    parts: tuple[str, ...]
    """What it takes, each as the label has it."""
    active: int | None
    """The part that the place is in; None where it is none of them."""


def signature_at(analysis: Analysis, offset: int) -> Signature | None:
    """The innermost call whose parentheses are open at a place."""
    tokens = [t for t in analysis.words.tokens if t.span.stop <= offset and t.kind != "end"]
    closed: list[str] = []
    separators = 0
    name = ""
    """What stands before the last `=` of this argument."""
    for place in range(len(tokens) - 1, 0, -1):
        kind = tokens[place].kind
        if kind in (";", "{", "}"):
            return None
        if kind in _OPENING:
            closed.append(_OPENING[kind])
        elif closed and kind == closed[-1]:
            closed.pop()
        elif closed:
            continue
        elif kind == "(":
            found = _signature(analysis, tokens[:place], separators, name)
            if found is not None:
                return found
            separators, name = 0, ""
        elif kind == "[":
            separators, name = 0, ""
        elif kind == ",":
            separators += 1
        elif kind == "=" and not separators:
            name = tokens[place - 1].text
    return None


def _signature(analysis: Analysis, before: list[Token], place: int, named: str) -> Signature | None:
    """Of the call whose name is the last of the tokens before its parenthesis."""
    called = before[-1] if before and before[-1].kind == "name" else None
    if called is None:
        return None
    symbol = Symbol("block", called.text)
    if len(before) > 1 and before[-2].text == "branch":
        made = analysis.words.definition(symbol)
        if made is None or not made.type_text:
            return None
        text = analysis.source.text
        shown = analysis.words.parameters(called.text)
        parts = [text[d.whole.start : d.whole.stop] for d in shown]
        names = [d.symbol.name for d in shown]
        label = f"{called.text}({', '.join(parts)})"
    else:
        word = analysis.words.at(called.span.start)
        spec = opset.find(called.text) if word is not None and word.role == "op" else None
        if spec is None:
            return None
        label = signature(spec)
        operands = [*spec.operands, *(f"[{name}]" for name in spec.optional)]
        if spec.variadic:
            place = min(place, len(operands) - 1)
        parts = [*operands, *map(setting_text, spec.settings)]
        names = [*spec.operands, *spec.optional, *(s.name for s in spec.settings)]
    active = names.index(named) if named in names else place
    return Signature(label, tuple(parts), active if not named or named in names else None)
