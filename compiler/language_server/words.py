"""The names of a text, each with what it stands for."""

from __future__ import annotations

from openinfer.compiler.frontend.lexer import tokenize
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.language_server.reading import Reader
from openinfer.compiler.language_server.symbols import Definition, Region, Symbol, Word
from openinfer.compiler.language_server.token_reader import LITERALS
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
        self._locals = reader.locals
        self._known = {d.symbol for d in self.definitions}
        self._shared = {
            d.symbol.name for d in self.definitions if d.is_declared and not d.symbol.owner
        }

    def at(self, offset: int) -> Word | None:
        """The name that a place is in or directly behind."""
        found = [w for w in self.words if w.span.start <= offset <= w.span.stop]
        return found[-1] if found else None

    def symbol(self, word: Word) -> Symbol:
        """What a name stands for."""
        if word.role not in ("ref", "value", "variable"):
            return Symbol(word.role, word.text, word.owner)
        variable = self._variable(word)
        if word.role == "variable":
            return variable or Symbol("variable", word.text)
        for index in self.indices_at(word.span.start):
            if index.symbol.name == word.text:
                return index.symbol
        if variable is not None:
            return variable
        slot = Symbol("slot", word.text, word.owner)
        if slot in self._known:
            return slot
        if word.text == "_":
            return Symbol("open", "_")
        if word.role == "value":
            return Symbol("dtype" if word.text in _DTYPES else "size", word.text)
        return Symbol("keyword" if word.text in (*LITERALS, "model") else "unknown", word.text)

    def _variable(self, word: Word) -> Symbol | None:
        """The variable or parameter of a name. A block with parameters sees its own names, and what the
        program declares."""
        block = self.local_at(word.span.start)
        if not block:
            variable = Symbol("variable", word.text)
            return variable if variable in self._known else None
        for symbol in (Symbol("parameter", word.text, block), Symbol("variable", word.text, block)):
            if symbol in self._known:
                return symbol
        return Symbol("variable", word.text) if word.text in self._shared else None

    def local_at(self, offset: int) -> str:
        """The block with parameters that a place is in; empty where it is in none."""
        return next((name for span, name in self._locals if span.start <= offset < span.stop), "")

    def parameters(self, block: str) -> list[Definition]:
        """The parameters of a block, in order."""
        return [d for d in self.definitions if d.symbol.kind == "parameter" and d.block == block]

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
