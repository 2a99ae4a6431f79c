"""A line on stderr for whoever waits at a terminal longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def waiting(what: str, patience: float = 1.0) -> Generator[None]:
    """Shows `what` and the seconds so far while the block runs; nothing if it is quick."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def show() -> None:
        begin = time.monotonic()
        if done.wait(patience):
            return
        while not done.is_set():
            sys.stderr.write(f"\r{what} … {time.monotonic() - begin:.0f} s")
            sys.stderr.flush()
            done.wait(0.5)
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
