"""Show where the time went: of a trace file, or of a program that is run and traced now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.tools.program_argument import ProgramArgument
from openinfer.compiler.tools.report import UsageError
from openinfer.compiler.tools.running import Session, add_program_arguments
from openinfer.compiler.tools.trace_profile import KEYS, Profile
from openinfer.runtime.files import read_text, write_text

if TYPE_CHECKING:
    from openinfer.runtime.trace import Event

_TRACE_LIMIT = 2 << 30

EXAMPLES = """\
examples:
  openinfer trace examples/vit.oi --steps 20         runs it, compiled and traced: a row per kernel
  openinfer trace vit.oi --by line --by op --top 10
  openinfer run vit.oi --trace vit.trace.json
  openinfer trace vit.trace.json --by scope          … of a file that `run --trace` wrote
  openinfer trace vit.oi --html vit.html             tables and the timeline of a step in one page
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program_arguments(parser)
    add = parser.add_argument
    add(
        "--by",
        action="append",
        choices=tuple(KEYS),
        help="what to sum by (repeatable; default node)",
    )
    add("--top", type=int, metavar="N", help="show the N longest rows (default: all)")
    add("--html", type=Path, metavar="OUT", help="write a page: tables and a timeline")
    add("--save", type=Path, metavar="FILE", help="keep the trace, as `run --trace` does")


def run(args: argparse.Namespace) -> int:
    if args.top is not None and args.top < 1:
        raise UsageError("--top takes a number from 1")
    events = _stored(args.program)
    sources: dict[str, str] = {}
    dropped = 0
    if events is None:
        events, sources, dropped = _traced(args)
    elif args.save is not None:
        raise UsageError("--save keeps the trace of a program that is run; this is a trace already")
    sources.update(_found_sources(events, sources))
    profile = Profile.of(events, sources)
    keys = tuple(dict.fromkeys(args.by or ("node",)))
    if args.html is not None:
        from openinfer.compiler.tools.trace_page import page

        write_text(args.html, page(profile, args.program.name))
    if args.json:
        print(json.dumps({"file": str(args.program), "dropped": dropped, **profile.json(keys)}))
        return 0
    for key in keys:
        print(profile.table(key, args.top))
        print()
    print(profile.summary())
    if dropped:
        print(f"{dropped} older events were dropped: the table shows the last steps only")
    return 0


def _stored(program: ProgramArgument) -> list[Event] | None:
    """The events of a trace file; None for a program."""
    if not program.is_stdin and program.suffix != ".json":
        return None
    text = program.read(_TRACE_LIMIT)
    start = text.lstrip("\ufeff \t\r\n")
    if program.is_stdin and not start.startswith(("{", "[")):
        return None
    from openinfer.runtime.trace_files import read_trace

    # A graph JSON is a program.
    if start.startswith("{") and '"traceEvents"' not in start[:4096]:
        return None
    return read_trace(text, str(program))


def _traced(args: argparse.Namespace) -> tuple[list[Event], dict[str, str], int]:
    """The events of a run, the program text, and how many events were dropped."""
    session = Session.of(args)
    with session.executor(trace=True) as executor:
        for step in range(session.steps):
            executor.insert(**session.inputs(executor, step))
            executor.step()
        if args.save is not None:
            executor.save_trace(args.save)
        return executor.trace(), {session.graph.file: session.graph.text}, executor.dropped_events


def _found_sources(events: Sequence[Event], known: dict[str, str]) -> dict[str, str]:
    """The program texts that the events name and that are there."""
    found: dict[str, str] = {}
    for file in dict.fromkeys(place.file for event in events for place in event.locations):
        path = Path(file)
        if file not in known and path.suffix in (".oi", ".json") and path.is_file():
            try:
                found[file] = read_text(path)
            except (OSError, UnicodeDecodeError):
                continue
    return found
