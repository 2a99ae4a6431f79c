"""Nodes of a program in order: running index, stable uuid, block, place and text of each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    CallOp,
    DepOp,
    LiteralAttr,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeAttr,
    TransferOp,
    YieldOp,
)
from openinfer.lowering.locations import calls_around, location_of
from openinfer.runtime.errors import Location
from openinfer.runtime.outline import Call
from openinfer.runtime.quick_dataclass import dataclass

# Any fixed value serves; changing it changes every uuid in stored traces.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "openinfer:node")

Body = BlockOp | LoopOp | ScopeOp


@dataclass(frozen=True)
class NodeInfo:
    """What a trace or a message says of a node."""

    index: int
    uuid: str
    block: str
    text: str
    location: Location | None
    scope: str = ""
    """Labels of the scopes around it, and calls of blocks with parameters, outermost first:
    `layers/attention`."""
    calls: tuple[Call, ...] = ()
    """These calls, outermost first."""

    def __str__(self) -> str:
        """`node 3 in block entry: op add(x, a) >> t0`, with its place in front."""
        place = f"{self.location}: " if self.location else ""
        around = " in ".join([*map(str, reversed(self.calls)), f"block {self.block}"])
        return f"{place}node {self.index} in {around}: {self.text}"


def body_of(op: Body) -> list[Operation]:
    """The nodes of a block, loop or scope, in order."""
    return list(op.body.block.ops)


def number_nodes(module: ModuleOp) -> dict[Operation, NodeInfo]:
    """Every node of the module with its running index, loops and scopes before their bodies.

    The uuid follows from the position in the program alone, so it is the same for the same source
    wherever the file lies.
    """
    found: dict[Operation, NodeInfo] = {}
    for op in module.body.ops:
        if isinstance(op, BlockOp):
            name = op.block_name.data
            for node, path, labels, calls in _walk(op, name):
                identity = str(uuid.uuid5(_NAMESPACE, f"{path}:{node.name}"))
                scope, place = "/".join(labels), location_of(node)
                text = describe(node)
                found[node] = NodeInfo(len(found), identity, name, text, place, scope, calls)
    return found


def block_info(op: BlockOp) -> NodeInfo:
    """A block as the events of entering and leaving it show it; its index is -1."""
    name = op.block_name.data
    identity = str(uuid.uuid5(_NAMESPACE, name))
    return NodeInfo(-1, identity, name, f"block {name}", location_of(op))


_Labels = tuple[str, ...]
_Calls = tuple[Call, ...]


def _walk(
    parent: Body, path: str, around: _Labels = (), known: _Calls = ()
) -> Iterator[tuple[Operation, str, _Labels, _Calls]]:
    """The nodes of a body, each with its path, the labels around it, and the calls that it stands in, of
    which the first ones are `known`: those of what the body belongs to."""
    for position, node in enumerate(body_of(parent)):
        here = f"{path}/{position}"
        calls = calls_around(node.location)
        labels = (*around, *(call.text for call in calls[len(known) :]))
        yield node, here, labels, calls
        if isinstance(node, LoopOp):
            yield from _walk(node, here, labels, calls)
        elif isinstance(node, ScopeOp):
            yield from _walk(node, here, (*labels, node.label.data), calls)


def form_of(op: Operation) -> str:
    """The form's name as a person writes it: `cache.read`, `yield`, `loop`."""
    if isinstance(op, CacheStepOp):
        down, _ = op.counted
        return "cache.decrement" if down else "cache.increment"
    return op.name.removeprefix("graph.").replace("cache_", "cache.")


def describe(op: Operation) -> str:
    """A node as one line of the language: `op add(x, a) >> t0`."""
    form = form_of(op)
    match op:
        case OpOp():
            inputs = ", ".join(ref.text for ref in op.inputs)
            outputs = ", ".join(ref.text for ref in op.outputs)
            return f"op {op.op_name.data}({inputs}) >> {outputs}"
        case AssignOp():
            dims = ", ".join(str(d) for d in op.sizes)
            return f"assign {op.variable.data}: {op.dtype.data}{f'[{dims}]' if dims else ''}"
        case TransferOp() | CacheReadOp() | CacheWriteOp():
            return f"{form} {op.source.text} >> {op.target.text}"
        case LoopOp():
            bounds = f"{op.index.data} in {op.start.data}..{op.stop.data}"
            return f"loop {op.loop_name.data} ({bounds})"
        case ScopeOp():
            return f'scope "{op.label.data}"'
        case BranchOp():
            if op.condition is None or op.else_block is None:
                return f"branch {op.then_block.data}"
            return f"branch {op.condition.text} {op.then_block.data} {op.else_block.data}"
        case CallOp():
            targets = ", ".join(ref.text for ref in op.outputs)
            return f"{f'{targets} = ' if targets else ''}branch {call_text(op)}"
        case DepOp():
            return f"dep after({op.after.data}) before({op.before.data})"
        case ReturnOp() | YieldOp() | AwaitOp():
            return f"{form} {', '.join(op.names)}".rstrip()
        case CacheStepOp():
            return f"{form} {op.counted[1]} {op.variable.data}"
        case CacheResetOp():
            return f"{form} {op.target.text}"
        case BarrierOp():
            return "barrier"
        case _:
            return form


def call_text(op: CallOp) -> str:
    """A call of a block with parameters, without what it gives: `conv(x, "layer1.0", stride=2)`."""
    given = [argument_text(value) for value in op.inputs]
    given += [f"{name}={argument_text(value)}" for name, value in op.settings.data.items()]
    return f"{op.block_name.data}({', '.join(given)})"


def argument_text(value: Attribute) -> str:
    """An argument of such a call as a person writes it."""
    match value:
        case StringAttr():
            return f'"{value.data}"'
        case RefAttr() | LiteralAttr():
            return value.text
        case IntegerAttr() | FloatAttr():
            return LiteralAttr(value).text  # pyright: ignore[reportUnknownArgumentType]
        case ArrayAttr():
            return f"[{', '.join(map(argument_text, value))}]"
        case SizeAttr() | NameAttr():
            return str(value.data)
        case _:
            return str(value)


def kind_of(op: Operation) -> str:
    """The event kind of a node."""
    kinds = {
        "graph.op": "OpExecute",
        "graph.cache_read": "CacheRead",
        "graph.cache_write": "CacheWrite",
        "graph.cache_reset": "CacheReset",
    }
    if isinstance(op, CacheStepOp):
        return "CacheDecrement" if form_of(op) == "cache.decrement" else "CacheIncrement"
    return kinds.get(op.name, op.name.removeprefix("graph.").capitalize())
