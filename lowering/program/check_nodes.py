"""Checks of statements, each by itself: uses of variables, ops with settings, hints, structure."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    BranchOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    DepOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    TransferOp,
    YieldOp,
)
from openinfer.dialects.opset import OpSpec
from openinfer.lowering.program.check_ops import OpChecks
from openinfer.lowering.program.report import did_you_mean

HINTS = {"fuse": "bool", "no_reorder": "bool", "placement": "string", "group": "string"}
EFFECTS = ("cache.read", "cache.write", "cache.increment", "cache.decrement", "cache.reset",
           "yield", "await", "barrier", "transfer")  # fmt: skip


class NodeChecks(OpChecks):
    """Checks blocks, node by node."""

    entered = False
    """Whether the block at hand is `entry`."""
    returned: ReturnOp | None = None
    """The first `return` of the block at hand that names values."""

    def block(self, block: BlockOp) -> None:
        self.entered = block.block_name.data == "entry"
        self.returned = None
        self.hints(block, block.hints)
        nodes = list(block.body.block.ops)
        self.nodes(nodes)
        # A block without its brace may have lost its end to a loop or scope that was not closed.
        if block not in self.places.unfinished and not self.ends(nodes):
            self.error(
                "OI0240",
                block,
                ("close",),
                f"block `{block.block_name.data}` does not end in `return` or `yield`",
                "add `return;` before the closing brace",
                ("the block starts here", self.places.of(block, ("name",))),
            )

    def nodes(self, nodes: Sequence[Operation]) -> None:
        for node, following in zip(nodes, [*nodes[1:], None]):
            if isinstance(node, ReturnOp) and following is not None:
                self.report.warning(
                    "OI0241",
                    self.places.of(following),
                    "this never runs: it stands behind a `return`",
                    fix="remove it, or move the `return` to the end",
                )
            self.node(node)

    def node(self, node: Operation) -> None:
        match node:
            case AssignOp():
                self.assign(node)
            case OpOp():
                self.op(node)
            case TransferOp():
                self.transfer(node)
            case BranchOp():
                self.branch(node)
            case LoopOp():
                self.loop(node)
            case ScopeOp():
                self.hints(node, node.hints)
                self.nodes(list(node.body.block.ops))
            case ReturnOp():
                self.return_(node)
            case DepOp():
                for part, name in (("after", node.after.data), ("before", node.before.data)):
                    if name not in EFFECTS:
                        self.op_name(name, node, (part,), EFFECTS)
            case YieldOp() | AwaitOp():
                self.exchanged(node)
            case CacheReadOp() | CacheWriteOp() | CacheStepOp() | CacheResetOp():
                self.cache(node)
            case _:
                pass

    def ends(self, nodes: Sequence[Operation]) -> bool:
        """Whether a body ends in a terminator, or in something that could not be read."""
        if not nodes:
            return False
        last = nodes[-1]
        if isinstance(last, ScopeOp):
            return self.ends(list(last.body.block.ops))
        return isinstance(last, ReturnOp | YieldOp) or last in self.places.unread

    # Statements.

    def assign(self, node: AssignOp) -> None:
        self.dims(node, node.sizes)

    def op(self, node: OpOp) -> None:
        before = len(self.report.wrong)
        operands = [
            self.read(operand, node, ("inputs", position)) if isinstance(operand, RefAttr) else None
            for position, operand in enumerate(node.inputs)
        ]
        seen: set[str] = set()
        for position, ref in enumerate(node.outputs):
            part, name = ("outputs", position), ref.variable.data
            self.write(ref, node, part)
            if name in seen:
                self.error(
                    "OI0246",
                    node,
                    part,
                    f"two outputs of one op are `{name}`",
                    "write each result to its own variable",
                )
            seen.add(name)
        spec = self.registered(node, operands)
        self.hints(node, node.hints)
        if spec is not None and len(self.report.wrong) == before:
            self.op_types(node, spec)

    def op_types(self, node: OpOp, spec: OpSpec) -> None:
        """The types of an op. Without a package its sizes are not known, so nothing is said."""

    def transfer(self, node: TransferOp) -> None:
        source = self.read(node.source, node, ("source",))
        target = self.write(node.target, node, ("target",))
        if source is None or target is None or source.rank is None or target.rank is None:
            return
        self.moved(node, source, self.shape(source), target, self.shape(target), "transfer")

    def branch(self, node: BranchOp) -> None:
        condition = node.condition
        if condition is not None:
            variable = self.read(condition, node, ("condition",))
            if variable is not None and not (
                variable.maybe_integer and (variable.maybe_single or condition.indices.data)
            ):
                self.error(
                    "OI0307",
                    node,
                    ("condition",),
                    f"the condition `{variable.name}` must be one bool or integer",
                    "reduce it to one element with an op first",
                    self.typed(variable, "its type is here"),
                )
        for part, target in (("then_block", node.then_block), ("else_block", node.else_block)):
            if target is None or target.data in self.names.blocks:
                continue
            name, known = target.data, self.names.blocks
            if name not in self.places.unreadable:
                fix = did_you_mean(name, known, f"block {name} {{ …  return; }}")
                self.error("OI0212", node, (part,), f"undefined block `{name}`", fix)

    def loop(self, node: LoopOp) -> None:
        for part, bound in (("start", node.start.data), ("stop", node.stop.data)):
            self.size(bound, node, (part,), "a loop bound")
        index = node.index.data
        if variable := self.names.find(index):
            self.error(
                "OI0258",
                node,
                ("index",),
                f"loop index `{index}` has the name of a {variable.what}",
                "rename the index",
                self.declared(variable),
            )
        self.hints(node, node.hints)
        self.nodes(list(node.body.block.ops))

    def return_(self, node: ReturnOp) -> None:
        if not node.names:
            return
        if not self.entered:
            self.error(
                "OI0242",
                node,
                ("names",),
                "only block `entry` returns values",
                "write `return;`: all blocks see the same variables",
            )
        self.listed(node.names, node)
        if self.returned is None:
            self.returned = node
        elif self.returned.names != node.names:
            self.error(
                "OI0243",
                node,
                (),
                "this `return` names other values than the first one",
                f"write `return {', '.join(self.returned.names)};`",
                ("the first one is here", self.places.of(self.returned)),
            )

    def exchanged(self, node: YieldOp | AwaitOp) -> None:
        """The values of a `yield` or `await`: temporaries and variables that a step owns."""
        self.listed(node.names, node)
        for position, name in enumerate(node.names):
            variable = self.names.find(name)
            if variable is not None and variable.memory == "persistent":
                self.error(
                    "OI0267",
                    node,
                    ("names", position),
                    f"persistent `{name}` cannot be yielded",
                    f"read it first: `cache.read {name} >> TEMPORARY;`",
                    self.declared(variable),
                )

    def hints(self, node: Operation, hints: DictionaryAttr | None) -> None:
        """`with { … }`."""
        for name, value in hints.data.items() if hints is not None else ():
            part, kind = ("hints", name), HINTS.get(name)
            if kind is None:
                self.report.unknown(
                    "OI0251",
                    self.places.of(node, (*part, "name")),
                    f"unknown hint `{name}` is kept, but means nothing here",
                    fix=did_you_mean(name, HINTS, f"known are {', '.join(HINTS)}"),
                )
            elif not _is_of(value, kind):
                self.error(
                    "OI0259",
                    node,
                    part,
                    f"hint `{name}` must be {'true or false' if kind == 'bool' else 'a string'}",
                    f"{name} = true" if kind == "bool" else f'{name} = "…"',
                )


def _is_of(value: Attribute, kind: str) -> bool:
    """Whether a hint has a value of the kind that its name asks for."""
    if kind == "string":
        return isinstance(value, StringAttr)
    return isinstance(value, IntegerAttr) and str(value.type) == "i1"
