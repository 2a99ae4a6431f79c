"""What a device does not do that the simulator does, as data: the op table and the tests read it.

A row that is out of date, because the device does it by now, fails a test (`tests/cases/`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Limitation:
    """Uses of ops that `openinfer.compile` refuses: all those that fit every field that is given."""

    reason: str
    ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    """A use fits when an operand or the result has one of these dtypes."""
    device: str = "cpu"

    def covers(self, op: str, dtypes: Collection[str]) -> bool:
        """Whether a use of an op (by its own name) on these dtypes is refused."""
        return (not self.ops or op in self.ops) and (
            not self.dtypes or any(name in self.dtypes for name in dtypes)
        )


LIMITATIONS: tuple[Limitation, ...] = ()


def limitation_of(op: str, dtypes: Collection[str], device: str = "cpu") -> Limitation | None:
    """The row that covers a use of an op, or None when the device must do it."""
    for row in LIMITATIONS:
        if row.device == device and row.covers(op, dtypes):
            return row
    return None
