"""Run a program node by node: breakpoints, values with statistics, watches.

Stops are after the node that they name, so its outputs can be printed. `help` at the prompt lists
the commands.
"""

from __future__ import annotations

import argparse
import sys

from openinfer.compiler.tools.report import UsageError
from openinfer.compiler.tools.running import Session, add_program_arguments
from openinfer.runtime.devices import SIMULATOR
from openinfer.runtime.errors import UnsupportedError

EXAMPLES = """\
examples:
  openinfer debug examples/mlp.oi                 the simulator, drawn inputs; then: break matmul
  openinfer debug mlp.oi --device cpu --input x=x.npy
  openinfer debug decode.oi --steps 8             `continue` goes through eight steps
  openinfer debug mlp.oi --command "break 24" --command continue --command "print h.max"
  echo "watch y" | openinfer debug mlp.oi         commands from a pipe
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program_arguments(parser, device=SIMULATOR)
    add = parser.add_argument
    add(
        "--command",
        action="append",
        default=[],
        metavar="LINE",
        help="run a command of the debugger (repeatable), then leave",
    )
    add("--interactive", action="store_true", help="stay at the prompt after --command")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.debugging.commands import Commands
    from openinfer.compiler.tools.debugging.console import Console
    from openinfer.compiler.tools.debugging.session import DebugSession

    if args.program.is_stdin and (args.interactive or not args.command):
        raise UsageError(
            "the program comes from standard input, so commands cannot come from there",
            "give them by --command, or the program as a file",
        )
    program = Session.of(args)
    with program.executor() as executor:
        outline = executor.outline()
        if outline is None:
            raise UnsupportedError(
                "OI0731",
                "the program was saved without the build that runs node by node",
                hint="compile it with --observed, or debug its text",
            )
        session = DebugSession(program, executor, outline)
        console = Console(Commands(session), json=args.json)
        if args.command:
            code = console.script(args.command)
            if not args.interactive or code == 2:
                return code
        if not sys.stdin.isatty():
            return console.script(sys.stdin)
        if not args.json:
            name = "the simulator" if program.simulated else "the compiled program"
            print(f"{program.graph.file} on {name}; `help` lists the commands")
        return console.interactive()
