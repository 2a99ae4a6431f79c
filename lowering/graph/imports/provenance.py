"""Where an imported op comes from: kept in its location, as text in a name.

    graph.op linear(h, w) -> (v3) loc("encoder.layer.0.query|Linear|query|aten.linear"("m.py":12:1))

Locations are printed, parsed, and go with an op when a pass clones or moves it, so a dump of any pass of
an import can be resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Operation

_SEPARATOR = "|"


@dataclass(frozen=True)
class Provenance:
    """What a foreign graph says of an op; an empty text, or line 0, for what it does not say."""

    module: str = ""
    """Path of the innermost module: `encoder.layer.0.attention.self.query`."""
    kind: str = ""
    """Class of that module: `Linear`."""
    variable: str = ""
    """What the source line assigns to: `query_layer`."""
    call: str = ""
    """The foreign op: `aten.linear`, `Gemm`."""
    file: str = ""
    line: int = 0
    """The user's source line."""
    classes: str = ""
    """The class at each part of the path, `Sequential.BasicBlock.Conv2d`; empty where none is known."""

    @property
    def name(self) -> str:
        """Last part of the module's path."""
        return self.module.rpartition(".")[2]

    def class_of(self, path: str) -> str:
        """The class of a module that this one lies in, or is."""
        depth = path.count(".") + 1 if path else 0
        known = self.classes.split(".")
        if path == self.module and self.kind:
            return self.kind
        return known[depth - 1] if 0 < depth <= len(known) else ""

    def location(self) -> NameLoc | UnknownLoc:
        """As an op holds it."""
        if self == Provenance():
            return UnknownLoc()
        place = (
            FileLineColLoc(StringAttr(self.file), IntAttr(self.line), IntAttr(1))
            if self.file
            else UnknownLoc()
        )
        parts = [self.module, self.kind, self.variable, self.call]
        parts += [self.classes] if self.classes else []
        text = _SEPARATOR.join(part.replace(_SEPARATOR, "/") for part in parts)
        return NameLoc(StringAttr(text), place)


def classes_of(modules: Iterable[tuple[str, str]]) -> str:
    """`Provenance.classes` of the paths and classes of the modules around something."""
    known = dict(modules)
    innermost = max(known, key=len, default="")
    parts = innermost.split(".") if innermost else []
    found = [known.get(".".join(parts[: n + 1]), "") for n in range(len(parts))]
    return ".".join(found) if any(found) else ""


def common_path(paths: Sequence[str]) -> str:
    """The module that all lie in."""
    found: list[str] = []
    for column in zip(*(path.split(".") for path in paths)):
        if len(set(column)) > 1:
            break
        found.append(column[0])
    return ".".join(found)


def provenance_of(op: Operation) -> Provenance:
    """What the location of an op says; an empty one for an op that a pass made."""
    location = op.location
    if not isinstance(location, NameLoc):
        return Provenance()
    parts = location.desc.data.split(_SEPARATOR)
    if len(parts) not in (4, 5):
        return Provenance()
    module, kind, variable, call = parts[:4]
    found = Provenance(module, kind, variable, call, classes="".join(parts[4:]))
    place = location.location
    if isinstance(place, FileLineColLoc):
        return replace(found, file=place.filename.data, line=place.line.data)
    return found


def set_provenance(op: Operation, provenance: Provenance) -> None:
    """Says where an op comes from."""
    op.location = provenance.location()
