"""The standard streams of a command, whatever state the shell handed them over in."""

from __future__ import annotations

import io
import os
import sys


def prepare_streams() -> None:
    """Makes all three usable: closed ones lead nowhere, and what an encoding lacks is spelled out.

    A closed descriptor would also be given to the next file that is opened, for others to write into.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that is missing.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr has it. Names of files need not be text, and the escapes are right in JSON.
        sys.stdout.reconfigure(errors="backslashreplace")
