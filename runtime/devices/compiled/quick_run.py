"""A `run` like the one before it: what native code needs to do all of it at once (`LoadedProgram.follow`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.results import Results
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.turns import Turn

Follow = Callable[[Mapping[str, Any]], Results | None]
"""Runs a step with some inputs and gives its results: None where it may not, or where the step has failed,
and all is as before it."""


class HasEnds(Protocol):
    """What hears of the end of a step."""

    def keep(self, given: Mapping[str, Any]) -> None:
        """Other threads may still read the inputs."""
        ...

    def fail(self) -> None:
        """The step was ended, or has failed: what it has changed is put back."""
        ...


@dataclass(frozen=True)
class QuickRun:
    """A step that needs nothing of Python, and results that are copied."""

    turn: Turn
    token: object
    """What the turn has instead of True after a run like this one: nobody was inside since."""
    context: HasEnds
    """Who holds the code keeps this alive, too."""
    place: Callable[[Mapping[str, Any]], bool]
    """What `LoadedProgram.place` made."""
    call: Callable[[], object]
    """What `LoadedProgram.call` made, or `Team.call`."""
    errors: int
    """The address of a number that is not 0 after a step that failed."""
    steps: int
    """That of a number that counts steps which end well."""
    helped: bool
    """Whether the context is to `keep` the inputs of each step."""
    results: Sequence[tuple[str, AnyArray]]
    """Names, and where they lie after a step, for as long as the token is there."""
