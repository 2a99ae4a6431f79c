"""The outline of a graph module: its nodes in text order, with the loops and scopes around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.dialects.graph import AssignOp, BlockOp, LoopOp, OpOp, VariableOp
from openinfer.lowering.locations import calls_around, location_of, own_name
from openinfer.lowering.program.nodes import NodeInfo, kind_of, number_nodes
from openinfer.runtime.outline import Outline, OutlineNode, OwnName


def outline_of(module: ModuleOp) -> Outline:
    """The outline of a program."""
    blocks = {op.block_name.data: op for op in module.body.ops if isinstance(op, BlockOp)}
    return outline_from(blocks, number_nodes(module))


def outline_from(blocks: Mapping[str, BlockOp], nodes: Mapping[Operation, NodeInfo]) -> Outline:
    """The outline of a program whose blocks and nodes are known already."""
    rows = tuple(_row(op, info, nodes) for op, info in nodes.items())
    called = {call.block: None for row in rows for call in row.calls}
    places = {**called, **{name: location_of(op) for name, op in blocks.items()}}
    return Outline(rows, places, tuple(_own_names(blocks, nodes)))


def _own_names(
    blocks: Mapping[str, BlockOp], nodes: Mapping[Operation, NodeInfo]
) -> Iterator[OwnName]:
    """What calls of blocks with parameters have made of the names of the blocks."""
    module = next((block.parent_op() for block in blocks.values()), None)
    declared = module.body.ops if isinstance(module, ModuleOp) else ()
    for op in (*declared, *nodes):
        name = own_name(op.location)
        if isinstance(op, AssignOp | VariableOp):
            variable = op.variable.data
        elif isinstance(op, LoopOp):
            variable = op.index.data
        elif isinstance(op, OpOp) and name:
            variable = op.outputs.data[0].variable.data  # the result of the call
        else:
            continue
        if name:
            first = nodes[op].index if op in nodes else 0
            yield OwnName(calls_around(op.location), name, variable, first)


def _row(op: Operation, info: NodeInfo, nodes: Mapping[Operation, NodeInfo]) -> OutlineNode:
    loops: list[int] = []
    parents: list[int] = []
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, BlockOp):
        parents.insert(0, nodes[parent].index)
        if isinstance(parent, LoopOp):
            loops.insert(0, nodes[parent].index)
        parent = parent.parent_op()
    bounds = None
    if isinstance(op, LoopOp):
        bounds = (op.index.data, op.start.data, op.stop.data)
    return OutlineNode(
        index=info.index,
        uuid=info.uuid,
        kind=kind_of(op),
        op=op.op_name.data if isinstance(op, OpOp) else "",
        block=info.block,
        text=info.text,
        location=info.location,
        loops=tuple(loops),
        parents=tuple(parents),
        bounds=bounds,
        calls=info.calls,
    )
