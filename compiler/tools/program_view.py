"""A program at a glance: sizes, variables by memory kind, blocks with their nodes."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import KINDS, BlockOp, OpOp, VariableOp


def program_json(module: ModuleOp) -> dict[str, Any]:
    """The facts as JSON data."""
    variables: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    sizes: set[str] = set()
    for op in module.body.block.ops:
        if isinstance(op, VariableOp):
            indices = [index.data for index in op.indices]
            for size in op.sizes:
                sizes |= size.names - set(indices)
            variables.append(
                {
                    "name": op.variable.data,
                    "memory": op.memory.data,
                    "dtype": op.dtype.data,
                    "dims": [str(size) for size in op.sizes],
                    "indices": indices,
                    "options": {key: _option(value) for key, value in op.options.data.items()},
                }
            )
        elif isinstance(op, BlockOp):
            blocks.append({"name": op.block_name.data, "nodes": _counts(op)})
    # A scalar variable may stand where a size does; it is not a size of the program.
    names = {variable["name"] for variable in variables}
    return {"sizes": sorted(sizes - names - {"_"}), "variables": variables, "blocks": blocks}


def program_text(view: dict[str, Any]) -> str:
    """The facts for a person; ends in a newline."""
    lines = [f"sizes: {', '.join(view['sizes']) or 'none'}"]
    if "package" in view:
        lines.append(f"package: {view['package'] or 'none beside the program'}")
    for kind in KINDS:
        rows = [variable for variable in view["variables"] if variable["memory"] == kind]
        if rows:
            lines += ["", f"{kind}:"]
            lines += [f"  {_declaration(row)}" for row in rows]
    for block in view["blocks"]:
        counts = ", ".join(f"{count} {name}" for name, count in block["nodes"].items())
        lines += ["", f"block {block['name']}: {counts or 'empty'}"]
    return "\n".join(lines) + "\n"


def _option(value: Attribute) -> str:
    """The text of an attribute as a declaration writes it; empty for one without a value."""
    match value:
        case UnitAttr():
            return ""
        case FloatAttr():
            return repr(value.value.data)
        case IntegerAttr():
            return str(value.value.data)
        case StringAttr():
            return f'"{value.data}"'
        case ArrayAttr():
            return ", ".join(_option(item).strip('"') for item in value.data)
        case DictionaryAttr():
            return ", ".join(f"{key}={_option(item)}" for key, item in value.data.items())
        case _:
            return str(value)


def _declaration(row: dict[str, Any]) -> str:
    indices = f"({', '.join(row['indices'])})" if row["indices"] else ""
    dims = f"[{', '.join(row['dims'])}]" if row["dims"] else ""
    options = "".join(
        f" @{key}" if not value else f" @{key}({value})" for key, value in row["options"].items()
    )
    return f"{row['name']}{indices}: {row['dtype']}{dims}{options}"


def _counts(block: Operation) -> dict[str, int]:
    """Nodes of a block by name, most frequent first; those inside loops once."""
    counts: dict[str, int] = {}
    for op in block.walk():
        if op is block or op.name in ("graph.return", "graph.yield"):
            continue
        name = op.op_name.data if isinstance(op, OpOp) else op.name.removeprefix("graph.")
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
