"""Collects the findings about one program, each at a place of its text or at an op."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import field, replace

from xdsl.dialects.builtin import CallSiteLoc
from xdsl.ir import Operation

from openinfer.lowering.locations import location_of
from openinfer.lowering.program.places import Place
from openinfer.runtime import suggest
from openinfer.runtime.errors import Diagnostic, Location, Note
from openinfer.runtime.quick_dataclass import dataclass

MAX_ERRORS = 200
"""After so many errors the rest is noise; one last diagnostic says that there may be more."""


@dataclass
class Report:
    """The findings so far. One place gets one diagnostic of a code, however often it is visited."""

    strict: bool = False
    """Whether an unknown hint or attribute is an error."""
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    wrong: list[Place] = field(default_factory=list[Place])
    """Where errors are, those included that became notes."""
    _seen: set[tuple[str, Hashable]] = field(default_factory=set[tuple[str, Hashable]])
    _causes: dict[tuple[str, str], tuple[int, set[int]]] = field(
        default_factory=dict[tuple[str, str], tuple[int, set[int]]]
    )
    """For each cause that may show in many places: its finding, and the lines of the others."""

    def place(self, where: Place) -> tuple[Location | None, int]:
        """Where something stands in the source, and how long it is there."""
        if isinstance(where, Location):
            return where, 1
        return location_of(where) if isinstance(where, Operation) else None, 1

    @property
    def errors(self) -> int:
        return sum(d.severity == "error" for d in self.diagnostics)

    @property
    def full(self) -> bool:
        return len(self._seen) > MAX_ERRORS

    def error(
        self,
        code: str,
        where: Place,
        message: str,
        *,
        fix: str | None = None,
        notes: Sequence[tuple[str, Place | None]] = (),
        severity: str = "error",
    ) -> None:
        """Adds a finding; `notes` are sentences, each with the other place that it speaks of."""
        if severity == "error":
            self.wrong.append(where)
        if not self._is_new(code, where, message) or self.full:
            return
        self._seen.add(_key(code, where, message))
        if self.full:
            code, message, fix, notes = (
                "OI0107",
                f"more than {MAX_ERRORS} errors; the rest is not shown",
                "repair the first ones and try again",
                (),
            )
        location, length = self.place(where)
        shown = tuple(Note(text, None if s is None else self.place(s)[0]) for text, s in notes)
        self.diagnostics.append(Diagnostic(code, message, location, length, shown, fix, severity))

    def error_once(
        self, code: str, cause: str, where: Place, message: str, *,
        fix: str | None = None,
    ) -> None:  # fmt: skip
        """Adds a finding for a cause, say an undefined name; later places become a note of it."""
        known = self._causes.get((code, cause))
        if known is None:
            before = len(self.diagnostics)
            self.error(code, where, message, fix=fix)
            if len(self.diagnostics) > before and not self.full:
                self._causes[code, cause] = before, set()
            return
        if not self._is_new(code, where, message):
            return
        self.wrong.append(where)
        number, lines = known
        location, _ = self.place(where)
        if location is not None:
            lines.add(location.line)
            found = self.diagnostics[number]
            self.diagnostics[number] = replace(found, notes=(also_in(lines),))

    def warning(self, code: str, where: Place, message: str, *, fix: str | None = None) -> None:
        self.error(code, where, message, fix=fix, severity="warning")

    def unknown(self, code: str, where: Place, message: str, *, fix: str | None = None) -> None:
        """A warning, or an error under `--strict`."""
        self.error(code, where, message, fix=fix, severity="error" if self.strict else "warning")

    def sorted(self) -> list[Diagnostic]:
        """All findings in text order."""

        def key(diagnostic: Diagnostic) -> tuple[str, int, int]:
            place = diagnostic.location
            return (place.file, place.line, place.column) if place else ("", 0, 0)

        return sorted(self.diagnostics, key=key)

    def _is_new(self, code: str, where: Place, message: str) -> bool:
        return _key(code, where, message) not in self._seen


def _key(code: str, where: Place, message: str) -> tuple[str, Hashable]:
    # An op stands for all of its parts: several findings of one code may be right.
    if not isinstance(where, Operation):
        return code, where
    called = isinstance(where.location, CallSiteLoc)
    return code, (location_of(where) if called else where, message)


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
