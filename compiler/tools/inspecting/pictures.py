"""The control flow as DOT and Mermaid text, and as SVG where Graphviz is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from openinfer.compiler.tools.inspecting.flow import Cluster, FlowEdge, FlowGraph, FlowNode
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.files import write_file

_PATIENCE = 120
"""Seconds that Graphviz may take."""

# DOT: attributes of each kind of box and arrow.
_DOT_NODES = {
    "start": 'shape=circle, width=0.2, label="", style=filled, fillcolor=black',
    "nodes": "shape=box",
    "cache": "shape=cylinder, style=filled, fillcolor=lightyellow",
    "branch": "shape=diamond",
    "loop": "shape=hexagon",
    "order": "shape=box, style=filled, fillcolor=lightgrey",
    "yield": "shape=cds, style=filled, fillcolor=lightblue",
    "await": "shape=cds, style=filled, fillcolor=lightblue",
    "return": "shape=box, style=rounded",
}
_DOT_EDGES = {
    "next": "",
    "back": "style=dashed, constraint=false",
    "call": "style=bold, color=darkgreen",
    "value": "style=bold, color=blue",
}
_DOT_CLUSTERS = {"block": "style=rounded", "loop": "style=dashed", "scope": "style=dotted"}

# Mermaid: what stands around the label of each kind of box, and the arrow of each kind.
_MERMAID_NODES = {
    "start": ("((", "))"),
    "nodes": ("[", "]"),
    "cache": ("[(", ")]"),
    "branch": ("{", "}"),
    "loop": ("{{", "}}"),
    "order": ("[[", "]]"),
    "yield": (">", "]"),
    "await": (">", "]"),
    "return": ("([", "])"),
}
_MERMAID_EDGES = {"next": "-->", "back": "-.->", "call": "==>", "value": "==>"}


def dot_text(graph: FlowGraph) -> str:
    """The picture in Graphviz's language; ends in a newline."""
    lines = [
        f"digraph {_dot_quoted(graph.name)} {{",
        "  node [fontname=monospace, fontsize=10];",
        "  edge [fontname=monospace, fontsize=9];",
        "  graph [fontname=monospace, fontsize=11, labeljust=l];",
    ]
    for cluster in graph.blocks:
        lines += _dot_cluster(cluster, "  ")
    lines += [f"  {_dot_edge(edge)}" for edge in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_cluster(cluster: Cluster, indent: str) -> Iterator[str]:
    yield f"{indent}subgraph cluster_{cluster.id} {{"
    yield f"{indent}  label={_dot_quoted(cluster.label)}; {_DOT_CLUSTERS[cluster.kind]};"
    for item in cluster.items:
        if isinstance(item, Cluster):
            yield from _dot_cluster(item, indent + "  ")
        else:
            yield f"{indent}  {_dot_node(item)}"
    yield f"{indent}}}"


def _dot_node(node: FlowNode) -> str:
    looks = _DOT_NODES[node.kind]
    if node.kind == "start":
        return f"{node.id} [{looks}];"
    # `\l` ends a line of a label and aligns it to the left.
    several = len(node.lines) > 1
    label = "".join(_dot_escaped(line) + ("\\l" if several else "") for line in node.lines)
    return f'{node.id} [{looks}, label="{label}"];'


def _dot_edge(edge: FlowEdge) -> str:
    looks = [_DOT_EDGES[edge.kind], f"label={_dot_quoted(edge.label)}" if edge.label else ""]
    inside = ", ".join(look for look in looks if look)
    return f"{edge.source} -> {edge.target}{f' [{inside}]' if inside else ''};"


def _dot_escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _dot_quoted(text: str) -> str:
    return f'"{_dot_escaped(text)}"'


def mermaid_text(graph: FlowGraph) -> str:
    """The picture as a Mermaid flowchart, which Markdown viewers draw; ends in a newline."""
    lines = ["flowchart TD"]
    for cluster in graph.blocks:
        lines += _mermaid_cluster(cluster, "  ")
    for edge in graph.edges:
        label = f'|"{_mermaid_escaped(edge.label)}"|' if edge.label else ""
        lines.append(f"  {edge.source} {_MERMAID_EDGES[edge.kind]}{label} {edge.target}")
    return "\n".join(lines) + "\n"


def _mermaid_cluster(cluster: Cluster, indent: str) -> Iterator[str]:
    yield f'{indent}subgraph {cluster.id}["{_mermaid_escaped(cluster.label)}"]'
    for item in cluster.items:
        if isinstance(item, Cluster):
            yield from _mermaid_cluster(item, indent + "  ")
        else:
            before, after = _MERMAID_NODES[item.kind]
            yield f'{indent}  {item.id}{before}"{_mermaid_label(item.lines)}"{after}'
    yield f"{indent}end"


def _mermaid_label(lines: Sequence[str]) -> str:
    return "<br/>".join(_mermaid_escaped(line) for line in lines)


def _mermaid_escaped(text: str) -> str:
    """Characters that Mermaid or HTML would read as their own."""
    names = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "\n": " "}
    return "".join(names.get(character, character) for character in text)


def write_svg(graph: FlowGraph, path: Path) -> None:
    """Draws the picture with Graphviz. Raises UnsupportedError where it is not installed or fails."""
    tool = shutil.which("dot")
    if tool is None:
        raise UnsupportedError(
            "OI0734",
            "Graphviz is not installed: there is no `dot` on the path",
            hint="install it (apt install graphviz), or use --mermaid or --dot",
        )
    try:
        done = subprocess.run(
            [tool, "-Tsvg"],
            input=dot_text(graph).encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnsupportedError(
            "OI0734", f"Graphviz took more than {_PATIENCE} seconds", hint="use --dot"
        ) from None
    if done.returncode != 0 or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise UnsupportedError(
            "OI0734", f"Graphviz failed: {said or done.returncode}", hint="use --dot or --mermaid"
        )
    write_file(path, [done.stdout])
