"""Checks of statements, each by itself: uses of variables, ops with settings, hints, structure."""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.check_caches import CacheChecker
from openinfer.compiler.frontend.check_declarations import check_dtype, check_open_type
from openinfer.compiler.frontend.check_ops import check_op, check_op_name
from openinfer.compiler.frontend.check_sizes import check_dims, check_size
from openinfer.compiler.frontend.report import Report, did_you_mean
from openinfer.compiler.frontend.symbols import Symbols

HINTS = {"fuse": bool, "no_reorder": bool, "placement": str, "group": str}
EFFECTS = ("cache.read", "cache.write", "cache.increment", "cache.decrement", "cache.reset",
           "yield", "await", "barrier", "transfer")  # fmt: skip


class NodeChecker(CacheChecker):
    """Checks one block."""

    def __init__(self, symbols: Symbols, report: Report) -> None:
        super().__init__(symbols, report)
        self.is_entry = False
        self.returned: syntax.Return | None = None

    def block(self, block: syntax.Block) -> None:
        self.is_entry = block.name.text == "entry"
        self.hints(block.hints)
        self.nodes(block.body)
        # A block without its brace may have lost its end to a loop or scope that was not closed.
        if block.closed and not ends(block.body):
            self.report.error(
                "OI0240",
                block.close,
                f"block `{block.name.text}` does not end in `return` or `yield`",
                fix="add `return;` before the closing brace",
                notes=[("the block starts here", block.name.span)],
            )

    def nodes(self, nodes: Sequence[syntax.Node]) -> None:
        for node, following in zip(nodes, [*nodes[1:], None]):
            if isinstance(node, syntax.Return) and following is not None:
                self.report.warning(
                    "OI0241",
                    following.span,
                    "this never runs: it stands behind a `return`",
                    fix="remove it, or move the `return` to the end",
                )
            self.node(node)

    def node(self, node: syntax.Node) -> None:
        match node:
            case syntax.Assign():
                check_dtype(node.type.dtype, self.report)
                check_open_type(node.type, "temporary", self.report)
                check_dims(node.type.dims, self.symbols, self.report)
            case syntax.Op():
                self.op(node)
            case syntax.Transfer():
                self.transfer(node)
            case syntax.Branch():
                self.branch(node)
            case syntax.Loop():
                self.loop(node)
            case syntax.Scope():
                self.hints(node.hints)
                self.nodes(node.body)
            case syntax.Return():
                self.return_(node)
            case syntax.Dep():
                for name in (node.after, node.before):
                    if name.text not in EFFECTS:
                        check_op_name(name, self.report, EFFECTS)
            case syntax.Yield(names=names) | syntax.Await(names=names):
                self.exchanged(names)
            case syntax.CacheRead():
                self.cache_read(node)
            case syntax.CacheWrite():
                self.cache_write(node)
            case syntax.CacheReset(target=target):
                self.cache_reset(target)
            case syntax.CacheStep():
                self.cache_step(node)
            case syntax.Barrier() | syntax.Broken():
                pass

    # Statements.

    def op(self, node: syntax.Op) -> None:
        operands = [self.read(operand) for operand in node.operands]
        seen: set[str] = set()
        for output in node.outputs:
            self.write(output)
            if output.name.text in seen:
                self.report.error(
                    "OI0246",
                    output.span,
                    f"two outputs of one op are `{output.name.text}`",
                    fix="write each result to its own variable",
                )
            seen.add(output.name.text)
        check_op(node, operands, self.symbols, self.report)
        self.hints(node.hints)

    def transfer(self, node: syntax.Transfer) -> None:
        source, target = self.read(node.source), self.write(node.target)
        if source is None or target is None or source.rank is None or target.rank is None:
            return
        self.moved(node.span, source, source.dims, target, target.dims, "transfer")

    def branch(self, node: syntax.Branch) -> None:
        condition = node.condition
        if condition is not None:
            symbol = self.read(condition)
            if symbol is not None and not (
                symbol.maybe_integer and (symbol.maybe_single or condition.slots)
            ):
                self.report.error(
                    "OI0307",
                    condition.span,
                    f"the condition `{condition.name.text}` must be one bool or integer",
                    fix="reduce it to one element with an op first",
                    notes=[("its type is here", symbol.type.span)],
                )
        for target in (node.then_block, node.else_block):
            if target is not None:
                self.target(target)

    def target(self, name: syntax.Name) -> None:
        if name.text in self.symbols.blocks or name.text in self.symbols.unreadable:
            return
        self.report.error(
            "OI0212",
            name.span,
            f"undefined block `{name.text}`",
            fix=did_you_mean(name.text, self.symbols.blocks, f"block {name.text} {{ …  return; }}"),
        )

    def loop(self, node: syntax.Loop) -> None:
        for bound in (node.start, node.stop):
            check_size(bound, self.symbols, self.report, "a loop bound")
        if symbol := self.symbols.find(node.index.text):
            self.report.error(
                "OI0258",
                node.index.span,
                f"loop index `{node.index.text}` has the name of a {symbol.what}",
                fix="rename the index",
                notes=[("declared here", symbol.span)],
            )
        self.hints(node.hints)
        self.nodes(node.body)

    def return_(self, node: syntax.Return) -> None:
        if not node.names:
            return
        if not self.is_entry:
            self.report.error(
                "OI0242",
                node.names[0].span.to(node.names[-1].span),
                "only block `entry` returns values",
                fix="write `return;`: all blocks see the same variables",
            )
        self.names(node.names)
        if self.returned is None:
            self.returned = node
        elif [n.text for n in self.returned.names] != [n.text for n in node.names]:
            listed = ", ".join(n.text for n in self.returned.names)
            self.report.error(
                "OI0243",
                node.span,
                "this `return` names other values than the first one",
                fix=f"write `return {listed};`",
                notes=[("the first one is here", self.returned.span)],
            )

    def exchanged(self, names: Sequence[syntax.Name]) -> None:
        """The values of a `yield` or `await`: temporaries and variables that a step owns."""
        self.names(names)
        for name in names:
            symbol = self.symbols.find(name.text)
            if symbol is not None and symbol.memory == "persistent":
                self.report.error(
                    "OI0267",
                    name.span,
                    f"persistent `{name.text}` cannot be yielded",
                    fix=f"read it first: `cache.read {name.text} >> TEMPORARY;`",
                    notes=[("declared here", symbol.span)],
                )

    def hints(self, hints: Sequence[syntax.Setting]) -> None:
        """`with { … }`."""
        seen: set[str] = set()
        for hint in hints:
            name = hint.name.text
            if name in seen:
                self.report.error(
                    "OI0208", hint.span, f"hint `{name}` is given twice", fix="remove one of them"
                )
            seen.add(name)
            kind = HINTS.get(name)
            if kind is None:
                self.report.unknown(
                    "OI0251",
                    hint.name.span,
                    f"unknown hint `{name}` is kept, but means nothing here",
                    fix=did_you_mean(name, HINTS, f"known are {', '.join(HINTS)}"),
                )
            elif not (
                isinstance(hint.value, syntax.Literal) and isinstance(hint.value.value, kind)
            ):
                self.report.error(
                    "OI0259",
                    hint.value.span,
                    f"hint `{name}` must be {'true or false' if kind is bool else 'a string'}",
                    fix=f"{name} = true" if kind is bool else f'{name} = "…"',
                )


def ends(nodes: Sequence[syntax.Node]) -> bool:
    """Whether a body ends in a terminator, or in something that could not be read."""
    if not nodes:
        return False
    last = nodes[-1]
    if isinstance(last, syntax.Scope):
        return ends(last.body)
    return isinstance(last, syntax.Return | syntax.Yield | syntax.Broken)
