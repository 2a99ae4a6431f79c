"""The ablation as tables: what each pass buys, and which ones buy nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.tables import Table, digits

SLOWER = 0.02
"""A step that takes so much longer without a pass is slower, or twice the difference of equal builds
where that is more."""
LARGER = 1.005
"""The same for bytes, which are exact."""
Found = Mapping[str, Any]


def summary(found: Found) -> Table:
    """Header and lines: where each pass acts, and the most that it buys in any program."""
    header = ["without", "acts in", "same code in", "time", "where", "arena", "code", "compile"]
    lines: list[list[str]] = []
    for name in found["passes"]:
        cells = _cells(found, name)
        line = [f"`{name}`", f"{len(cells)} of {len(found['rows'])}"]
        line.append(str(sum(cell["factor"] is None for cell in cells.values())))
        timed = {title: cell["factor"] for title, cell in cells.items() if cell["factor"]}
        if timed:
            title = max(timed, key=timed.__getitem__)
            line += [f"{timed[title]:.2f}", title]
        else:
            line += ["", ""]
        line += [_shown(cells, what, max) for what in ("arena", "code")]
        line.append(_shown(cells, "compile", statistics.median))
        lines.append(line)
    return header, lines


def factors(found: Found) -> Table:
    """Header and lines: a step's time without a pass against the time with all of them, and first
    how far equal builds differ."""
    header = ["without", *(row["title"] for row in found["rows"])]
    lines = [["nothing", *(f"±{row['noise']:.1%}" for row in found["rows"])]]
    for name in found["passes"]:
        cells = _cells(found, name)
        if cells:
            shown = (_factor(cells.get(row["title"])) for row in found["rows"])
            lines.append([f"`{name}`", *shown])
    return header, lines


def verdicts(found: Found) -> Iterator[str]:
    """One sentence for each kind of pass: what steps are slower without, and what not."""
    least = {row["title"]: 1 + max(SLOWER, 2 * row["noise"]) for row in found["rows"]}
    slow: list[str] = []
    less: list[str] = []
    nothing: list[str] = []
    idle: list[str] = []
    for name in found["passes"]:
        cells = _cells(found, name)
        if not cells:
            idle.append(name)
        elif any((cell["factor"] or 1.0) >= least[title] for title, cell in cells.items()):
            slow.append(name)
        elif any(cell["arena"] >= LARGER for cell in cells.values()):
            less.append(name)
        else:
            nothing.append(name)
    yield (
        f"A step of some program here takes {SLOWER:.0%} longer or more, and twice as much as equal "
        f"builds differ or more, without {_listed(slow)}."
    )
    if less:
        yield f"Only the arena is larger without {_listed(less)}."
    if nothing:
        yield f"Neither time nor memory of a step is more in any program here without {_listed(nothing)}."
    if idle:
        yield f"No program here is changed by {_listed(idle)}."


def failures(found: Found) -> Iterator[str]:
    """Programs that do not work with a pass less, and why."""
    for row in found["rows"]:
        for name, cell in row["cells"].items():
            if "error" in cell:
                yield f"{row['name']} without `{name}`: {cell['error']}"


def _cells(found: Found, name: str) -> dict[str, Mapping[str, Any]]:
    """What is known of a pass, by the title of the program."""
    return {
        row["title"]: row["cells"][name]
        for row in found["rows"]
        if name in row["cells"] and "error" not in row["cells"][name]
    }


def _shown(
    cells: Mapping[str, Mapping[str, Any]], what: str, choose: Callable[[list[float]], float]
) -> str:
    values = [cell[what] for cell in cells.values() if cell[what] is not None]
    return digits(round(choose(values), 2)) if values else ""


def _factor(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return ""
    return "=" if cell["factor"] is None else f"{cell['factor']:.2f}"


def _listed(names: list[str]) -> str:
    if not names:
        return "any of them"
    shown = [f"`{name}`" for name in names]
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
