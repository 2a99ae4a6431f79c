"""Stop strings: the text of an answer ends before the first of them, wherever its tokens begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from openinfer.runtime.errors import InputError

MAX_STOPS: Final = 16
MAX_LENGTH: Final = 1024


class StopStrings:
    """Holds back the end of a text as long as it may be the beginning of a stop string.

    Raises InputError OI0584 for too many stop strings, too long ones, and empty ones.
    """

    def __init__(self, stops: Sequence[str] | str = ()) -> None:
        given = cast("Sequence[object]", (stops,) if isinstance(stops, str) else tuple(stops))
        wanted = [stop for stop in given if isinstance(stop, str) and 0 < len(stop) <= MAX_LENGTH]
        if len(wanted) != len(given) or len(given) > MAX_STOPS:
            raise InputError(
                "OI0584",
                f"the {len(given)} stop strings are not usable",
                hint=f"give at most {MAX_STOPS} texts of 1 to {MAX_LENGTH} characters",
            )
        self._stops = wanted
        self._beginnings = {stop[:size] for stop in wanted for size in range(1, len(stop))}
        self._longest = max((len(stop) for stop in wanted), default=1)
        self._held = ""
        self.found: str | None = None
        """The stop string that ended the text."""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that may leave, and whether a stop string was found: nothing comes after it."""
        if self.found is not None:
            return "", True
        held = self._held + text
        places = [(place, stop) for stop in self._stops if (place := held.find(stop)) >= 0]
        if places:
            place, self.found = min(places)
            self._held = ""
            return held[:place], True
        size = min(self._longest - 1, len(held))
        while size and held[-size:] not in self._beginnings:
            size -= 1
        self._held = held[len(held) - size :]
        return held[: len(held) - size], False

    def finish(self) -> str:
        """What was held back, when the text has ended without a stop string."""
        held, self._held = self._held, ""
        return held
