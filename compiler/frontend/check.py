"""All rules of the language that the text alone decides: names, structure, kinds of values.

Every rule adds its findings to the report and goes on; nothing is raised. What needs the model
package (sizes, tensors) is checked when the program meets it.
"""

from __future__ import annotations

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.check_declarations import check_declaration
from openinfer.compiler.frontend.check_exchange import check_exchange
from openinfer.compiler.frontend.check_flow import check_flow
from openinfer.compiler.frontend.check_indices import check_indices
from openinfer.compiler.frontend.check_nodes import NodeChecker
from openinfer.compiler.frontend.report import Report, nearest
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.symbols import Symbols, collect


def check(program: syntax.Program, report: Report) -> Symbols:
    """Reports everything that is wrong with a program; returns what its names stand for."""
    symbols = collect(program, report)
    for section in program.sections:
        for declaration in section.declarations:
            check_declaration(declaration, section.memory, symbols, report)
    for block in program.blocks:
        NodeChecker(symbols, report).block(block)
    if not program.aborted:
        _check_entry(symbols, report)
        check_flow(symbols, report)
        implied = check_exchange(symbols, report)
        if implied:
            program.add_before(implied)
        check_indices(program, symbols, report)
    return symbols


def _check_entry(symbols: Symbols, report: Report) -> None:
    if "entry" in symbols.blocks or "entry" in symbols.unreadable:
        return
    near = nearest("entry", symbols.blocks)
    span = symbols.blocks[near].name.span if near else Span(0, 0)
    report.error(
        "OI0213",
        span,
        "the program has no block `entry`, where every step starts",
        fix=f"rename block `{near}`" if near else "block entry { …  return; }",
    )
