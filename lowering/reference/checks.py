"""What is wrong with a program before it runs: names, ops, settings, dtypes, shapes, the package.

All findings are collected; nothing stops at the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    BranchOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    TransferOp,
    YieldOp,
)
from openinfer.dialects.opset import (
    ArityError,
    OpError,
    OpSpec,
    SettingError,
    ShapeError,
    TensorSpec,
    accepts,
    advice,
    find,
    infer_outputs,
)
from openinfer.lowering.graph.expansion import expansion_problems
from openinfer.lowering.locations import location_of
from openinfer.lowering.reference.check_caches import CacheChecks
from openinfer.lowering.reference.check_declarations import OPEN
from openinfer.lowering.reference.nodes import body_of
from openinfer.lowering.reference.program import (
    ProgramView,
    targets_of,
)
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.errors import Diagnostic


def check_program(view: ProgramView) -> list[Diagnostic]:
    """Every error of a program, in text order; empty when it may run."""
    return _Checker(view).run()


class _Checker(CacheChecks):
    def run(self) -> list[Diagnostic]:
        for variable in self.view.variables.values():
            self.declaration(variable)
            self.cache_declaration(variable)
            self.package(variable)
        for node in self.view.nodes:
            if isinstance(node, AssignOp):
                self.declaration(node)
        self.sizes_without_source()
        if "entry" not in self.view.blocks:
            self.report("OI0213", "there is no block named entry", None, "add `block entry { … }`")
        for block in self.view.blocks.values():
            self.body(block)
        self.cycles()

        def key(found: Diagnostic) -> tuple[str, int, int]:
            place = found.location
            return (place.file, place.line, place.column) if place else ("", 0, 0)

        return sorted(self.problems, key=key)

    # Blocks and nodes

    def body(self, op: BlockOp | LoopOp | ScopeOp) -> None:
        nodes = body_of(op)
        if isinstance(op, BlockOp) and not _ends(nodes):
            self.report(
                "OI0240",
                f"block {op.block_name.data} does not end in return or yield",
                op,
                "add `return;` as its last node",
            )
        for node in nodes:
            self.node(node)

    def node(self, node: Operation) -> None:
        match node:
            case OpOp():
                self.op(node)
            case LoopOp():
                for bound in (node.start.data, node.stop.data):
                    self.size_names(bound, node, "the loop bound")
                self.scope.append(node.index.data)
                self.body(node)
                self.scope.pop()
            case ScopeOp():
                self.body(node)
            case BranchOp():
                self.branch(node)
            case TransferOp():
                self.transfer(node)
            case CacheReadOp() | CacheWriteOp() | CacheStepOp() | CacheResetOp():
                self.cache(node)
            case YieldOp() | AwaitOp():
                self.yielded(node)
            case ReturnOp():
                for name in node.names:
                    self.known(name, node)
            case AssignOp():
                if node.variable.data in self.view.variables:
                    self.report(
                        "OI0206",
                        f"assign {node.variable.data} has the name of a declared variable",
                        node,
                        "choose another name",
                        ("declared here", location_of(self.view.variables[node.variable.data])),
                    )
            case _:
                pass

    def op(self, node: OpOp) -> None:
        name = node.op_name.data
        spec = find(name)
        operands = [self.reference(ref, node) for ref in node.inputs]
        outputs = [self.target(ref, node) for ref in node.outputs]
        if spec is None:
            self.report(
                "OI0214",
                f"there is no op {name!r}",
                node,
                advice(name),
            )
            return
        if any(operand is None for operand in operands):
            return
        known = [
            replace(operand, name=ref.text)
            for ref, operand in zip(node.inputs, operands)
            if operand is not None
        ]
        inferred = self.infer(node, spec, known, outputs)
        if inferred is None:
            return
        for ref, have, want in zip(node.outputs, inferred, outputs):
            if want is not None:
                self.compare(name, ref, have, want, node)

    def infer(
        self,
        node: OpOp,
        spec: OpSpec,
        operands: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec | None],
    ) -> list[TensorSpec] | None:
        given = self.settings(node, spec)
        if given is None:
            return None
        try:
            declared = [output for output in outputs if output is not None]
            whole = declared if len(declared) == len(outputs) else None
            return infer_outputs(spec, operands, given, len(outputs), whole)
        except ShapeError as error:
            if any(OPEN in d.names for o in operands for d in o.dims):
                return None  # Known only when it runs; the interpreter checks again.
            self.refuse(node, operands, error)
        except OpError as error:
            self.refuse(node, operands, error)
        return None

    def refuse(self, node: OpOp, operands: Sequence[TensorSpec], error: OpError) -> None:
        shown = ", ".join(f"{r.text}: {o}" for r, o in zip(node.inputs, operands))
        note = (f"operands: {shown}", None) if shown else None
        message = error.message
        name = node.op_name.data
        if not message.startswith(f"{name} ") and not message.startswith(f"{name}:"):
            message = f"{name}: {message}"
        code = "OI0322"
        if isinstance(error, ArityError | SettingError):
            code = "OI0217" if isinstance(error, ArityError) else "OI0304"
        self.report(code, message, node, error.hint, note)

    def compare(
        self, name: str, ref: RefAttr, have: TensorSpec, want: TensorSpec, node: Operation
    ) -> None:
        declaration = self.view.declaration(ref.variable.data)
        note = (f"{ref.variable.data} is declared {want}", location_of(declaration))
        if len(have.dims) == len(want.dims) and any(d.single_name == OPEN for d in want.dims):
            dims = tuple(h if w.single_name == OPEN else w for h, w in zip(have.dims, want.dims))
            self.learned.setdefault(ref.variable.data, dims)
            want = TensorSpec(want.dtype, dims)
        if not accepts(have.dtype, want.dtype):
            self.report(
                "OI0323",
                f"{name} gives {have.dtype}, but {ref.text} is declared {want.dtype}",
                node,
                f"declare {ref.variable.data} as {have.dtype}, or let a temporary take the result and "
                f"write `op cast(TEMPORARY, to={want.dtype}) >> {ref.text};`",
                note,
            )
        open_dims = any(OPEN in d.names for d in (*have.dims, *want.dims))
        ranks = len(have.dims), len(want.dims)
        if ranks[0] != ranks[1] or (have.dims != want.dims and not open_dims):
            self.report(
                "OI0323",
                f"{name} gives {have}, but {ref.text} is declared {want}",
                node,
                "declare the output with the shape that the op gives",
                note,
            )

    def transfer(self, node: TransferOp) -> None:
        source, target = self.reference(node.source, node), self.target(node.target, node)
        if source is None or target is None:
            return
        open_dims = any(OPEN in d.names for d in (*source.dims, *target.dims))
        if source.dtype != target.dtype or (source.dims != target.dims and not open_dims):
            self.report(
                "OI0312",
                f"transfer of {node.source.text}, which is {source}, to {node.target.text}, which "
                f"is {target}",
                node,
                "source and target of a transfer have one dtype and shape",
            )

    def branch(self, node: BranchOp) -> None:
        for target in targets_of(node):
            if target not in self.view.blocks:
                self.report(
                    "OI0212",
                    f"there is no block named {target}",
                    node,
                    self.near(target, self.view.blocks),
                )
        if node.condition is None:
            return
        spec = self.reference(node.condition, node)
        if spec is None:
            return
        row = DTYPES[ALIASES.get(spec.dtype, spec.dtype)]
        count = spec.count.constant
        if (row.kind != "bool" and not row.is_integer) or (count is not None and count != 1):
            self.report(
                "OI0307",
                f"the condition {node.condition.text} is {spec}",
                node,
                "a condition is a bool or integer of one element",
            )

    def cycles(self) -> None:
        """A cycle of branches would never end, and neither would the step of a program that its
        calls make too large."""
        calls: dict[str, list[tuple[str, Operation]]] = {name: [] for name in self.view.blocks}
        for node, info in self.view.nodes.items():
            if isinstance(node, BranchOp):
                calls[info.block] += [(t, node) for t in targets_of(node) if t in calls]
        done: set[str] = set()
        for name in calls:
            path: dict[str, Iterator[tuple[str, Operation]]] = {}
            if name not in done:
                path[name] = iter(calls[name])
            while path:
                block = next(reversed(path))
                target, node = next(path[block], (None, None))
                if target is None:
                    del path[block]
                    done.add(block)
                elif target in path:
                    names = list(path)
                    cycle = [*names[names.index(target) :][:8], target]
                    self.report(
                        "OI0244",
                        f"branches form a cycle: {' → '.join(cycle)}",
                        node,
                        "use a loop; a branch is a call that returns",
                    )
                elif target not in done:
                    path[target] = iter(calls[target])
        self.problems += expansion_problems(self.view.blocks)


def _ends(nodes: Sequence[Operation]) -> bool:
    """Whether the nodes of a block, or the scope that they end with, end in a terminator."""
    if nodes and isinstance(nodes[-1], ScopeOp):
        return _ends(body_of(nodes[-1]))
    return bool(nodes) and isinstance(nodes[-1], ReturnOp | YieldOp)
