"""Where things are: the definition of a name, its uses, its new name, the outline of a program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openinfer.compiler.frontend.source import Span
from openinfer.compiler.language_server.analysis import Analysis
from openinfer.compiler.language_server.symbols import Definition, Region, Symbol, Word
from openinfer.compiler.language_server.words import Words

_RENAMED = ("variable", "parameter", "index", "slot", "size", "block", "loop")
_APART = ("block", "loop", "op", "setting", "attribute", "hint", "argument", "cache", "keyword")
"""The roles of names that are no variable's, size's or index's."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)


class CannotRename(Exception):
    """Why a name stays as it is, for a person."""


@dataclass(frozen=True)
class Edit:
    """A part of the text, and what takes its place."""

    span: Span
    text: str


@dataclass(frozen=True)
class Entry:
    """A row of the outline."""

    name: str
    kind: str
    """"section", "block", "loop", "scope", "variable" or "size"."""
    detail: str
    whole: Span
    label: Span
    inner: tuple[Entry, ...] = ()


def _symbol_at(analysis: Analysis, offset: int) -> Symbol | None:
    word = analysis.words.at(offset)
    return analysis.words.symbol(word) if word is not None else None


def definition(analysis: Analysis, offset: int) -> Definition | None:
    """Where the name at a place is declared."""
    symbol = _symbol_at(analysis, offset)
    return analysis.words.definition(symbol) if symbol is not None else None


def references(analysis: Analysis, offset: int, *, declaration: bool = True) -> list[Span]:
    """All uses of what the name at a place stands for."""
    symbol = _symbol_at(analysis, offset)
    if symbol is None or symbol.kind in ("keyword", "unknown"):
        return []
    words = analysis.words.occurrences(symbol)
    return [word.span for word in words if declaration or not word.defines]


def renamed_span(analysis: Analysis, offset: int) -> Span:
    """What would be renamed at a place. Raises CannotRename."""
    word = analysis.words.at(offset)
    symbol = _symbol_at(analysis, offset)
    if word is None or symbol is None or symbol.kind not in _RENAMED:
        raise CannotRename(
            "only variables, parameters, indices, sizes, blocks and loops have names of their own"
        )
    if symbol == Symbol("block", "entry"):
        raise CannotRename("a step starts in `entry`: the name is fixed")
    return word.span


def rename(analysis: Analysis, offset: int, name: str) -> list[Edit]:
    """The edits that give a thing another name everywhere. The link of a constant to its tensor is kept.

    Raises CannotRename where that would change what the program means.
    """
    renamed_span(analysis, offset)
    symbol = _symbol_at(analysis, offset)
    assert symbol is not None
    words, findings = analysis.words, analysis.findings
    if not _NAME.fullmatch(name):
        raise CannotRename(f"`{name}` is no name: letters, digits and `_`, no digit first")
    syntax = [
        d for d in findings.diagnostics if d.severity == "error" and d.code.startswith("OI01")
    ]
    if syntax:
        raise CannotRename("the program has mistakes of syntax: mend them first")
    if symbol.kind in ("block", "loop"):
        taken = any(
            d.symbol.kind == symbol.kind and d.symbol.name == name for d in words.definitions
        )
    else:
        taken = any(
            w.text == name and w.role not in _APART and _meet(words, symbol, w) for w in words.words
        )
    if taken:
        raise CannotRename(f"`{name}` is in use")
    if symbol.kind == "size" and symbol.name in findings.package_names:
        raise CannotRename(f"`{symbol.name}` is a name of the model, and fixed there")
    edits = [Edit(word.span, name) for word in words.occurrences(symbol)]
    made = words.definition(symbol)
    if symbol.kind == "variable" and made is not None and _is_linked_by_name(analysis, made):
        # The name is the link to the tensor of the package: it stays as `@ref`.
        edits.append(Edit(Span(made.whole.stop, made.whole.stop), f' @ref("{symbol.name}")'))
    return sorted(edits, key=lambda edit: edit.span)


def _meet(words: Words, symbol: Symbol, word: Word) -> bool:
    """Whether both are seen in one place: a block with parameters has names of its own."""
    block = words.local_at(word.span.start)
    if symbol.owner and symbol.kind in ("variable", "parameter"):
        other = words.definition(words.symbol(word))
        shared = other is None or other.is_declared or other.symbol.kind == "size"
        return block == symbol.owner or (not block and shared)
    made = words.definition(symbol)
    return not block or symbol.kind != "variable" or (made is not None and made.is_declared)


def _is_linked_by_name(analysis: Analysis, made: Definition) -> bool:
    text = analysis.source.text[made.name.stop : made.whole.stop]
    if made.memory in ("temporary", "dynamic") or re.search(r"@?\b(ref|pattern)\b", text):
        return False
    tensors = {tensor.name for tensor in analysis.findings.tensors}
    if tensors:
        return made.symbol.name in tensors
    return made.memory == "constant" and "@init" not in text


def outline(analysis: Analysis) -> list[Entry]:
    """Sections with their variables, blocks with loops, scopes and temporaries."""
    words = analysis.words
    entries = [_entry(analysis, region) for region in words.regions]
    for made in words.definitions:
        if made.symbol.kind == "size":
            text = analysis.source.text[made.name.stop : made.whole.stop].strip(" =")
            entries.append(Entry(made.symbol.name, "size", text, made.whole, made.name))
    return sorted(entries, key=lambda entry: entry.whole)


def _entry(analysis: Analysis, region: Region) -> Entry:
    inner = [_entry(analysis, child) for child in region.inner]
    known = analysis.findings.variables
    seen: set[str] = set()
    for made in analysis.words.definitions:
        if made.symbol.kind != "variable" or made.symbol.name in seen:
            continue
        if not region.body.start <= made.name.start <= region.body.stop:
            continue
        if any(c.body.start <= made.name.start <= c.body.stop for c in region.inner):
            continue
        seen.add(made.symbol.name)
        variable = None if made.symbol.owner else known.get(made.symbol.name)
        detail = variable.type if variable is not None else made.type_text
        inner.append(Entry(made.symbol.name, "variable", detail, made.whole, made.name))
    inner.sort(key=lambda entry: entry.whole)
    name = region.name or region.kind
    detail = region.kind if region.kind != "section" else ""
    if region.definition is not None:
        detail += region.definition.type_text
    return Entry(name, region.kind, detail, region.whole, region.label, tuple(inner))
