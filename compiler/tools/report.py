"""How the tools fail: one rendering of every error, and the exit codes.

0 fine    1 bad program, model or input    2 usage    3 `compare` found a difference
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, Any

from openinfer.runtime.errors import (
    Diagnostic,
    Location,
    ModelWarning,
    OpenInferError,
    ProgramError,
    StepError,
)

FINE = 0
BAD_INPUT = 1
USAGE = 2
DIFFERENT = 3


class UsageError(Exception):
    """The command line itself is wrong: exit code 2."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f"{message}\n  fix: {hint}")


class AdvisedError(Exception):
    """An error, and a sentence that helps with it, shown above it."""

    def __init__(self, error: OpenInferError, advice: str) -> None:
        self.error = error
        self.advice = advice
        super().__init__(str(error))


def render(error: BaseException) -> str:
    """The text of an error for a person: no traceback, ends without a newline."""
    if isinstance(error, AdvisedError):
        return f"note: {error.advice}\n{render(error.error)}"
    if isinstance(error, ProgramError):
        # A check behind the frontend knows places, but not the text: read it from the file.
        if error.rendered == "\n".join(str(d) for d in error.diagnostics):
            from openinfer.compiler.diagnostics import render as with_excerpts

            return with_excerpts(error.diagnostics).rstrip("\n")
        return error.rendered.rstrip("\n")
    if isinstance(error, StepError):
        return _at_its_line(error)
    if isinstance(error, OpenInferError):
        return str(error)
    if isinstance(error, UsageError):
        return f"error: {error}"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return (
            f"error[OI0557]: {name}{error.strerror or error}\n"
            "  fix: check the path, its folder and its permissions"
        )
    if isinstance(error, MemoryError):
        # Outside of a step: weights that do not fit, or a very large program.
        return f"error[OI0604]: not enough memory: {error}\n  fix: use smaller sizes"
    return (
        f"error: {type(error).__name__}: {error}\n"
        "  fix: this is a bug of openinfer; --traceback shows where, please report it"
    )


@contextmanager
def model_warnings() -> Generator[None]:
    """Prints each ModelWarning of a command to stderr once, as findings are shown."""
    with warnings.catch_warnings():
        shown: set[str] = set()
        show = warnings.showwarning

        def print_once(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if not issubclass(category, ModelWarning):
                show(message, category, *rest)
            elif str(message) not in shown:
                shown.add(str(message))
                print(message, file=sys.stderr)

        warnings.simplefilter("always", ModelWarning)
        warnings.showwarning = print_once
        yield


def know_source(file: str, text: str) -> None:
    """Makes errors that speak of `file` show lines of this text, not of what lies on disk."""
    _SOURCES[file] = text


_SOURCES: dict[str, str] = {}


def _at_its_line(error: StepError) -> str:
    """A failed step as every other finding is shown: place, message, the line with a caret."""
    found = _PLACE.fullmatch(error.message)
    if found is None:
        return str(error)
    from openinfer.compiler.diagnostics import render as with_excerpts

    file, line, column, message = found.groups()
    place = Location(file, int(line), int(column))
    finding = Diagnostic(error.code, message, place, hint=error.hint)
    return with_excerpts([finding], _SOURCES).rstrip("\n")


_PLACE = re.compile(r"(.+?):([0-9]{1,9}):([0-9]{1,9}): (.*)", re.DOTALL)


def exit_code(error: BaseException) -> int:
    """The exit code that an error leads to."""
    return USAGE if isinstance(error, UsageError) else BAD_INPUT


def guard(body: Callable[[], int], *, traceback: bool, stream: IO[str] | None = None) -> int:
    """Runs the body of a tool and turns what it raises into a message and an exit code."""
    try:
        return body()
    except BrokenPipeError:
        # The reader of a pipe (`| head`) went away; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if traceback:
            raise
        print(render(error), file=stream or sys.stderr)
        return exit_code(error)
