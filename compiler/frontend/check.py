"""From a syntax tree to a checked module, with every mistake in the report.

The one checker walks the module (`lowering/program/check.py`). What depends on the order in which blocks
run is still checked on the tree.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.build import build
from openinfer.compiler.frontend.check_exchange import check_exchange
from openinfer.compiler.frontend.check_flow import check_flow
from openinfer.compiler.frontend.check_indices import check_indices
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.symbols import collect
from openinfer.lowering.graph.infer_types import infer_types
from openinfer.lowering.program.check import check_module


def checked_module(program: syntax.Program, report: Report) -> ModuleOp:
    """The module of a program, with the types that the program itself decides if nothing is wrong."""
    symbols = collect(program)
    if not program.aborted:
        check_flow(symbols, report)
        implied = check_exchange(symbols, report)
        if implied:
            program.add_before(implied)
        check_indices(program, symbols, report)
    module, places = build(program, report)
    check_module(module, report, places)
    if not report.errors:
        infer_types(module)
    return module
