"""How the tools fail: one rendering of every error, as text or as JSON, and the exit codes.

0 fine    1 bad program, model or input    2 usage    3 `compare` found a difference
"""

from __future__ import annotations

import atexit
import gc
import json as json_module
import os
import re
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from openinfer.runtime.errors import (
    Diagnostic,
    Location,
    ModelWarning,
    Note,
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
    from openinfer.compiler.diagnostics import render as with_excerpts

    if isinstance(error, AdvisedError):
        return f"note: {error.advice}\n{render(error.error)}"
    # A check behind the frontend knows places, but not the text: it is read from the file.
    if isinstance(error, ProgramError) and error.rendered != "\n".join(
        str(d) for d in error.diagnostics
    ):
        return error.rendered.rstrip("\n")
    if isinstance(error, OpenInferError) and not isinstance(error, ProgramError | StepError):
        return str(error)
    return with_excerpts(diagnostics_of(error), _SOURCES).rstrip("\n")


def diagnostics_of(error: BaseException) -> list[Diagnostic]:
    """What an error says, finding by finding."""
    if isinstance(error, AdvisedError):
        first, *rest = diagnostics_of(error.error)
        return [replace(first, notes=(*first.notes, Note(error.advice))), *rest]
    if isinstance(error, ProgramError):
        return error.diagnostics
    if isinstance(error, StepError):
        return [_at_its_place(error)]
    if isinstance(error, OpenInferError):
        return [Diagnostic(error.code, error.message, hint=error.hint)]
    if isinstance(error, UsageError):
        return [Diagnostic("OI0590", error.message, hint=error.hint)]
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        hint = "check the path, its folder and its permissions"
        return [Diagnostic("OI0557", f"{name}{error.strerror or error}", hint=hint)]
    if isinstance(error, MemoryError):
        # Outside of a step: weights that do not fit, or a very large program.
        return [Diagnostic("OI0604", f"not enough memory: {error}", hint="use smaller sizes")]
    hint = "this is a bug of openinfer; --traceback shows where, please report it"
    return [Diagnostic("OI0591", f"{type(error).__name__}: {error}", hint=hint)]


def error_json(error: BaseException) -> str:
    """An error for editors and CI: one JSON object on one line."""
    return findings_json(diagnostics_of(error))


def findings_json(findings: Sequence[Diagnostic]) -> str:
    """Findings as the object that every command prints instead of its result when it fails."""
    return json_module.dumps({"diagnostics": [finding_json(finding) for finding in findings]})


def finding_json(finding: Diagnostic) -> dict[str, object]:
    """A finding as JSON; line and column count from 1, what is not known is null."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        **_place_json(finding.location),
        "length": finding.length if finding.location is not None else None,
        "notes": [
            {"message": note.message, **_place_json(note.location)} for note in finding.notes
        ],
        "hint": finding.hint,
    }


def _place_json(place: Location | None) -> dict[str, object]:
    if place is None:
        return {"file": None, "line": None, "column": None}
    return {"file": place.file, "line": place.line, "column": place.column or None}


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


def _at_its_place(error: StepError) -> Diagnostic:
    """A failed step as every other finding: the place out of its message."""
    found = _PLACE.fullmatch(error.message)
    if found is None:
        return Diagnostic(error.code, error.message, hint=error.hint)
    file, line, column, message = found.groups()
    place = Location(file, int(line), int(column))
    return Diagnostic(error.code, message, place, hint=error.hint)


_PLACE = re.compile(r"(.+?):([0-9]{1,9}):([0-9]{1,9}): (.*)", re.DOTALL)


def exit_code(error: BaseException) -> int:
    """The exit code that an error leads to."""
    return USAGE if isinstance(error, UsageError) else BAD_INPUT


def guard(body: Callable[[], int], *, traceback: bool, json: bool = False) -> int:
    """Runs the body of a tool and turns what it raises into a message and an exit code.

    The message goes to stderr; with `json` it is JSON and goes to stdout, where the result would be.
    """
    _end_without_collection()
    try:
        code = body()
        sys.stdout.flush()  # What cannot be written is an error of the command, too.
        return code
    except BrokenPipeError:
        # The reader of a pipe (`| head`) went away.
        _drop_unwritten()
        return FINE
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if traceback:
            raise
        if json:
            print(error_json(error), flush=True)
        else:
            print(render(error), file=sys.stderr)
        _drop_unwritten()
        return exit_code(error)


@cache
def _end_without_collection() -> None:
    """At its end Python looks twice through all objects for cycles, which then go with the process anyway."""
    atexit.register(gc.freeze)


def _drop_unwritten() -> None:
    """What stdout cannot take is dropped: Python would try, and complain, again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
