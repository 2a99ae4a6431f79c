"""An imported model becomes a program that one can read: the passes in their order, and what they did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.compiler.api import Graph
from openinfer.compiler.importers.graph_writer import Imported
from openinfer.compiler.importers.program_text import program_text, reads_as
from openinfer.compiler.importers.report import Report, Step
from openinfer.compiler.registry import PASSES, load, make_context
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CallOp,
    LoopOp,
    OpOp,
    PackageSizeOp,
    SizeBoundOp,
    SizeOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.lowering.graph.imports.name_sizes import SIZES
from openinfer.lowering.graph.imports.names_of import taken_names
from openinfer.lowering.graph.imports.notes import collecting_notes
from openinfer.lowering.graph.imports.tensors import tensors, using_tensors
from openinfer.lowering.program.check_calls import without_calls
from openinfer.lowering.program.sources import member_indices, package_name, pattern_of
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.memory import MemoryPackage
from openinfer.runtime.packages.oinf_writer import OinfContent

SIMPLIFY = (
    *("drop-dead", "canonicalize-graph", "recognize-quantized-linear", "fold-constants"),
    *("recognize-activations", "recognize-norms", "recognize-linear", "recognize-sdpa"),
    *("lift-index-functions", "recognize-rotary", "compose-views", "merge-heads"),
    *("fold-constants", "canonicalize-graph", "hoist-masks", "drop-dead"),
)
"""Passes that make a program shorter, in their order."""
STATEFUL = "add-cache"
NAME = ("reuse-names", "name-parameters", "name-sizes", "name-values")
"""Passes that make it legible."""
ROLL = "roll-layers"
OUTLINE = "outline-modules"
BLOCKS = "outline-blocks"
_SHORTER = 5
"""Lines by which blocks with parameters make a text shorter, or more."""
_SURELY = 0.7
"""The part of statements and declarations that is left where they surely do."""


def readable(
    imported: Imported,
    *,
    comments: bool = False,
    stateful: bool = False,
    roll: bool = True,
    title: str = "",
) -> tuple[Graph, Package, Report]:
    """The program as a text, its package in memory, and the report of what was done.

    The package has the tensors that the program reads, and those sizes of the configuration that it names;
    tensors are borrowed. The same model gives the same text. `comments` say module and source line of each
    statement, `roll` makes loops and blocks of what is equal, `stateful` adds a cache to a causal decoder.
    Raises ProgramError where the program has a mistake, and what a pass refuses.
    """
    module = imported.module.clone()
    held = dict(imported.tensors)
    report = Report(imported.source, imported.calls, _statements(module))
    shorter = [ROLL] if roll else []
    shorter += [STATEFUL] if stateful else []
    shorter += [OUTLINE] if roll else []
    context = make_context()
    heading = title or _title(imported)
    with using_tensors(held):
        for name in (*SIMPLIFY, *shorter):
            _apply(name, module, context, report)
        plain, without = module.clone(), replace(report, steps=[*report.steps])
        if roll:
            _apply(BLOCKS, module, context, report)
        text, package = _named(module, imported, context, report, comments, heading)
        called = any(isinstance(op, CallOp) for op in module.walk())
        wrong = called and not reads_as(plain, text, package)
        if wrong or (called and _blocks_may_be_longer(plain, module)):
            other = _named(plain, imported, context, without, comments, heading)
            if wrong or other[0].count("\n") < text.count("\n") + _SHORTER:
                (text, package), module, report = other, plain, without
    _count(report, text, module, package)
    graph = Graph(text, f"{imported.source or 'imported'}.oi")
    graph.check()
    return graph, package, report


def _blocks_may_be_longer(plain: ModuleOp, module: ModuleOp) -> bool:
    """Whether it takes both texts to know that blocks make one shorter: ops may be operands in the other."""
    before, after = (
        sum(_is_statement(op) or isinstance(op, VariableOp) for op in one.walk())
        for one in (plain, module)
    )
    return after > _SURELY * before


def _named(
    module: ModuleOp,
    imported: Imported,
    context: Context,
    report: Report,
    comments: bool,
    title: str,
) -> tuple[str, Package]:
    """Gives a program its names: its text, and what it reads of the model."""
    for name in NAME:
        if name == "name-sizes":
            _give_sizes(module, imported.metadata)
        _apply(name, module, context, report)
    sizes = {
        op.size.data: op.value.data.constant or 0
        for op in module.body.ops
        if isinstance(op, PackageSizeOp)
    }
    package = MemoryPackage(OinfContent(dict(sizes), {}, _used(module, tensors())))
    return program_text(module, package, comments=comments, title=title), package


def _apply(name: str, module: ModuleOp, context: Context, report: Report) -> None:
    """Runs a pass, and says in the report what it changed."""
    before, ops = _statements(module), _ops(module)
    made: ModulePass = load(PASSES[name])()
    with collecting_notes() as notes:
        made.apply(context, module)
    module.verify()
    now = _ops(module)
    step = Step(
        *(name, before, _statements(module)),
        gone=dict(sorted((ops - now).items())),
        new=dict(sorted((now - ops).items())),
        notes=notes,
    )
    report.steps.append(step)


def _give_sizes(module: ModuleOp, metadata: Mapping[str, Any]) -> None:
    """Writes the sizes of the configuration in front: `name-sizes` keeps those that it uses."""
    taken = taken_names(module)
    first = module.body.block.first_op
    for name in SIZES:
        value = metadata.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            if name not in taken and first is not None:
                module.body.block.insert_op_before(PackageSizeOp(name, value), first)


def _used(module: ModuleOp, held: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors that declarations name."""
    found: dict[str, Any] = {}
    for op in without_calls(module).body.ops:
        if not isinstance(op, VariableOp):
            continue
        pattern = pattern_of(op)
        if pattern is None:
            name = package_name(op)
            if name in held:
                found[name] = held[name]
            continue
        for name, value in held.items():
            if member_indices(pattern, name) is not None:
                found[name] = value
    return found


def _statements(module: ModuleOp) -> int:
    return sum(_is_statement(op) for op in module.walk())


def _is_statement(op: Operation) -> bool:
    return isinstance(op, GraphOp) and not isinstance(
        op, AssignOp | VariableOp | PackageSizeOp | SizeOp | SizeBoundOp | BlockOp
    )


def _ops(module: ModuleOp) -> Counter[str]:
    return Counter(op.op_name.data for op in module.walk() if isinstance(op, OpOp))


def _title(imported: Imported) -> str:
    return f"{imported.source}, imported" if imported.source else ""


def _count(report: Report, text: str, module: ModuleOp, package: Package) -> None:
    report.lines = text.count("\n")
    report.declarations = sum(isinstance(op, VariableOp) for op in module.walk())
    report.statements = _statements(module)
    report.loops = sum(isinstance(op, LoopOp) for op in module.walk())
    infos = package.tensors.values()
    report.tensors = len(package.tensors)
    report.parameters = sum(info.size for info in infos)
    report.nbytes = sum(info.nbytes for info in infos)
