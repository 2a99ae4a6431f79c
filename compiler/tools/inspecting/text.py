"""The facts of a program for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_KINDS = ("dynamic", "constant", "volatile", "persistent", "temporary")
_QUIET = ("return", "yield", "await")
"""Forms that end or begin a block: not worth counting for a person."""


def facts_text(facts: Mapping[str, Any]) -> str:
    """All of `program_facts`, as far as there is any; ends in a newline."""
    lines = [f"package: {facts['package'] or 'none'}", *_sizes(facts["sizes"])]
    variables = [*facts["variables"], *facts["temporaries"]]
    for kind in _KINDS:
        rows = [row for row in variables if row["memory"] == kind]
        if rows:
            total = facts["bytes"].get(kind)
            grown = " and what grows" if any(_grows(row) for row in rows) else ""
            heading = f"{kind}:  {bytes_text(total)}{grown}" if total is not None else f"{kind}:"
            lines += ["", heading]
            lines += _table([_variable(row) for row in rows])
    if facts["state"]:
        lines += ["", "state:"]
        lines += _table([_state(row) for row in facts["state"]])
    if facts["results"]:
        lines += ["", f"results: {', '.join(facts['results'])}"]
    lines.append("")
    for block in facts["blocks"]:
        lines += _block(block)
    counts = ", ".join(f"{count} {name}" for name, count in facts["ops"].items())
    lines += ["", f"ops: {counts or 'none'}"]
    return "\n".join(lines) + "\n"


def bytes_text(count: int | str | None) -> str:
    """`1.5 KiB`, or an expression in bytes."""
    if count is None:
        return "bytes unknown"
    if isinstance(count, str):
        return f"{count} bytes"
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    if unit == "bytes":
        return f"{count} byte{'' if count == 1 else 's'}"
    return f"{value:.4g} {unit}"


def _sizes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["sizes: none"]
    cells = [
        [
            row["name"],
            "=" if row["value"] is not None else "",
            row["value"],
            f"from {row['from']}{''.join(f', {bound}' for bound in row.get('bounds', ()))}",
        ]
        for row in rows
    ]
    return ["sizes:", *_table(cells)]


def _variable(row: Mapping[str, Any]) -> list[object]:
    indices = f"({', '.join(row['indices'])})" if row.get("indices") else ""
    dims = f"[{', '.join(row['dims'])}]" if row["dims"] else ""
    options = "".join(
        f" @{key}" if not value else f" @{key}({value})"
        for key, value in row.get("options", {}).items()
        if key != "other"
    )
    shape = [str(extent) for extent in row["shape"]]
    members = "".join(f"{extent} x " for extent in row.get("members", ()))
    shown = f"{members}[{', '.join(shown for shown in shape)}]" if shape or members else ""
    if not members and shape == row["dims"]:
        shown = ""
    declared = f"{row['name']}{indices}: {row['dtype']}{dims}{options}"
    count = bytes_text(row["bytes"]) + (" each" if _grows(row) else "")
    source = "" if row["memory"] == "temporary" else f"from {row['source']}"
    return [declared, shown, count, source]


def _grows(row: Mapping[str, Any]) -> bool:
    """Whether it is a cache with indices."""
    return row["memory"] == "persistent" and bool(row["indices"])


def _state(row: Mapping[str, Any]) -> list[object]:
    grown = [f"{index['index']}: {_growth(index)}" for index in row["indices"]]
    each = f"{row['entry']} {bytes_text(row['entry_bytes'])}"
    if row["indices"]:
        each += " each" if row["kind"] != "growing matrix" else " at first"
    most = row["most_bytes"]
    limit = f"at most {bytes_text(most)}" if row["indices"] and most is not None else ""
    return [f"{row['name']}: {row['kind']}", each, "; ".join(grown), limit]


def _growth(index: Mapping[str, Any]) -> str:
    """How far one index of a cache reaches."""
    if index["bound"] is None:
        return "grows"
    entries = index["grows"] == "entries"
    return f"{index['bound']} entries" if entries else f"grows by {index['bound']} at most"


def _block(block: Mapping[str, Any]) -> list[str]:
    shown = {name: n for name, n in block["nodes"].items() if name not in _QUIET}
    counts = ", ".join(f"{count} {name}" for name, count in shown.items())
    lines = [f"block {block['name']}: {counts or 'empty'}"]
    for key, words in (("calls", "calls"), ("awaits", "awaits"), ("yields", "yields")):
        if block[key]:
            lines.append(f"  {words} {', '.join(block[key])}")
    return lines


def _table(rows: Iterable[Sequence[object]]) -> list[str]:
    """Rows with aligned columns, indented; None is empty."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    used = [any(column) for column in zip(*cells)]
    kept = [[cell for cell, shown in zip(row, used) if shown] for row in cells]
    widths = [max(len(cell) for cell in column) for column in zip(*kept)]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in kept]
