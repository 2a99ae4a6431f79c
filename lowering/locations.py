"""Locations of ops: from IR attributes to the form that diagnostics print, and back."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, LocationAttr, UnknownLoc
from xdsl.ir import Operation

from openinfer.runtime.errors import Location


def has_location(op: Operation) -> bool:
    """Whether the op knows where it comes from."""
    return not isinstance(op.location, UnknownLoc)


def location_of(op: Operation | None) -> Location | None:
    """The place in the source of the op, or of the nearest op around it that knows one."""
    while op is not None:
        if isinstance(op.location, FileLineColLoc):
            place = op.location
            return Location(place.filename.data, place.line.data, place.column.data)
        op = op.parent_op()
    return None


def give_location(place: LocationAttr, *targets: Operation) -> None:
    """Sets the location of each target, and of the ops inside it, where there is none yet."""
    if isinstance(place, UnknownLoc):
        return
    for target in targets:
        for op in target.walk():
            if not has_location(op):
                op.location = place
