"""Modules as text, the same everywhere: output, dumps, comparisons.

An op says where it comes from only where that is another place than the op before it comes from: about
once for each node of a program. The op before the first one of a region is that before the op around it; a
terminator that is not written comes from where the op around it does.
`compiler/ir_text.py` reads texts in the same way.
"""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Attribute, BlockArgument, Operation, Region

_LEFT_OUT = "\0"
"""Stands for a location that says nothing new; the printer escapes it everywhere else."""


def module_text(
    module: Operation,
    context: Context | None = None,
    *,
    all_locations: bool = False,
    generic: bool = False,
) -> str:
    """The text of a module or op, ending in one newline.

    With `all_locations` every op that knows where it comes from says so; `generic` uses the form that every
    MLIR tool reads.
    """
    from xdsl.dialects.builtin import LocationAttr, UnknownLoc
    from xdsl.printer import Printer

    class LocationPrinter(Printer):
        """Leaves out the locations that a reader knows."""

        known: Attribute = UnknownLoc()
        """Where the next op comes from, as far as the text says it."""
        at_start: Attribute = known
        """The same where the op began whose end is printed."""

        def print_op(self, op: Operation) -> None:
            outer, self.at_start = self.at_start, self.known
            super().print_op(op)
            self.known, self.at_start = op.location, outer

        def print_region(
            self,
            region: Region,
            print_entry_block_args: bool = True,
            print_empty_block: bool = True,
            print_block_terminators: bool = True,
        ) -> None:
            if not print_block_terminators:
                # One that is not written comes from where the op around it does.
                around = region.parent_op()
                ends = [block.last_op for block in region.blocks]
                print_block_terminators = around is not None and any(
                    end is not None and end.location != around.location for end in ends
                )
            super().print_region(
                region, print_entry_block_args, print_empty_block, print_block_terminators
            )

        def print_block_argument(self, arg: BlockArgument, print_type: bool = True) -> None:
            self.print_debuginfo = False
            super().print_block_argument(arg, print_type)
            self.print_debuginfo = True

        def print_attribute(self, attribute: Attribute) -> None:
            if isinstance(attribute, LocationAttr) and not self.printing_location:
                said = all_locations and not isinstance(attribute, UnknownLoc)
                if attribute == self.at_start and not said:
                    self.print_string(_LEFT_OUT)
                    return
            super().print_attribute(attribute)

    stream = StringIO()
    printer = LocationPrinter(stream=stream, print_generic_format=generic, print_debuginfo=True)
    printer.print_op(module)
    if context is not None:
        printer.print_metadata(context.loaded_dialects)
    return stream.getvalue().replace(f" {_LEFT_OUT}", "").rstrip("\n") + "\n"
