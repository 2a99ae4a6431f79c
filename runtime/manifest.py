"""What a compiled program says about itself: everything that the runtime needs besides the code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from openinfer.runtime.errors import ArtefactError

FORMAT = 1
"""Raised when the meaning of a field changes; other numbers are refused."""


@dataclass(frozen=True)
class VariableRow:
    """A variable: declared type and where its first content comes from."""

    name: str
    memory: str
    dtype: str
    dims: list[str]
    """Size expressions over run-time sizes."""
    sources: list[str] = field(default_factory=list[str])
    """Tensors of the package; one, or all members of a family."""
    members: list[int] = field(default_factory=list[int])
    indices: list[str] = field(default_factory=list[str])
    value: float | int | None = None
    """What fills it when there is no source; None is zero."""


@dataclass(frozen=True)
class WeightRow:
    """A weight argument of the step."""

    variable: str
    sources: list[str]
    nbytes: int
    """Bytes of all members as the step wants them."""
    prepare: str | None = None
    """Function that lays one member out; None: the bytes of the package as they are."""


@dataclass(frozen=True)
class PlanRow:
    """One buffer of the arena: bytes as size expressions, first and last operation."""

    name: str
    offset: str
    size: str
    first: int
    last: int


@dataclass(frozen=True)
class RequirementRow:
    """A node may run only where low <= high, size expressions over run-time sizes."""

    low: str
    high: str
    node: int


@dataclass(frozen=True)
class NodeRow:
    """One node of the program, for messages and events."""

    block: str
    index: int
    uuid: str
    kind: str
    op: str
    text: str
    settings: dict[str, Any]
    """As written; names of scalars and metadata as their names."""
    params: list[str]
    output: list[str]
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Manifest:
    """The interface of a compiled program."""

    name: str
    version: str
    """Version of openinfer that compiled it."""
    target: str
    """Key of the processor that the code is for."""
    package: str | None
    """Header hash of the package that it was compiled against."""
    package_path: str | None
    sizes: dict[str, int]
    """Sizes with a value."""
    runtime_sizes: list[str]
    variables: list[VariableRow]
    returns: list[str]
    outputs: list[str]
    offsets: dict[str, str]
    """Byte offset of each output in the arena, as a size expression."""
    weights: list[WeightRow]
    frame: list[str]
    """What each 8-byte slot of the step's frame holds."""
    arena: str
    """Bytes of the arena, as a size expression."""
    plan: list[PlanRow]
    nodes: list[NodeRow]
    requires: list[RequirementRow] = field(default_factory=list[RequirementRow])
    """Checked whenever run-time sizes change."""
    watched: list[str] = field(default_factory=list[str])
    """Outputs that a watched build shows to the host, by number."""

    def to_json(self) -> str:
        """Stable text: same manifest, same bytes."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)

    @staticmethod
    def from_json(text: str | bytes) -> Manifest:
        """Raises ArtefactError OI0803 for another format or a damaged text."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data.pop("format") != FORMAT:
                raise ArtefactError(
                    "OI0803", "the program was compiled by another version", hint="compile it again"
                )
            rows: dict[str, type] = {
                "variables": VariableRow,
                "weights": WeightRow,
                "plan": PlanRow,
                "nodes": NodeRow,
                "requires": RequirementRow,
            }
            for key, kind in rows.items():
                data[key] = [kind(**row) for row in data[key]]
            return Manifest(**data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtefactError(
                "OI0803", f"the program's description is damaged: {error}", hint="compile it again"
            ) from error
