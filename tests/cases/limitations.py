"""What the compiled program does not do yet, as data; the support mode checks that it is true.

A row says which cases `openinfer.compile` refuses with an UnsupportedError or ProgramError, and
why. A row whose cases compile is out of date and fails the test.
"""

from __future__ import annotations

from dataclasses import dataclass

from table import Case


@dataclass(frozen=True)
class Limitation:
    """Cases of one device that are refused: all those that fit every field that is given."""

    reason: str
    ops: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    """A case fits when an operand or the result has one of these dtypes."""
    names: tuple[str, ...] = ()
    """Names of single cases."""
    device: str = "cpu"

    def covers(self, case: Case) -> bool:
        used = {*case.dtypes, case.out, str(case.settings.get("to")), str(case.settings.get("acc"))}
        return (
            (not self.ops or case.op in self.ops)
            and (not self.dtypes or bool(used & set(self.dtypes)))
            and (not self.names or case.name in self.names)
        )


LIMITATIONS: tuple[Limitation, ...] = (
    Limitation("8-bit floats have no element type below the graph level", dtypes=("f8",)),
    Limitation("packed integers are not lowered: loads of half a byte", dtypes=("i4",)),
)


def limitation_of(case: Case, device: str = "cpu") -> Limitation | None:
    """The row that covers a case, or None when it must work."""
    for row in LIMITATIONS:
        if row.device == device and row.covers(case):
            return row
    return None
