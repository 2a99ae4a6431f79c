"""Locations of ops: from IR attributes to the form that diagnostics print, and back.

What a call of a block with parameters stands for has a call site as its location: the place in the block,
at the call. A traced build also says which nodes of the program an op computes: its location is then
`"node 3"(…)`, or `fused[…]` of several. Locations are no part of what makes two ops equal, so a
traced build is optimised as a plain one is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Operation

from openinfer.lowering.hints import absorb_hints
from openinfer.lowering.operations import operations_of
from openinfer.runtime.errors import Location, Note
from openinfer.runtime.outline import Call


def has_location(op: Operation) -> bool:
    """Whether the op knows where it comes from."""
    return type(op.location) is not UnknownLoc


def location_of(op: Operation | None) -> Location | None:
    """The place in the source of the op, or of the nearest op around it that knows one."""
    while op is not None:
        place = place_of(op.location)
        if place is not None:
            return _location(place)
        op = op.parent_op()
    return None


def _location(place: FileLineColLoc) -> Location:
    return Location(place.filename.data, place.line.data, place.column.data)


def place_of(location: Attribute) -> FileLineColLoc | None:
    """The place in the text, of several nodes that of the last one, of a call that in the block."""
    match location:
        case FileLineColLoc():
            return location
        case NameLoc():
            return place_of(location.location)
        case FusedLoc(locations=ArrayAttr(data=parts)):
            return place_of(parts[-1]) if parts else None
        case CallSiteLoc():
            return place_of(location.callee)
        case _:
            return None


def give_location(place: LocationAttr, *targets: Operation) -> None:
    """Sets the location of each target, and of the ops inside it, where there is none yet."""
    if isinstance(place, UnknownLoc):
        return
    for target in targets:
        for op in operations_of(target) if target.regions else (target,):
            if not has_location(op):
                op.location = place


# Calls of blocks with parameters.


def call_site(text: str, arguments: Mapping[str, str], at: Attribute) -> LocationAttr:
    """The call `text` that stands at a location, itself perhaps in what another call stands for: what
    `at_call` takes. `arguments` is what it gives each parameter: `"half(h)"("x=h"("by=0.5"(…)))`."""
    place = at.callee if isinstance(at, CallSiteLoc) else at
    for name, value in reversed(list(arguments.items())):
        place = _named(f"{name}={value}", place)
    site = _named(text, place)
    return CallSiteLoc(site, at.caller) if isinstance(at, CallSiteLoc) else site


def at_call(place: LocationAttr, caller: LocationAttr, name: str = "") -> LocationAttr:
    """The location of what stands at a place of a block, made for one call of it. `name` is what it is
    called there. What comes from no text stays where it is."""
    if not isinstance(place, FileLineColLoc):
        return place
    return CallSiteLoc(_named(name, place) if name else place, caller)


def _named(name: str, place: Attribute) -> NameLoc:
    return NameLoc(StringAttr(name), NoneAttr() if place == UnknownLoc() else place)


def calls_around(location: Attribute) -> tuple[Call, ...]:
    """The calls that led to an op, outermost first."""
    found: list[Call] = []
    if isinstance(location, NameLoc) and _NODE.match(location.desc.data):
        location = location.location
    while isinstance(location, CallSiteLoc):
        location = location.caller
        site = location.callee if isinstance(location, CallSiteLoc) else location
        place = place_of(site)
        text = site.desc.data if isinstance(site, NameLoc) else ""
        block = text.partition("(")[0]
        where = _location(place) if place is not None else None
        found.insert(0, Call(block, text, where, tuple(_arguments(site))))
    return tuple(found)


def _arguments(site: Attribute) -> Iterator[tuple[str, str]]:
    """What a call gives each parameter, as `call_site` has written it behind the text of the call."""
    place = site.location if isinstance(site, NameLoc) else None
    while isinstance(place, NameLoc):
        name, is_one, value = place.desc.data.partition("=")
        if is_one:
            yield name, value
        place = place.location


def own_name(location: Attribute) -> str:
    """What a variable that a call has made is called in its block; empty for others."""
    if isinstance(location, CallSiteLoc) and isinstance(location.callee, NameLoc):
        return location.callee.desc.data
    return ""


def call_notes(op: Operation) -> tuple[Note, ...]:
    """Which calls a mistake in a block with parameters is about, innermost first."""
    calls = reversed(calls_around(op.location))
    return tuple(Note(f"in the call `{call.text}`", call.location) for call in calls)


# Nodes.

_NODE = re.compile(r"node (\d+)\Z")


def node_location(place: LocationAttr, node: int) -> NameLoc:
    """The location of an op that computes a node."""
    return _named(f"node {node}", place)


def _nodes_of(location: Attribute) -> dict[int, NameLoc]:
    match location:
        case NameLoc():
            found = _NODE.match(location.desc.data)
            return {int(found.group(1)): location} if found else {}
        case FusedLoc(locations=ArrayAttr(data=parts)):
            return {number: name for part in parts for number, name in _nodes_of(part).items()}
        case _:
            return {}


def nodes_in(*ops: Operation) -> list[int]:
    """The nodes that ops and the ops inside of them compute, in program order."""
    return sorted(_names_in(ops))


def _names_in(ops: Iterable[Operation]) -> dict[int, NameLoc]:
    found: dict[int, NameLoc] = {}
    for op in ops:
        for inner in op.walk():
            found.update(_nodes_of(inner.location))
    return found


def absorb_nodes(target: Operation, *parts: Operation) -> None:
    """`target` now also computes what `parts` computed, and carries their hints.

    Every pass that makes one op of several says so, before it erases them. Only traced builds have
    locations that name nodes.
    """
    absorb_hints(target, *parts)
    names = _names_in((target, *parts))
    if len(names) > 1 or (names and not has_location(target)):
        first, *others = (names[number] for number in sorted(names))
        target.location = FusedLoc((first, *others), NoneAttr()) if others else first
