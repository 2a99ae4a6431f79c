"""The names of a text, each with what it stands for."""

from __future__ import annotations

from openinfer.compiler.frontend.lexer import tokenize
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.language_server.reading import LITERALS, Reader
from openinfer.compiler.language_server.symbols import Definition, Region, Symbol, Word
from openinfer.runtime.dtypes import ALIASES, DTYPES

_DTYPES = frozenset((*DTYPES, *ALIASES))


class Words:
    """The names of a text, each with what it stands for."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = tokenize(source, Report(source=source))
        reader = Reader(source, self.tokens)
        reader.run()
        self.regions: list[Region] = reader.regions
        """Sections and blocks in text order."""
        self.definitions: list[Definition] = reader.definitions
        self.words = sorted(reader.words, key=lambda word: word.span)
        self._loops = reader.loops
        self._names = {d.symbol.name for d in self.definitions if d.symbol.kind == "variable"}
        self._slots = {d.symbol for d in self.definitions if d.symbol.kind == "slot"}

    def at(self, offset: int) -> Word | None:
        """The name that a place is in or directly behind."""
        found = [w for w in self.words if w.span.start <= offset <= w.span.stop]
        return found[-1] if found else None

    def symbol(self, word: Word) -> Symbol:
        """What a name stands for."""
        if word.role not in ("ref", "value"):
            return Symbol(word.role, word.text, word.owner)
        for index in self.indices_at(word.span.start):
            if index.symbol.name == word.text:
                return index.symbol
        if word.text in self._names:
            return Symbol("variable", word.text)
        slot = Symbol("slot", word.text, word.owner)
        if slot in self._slots:
            return slot
        if word.text == "_":
            return Symbol("open", "_")
        if word.role == "value":
            return Symbol("dtype" if word.text in _DTYPES else "size", word.text)
        return Symbol("keyword" if word.text in (*LITERALS, "model") else "unknown", word.text)

    def indices_at(self, offset: int) -> list[Definition]:
        """The loop indices that are visible at a place, innermost first."""
        around = [d for body, d in self._loops if body.start <= offset <= body.stop]
        return sorted(around, key=lambda d: -d.name.start)

    def occurrences(self, symbol: Symbol) -> list[Word]:
        """All names that stand for one thing, in text order."""
        return [w for w in self.words if w.text == symbol.name and self.symbol(w) == symbol]

    def definition(self, symbol: Symbol) -> Definition | None:
        """Where it is declared; a size that is not, where it first stands."""
        found = next((d for d in self.definitions if d.symbol == symbol), None)
        if found is None and symbol.kind == "size":
            words = self.occurrences(symbol)
            found = Definition(symbol, words[0].span, words[0].span) if words else None
        return found

    def sizes(self) -> list[str]:
        """The names of all sizes, in text order."""
        found = [s for s in map(self.symbol, self.words) if s.kind == "size"]
        return list(dict.fromkeys(symbol.name for symbol in found))

    def region_at(self, offset: int) -> list[Region]:
        """The regions around a place, outermost first."""
        found: list[Region] = []
        inside = self.regions
        while True:
            region = next((r for r in inside if r.body.start <= offset <= r.body.stop), None)
            if region is None:
                return found
            found.append(region)
            inside = region.inner
