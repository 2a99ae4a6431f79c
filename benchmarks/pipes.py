"""What a process that others ask through pipes does with its own."""

from __future__ import annotations

import os
from typing import IO


def own_stdout() -> IO[str]:
    """The pipe to whoever asks; what libraries print goes to stderr instead."""
    pipe = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return pipe
