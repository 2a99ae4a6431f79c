"""What the command lines of the tools share: the parser, the program, `--model`, `--size B=4`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from openinfer.compiler.tools.program_argument import ProgramArgument
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.devices import DEFAULT_DEVICE, DEVICES, SIMULATOR, checked_device
from openinfer.runtime.suggest import did_you_mean


class CommandParser(argparse.ArgumentParser):
    """A parser whose mistakes are errors like all others."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError."""
        raise usage_error(self, message)


def usage_error(parser: argparse.ArgumentParser, message: str) -> UsageError:
    """The error for a command line that does not fit; an option that is not there gets its near one."""
    wrong = re.search(r"unrecognized arguments: (--[^\s=]+)", message)
    guess = ""
    if wrong is not None:
        options = re.findall(r"(?<![-\w])--[a-z][-a-z]*", parser.format_help())
        guess = did_you_mean(wrong.group(1), dict.fromkeys(options))
    return UsageError(message, f"{guess}`{parser.prog} --help` shows what it takes")


def add_program(
    parser: argparse.ArgumentParser,
    *,
    compiled: bool,
    name: str = "program",
    optional: bool = False,
) -> None:
    """The program itself and its package; `compiled`: whether it may be a compiled one. An `optional` one
    that is not given is None."""
    forms = ".oi, .json as graph JSON" + (", or .oip as `openinfer compile` writes it" * compiled)
    parser.add_argument(
        name,
        nargs="?" if optional else None,
        type=ProgramArgument,
        metavar="FILE",
        help=f"a program: {forms}; - reads a text from standard input",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """`--model` and `--size`."""
    add = parser.add_argument
    add("--model", type=Path, metavar="M", help="model package (default: beside the program)")
    add("--size", action="append", default=[], metavar="NAME=N", help="fix a size, as in B=4")


def add_no_fallback(parser: argparse.ArgumentParser) -> None:
    """`--no-fallback`, for commands that compile for a device."""
    parser.add_argument(
        "--no-fallback",
        action="store_true",
        help="an op that the device does not support is an error, the host does not run it",
    )


def add_device(
    parser: argparse.ArgumentParser, *, simulator: bool = False, default: str | None = None
) -> None:
    """`--device`; with `simulator`, that is one of them, and `--executor` another spelling.

    Without a `default` the option is None when it is not given: then a compiled program says for which
    device it is, and a text is compiled for the first of the table.
    """
    names = [*DEVICES, SIMULATOR] if simulator else list(DEVICES)
    parser.add_argument(
        *(("--device", "--executor") if simulator else ("--device",)),
        dest="device",
        type=partial(checked_device, simulator=simulator),
        default=default,
        metavar="NAME",
        help=f"what runs it: {', '.join(names)} (default {default or DEFAULT_DEVICE}); KIND:WHICH, as in "
        "vulkan:1, for one of those that `openinfer devices` lists",
    )


def parse_sizes(texts: Sequence[str]) -> dict[str, int]:
    """`["B=4", "T=16"]` as a dict. Raises UsageError."""
    sizes: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = int(value)
        except ValueError:
            number = -1
        if not equals or not name.strip() or number < 0:
            raise UsageError(f"bad size '{text}'", "write --size NAME=NUMBER, as in --size B=4")
        sizes[name.strip()] = number
    return sizes
