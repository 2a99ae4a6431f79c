"""Run simulator and compiled program side by side and name the first node that differs.

Exit code 0: they agree; 3: they differ.
"""

from __future__ import annotations

import argparse
import json
import math

from openinfer.compiler.tools.running import Session, add_program_arguments

EXAMPLES = """\
examples:
  openinfer compare examples/mlp.oi               drawn inputs, package beside the program
  openinfer compare mlp.oi --size B=3 --steps 4   four steps, state and all
  openinfer compare mlp.oi --tolerance 10         ten times the tolerance of each dtype
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program_arguments(parser, simulator=False)
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="factor on the tolerance of each dtype (default 1)",
    )


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.comparing import compare
    from openinfer.compiler.tools.report import DIFFERENT, FINE, UsageError

    if not 0 <= args.tolerance < math.inf:
        raise UsageError(f"--tolerance {args.tolerance:g} is no factor", "give a number from 0")
    outcome = compare(Session.of(args), args.tolerance)
    if args.json:
        print(json.dumps(outcome.json(), indent=2))
    else:
        print(outcome.text())
    return DIFFERENT if outcome.findings else FINE
