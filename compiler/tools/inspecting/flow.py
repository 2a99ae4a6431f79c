"""The control flow of a program as a graph: blocks, loops and scopes as boxes around nodes.

Straight-line nodes share one node of the picture; `assign` is left out. Edges say what runs next,
what a branch calls, where a loop turns back, and which values yield and await pass on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

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
    DepOp,
    LoopOp,
    ReturnOp,
    ScopeOp,
    YieldOp,
)
from openinfer.lowering.program.nodes import body_of, describe

_LINES = 10
"""Nodes that one box lists."""
_WIDTH = 72
"""Characters of one line."""


@dataclass(frozen=True)
class FlowNode:
    """A box of the picture."""

    id: str
    kind: str
    """"start", "nodes", "cache", "branch", "loop", "order", "yield", "await" or "return"."""
    lines: tuple[str, ...]


@dataclass
class Cluster:
    """A frame around boxes: a block, loop or scope."""

    id: str
    kind: str
    label: str
    items: list[FlowNode | Cluster] = field(default_factory=lambda: [])


@dataclass(frozen=True)
class FlowEdge:
    """An arrow: "next", "back" to a loop's head, "call" of a block, "value" of yield or await."""

    source: str
    target: str
    kind: str
    label: str = ""


@dataclass
class FlowGraph:
    """The picture: one cluster for each block, and all arrows."""

    name: str
    blocks: list[Cluster] = field(default_factory=lambda: [])
    edges: list[FlowEdge] = field(default_factory=lambda: [])

    def json(self) -> dict[str, Any]:
        """Clusters with their items, and edges."""
        return {
            "blocks": [_cluster_json(cluster) for cluster in self.blocks],
            "edges": [vars(edge) for edge in self.edges],
        }


def _cluster_json(cluster: Cluster) -> dict[str, Any]:
    items = [
        _cluster_json(item)
        if isinstance(item, Cluster)
        else {"id": item.id, "kind": item.kind, "lines": list(item.lines)}
        for item in cluster.items
    ]
    return {"id": cluster.id, "kind": cluster.kind, "label": cluster.label, "items": items}


def flow_of(module: ModuleOp, name: str) -> FlowGraph:
    """The picture of a program."""
    return _Builder(FlowGraph(name)).build(module)


@dataclass(frozen=True)
class _Open:
    """An end that the next box is to be joined to."""

    source: str
    label: str = ""


class _Builder:
    """Draws block after block; ids count up, so that the same program gives the same text."""

    def __init__(self, graph: FlowGraph) -> None:
        self.graph = graph
        self.starts: dict[str, str] = {}
        self.calls: list[tuple[str, str, str]] = []
        """Box of a branch, block called, label."""
        self.published: list[tuple[str, str, tuple[str, ...]]] = []
        """Block, box and names of each yield."""
        self.awaited: list[tuple[str, str, tuple[str, ...]]] = []
        self.block = ""
        self._count = 0

    def build(self, module: ModuleOp) -> FlowGraph:
        for op in module.body.ops:
            if isinstance(op, BlockOp):
                self._block(op)
        for source, target, label in self.calls:
            if target in self.starts:
                self.graph.edges.append(FlowEdge(source, self.starts[target], "call", label))
        self._values()
        return self.graph

    def _values(self) -> None:
        """From each yield to the awaits of other blocks that take one of its values."""
        for block, source, names in self.published:
            for other, target, wanted in self.awaited:
                shared = [name for name in names if name in wanted]
                # Values go from entry to its consumers and back, never between consumers.
                if shared and block != other and "entry" in (block, other):
                    self.graph.edges.append(FlowEdge(source, target, "value", ", ".join(shared)))

    def _block(self, op: BlockOp) -> None:
        self.block = op.block_name.data
        cluster = Cluster(self._id("block"), "block", f"block {self.block}")
        self.graph.blocks.append(cluster)
        start = self._node(cluster, "start", [self.block], [])
        self.starts[self.block] = start
        self._body(body_of(op), cluster, [_Open(start)])

    def _body(self, nodes: Sequence[Operation], cluster: Cluster, ends: list[_Open]) -> list[_Open]:
        """Draws the nodes of a body and gives the ends that go on after it."""
        run: list[Operation] = []
        for node in nodes:
            kind = _kind(node)
            if run and (kind is None or kind != _kind(run[0])):
                ends = self._flush(run, cluster, ends)
                run = []
            if isinstance(node, AssignOp):
                continue
            if kind is not None:
                run.append(node)
            else:
                ends = self._special(node, cluster, ends)
        return self._flush(run, cluster, ends) if run else ends

    def _flush(self, run: list[Operation], cluster: Cluster, ends: list[_Open]) -> list[_Open]:
        kind = _kind(run[0])
        assert kind is not None
        return [_Open(self._node(cluster, kind, [describe(node) for node in run], ends))]

    def _special(self, node: Operation, cluster: Cluster, ends: list[_Open]) -> list[_Open]:
        match node:
            case LoopOp():
                inner = Cluster(self._id("loop"), "loop", f"loop {node.loop_name.data}")
                cluster.items.append(inner)
                bounds = f"{node.index.data} in {node.start.data}..{node.stop.data}"
                head = self._node(inner, "loop", [bounds], ends)
                last = self._body(body_of(node), inner, [_Open(head, "each")])
                for end in last:
                    self.graph.edges.append(FlowEdge(end.source, head, "back", end.label))
                return [_Open(head, "done")]
            case ScopeOp():
                inner = Cluster(self._id("scope"), "scope", f"scope {node.label.data}")
                cluster.items.append(inner)
                return self._body(body_of(node), inner, ends)
            case BranchOp():
                box = self._node(cluster, "branch", [describe(node)], ends)
                if node.condition is None or node.else_block is None:
                    self.calls.append((box, node.then_block.data, ""))
                else:
                    text = node.condition.text
                    self.calls.append((box, node.then_block.data, text))
                    self.calls.append((box, node.else_block.data, f"not {text}"))
                return [_Open(box)]
            case YieldOp() | AwaitOp():
                kind = "yield" if isinstance(node, YieldOp) else "await"
                box = self._node(cluster, kind, [describe(node)], ends)
                table = self.published if kind == "yield" else self.awaited
                table.append((self.block, box, node.names))
                # Outside of entry, a yield ends its block.
                return [_Open(box)] if kind == "await" or self.block == "entry" else []
            case _:
                self._node(cluster, "return", [describe(node)], ends)
                return []

    def _node(
        self, cluster: Cluster, kind: str, lines: Sequence[str], ends: Sequence[_Open]
    ) -> str:
        shown = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines]
        if len(shown) > _LINES:
            shown = [*shown[: _LINES - 1], f"… {len(shown) - _LINES + 1} more"]
        box = FlowNode(self._id("n"), kind, tuple(shown))
        cluster.items.append(box)
        for end in ends:
            self.graph.edges.append(FlowEdge(end.source, box.id, "next", end.label))
        return box.id

    def _id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def _kind(node: Operation) -> str | None:
    """The kind of box that a node shares with its neighbours, None for one of its own."""
    match node:
        case CacheReadOp() | CacheWriteOp() | CacheStepOp() | CacheResetOp():
            return "cache"
        case BarrierOp() | DepOp():
            return "order"
        case LoopOp() | ScopeOp() | BranchOp() | YieldOp() | AwaitOp() | ReturnOp():
            return None
        case _:
            return "nodes"
