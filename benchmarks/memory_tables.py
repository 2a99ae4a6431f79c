"""What calls hold, as tables and lists: our plans beside what peers report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.memory import HOW, SAME
from benchmarks.peers import OURS, PEERS
from benchmarks.tables import Row, Table, size


def arenas(rows: Sequence[Row]) -> Table:
    """Header and lines: bytes of our memory plan beside the least that any plan needs, and beside
    what peers allocate, in brackets our bytes divided by theirs.

    Empty where a peer takes no part; rows that do not know their plan are left out.
    """
    rows = [row for row in rows if "allocated" in row["peers"].get(OURS, {})]
    names = [name for name in _asked(rows) if name != OURS]
    header = ["work", "arena", "largest live set", "ratio", *(PEERS[n].title for n in names)]
    lines: list[list[str]] = []
    for row in rows:
        ours = row["peers"][OURS]
        planned, least = ours["allocated"], ours["live"]
        line = [row["title"], size(planned), size(least), f"{planned / least:.3f}" if least else ""]
        for name in names:
            cell = row["peers"].get(name)
            line.append("" if cell is None else _told(cell, planned))
        lines.append(line)
    return header, lines


def _asked(rows: Sequence[Row]) -> list[str]:
    """The peers that were asked about their memory; older files do not know of all."""
    cells = [(name, cell) for row in rows for name, cell in row["peers"].items()]
    asked = {name for name, cell in cells if "allocated" in cell or "untold" in cell}
    return [name for name in PEERS if name in asked]


def _told(cell: Mapping[str, Any], planned: int) -> str:
    count = cell.get("allocated")
    if count is None:
        return "not reported" if "untold" in cell else ""
    return f"{size(count)} ({planned / count:.2f})" if count else size(count)


def larger(rows: Sequence[Row]) -> Iterator[str]:
    """Where our plan takes more than an f32 peer says that it allocates, one line for a row.

    Less than one in a hundred does not count: it is what aligning buffers costs.
    """
    for row in rows:
        planned = row["peers"].get(OURS, {}).get("allocated", 0)
        less = [
            f"{peer.title} {size(count)}"
            for name, peer in PEERS.items()
            if not peer.narrow
            and (count := row["peers"].get(name, {}).get("allocated")) is not None
            and planned > 1.01 * count
        ]
        if less:
            yield f"{row['title']}: {size(planned)}, {', '.join(less)}"


def sources(rows: Sequence[Row]) -> Iterator[str]:
    """How each runtime's number is obtained, one line for those that have it in the same way."""
    named = _asked(rows)
    for first, how in HOW.items():
        titles = [PEERS[name].title for name in named if SAME.get(name, name) == first]
        if titles:
            yield f"{', '.join(titles)}: {how}"


def with_plans(rows: Sequence[Row], plans: Mapping[str, Sequence[int]]) -> list[Row]:
    """The rows of one thread; those of older files take their plans from a list by title."""
    found: list[Row] = []
    for row in rows:
        ours = row["peers"].get(OURS, {})
        if row["threads"] == 1 and row["title"] in plans and ours and "allocated" not in ours:
            planned, least = plans[row["title"]]
            cell = {**ours, "allocated": planned, "live": least}
            row = {**row, "peers": {**row["peers"], OURS: cell}}
        if row["threads"] == 1:
            found.append(row)
    return found
