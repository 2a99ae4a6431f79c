"""Collects the findings about one program text, each at a span of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from openinfer.compiler.frontend.source import Source, Span
from openinfer.runtime import suggest
from openinfer.runtime.errors import Diagnostic, Note

MAX_ERRORS = 200
"""After so many errors the rest is noise; one last diagnostic says that there may be more."""


@dataclass
class Report:
    """The findings so far. One span gets one diagnostic of a code, however often it is visited."""

    source: Source
    strict: bool = False
    """Whether an unknown hint or attribute is an error."""
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    wrong: list[Span] = field(default_factory=list[Span])
    """Where errors are, those included that became notes."""
    _seen: set[tuple[str, Span]] = field(default_factory=set[tuple[str, Span]])
    _causes: dict[tuple[str, str], tuple[int, set[int]]] = field(
        default_factory=dict[tuple[str, str], tuple[int, set[int]]]
    )
    """For each cause that may show in many places: its finding, and the lines of the others."""

    @property
    def errors(self) -> int:
        return sum(d.severity == "error" for d in self.diagnostics)

    @property
    def full(self) -> bool:
        return len(self._seen) > MAX_ERRORS

    def error(
        self,
        code: str,
        span: Span,
        message: str,
        *,
        fix: str | None = None,
        notes: Sequence[tuple[str, Span | None]] = (),
        severity: str = "error",
    ) -> None:
        """Adds a finding; `notes` are sentences, each with the other place that it speaks of."""
        if severity == "error":
            self.wrong.append(span)
        if (code, span) in self._seen or self.full:
            return
        self._seen.add((code, span))
        if self.full:
            code, message, fix, notes = (
                "OI0107",
                f"more than {MAX_ERRORS} errors; the rest is not shown",
                "repair the first ones and try again",
                (),
            )
        self.diagnostics.append(
            Diagnostic(
                code,
                message,
                self.source.location(span),
                self.source.length(span),
                tuple(Note(text, self.source.location(s) if s else None) for text, s in notes),
                fix,
                severity,
            )
        )

    def error_once(
        self, code: str, cause: str, span: Span, message: str, *, fix: str | None = None
    ) -> None:
        """Adds a finding for a cause, say an undefined name; later places become a note of it."""
        known = self._causes.get((code, cause))
        if known is None:
            before = len(self.diagnostics)
            self.error(code, span, message, fix=fix)
            if len(self.diagnostics) > before and not self.full:
                self._causes[code, cause] = before, set()
            return
        if (code, span) in self._seen:
            return
        self.wrong.append(span)
        number, lines = known
        lines.add(self.source.location(span).line)
        found = self.diagnostics[number]
        self.diagnostics[number] = replace(found, notes=(also_in(lines),))

    def warning(self, code: str, span: Span, message: str, *, fix: str | None = None) -> None:
        self.error(code, span, message, fix=fix, severity="warning")

    def unknown(self, code: str, span: Span, message: str, *, fix: str | None = None) -> None:
        """A warning, or an error under `--strict`."""
        self.error(code, span, message, fix=fix, severity="error" if self.strict else "warning")

    def sorted(self) -> list[Diagnostic]:
        """All findings in text order."""

        def key(diagnostic: Diagnostic) -> tuple[int, int]:
            place = diagnostic.location
            return (place.line, place.column) if place else (0, 0)

        return sorted(self.diagnostics, key=key)


def also_in(lines: Iterable[int]) -> Note:
    """The note that lists the other lines of a cause, the first eight of them."""
    places = sorted(lines)
    more = f" and {len(places) - 8} more" if len(places) > 8 else ""
    shown = ", ".join(str(line) for line in places[:8])
    return Note(f"also in line{'s' if len(places) > 1 else ''} {shown}{more}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a person most likely meant, if any is close."""
    found = suggest.nearest(name, sorted(set(known)))
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A fix that names the nearest known name, or `otherwise`."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else otherwise
