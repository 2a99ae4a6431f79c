"""The exceptions of the whole package, one class per thing that a caller could do differently.

OpenInferError
 ├── ProgramError       a bad program text: carries every diagnostic that was found      OI01xx-OI03xx
 ├── PackageError       a model package that cannot be read, or lacks what is asked       OI04xx
 ├── InputError         a wrong name, dtype or shape given to an executor, or one unset   OI05xx
 ├── StepError          a step that failed: node, index and bound                         OI06xx
 ├── UnsupportedError   a form, dtype or device that this build does not have             OI07xx
 ├── ArtefactError      a compiled program, cache entry or snapshot that cannot be used   OI08xx
 └── CompileError       the compiler broke one of its own rules: a bug to report          OI09xx
"""

from __future__ import annotations

from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class Location:
    """A place in a text file; line and column start at 1, column 0 means the whole line."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Note:
    """The other side of a conflict: a sentence and the place that it speaks of."""

    message: str
    location: Location | None = None


@dataclass(frozen=True)
class Diagnostic:
    """One finding about a program: `file:line:col: error[OI0123]: message`, notes, and the fix."""

    code: str
    message: str
    location: Location | None = None
    length: int = 1
    """How many characters the caret underlines."""
    notes: tuple[Note, ...] = ()
    hint: str | None = None
    severity: str = "error"

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        lines = [f"{place}{self.severity}[{self.code}]: {self.message}"]
        for note in self.notes:
            where = f"{note.location}: " if note.location else ""
            lines.append(f"{where}note: {note.message}")
        if self.hint:
            lines.append(f"  fix: {self.hint}")
        return "\n".join(lines)


class OpenInferError(Exception):
    """The root of all errors that openinfer raises on purpose."""

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(str(Diagnostic(code, message, hint=hint)))

    def __reduce__(self) -> tuple[object, ...]:
        """An error of a worker process comes to its parent whole, whatever its class is made from."""
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[OpenInferError], args: tuple[object, ...]) -> OpenInferError:
    error = kind.__new__(kind)
    error.args = args
    return error


class ModelWarning(UserWarning):
    """A program and its model go together, but at a price, or not as meant: the text has code and fix."""


class PackageError(OpenInferError):
    """A model package is damaged, or lacks something that was asked for."""


class InputError(OpenInferError):
    """An executor was given a wrong name, dtype or shape, or misses an input."""


class StepError(OpenInferError):
    """A step failed while running: the message names node, index and bound."""


class UnsupportedError(OpenInferError):
    """The form, dtype, op or device is not available in this build."""


class ArtefactError(OpenInferError):
    """A compiled program, a cache entry or the file of a snapshot cannot be used."""


class CompileError(OpenInferError):
    """The compiler broke one of its own rules; always a bug worth reporting."""


class ProgramError(OpenInferError):
    """A program is wrong; `diagnostics` holds every finding, errors and warnings, in text order."""

    def __init__(self, diagnostics: list[Diagnostic], rendered: str | None = None) -> None:
        self.diagnostics = diagnostics
        errors = [d for d in diagnostics if d.severity == "error"]
        first = errors[0] if errors else diagnostics[0]
        super().__init__(first.code, first.message, hint=first.hint)
        self.rendered = rendered or "\n".join(str(d) for d in diagnostics)
        self.args = (self.rendered,)


def reason_of(error: BaseException) -> str:
    """`: why`, where a device that has no more memory has said why."""
    return f": {error}" if type(error) is MemoryError and error.args else ""
