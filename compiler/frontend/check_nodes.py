"""Checks of statements, each by itself: uses of variables, ops with settings, hints, structure."""

from __future__ import annotations

from collections.abc import Sequence

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.build import is_full
from openinfer.compiler.frontend.check_declarations import check_dtype
from openinfer.compiler.frontend.check_ops import check_op, check_op_name
from openinfer.compiler.frontend.check_sizes import check_dims, check_size
from openinfer.compiler.frontend.forms import refuse
from openinfer.compiler.frontend.report import Report, did_you_mean
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import TEMPORARY, Symbol, Symbols

HINTS = {"fuse": bool, "no_reorder": bool, "placement": str, "group": str}
EFFECTS = ("cache.read", "cache.write", "cache.increment", "cache.decrement", "cache.reset",
           "yield", "await", "barrier", "transfer")  # fmt: skip


class NodeChecker:
    """Checks one block."""

    def __init__(self, symbols: Symbols, report: Report) -> None:
        self.symbols = symbols
        self.report = report
        self.is_entry = False
        self.returned: syntax.Return | None = None

    def block(self, block: syntax.Block) -> None:
        self.is_entry = block.name.text == "entry"
        self.hints(block.hints)
        self.nodes(block.body)
        if not ends(block.body):
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
            case syntax.Yield(names=names):
                refuse(self.report, "yield", node.span)
                self.names(names)
            case syntax.Await(names=names):
                refuse(self.report, "await", node.span)
                self.names(names)
            case syntax.CacheRead() | syntax.CacheWrite():
                self.cache(node)
            case syntax.CacheReset(target=target):
                refuse(self.report, "cache.reset", node.span)
                self.persistent(target)
            case syntax.CacheStep(variable=variable, amount=amount):
                self.cache_step(node, variable, amount)
            case syntax.Foreign(form=form, span=span):
                refuse(self.report, form, span)
            case syntax.Barrier() | syntax.Broken():
                pass

    # Uses of variables.

    def variable(self, name: syntax.Name) -> Symbol | None:
        """The variable of a name; reports an undefined one."""
        symbol = self.symbols.find(name.text)
        if symbol is None and name.text not in self.symbols.unreadable:
            if name.text in self.symbols.loop_indices:
                message = f"`{name.text}` is a loop index, not a variable"
                fix: str | None = "it may stand in brackets, dimensions and bounds"
            else:
                message = f"undefined variable `{name.text}`"
                fix = did_you_mean(
                    name.text,
                    self.symbols.variables,
                    f"declare it, or write `assign {name.text}: TYPE;`",
                )
            self.report.error("OI0210", name.span, message, fix=fix)
        return symbol

    def names(self, names: Sequence[syntax.Name]) -> None:
        """A list of plain variable names, each once."""
        seen: set[str] = set()
        for name in names:
            symbol = self.variable(name)
            if symbol is not None and symbol.indices:
                self.index_count(symbol, name.span, 0)
            if name.text in seen:
                self.report.error(
                    "OI0246", name.span, f"`{name.text}` is named twice", fix="remove one of them"
                )
            seen.add(name.text)

    def read(self, ref: syntax.Ref) -> Symbol | None:
        """A variable that a node reads."""
        symbol = self.use(ref)
        if symbol is not None and symbol.memory == "persistent":
            self.report.error(
                "OI0221",
                ref.span,
                f"persistent `{ref.name.text}` is read with `cache.read` only",
                fix=f"cache.read {ref.name.text} >> TEMPORARY;",
                notes=[("declared here", symbol.span)],
            )
        return symbol

    def write(self, ref: syntax.Ref) -> Symbol | None:
        """A variable that a node writes."""
        symbol = self.use(ref)
        if symbol is None:
            return None
        if symbol.memory in ("dynamic", "constant"):
            who = "only the caller sets it" if symbol.memory == "dynamic" else "it never changes"
            self.report.error(
                "OI0220",
                ref.span,
                f"cannot write to {symbol.memory} `{ref.name.text}`: {who}",
                fix="write to a volatile variable or a temporary",
                notes=[("declared here", symbol.span)],
            )
        elif symbol.memory == "persistent":
            self.report.error(
                "OI0221",
                ref.span,
                f"persistent `{ref.name.text}` is written with `cache.*` only",
                fix=f"cache.write VALUE >> {ref.name.text};",
                notes=[("declared here", symbol.span)],
            )
        elif symbol.indices and ref.slots:
            self.report.error(
                "OI0233",
                ref.span,
                f"an entry of `{ref.name.text}` cannot be an output",
                fix="write to a variable without indices",
                notes=[("declared here", symbol.span)],
            )
        return symbol

    def use(self, ref: syntax.Ref) -> Symbol | None:
        """A variable with its indices, outside of caches."""
        symbol = self.variable(ref.name)
        slots = list(ref.slots or ())
        if len(slots) > 1 and is_full(slots[-1]):
            slots.pop()  # a trailing comma
        for slot in slots:
            if isinstance(slot, syntax.Slice):
                self.report.error(
                    "OI0232",
                    slot.span,
                    "a slice is for `cache.read` and `cache.write` only",
                    fix="select one entry, or use `op slice`",
                )
                return symbol
            self.index(slot)
        if symbol is None or symbol.memory == "persistent":
            return symbol
        if ref.slots is not None and not symbol.indices:
            self.report.error(
                "OI0231",
                ref.span,
                f"`{ref.name.text}` is declared without indices",
                fix="remove the brackets, or select a part with `op slice`",
                notes=[(f"declared here, as {symbol.what}", symbol.span)],
            )
        else:
            self.index_count(symbol, ref.span, len(slots))
        return symbol

    def index(self, slot: syntax.Expr) -> None:
        size = check_size(slot, self.symbols, self.report, "an index")
        if size is not None and size.constant is not None and size.constant < 0:
            self.report.error(
                "OI0309", slot.span, f"an index cannot be {size}", fix="indices count from 0"
            )

    def index_count(self, symbol: Symbol, span: Span, count: int) -> None:
        if count == len(symbol.indices) or "table" in symbol.attributes:
            return
        wanted = len(symbol.indices)
        self.report.error(
            "OI0230",
            span,
            f"`{symbol.name}` has {wanted} {'index' if wanted == 1 else 'indices'}, got {count}",
            fix=f"write `{symbol.name}[{', '.join(symbol.indices)}]`",
            notes=[("declared here", symbol.span)],
        )

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
        if source is None or target is None or not source.dtype or not target.dtype:
            return
        problem = None
        if source.dtype != target.dtype:
            problem = f"dtype {source.dtype} into {target.dtype}"
        elif len(source.dims) != len(target.dims):
            problem = f"{len(source.dims)} dimensions into {len(target.dims)}"
        else:
            for left, right in zip(source.dims, target.dims):
                if left and right and _never_equal(left.constant, right.constant):
                    problem = f"size {left} into {right}"
        if problem:
            self.report.error(
                "OI0312",
                node.span,
                f"transfer of {problem}: a transfer changes neither dtype nor shape",
                fix="use `op cast`, `op reshape` or another op, or declare both alike",
                notes=[
                    (f"`{source.name}` is declared here", source.type.span),
                    (f"`{target.name}` is declared here", target.type.span),
                ],
            )

    def branch(self, node: syntax.Branch) -> None:
        condition = node.condition
        if condition is not None:
            symbol = self.use(condition)
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

    # Caches.

    def cache(self, node: syntax.CacheRead | syntax.CacheWrite) -> None:
        if isinstance(node, syntax.CacheRead):
            refuse(self.report, "cache.read", node.span)
            self.persistent(node.source)
            self.write(node.target)
        else:
            refuse(self.report, "cache.write", node.span)
            self.read(node.source)
            self.persistent(node.target)

    def cache_step(self, node: syntax.CacheStep, variable: syntax.Name, amount: int) -> None:
        form = "cache.increment" if amount >= 0 else "cache.decrement"
        refuse(self.report, form, node.span)
        symbol = self.persistent(syntax.Ref(variable, None, variable.span))
        if symbol is not None and (symbol.type.dims or symbol.indices):
            self.report.error(
                "OI0222",
                variable.span,
                f"`{form}` counts a persistent scalar, `{variable.text}` has dimensions",
                fix="use an op and `cache.write`",
                notes=[("declared here", symbol.span)],
            )

    def persistent(self, ref: syntax.Ref) -> Symbol | None:
        """The operand of a cache operation."""
        symbol = self.variable(ref.name)
        for slot in ref.slots or ():
            bounds = [slot.start, slot.stop] if isinstance(slot, syntax.Slice) else [slot]
            for bound in bounds:
                if bound is not None:
                    check_size(bound, self.symbols, self.report, "an index")
            if not isinstance(slot, syntax.Slice):
                self.index(slot)
        if symbol is None:
            return None
        if symbol.memory != "persistent":
            kind = "a temporary" if symbol.memory == TEMPORARY else symbol.memory
            self.report.error(
                "OI0221",
                ref.name.span,
                f"`cache.*` works on persistent variables, `{ref.name.text}` is {kind}",
                fix="declare it in `persistent { … }`, or use an op or `transfer`",
                notes=[("declared here", symbol.span)],
            )
        elif len(ref.slots or ()) > len(symbol.indices):
            self.index_count(symbol, ref.span, len(ref.slots or ()))
        return symbol


def ends(nodes: Sequence[syntax.Node]) -> bool:
    """Whether a body ends in a terminator, or in something that could not be read."""
    if not nodes:
        return False
    last = nodes[-1]
    if isinstance(last, syntax.Scope):
        return ends(last.body)
    return isinstance(last, syntax.Return | syntax.Yield | syntax.Broken | syntax.Foreign)


def _never_equal(left: int | None, right: int | None) -> bool:
    return left is not None and right is not None and left != right
