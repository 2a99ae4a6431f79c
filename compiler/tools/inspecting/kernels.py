"""Which kernel computes which nodes: read from the traced build, which has the plain one's kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer.runtime.manifest import NodeRow
    from openinfer.runtime.program import Program

_COMPUTES = ("OpExecute",)
"""Forms that a reader looks for when no kernel has them."""


def kernels_json(program: Program) -> dict[str, Any]:
    """The kernel calls of a step in text order, and the ops that have none.

    Compiles the traced build if it is not there. Raises UnsupportedError OI0731 for a program that
    was saved without it.
    """
    manifest = program.traced().manifest
    nodes = {node.index: node for node in manifest.nodes}
    calls = [stamp for stamp in manifest.stamps if stamp.phase == "begin"]
    computed = {number for stamp in calls for number in stamp.nodes}
    rest = [
        node for number, node in nodes.items() if number not in computed and node.kind in _COMPUTES
    ]
    return {
        "calls": [
            {"kernel": stamp.what, "nodes": [_node(nodes[n]) for n in stamp.nodes]}
            for stamp in calls
        ],
        "without": [_node(node) for node in rest],
    }


def kernels_text(data: Mapping[str, Any]) -> str:
    """`kernels_json` for a person; ends in a newline."""
    rows: list[tuple[str, str, str]] = [
        (call["kernel"] if not number else "", node["place"], node["text"])
        for call in data["calls"]
        for number, node in enumerate(call["nodes"] or [{"place": "", "text": "(no node's own)"}])
    ]
    lines = ["kernels:", *_table(rows)]
    if not rows:
        lines = ["kernels: none"]
    if data["without"]:
        lines += [
            "",
            "ops without a kernel (views, constants, single numbers, values that are handed on):",
        ]
        lines += _table([("", node["place"], node["text"]) for node in data["without"]])
    return "\n".join(lines) + "\n"


def _node(node: NodeRow) -> dict[str, str]:
    return {"place": f"{node.file}:{node.line}", "text": node.text, "uuid": node.uuid}


def _table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    kernel, place = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    return [
        f"  {f'{row[0]:{kernel}}  ' if kernel else ''}{row[1]:{place}}  {row[2]}".rstrip()
        for row in rows
    ]
