"""Modules as text, the same everywhere: output, dumps, comparisons."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Attribute, Operation

_UNKNOWN = "\0"
"""Stands for an unknown location while printing; the printer escapes it everywhere else."""


def module_text(
    module: Operation,
    context: Context | None = None,
    *,
    locations: bool = False,
    generic: bool = False,
) -> str:
    """The text of a module or op, ending in one newline.

    `locations` adds `loc(…)` to every op that knows where it comes from; `generic` uses the form
    that every MLIR tool reads.
    """
    from xdsl.dialects.builtin import UnknownLoc
    from xdsl.printer import Printer

    class KnownLocationPrinter(Printer):
        """Marks unknown locations, which say nothing, so that they can be taken out."""

        def print_attribute(self, attribute: Attribute) -> None:
            if isinstance(attribute, UnknownLoc):
                self.print_string(_UNKNOWN)
            else:
                super().print_attribute(attribute)

    stream = StringIO()
    kind = KnownLocationPrinter if locations else Printer
    printer = kind(stream=stream, print_generic_format=generic, print_debuginfo=locations)
    printer.print_op(module)
    if context is not None:
        printer.print_metadata(context.loaded_dialects)
    text = stream.getvalue()
    if locations:
        text = text.replace(f" {_UNKNOWN}", "").replace(_UNKNOWN, "loc(unknown)")
    return text.rstrip("\n") + "\n"
