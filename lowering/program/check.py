"""The one checker of programs, whether they come as text, as JSON or as IR.

It walks the `graph` dialect twice: as soon as a text is read, with the places of its parts, and when the
program meets its package. The second walk is the first one with all sizes known, and with what only they
and the package tell. All findings are collected; nothing stops at the first one.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.dialects.graph import AssignOp, BlockOp, BranchOp, ReturnOp, VariableOp
from openinfer.lowering.program.check_declarations import DeclarationChecks
from openinfer.lowering.program.check_definitions import check_definitions
from openinfer.lowering.program.check_exchange import check_exchange
from openinfer.lowering.program.check_flow import check_flow
from openinfer.lowering.program.check_indices import check_indices
from openinfer.lowering.program.check_types import TypeChecks
from openinfer.lowering.program.expansion import expansion_problems
from openinfer.lowering.program.names import Names, walk
from openinfer.lowering.program.places import Places
from openinfer.lowering.program.report import Report, nearest
from openinfer.lowering.program.view import ProgramView, targets_of
from openinfer.runtime.errors import Diagnostic


def check_module(module: ModuleOp, report: Report, places: Places) -> dict[ReturnOp, list[str]]:
    """Everything that is wrong with a program that has not met its package.

    The values that each `return` of entry takes back, because they are still yielded there.
    """
    return _walk(DeclarationChecks(Names.of(module), report, places), module)


def check_program(module: ModuleOp, view: ProgramView) -> list[Diagnostic]:
    """Every error of a program with its package, in text order; empty when it may run."""
    checks = TypeChecks(view)
    for variable in view.variables.values():
        checks.package(variable)
    return _sized(checks, module)


def check_bound(module: ModuleOp) -> list[Diagnostic]:
    """Every error of a program whose IR says what its package holds: a dump that was edited."""
    return _sized(TypeChecks(ProgramView.of(module, None, {})), module)


def _sized(checks: TypeChecks, module: ModuleOp) -> list[Diagnostic]:
    view = checks.view
    for op in (*view.variables.values(), *view.nodes):
        if isinstance(op, VariableOp | AssignOp):
            checks.sources_of(op)
    checks.sources_of_bounds(module)
    checks.sizes_without_source()
    _walk(checks, module)
    errors = [found for found in checks.report.sorted() if found.severity == "error"]
    return [*errors, *expansion_problems(view.blocks)]


def _walk(checks: DeclarationChecks, module: ModuleOp) -> dict[ReturnOp, list[str]]:
    blocks = [op for op in module.body.ops if isinstance(op, BlockOp)]
    for op in module.body.ops:
        if isinstance(op, VariableOp):
            checks.declaration(op)
    checks.blocks_once(blocks)
    for block in blocks:
        checks.temporaries_once(block)
    for block in blocks:
        checks.block(block)
    check_definitions(checks, module)
    if checks.places.aborted:
        return {}
    _entry(checks, module)
    _cycles(checks)
    check_flow(checks)
    implied = check_exchange(checks)
    check_indices(checks)
    return implied


def _entry(checks: DeclarationChecks, module: ModuleOp) -> None:
    """The program has the block where every step starts."""
    blocks = checks.names.blocks
    if "entry" in blocks or "entry" in checks.places.unreadable:
        return
    near = nearest("entry", blocks)
    checks.error(
        "OI0213",
        blocks[near] if near else module,
        ("name",),
        "the program has no block `entry`, where every step starts",
        f"rename block `{near}`" if near else "block entry { …  return; }",
    )


def _cycles(checks: DeclarationChecks) -> None:
    """Every call that closes a cycle, with the other calls of the cycle: it would never end."""
    blocks = checks.names.blocks
    calls = {
        name: [
            (target, node, part)
            for node in walk(block)
            if isinstance(node, BranchOp)
            for target, part in zip(targets_of(node), ("then_block", "else_block"))
            if target in blocks
        ]
        for name, block in blocks.items()
    }
    done: set[str] = set()
    for root in calls:
        path: dict[str, int] = {}
        entered: list[tuple[Operation, str]] = []
        """The call that led to each block of the path but the first."""
        stack: list[Iterator[tuple[str, Operation, str]]] = []
        if root not in done:
            path, stack = {root: 0}, [iter(calls[root])]
        while stack:
            target, node, part = next(stack[-1], (None, None, ""))
            if target is None or node is None:
                stack.pop()
                done.add(path.popitem()[0])
                if entered:
                    entered.pop()
            elif target in path:
                start = path[target]
                cycle = list(path)[start : start + 8]
                checks.error(
                    "OI0244",
                    node,
                    (part,),
                    f"a cycle of branches: {' → '.join([*cycle, target])}",
                    "a branch is a call that returns; repeat with `loop` instead",
                    *(
                        (f"block `{name}` is called here", checks.places.of(call, (at,)))
                        for name, (call, at) in zip(cycle[1:], entered[start:])
                    ),
                )
            elif target not in done:
                path[target] = len(path)
                entered.append((node, part))
                stack.append(iter(calls[target]))
