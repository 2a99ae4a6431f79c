"""How findings are shown, and what the codes mean (`diagnostic_codes.py` is their table).

    prog.oi:7:14: error[OI0210]: undefined variable `wieghts`
        op matmul(x, wieghts) >> y;
                     ^~~~~~~
      fix: did you mean `weights`?

Codes: OI01xx text and syntax, OI02xx names and structure, OI03xx types and values, OI04xx model
packages, OI05xx inputs, OI06xx steps, OI07xx what this build lacks, OI08xx artefacts, OI09xx bugs
of the compiler, OI15xx foreign models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from openinfer.runtime.errors import Diagnostic, Location
from openinfer.runtime.files import read_text

__all__ = ["codes_page", "explain", "render", "summary"]

_MAX_WIDTH = 160
"""Longer source lines are cut around the caret."""


def render(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> str:
    """All diagnostics, each with its source line, caret, notes and fix.

    `sources` holds texts by file name; other files are read from disk if they are there.
    """
    excerpts = _Excerpts(sources or {})
    return "\n".join(_render_one(diagnostic, excerpts) for diagnostic in diagnostics)


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """ "3 errors, 1 warning"."""
    counts = {"error": 0, "warning": 0}
    for diagnostic in diagnostics:
        counts[diagnostic.severity] = counts.get(diagnostic.severity, 0) + 1
    return ", ".join(
        f"{count} {severity}{'' if count == 1 else 's'}"
        for severity, count in counts.items()
        if count or severity == "error"
    )


def explain(code: str) -> str | None:
    """Title and explanation of a code, None for an unknown one."""
    from openinfer.compiler.diagnostic_codes import CODES

    if code not in CODES:
        return None
    title, text = CODES[code]
    return f"{code}: {title}\n\n{text}"


def codes_page() -> str:
    """The text of `docs/diagnostics.md`, made from the table."""
    from openinfer.compiler.diagnostic_codes import CODES

    chapters = {
        "01": "Text and syntax",
        "02": "Names and structure",
        "03": "Types and values",
        "04": "Model packages",
        "05": "Inputs",
        "06": "Steps",
        "07": "What this build does not have",
        "08": "Compiled programs and the cache",
        "09": "Bugs of the compiler",
        "15": "Imports and exports of foreign models",
    }
    lines = [
        "# Diagnostics",
        "",
        "Every message has a code. This page is made from `compiler/diagnostic_codes.py` by",
        "`python -m openinfer.compiler.diagnostics`; edit the table, not the page.",
        "",
        "A finding looks like this: place, severity and code, what is wrong, the source line, the",
        "other side of a conflict as a note, and the fix where there is one.",
        "",
        "```text",
        "mlp.oi:9:16: error[OI0210]: undefined variable `wieghts`",
        "    op matmul(x, wieghts) >> y;",
        "                 ^~~~~~~",
        "  fix: did you mean `weights`?",
        "```",
        "",
        "All errors of a program are reported at once: beside a mistake of the text also those that the",
        "model shows, where they do not follow from it. Warnings do not stop a program; with",
        "`--strict`, those about unknown hints and attributes, and about constants that nothing fills,",
        "are errors.",
    ]
    for prefix, heading in chapters.items():
        rows = [(code, row) for code, row in sorted(CODES.items()) if code[2:4] == prefix]
        if not rows:
            continue
        lines += ["", f"## OI{prefix}xx: {heading}"]
        for code, (title, text) in rows:
            lines += ["", f"### {code}: {title}", "", text]
    return "\n".join(lines) + "\n"


class _Excerpts:
    """Source lines by place."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.lines = {file: text.split("\n") for file, text in sources.items()}

    def line(self, place: Location) -> str | None:
        if place.file not in self.lines:
            self.lines[place.file] = self._read(place.file)
        lines = self.lines[place.file]
        if not 1 <= place.line <= len(lines):
            return None
        return lines[place.line - 1].rstrip("\r")

    def _read(self, file: str) -> list[str]:
        try:
            return read_text(file).split("\n")
        except (OSError, ValueError):
            return []


def _render_one(diagnostic: Diagnostic, excerpts: _Excerpts) -> str:
    place = f"{diagnostic.location}: " if diagnostic.location else ""
    lines = [f"{place}{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(diagnostic.location, diagnostic.length, excerpts)
    for note in diagnostic.notes:
        place = f"{note.location}: " if note.location else ""
        lines.append(f"{place}note: {note.message}")
        lines += _excerpt(note.location, 1, excerpts)
    if diagnostic.hint:
        lines.append(f"  fix: {diagnostic.hint}")
    return "\n".join(lines)


def _excerpt(place: Location | None, length: int, excerpts: _Excerpts) -> list[str]:
    """The source line with a caret below it; tabs keep the caret in its column."""
    line = excerpts.line(place) if place and place.column > 0 else None
    if place is None or line is None:
        return []
    start = min(place.column - 1, len(line))
    cut = max(0, start - _MAX_WIDTH // 2) if len(line) > _MAX_WIDTH else 0
    shown = line[cut : cut + _MAX_WIDTH]
    start -= cut
    # Control characters would move the caret, or do worse to a terminal.
    shown = "".join(c if c.isprintable() or c == "\t" else "�" for c in shown)
    before = "".join(c if c == "\t" else " " for c in shown[:start])
    underline = "~" * max(0, min(length, len(shown) - start) - 1)
    return [f"  {shown}", f"  {before}^{underline}"]


def main() -> None:
    """Writes `docs/diagnostics.md` anew."""
    page = Path(__file__).resolve().parent.parent / "docs" / "diagnostics.md"
    page.write_text(codes_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
