"""Modules as text, the same everywhere: output, dumps, comparisons."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Operation


def module_text(
    module: Operation,
    context: Context | None = None,
    *,
    locations: bool = False,
    generic: bool = False,
) -> str:
    """The text of a module or op, ending in one newline.

    `locations` adds `loc(…)` to every op; `generic` uses the form that every MLIR tool reads.
    """
    from xdsl.printer import Printer

    stream = StringIO()
    printer = Printer(stream=stream, print_generic_format=generic, print_debuginfo=locations)
    printer.print_op(module)
    if context is not None:
        printer.print_metadata(context.loaded_dialects)
    return stream.getvalue().rstrip("\n") + "\n"
