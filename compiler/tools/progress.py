"""A line on stderr for whoever waits at a terminal longer than a second."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from openinfer.compiler.timings import staged

PROGRESS_THREAD = "openinfer-progress"
"""The name of the thread that writes the line; it holds nothing that a forked child needs."""


@contextmanager
def waiting(what: str, patience: float = 1.0, pause: float = 0.2) -> Generator[None]:
    """Shows `what`, the phase of a compilation, and the seconds so far while the block runs.

    Nothing is shown if it ends within `patience` seconds, or where stderr is no terminal; the line is
    erased at the end.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    with staged() as stage:

        def show() -> None:
            begin = time.monotonic()
            if done.wait(patience):
                return
            while not done.is_set():
                seconds = f"{time.monotonic() - begin:.0f} s"
                _write(what, f" … {f'{stage.text}, ' if stage.text else ''}{seconds}")
                done.wait(pause)
            _write("", "")

        thread = threading.Thread(target=show, name=PROGRESS_THREAD, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _write(what: str, state: str) -> None:
    """Puts a line in the place of the one before; in a narrow terminal the end of `what` goes."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        width = 80
    line = (what[: max(0, width - 1 - len(state))] + state)[: width - 1]
    sys.stderr.write(f"\r{line}\x1b[K")
    sys.stderr.flush()
