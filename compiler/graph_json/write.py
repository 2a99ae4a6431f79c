"""`graph` dialect → graph JSON: the same source gives the same bytes."""

from __future__ import annotations

import json

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from openinfer.compiler.frontend.printer import ref_text, size_text
from openinfer.compiler.graph_json.read import KINDS
from openinfer.compiler.graph_json.write_values import (
    Plain,
    access_json,
    attribute_json,
    dtype_json,
    hints_json,
    initial_json,
    settings_json,
    value_json,
)
from openinfer.dialects import graph
from openinfer.lowering.locations import place_of
from openinfer.lowering.program.nodes import Body, NodeInfo, body_of, number_nodes
from openinfer.runtime.dtypes import ALIASES, DTYPES

_KIND_NAMES = {memory: kind for kind, memory in KINDS.items()}


def module_json(module: ModuleOp, *, locations: bool = False, indent: int | None = 2) -> str:
    """The text of a program's graph JSON, ending without a newline.

    `locations` adds where each variable, block and node stands in the program text.
    """
    return json.dumps(
        _Writer(module, locations).graph(), indent=indent, ensure_ascii=False, allow_nan=False
    )


class _Writer:
    def __init__(self, module: ModuleOp, locations: bool) -> None:
        self.module = module
        self.nodes: dict[Operation, NodeInfo] = number_nodes(module)
        self.locations = locations

    def graph(self) -> dict[str, Plain]:
        sizes: list[Plain] = []
        bounds: list[Plain] = []
        variables: dict[str, Plain] = {}
        blocks: dict[str, Plain] = {}
        for op in self.module.body.ops:
            if isinstance(op, graph.SizeOp):
                size: dict[str, Plain] = {"name": op.size.data, "value": size_text(op.value.data)}
                sizes.append(self.place(op, size))
            elif isinstance(op, graph.SizeBoundOp):
                parts = (("size", op.size), ("low", op.low), ("high", op.high))
                bound: dict[str, Plain] = {
                    key: size_text(part.data) for key, part in parts if part is not None
                }
                bounds.append(self.place(op, bound))
            elif isinstance(op, graph.VariableOp):
                variables[op.variable.data] = self.variable(op)
            elif isinstance(op, graph.BlockOp):
                blocks[op.block_name.data] = self.block(op)
        found: dict[str, Plain] = {
            "vars": variables,
            "blocks": blocks,
            "next_index": len(self.nodes),
        }
        if bounds:
            found = {"size_bounds": bounds, **found}
        if sizes:
            found = {"sizes": sizes, **found}
        place = self.module.location
        if self.locations and isinstance(place, FileLineColLoc):
            found["source"] = {"file": place.filename.data}
        return found

    def place(self, op: Operation, found: dict[str, Plain]) -> dict[str, Plain]:
        """Adds where an op stands, when that is asked for and known."""
        where = place_of(op.location) if self.locations else None
        if where is not None:
            found["location"] = [where.line.data, where.column.data]
        return found

    def variable(self, op: graph.VariableOp) -> Plain:
        name = ALIASES.get(op.dtype.data, op.dtype.data)
        init = op.option("init")
        found: dict[str, Plain] = {
            "name": op.variable.data,
            "ref_name": _text(op, "ref"),
            "pattern": _text(op, "pattern"),
            "table_indices": [index.data for index in op.indices],
            "table": op.option("table") is not None,
            "auto_dim": _names(op),
            "fixed": _bounds(op),
            "dtype": dtype_json(name),
            "dims": [size_text(dim) for dim in op.sizes],
            "kind": _KIND_NAMES[op.memory.data],
            "init": initial_json(init, DTYPES[name]) if init is not None else None,
        }
        other = op.option("other")
        kept = dict(other.data) if isinstance(other, DictionaryAttr) else {}
        if (stored := op.option("dtype")) is not None:
            kept = {"dtype": ArrayAttr([stored]), **kept}
        if kept:
            found["attributes"] = [attribute_json(n, v) for n, v in kept.items()]
        return self.place(op, found)

    def block(self, op: graph.BlockOp) -> Plain:
        found: dict[str, Plain] = {"name": op.block_name.data, "nodes": self.body(op)}
        _add_hints(found, op.hints)
        return self.place(op, found)

    def body(self, op: Body) -> list[Plain]:
        return [self.node(node) for node in body_of(op)]

    def node(self, op: Operation) -> Plain:
        info = self.nodes[op]
        found: dict[str, Plain] = {"index": info.index, "uuid": info.uuid, "kind": self.kind(op)}
        return self.place(op, found)

    def kind(self, op: Operation) -> Plain:
        match op:
            case graph.BarrierOp():
                return "Barrier"
            case graph.ReturnOp():
                return {"Return": {"vars": [*op.names]}} if op.names else "Return"
            case graph.AssignOp():
                return {
                    "Assign": {
                        "name": op.variable.data,
                        "dtype": dtype_json(op.dtype.data),
                        "dims": [size_text(dim) for dim in op.sizes],
                    }
                }
            case graph.OpOp():
                return {"Op": _op_json(op)}
            case graph.BranchOp():
                return {
                    "Branch": {
                        "cond": ref_text(op.condition) if op.condition is not None else None,
                        "then_block": op.then_block.data,
                        "else_block": op.else_block.data if op.else_block is not None else None,
                    }
                }
            case graph.DepOp():
                return {"Dep": {"after": op.after.data, "before": op.before.data}}
            case graph.TransferOp():
                return {"Transfer": {"src": ref_text(op.source), "dst": ref_text(op.target)}}
            case graph.CacheReadOp():
                return {"CacheRead": {"src": access_json(op.source), "dst": ref_text(op.target)}}
            case graph.CacheWriteOp():
                return {"CacheWrite": {"src": ref_text(op.source), "dst": access_json(op.target)}}
            case graph.CacheStepOp():
                return _step_json(op)
            case graph.CacheResetOp():
                return {"CacheReset": {"target": access_json(op.target)}}
            case graph.YieldOp():
                return {"Yield": {"vars": [*op.names]}}
            case graph.AwaitOp():
                return {"Await": {"vars": [*op.names]}}
            case graph.LoopOp():
                loop: dict[str, Plain] = {
                    "name": op.loop_name.data,
                    "index": op.index.data,
                    "start": size_text(op.start.data),
                    "end": size_text(op.stop.data),
                    "body": self.body(op),
                }
                return {"Loop": _add_hints(loop, op.hints)}
            case graph.ScopeOp():
                scope: dict[str, Plain] = {"name": op.label.data, "body": self.body(op)}
                return {"Scope": _add_hints(scope, op.hints)}
            case _:
                raise TypeError(f"{op.name} is no node of a program")


def _op_json(op: graph.OpOp) -> dict[str, Plain]:
    outputs = [ref_text(ref) for ref in op.outputs]
    found: dict[str, Plain] = {
        "op": op.op_name.data,
        "attrs": settings_json(op),
        "inputs": [_operand_json(operand) for operand in op.inputs],
        "output": outputs[0],
    }
    if len(outputs) > 1:
        found["outputs"] = [*outputs]
    return _add_hints(found, op.hints)


def _operand_json(operand: graph.Operand) -> Plain:
    """`"W[l]"`, or a literal with its tag."""
    if isinstance(operand, graph.LiteralAttr):
        return value_json(operand.value)
    return ref_text(operand)


def _step_json(op: graph.CacheStepOp) -> dict[str, Plain]:
    down, size = op.counted
    amount = size.constant if size.constant is not None else size_text(size)
    kind = "CacheDecrement" if down else "CacheIncrement"
    return {kind: {"target": op.variable.data, "amount": amount}}


def _add_hints(found: dict[str, Plain], hints: DictionaryAttr | None) -> dict[str, Plain]:
    if hints is not None and hints.data:
        found["hints"] = hints_json(hints.data)
    return found


def _text(op: graph.VariableOp, key: str) -> str | None:
    value = op.option(key)
    return value.data if isinstance(value, StringAttr) else None


def _names(op: graph.VariableOp) -> list[Plain]:
    value = op.option("auto_dim")
    items = value.data if isinstance(value, ArrayAttr) else ()
    return [item.data for item in items if isinstance(item, StringAttr)]


def _bounds(op: graph.VariableOp) -> list[Plain]:
    value = op.option("fixed")
    entries = value.data if isinstance(value, DictionaryAttr) else {}
    return [[name, _bound(value)] for name, value in entries.items()]


def _bound(value: Attribute) -> int | str:
    """A bound of `@fixed`: a number, or the text of a size."""
    if isinstance(value, IntegerAttr):
        return value.value.data
    assert isinstance(value, graph.NameAttr | graph.SizeAttr)
    return value.data if isinstance(value, graph.NameAttr) else size_text(value.data)
