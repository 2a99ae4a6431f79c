"""From a syntax tree to a checked module, with every mistake in the report."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.build import build
from openinfer.compiler.frontend.report import Report
from openinfer.dialects.graph import AwaitOp
from openinfer.lowering.graph.infer_types import has_open_types, infer_types
from openinfer.lowering.program.check import check_module
from openinfer.lowering.program.check_calls import expand_calls
from openinfer.lowering.program.places import Places


def checked_module(program: syntax.Program, report: Report) -> tuple[ModuleOp, Places]:
    """The module of a program, with the types that the program itself decides if nothing is wrong."""
    module, places = build(program, report)
    expand_calls(module, report, places)
    implied = check_module(module, report, places)
    if not report.errors and has_open_types(module):
        # What was open is checked like what was written.
        infer_types(module)
        implied = check_module(module, report, places)
    if report.errors:
        return module, places
    for node, names in implied.items():
        awaited = AwaitOp(names)
        awaited.location = node.location
        block = node.parent_block()
        assert block is not None
        block.insert_op_before(awaited, node)
    return module, places
