"""What kind of word stands where, for editors that colour by the server instead of a grammar."""

from __future__ import annotations

from openinfer.compiler.frontend.source import Span
from openinfer.compiler.language_server.analysis import Analysis

KINDS = (
    "keyword",
    "function",
    "property",
    "decorator",
    "type",
    "variable",
    "parameter",
    "namespace",
    "number",
    "string",
    "comment",
)
"""The kinds by the names of the protocol."""
_OF_SYMBOLS = {
    "keyword": "keyword",
    "cache": "keyword",
    "op": "function",
    "setting": "property",
    "argument": "property",
    "hint": "property",
    "attribute": "decorator",
    "dtype": "type",
    "variable": "variable",
    "size": "parameter",
    "index": "parameter",
    "slot": "parameter",
    "parameter": "parameter",
    "block": "namespace",
    "label": "namespace",
    "loop": "namespace",
}


def colours(analysis: Analysis) -> list[tuple[Span, str]]:
    """All coloured parts in text order; none reaches over the end of a line."""
    words = analysis.words
    names = {w.span: _OF_SYMBOLS.get(words.symbol(w).kind, "variable") for w in words.words}
    found: list[tuple[Span, str]] = []
    position = 0
    for token in words.tokens:
        found += _comments(analysis.source.text, position, token.span.start)
        position = token.span.stop
        if token.kind == "name" and token.span in names:
            found.append((token.span, names[token.span]))
        elif token.kind in ("int", "float"):
            found.append((token.span, "number"))
        elif token.kind in ("string", "bad") and "\n" not in token.text:
            found.append((token.span, "string"))
    return found


def _comments(text: str, start: int, stop: int) -> list[tuple[Span, str]]:
    """Between two tokens there is nothing but comments, and characters that are reported."""
    found: list[tuple[Span, str]] = []
    for line in text[start:stop].splitlines(keepends=True):
        shown = line.strip()
        if shown:
            begin = start + line.index(shown[0])
            found.append((Span(begin, begin + len(shown)), "comment"))
        start += len(line)
    return found
