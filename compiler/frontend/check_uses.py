"""Checks of single uses of variables: reads, writes, indices, outside of cache operations."""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.build import is_full
from openinfer.compiler.frontend.check_sizes import check_size
from openinfer.compiler.frontend.named_operands import literal_advice
from openinfer.compiler.frontend.report import Report, did_you_mean
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import Symbol, Symbols
from openinfer.dialects.foreign_words import VALUES


class UseChecker:
    """Looks up names and checks how they are used."""

    def __init__(self, symbols: Symbols, report: Report) -> None:
        self.symbols = symbols
        self.report = report

    def variable(self, name: syntax.Name) -> Symbol | None:
        """The variable of a name; reports an undefined one."""
        symbol = self.symbols.find(name.text)
        if symbol is None and name.text not in self.symbols.unreadable:
            if name.text in self.symbols.loop_indices:
                message = f"`{name.text}` is a loop index, not a variable"
                fix: str | None = "it may stand in brackets, dimensions and bounds"
            else:
                message = f"undefined variable `{name.text}`"
                fix = _advice(name.text, self.symbols)
            self.report.error_once("OI0210", name.text, name.span, message, fix=fix)
        return symbol

    def names(self, names: Sequence[syntax.Name]) -> list[Symbol]:
        """A list of plain variable names, each once; the variables that were found."""
        seen: set[str] = set()
        found: list[Symbol] = []
        for name in names:
            symbol = self.variable(name)
            if symbol is not None:
                found.append(symbol)
                if symbol.indices:
                    self.index_count(symbol, name.span, 0)
            if name.text in seen:
                self.report.error(
                    "OI0246", name.span, f"`{name.text}` is named twice", fix="remove one of them"
                )
            seen.add(name.text)
        return found

    def read(self, ref: syntax.Ref) -> Symbol | None:
        """A variable that a node reads."""
        symbol = self.use(ref)
        if symbol is not None and symbol.memory == "persistent" and symbol.indices:
            self.report.error(
                "OI0221",
                ref.span,
                f"the entries of `{ref.name.text}` are read with `cache.read` only",
                fix=f"cache.read {ref.name.text}[{', '.join(symbol.indices)}] >> TEMPORARY;",
                notes=[("declared here", symbol.span)],
            )
        return symbol

    def write(self, ref: syntax.Ref) -> Symbol | None:
        """A variable that a node writes."""
        symbol = self.use(ref)
        if symbol is None:
            return None
        if symbol.memory in ("dynamic", "constant"):
            who = "only the caller sets it" if symbol.memory == "dynamic" else "it never changes"
            self.report.error(
                "OI0220",
                ref.span,
                f"cannot write to {symbol.memory} `{ref.name.text}`: {who}",
                fix="write to a volatile variable or a temporary",
                notes=[("declared here", symbol.span)],
            )
        elif symbol.memory == "persistent":
            self.report.error(
                "OI0221",
                ref.span,
                f"persistent `{ref.name.text}` is written with `cache.*` only",
                fix=f"cache.write VALUE >> {ref.name.text};",
                notes=[("declared here", symbol.span)],
            )
        elif symbol.indices and ref.slots:
            self.report.error(
                "OI0233",
                ref.span,
                f"an entry of `{ref.name.text}` cannot be an output",
                fix="write to a variable without indices",
                notes=[("declared here", symbol.span)],
            )
        return symbol

    def use(self, ref: syntax.Ref) -> Symbol | None:
        """A variable with its indices, outside of caches."""
        symbol = self.variable(ref.name)
        slots = list(ref.slots or ())
        if len(slots) > 1 and is_full(slots[-1]):
            slots.pop()  # a trailing comma
        table = symbol is not None and symbol.memory == "persistent" and bool(symbol.indices)
        for slot in slots:
            if isinstance(slot, syntax.Slice):
                if not table:
                    self.report.error(
                        "OI0232",
                        slot.span,
                        "a slice is for `cache.read` and `cache.write` only",
                        fix="select one entry, or use `op slice`",
                    )
                return symbol
            self.index(slot)
        if symbol is None or table:
            return symbol
        if ref.slots is not None and not symbol.indices:
            self.no_indices(symbol, ref)
        else:
            self.index_count(symbol, ref.span, len(slots))
        return symbol

    def index(self, slot: syntax.Expr) -> None:
        """An expression that selects one entry."""
        size = check_size(slot, self.symbols, self.report, "an index")
        if size is not None and size.constant is not None and size.constant < 0:
            self.report.error(
                "OI0309", slot.span, f"an index cannot be {size}", fix="indices count from 0"
            )

    def no_indices(self, symbol: Symbol, ref: syntax.Ref) -> None:
        self.report.error(
            "OI0231",
            ref.span,
            f"`{symbol.name}` is declared without indices",
            fix="remove the brackets, or select a part with `op slice`",
            notes=[(f"declared here, as {symbol.what}", symbol.span)],
        )

    def index_count(self, symbol: Symbol, span: Span, count: int) -> None:
        """As many indices as the declaration has."""
        if count == len(symbol.indices):
            return
        wanted = len(symbol.indices)
        self.report.error(
            "OI0230",
            span,
            f"`{symbol.name}` has {wanted} {'index' if wanted == 1 else 'indices'}, got {count}",
            fix=f"write `{symbol.name}[{', '.join(symbol.indices)}]`",
            notes=[("declared here", symbol.span)],
        )


def _advice(name: str, symbols: Symbols) -> str | None:
    """What to write for a name that no variable has."""
    if name in VALUES or name in ("true", "false", "inf", "nan"):
        value = VALUES.get(name, name)
        dtype = "bool" if value in ("true", "false") else "f32"
        return literal_advice(value, dtype)
    return did_you_mean(name, symbols.variables, f"declare it, or write `assign {name}: TYPE;`")
