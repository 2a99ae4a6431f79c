"""What an ONNX model asks for that an import does not give: collected, and told all at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.utils.exceptions import VerifyException

from openinfer.runtime.errors import Diagnostic, OpenInferError, ProgramError

OPERATOR = "OI1522"
ATTRIBUTE = "OI1523"
TYPE = "OI1524"
CONTENT = "OI1525"
DAMAGED = "OI1526"
RULE = "OI1527"
LIMIT = "OI1528"


class Refusal(Exception):
    """An operator that cannot be imported: code, what is wrong, and the remedy."""

    def __init__(
        self, code: str, message: str, hint: str | None = None, inputs: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.inputs = inputs
        """Inputs of the model whose values would have to be known."""


_CONTRADICTIONS = (
    *(ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError),
    VerifyException,
)


def guarded(work: Callable[[], None]) -> None:
    """Reads a part of a model. Handlers take a node to be as its operator says; where a file contradicts that
    in a way that none of them looks for, what they stumble over is a refusal like others."""
    try:
        work()
    except OpenInferError:
        raise
    except _CONTRADICTIONS as error:
        raise Refusal(
            DAMAGED,
            f"its inputs or attributes contradict the operator ({type(error).__name__}: {error})",
            "onnx.checker.check_model tells what is wrong; please report a model that it finds right",
        ) from error


@dataclass
class Refusals:
    """The refusals of one import, equal ones counted."""

    found: dict[tuple[str, str], list[str]] = field(
        default_factory=dict[tuple[str, str], list[str]]
    )
    hints: dict[tuple[str, str], str | None] = field(
        default_factory=dict[tuple[str, str], str | None]
    )
    inputs: set[str] = field(default_factory=set[str])

    def add(self, refusal: Refusal, place: str) -> None:
        """Keeps a refusal of the node at `place`."""
        key = (refusal.code, refusal.message)
        self.found.setdefault(key, []).append(place)
        self.hints[key] = refusal.hint
        self.inputs |= refusal.inputs

    def raise_all(self, source: str) -> None:
        """Raises RefusedModel where there is something to tell."""
        if not self.found:
            return
        diagnostics = [
            Diagnostic(code, f"{source}{message}{_places(places)}", hint=self.hints[code, message])
            for (code, message), places in self.found.items()
        ]
        raise RefusedModel(diagnostics, frozenset(self.inputs))


class RefusedModel(ProgramError):
    """A model that cannot be imported as it is; `diagnostics` says why, one entry for each reason."""

    def __init__(self, diagnostics: list[Diagnostic], inputs: frozenset[str]) -> None:
        super().__init__(diagnostics)
        self.inputs = inputs
        """Inputs whose values would have to be given (`values=` of `from_onnx`) to import the model."""


def _places(places: list[str]) -> str:
    """`, 3 times, at a, b and c`."""
    named = [place for place in dict.fromkeys(places) if place]
    times = f", {len(places)} times" if len(places) > 1 else ""
    if not named:
        return times
    shown = ", ".join(named[:4]) + (", …" if len(named) > 4 else "")
    return f"{times}, at {shown}"
