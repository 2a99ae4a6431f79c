"""A `run` like the one before it: what native code needs to do all of it at once (`LoadedProgram.follow`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.results import Results
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.turns import Turn

Follow = Callable[[Mapping[str, Any]], Results | None]
"""Runs a step with some inputs and gives its results: None where it may not, or where the step has failed,
and all is as before it."""


class Workers(NamedTuple):
    """Threads that may be inside of a step when the caller has left it."""

    sequence: int
    """The address of the number of the next step."""
    left: int
    """That of the number of a step which the first one has left, with all before it."""
    stride: int
    """Bytes from there to that of the next one."""
    number: int
    kept: list[Any]
    """What they may still read of steps before."""


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
    workers: Workers | None
    """For whom the context is to `keep` the inputs of a step that they have not left."""
    results: Sequence[tuple[str, AnyArray]]
    """Names, and where they lie after a step, for as long as the token is there."""
