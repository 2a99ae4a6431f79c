"""What a compiled program says about itself: everything that the runtime needs besides the code."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, field, replace
from typing import Any

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.rows import row_of
from openinfer.runtime.size_bounds import SizeBoundRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import OF_VARIABLE, OF_WEIGHT, Slot, SlotKind

IN_MEMORY = "<memory>"
"""The path of a package that is no file."""
FORMAT = 6
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
    unfilled: bool = False
    """Whether it is a constant that neither the model nor `@init` fills: zeros, with a warning."""


@dataclass(frozen=True)
class WeightRow:
    """A weight argument of the step."""

    variable: str
    """Empty for a constant that `prepare` makes."""
    sources: list[str]
    """Tensors of the package, none for such a constant; empty texts for members that no step reads."""
    nbytes: int
    """Bytes of all members as the step wants them, with room for those without a source."""
    prepare: str | None = None
    """Function that lays one member out; None: the bytes of the package as they are."""
    block: str | None = None
    """The block format whose bytes it is made of; None: of values."""
    dtype: str | None = None
    """The dtype of these values; None: the variable's."""

    def read_as(self, declared: str) -> str:
        """The dtype that its tensors are read in, where the variable's is `declared`."""
        return self.block or self.dtype or declared

    @property
    def held(self) -> int:
        """Bytes of the members that have a source: what it takes of the memory."""
        there = sum(map(bool, self.sources))
        return self.nbytes * there // len(self.sources) if self.sources else self.nbytes


@dataclass(frozen=True)
class PlanRow:
    """One buffer of the arena: bytes as size expressions, first and last operation."""

    name: str
    offset: str
    size: str
    first: int
    last: int
    memory: str = "host"
    """Whose arena: that of the host, or of the device."""


@dataclass(frozen=True)
class CallRow:
    """A place of the step that asks something of the device: runs a kernel, or moves bytes."""

    kernel: str
    buffers: list[str]
    writes: list[int] = field(default_factory=list[int])
    """Which of the buffers a kernel writes."""
    places: list[int] = field(default_factory=list[int])
    """Of each buffer: the word of the kernel that says where the buffer begins, in elements; -1 where the
    buffer is bound at its first element, and no word says so."""
    elements: list[int] = field(default_factory=list[int])
    """Of each buffer: the bytes of an element."""
    words: int = 0
    """How many words of 32 bits the kernel takes."""
    groups: list[int] = field(default_factory=list[int])
    """Workgroups of a launch along x, y and z, where they are the same in every step; else none."""


MOST_GROUPS = 65535
"""Workgroups along an axis that every device starts (`maxComputeWorkGroupCount`)."""
DEVICE_COUNTS = 1024
"""Numbers that the workgroups of a step count each other with."""
BEFORE = -1
"""In place of the number of a node: what counts before the first one."""


@dataclass(frozen=True)
class RequirementRow:
    """A step may run only where low <= high, size expressions over run-time sizes."""

    low: str
    high: str
    node: int
    """Which node needs it, or BEFORE."""
    kind: str
    """Why: a row of `runtime/devices/failures.py`."""


@dataclass(frozen=True)
class StateRow:
    """A persistent variable; growing axes are the table indices, then those of a matrix."""

    name: str
    dtype: str
    axes: list[str]
    """Names of the growing axes; empty for a plain value."""
    tables: int
    """How many of them are table indices."""
    base: list[str]
    """Extent of each axis at the start, as size expressions."""
    limits: list[str]
    """Largest extent of each axis; empty without a bound."""
    entry: list[str]
    """Dimensions behind the growing axes."""
    sources: list[str]
    """The tensor of the package that it starts as."""
    marks: bool
    """Whether the step notes which entries are there."""
    value: float | int | None = None
    """What fills it when there is no source; None is zero."""
    cell: int = -1
    """The first of its extents among the cells."""
    fixed: dict[str, int] = field(default_factory=dict[str, int])
    """Bounds as declared."""
    open: bool = False
    """Whether all dimensions are axes, behind one that says whether they are settled."""
    touched: str = ""
    """Whether a step uses it, which gives it its shape for good: empty for every step, a dynamic size
    that is 1 then, or `never`."""
    dynamic_axes: list[int] = field(default_factory=list[int])
    """The dimensions that name scalars: the first step that uses it fixes them."""
    device: bool = False
    """Whether it lies in the memory of the device."""


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
    scope: str = ""
    """Labels of the scopes around it, outermost first: `layers/attention`."""
    loops: list[int] = field(default_factory=list[int])
    """Nodes of the loops around it, outermost first."""
    calls: list[str] = field(default_factory=list[str])
    """Calls of blocks with parameters that it stands in, outermost first: `conv(x, "a") at line 21`."""

    @property
    def around(self) -> str:
        """The block that it stands in, and how that was called."""
        return " in ".join([*reversed(self.calls), f"block {self.block}"])


@dataclass(frozen=True)
class BlockRow:
    """A block of the program, for the events of entering and leaving it."""

    name: str
    uuid: str
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class StampRow:
    """A point of the step that a traced or watched build tells of (`nn.stamp`)."""

    phase: str
    what: str
    """A block for "enter" and "exit", an index for "turn", a kernel for "begin" and "end", a size
    for "size"."""
    nodes: list[int]


@dataclass(frozen=True)
class Manifest:
    """The interface of a compiled program."""

    name: str
    version: str
    """Version of openinfer that compiled it."""
    device: str
    """The device that runs it, by the name of `openinfer.runtime.devices`."""
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
    frame: list[Slot]
    """What each 8-byte slot of the step's frame holds."""
    arena: str
    """Bytes of the arena of the host, as a size expression."""
    plan: list[PlanRow]
    nodes: list[NodeRow]
    requires: list[RequirementRow] = field(default_factory=list[RequirementRow])
    """Checked whenever run-time sizes change."""
    bounds: list[SizeBoundRow] = field(default_factory=list[SizeBoundRow])
    """What the program says that sizes may be, checked before `requires`."""
    states: list[StateRow] = field(default_factory=list[StateRow])
    dynamic_sizes: list[str] = field(default_factory=list[str])
    """Sizes that the step itself fixes, in the order of their cells."""
    shapes: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The dimensions of each output, as expressions over run-time and dynamic sizes."""
    watched: list[str] = field(default_factory=list[str])
    """Outputs that a watched build shows to the host, by number."""
    watched_dims: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """`NODE NAME` to the dimensions of what is shown there."""
    blocks: list[BlockRow] = field(default_factory=list[BlockRow])
    stamps: list[StampRow] = field(default_factory=list[StampRow])
    """By number; empty in a plain build."""
    precision: str = "f32"
    """What operands of products are rounded to; "f32" where they are not rounded."""
    rounded_products: int = 0
    """How many products, attentions among them, round their operands."""
    strict_math: bool = False
    """Whether nothing was reassociated, contracted or approximated."""
    device_arena: str = "0"
    """Bytes of the arena of the device, where that has memory of its own."""
    calls: list[CallRow] = field(default_factory=list[CallRow])
    """By number, where a step writes down what it asks of the device."""
    subgroup: int = 1
    """Invocations of a subgroup that its kernels count on; 1 where they count on none."""

    @property
    def traced(self) -> bool:
        """Whether a step writes a record of what it does."""
        return Slot(SlotKind.TRACE) in self.frame

    def named(self, file: str) -> Manifest:
        """The same program under another name of its file, which stands in the places of its nodes."""
        if file == self.name:
            return self
        old = self.name
        nodes = [replace(row, file=file) if row.file == old else row for row in self.nodes]
        blocks = [replace(row, file=file) if row.file == old else row for row in self.blocks]
        bounds = [replace(row, file=file) if row.file == old else row for row in self.bounds]
        return replace(self, name=file, nodes=nodes, blocks=blocks, bounds=bounds)

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
            return checked(row_of(Manifest, data))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ArtefactError(
                "OI0803", f"the program's description is damaged: {error}", hint="compile it again"
            ) from error


def checked(manifest: Manifest) -> Manifest:
    """The manifest, when its parts fit together. Raises ValueError that names what does not."""
    variables = {row.name: row for row in manifest.variables}
    for row in manifest.variables:
        if row.dtype not in DTYPES:
            raise ValueError(f"variable {row.name} has the unknown dtype {row.dtype}")
        if row.members and math.prod(row.members) != len(row.sources):
            raise ValueError(f"family {row.name} has {len(row.sources)} sources")
    sizes = {
        manifest.arena,
        manifest.device_arena,
        *manifest.offsets.values(),
        *(dim for row in manifest.variables for dim in row.dims),
        *(text for row in manifest.requires for text in (row.low, row.high)),
        *(text for row in manifest.bounds for text in (row.low, row.size, row.high) if text),
    }
    for text in sizes:
        Size.of(text)
    for weight in manifest.weights:
        made = not weight.variable and not weight.sources and weight.prepare is not None
        read = weight.variable in variables and weight.sources
        if not (made or read) or weight.nbytes < 0:
            raise ValueError(f"weight {weight.variable} has no variable or no source")
    for call in manifest.calls:
        if len(call.groups) not in (0, 3) or not all(0 <= n <= MOST_GROUPS for n in call.groups):
            raise ValueError(f"{call.kernel} is started with {call.groups} workgroups")
    for name in (*manifest.outputs, *manifest.offsets, *manifest.returns):
        if name not in variables:
            raise ValueError(f"output {name} is no variable")
    for slot in manifest.frame:
        if slot.kind in OF_VARIABLE and slot.name not in variables:
            raise ValueError(f"{slot.kind} {slot.name} is no variable")
        if slot.kind == SlotKind.EXTENT and slot.number >= len(variables[slot.name].dims):
            raise ValueError(f"{slot.name} has no axis {slot.number}")
        if slot.kind in OF_WEIGHT and slot.number >= len(manifest.weights):
            raise ValueError(f"weight {slot.number} is not there")
    return manifest
