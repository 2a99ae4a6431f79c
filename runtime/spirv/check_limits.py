"""What a kernel asks of a device, held against what the device gives: a driver may crash on more.

Sizes are those that the module declares. A specialization constant counts with its default, since nothing
specializes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final

from openinfer.runtime.errors import ArtefactError, UnsupportedError
from openinfer.runtime.spirv.instructions import ENUMERATIONS
from openinfer.runtime.spirv.words import Instruction, Module, number

_NAMES: Final = {
    kind: {number: name for name, (number, _) in ENUMERATIONS[kind].items()}
    for kind in ("BuiltIn", "Decoration", "ExecutionMode", "StorageClass")
}
_SUBGROUP, _WORKGROUP = 3, 2
"""Scopes of matrices."""
_SIDE: Final = 16
"""Rows and columns of the matrices of a subgroup that a device is asked for."""
_LARGE: Final = 32
"""What rows and columns of a product by matrices of a workgroup are multiples of; steps are those of 16."""
_MOST_OF_MATRIX: Final = 256
_SIZES: Final = (128, 256)
"""Invocations of a workgroup that holds matrices."""
RESERVED: Final = 8192
"""Bytes of shared memory that the driver takes for them at most."""
_UNKNOWN: Final = 1 << 40
"""What is no number that a module says is more than any device has."""


@dataclass(frozen=True)
class Limits:
    """What a device gives a kernel."""

    invocations: int
    """Of a workgroup (`maxComputeWorkGroupInvocations`)."""
    workgroup: tuple[int, int, int]
    """Of a workgroup along each axis (`maxComputeWorkGroupSize`)."""
    shared_memory: int
    """Bytes that a workgroup shares (`maxComputeSharedMemorySize`)."""
    buffers: int
    """Bindings (`maxPerStageDescriptorStorageBuffers`, `maxPushDescriptors`)."""
    push_constants: int = 128
    """Bytes (`maxPushConstantsSize`); what every device has."""


@dataclass(frozen=True)
class Interface:
    """How the runtime starts a kernel."""

    name: str
    """Of its entry."""
    bindings: int
    """Buffers that it binds, from 0 on, of set 0."""
    push_constants: int = 4
    """Bytes that it pushes."""


@dataclass
class Asked:
    """What a module asks for."""

    entries: list[str] = field(default_factory=list[str])
    workgroup: tuple[int, ...] = (1, 1, 1)
    shared_memory: int = 0
    push_constants: int = 0
    bindings: dict[int, str] = field(default_factory=dict[int, str])
    """Each with what is wrong with it; nothing where it is a buffer of set 0."""
    matrices: list[str] = field(default_factory=list[str])
    """Those of another shape than devices are asked for."""


def check_limits(module: Module, limits: Limits, kernel: str, device: str, fix: str) -> None:
    """Holds a module that `check_words` has taken against a device.

    Raises:
        UnsupportedError: OI0773, it asks for more than the device gives; `fix` says what helps.
    """
    asked = asked_of(module)
    x, y, z = asked.workgroup
    rows = [
        ("invocations of a workgroup", x * y * z, limits.invocations),
        *(
            (f"invocations of a workgroup along {axis}", *pair)
            for axis, pair in zip("xyz", zip(asked.workgroup, limits.workgroup, strict=True))
        ),
        ("bytes of shared memory", asked.shared_memory, limits.shared_memory),
        ("bytes of push constants", asked.push_constants, limits.push_constants),
        ("buffers", max(asked.bindings, default=-1) + 1, limits.buffers),
    ]
    for what, found, most in rows:
        if found > most:
            count = str(found) if found < _UNKNOWN else "an unknown number of"
            raise UnsupportedError(
                "OI0773",
                f"the kernel {kernel} asks for {count} {what}; {device} gives {most}",
                hint=fix,
            )
    for text in asked.matrices:
        raise UnsupportedError(
            "OI0773",
            f"the kernel {kernel} multiplies {text}; {device} is asked for 16 x 16 of a subgroup, or "
            "multiples of 32 (16 along the sum) of a workgroup of 128 or 256",
            hint=fix,
        )


def check_start(module: Module, start: Interface) -> None:
    """Holds a module that `check_words` has taken against how it is started.

    Raises:
        ArtefactError: OI0761, it has not the entry, or uses what it is not given.
    """
    asked = asked_of(module)
    problem = None
    if asked.entries != [start.name]:
        problem = f"has the entries {', '.join(asked.entries)}, one of its name is expected"
    elif asked.push_constants > start.push_constants:
        problem = (
            f"reads {asked.push_constants} bytes of push constants, the program passes "
            f"{start.push_constants}"
        )
    for binding, wrong in sorted(asked.bindings.items()):
        if wrong:
            problem = problem or f"has at binding {binding} {wrong}"
        elif binding >= start.bindings:
            problem = problem or f"uses binding {binding}, the program gives it {start.bindings}"
    if problem is not None:
        raise ArtefactError(
            "OI0761",
            f"the kernel {start.name} {problem}",
            hint="compile the program anew; what lies on disk was edited",
        )


def asked_of(module: Module) -> Asked:
    """What a module asks for."""
    return _Reading(module).read()


class _Reading:
    def __init__(self, module: Module) -> None:
        self.module, self.asked = module, Asked()
        self.defined = {one.result: one for one in module.instructions if one.result is not None}
        self.members: dict[tuple[int, int, str], int] = {}
        self.decorated: dict[tuple[int, str], int] = {}
        self.matrices: list[tuple[int, int, int, int, bool]] = []
        """Scope, rows, columns, use, and whether it consists of f16 or f32."""
        self.layouts: dict[int, tuple[int, int]] = {}
        """By type: types stand behind decorations and what they are made of."""

    def read(self) -> Asked:
        """What the instructions say, one after the other."""
        for one in self.module.instructions:
            name = one.row.name
            if name == "EntryPoint":
                self.asked.entries.append(
                    next(str(p.value) for p in one.parts if p.kind == "string")
                )
            elif name in {"ExecutionMode", "ExecutionModeId"}:
                self.mode(one)
            elif name == "Decorate":
                target, what, *rest = one.parts
                key = number(target), _NAMES["Decoration"][number(what)]
                self.decorated[key] = number(rest[0]) if rest else 0
            elif name == "MemberDecorate":
                target, member, what, *rest = one.parts
                decoration = _NAMES["Decoration"][number(what)]
                self.members[number(target), number(member), decoration] = (
                    number(rest[0]) if rest else 0
                )
            elif name == "Variable":
                self.variable(one)
            if name == "TypeCooperativeMatrixKHR":
                self.matrix(one)
            if name.startswith("Type"):
                self.layouts[one.of("result")[0]] = self.layout(one)
        for (target, what), value in self.decorated.items():
            if what == "BuiltIn" and _NAMES["BuiltIn"][value] == "WorkgroupSize":
                # What it says holds, whatever LocalSize says.
                self.asked.workgroup = self.numbers(self.defined[target].of("id"))
        for scope, rows, columns, use, known in self.matrices:
            if not known or not self.is_asked_for(scope, rows, columns, use):
                self.asked.matrices.append(f"matrices of {rows} x {columns} in scope {scope}")
        if any(scope == _WORKGROUP for scope, *_ in self.matrices):
            self.asked.shared_memory += RESERVED
        return self.asked

    def is_asked_for(self, scope: int, rows: int, columns: int, use: int) -> bool:
        """Whether a device with such matrices has those of a shape; uses are left, right and sums."""
        if scope == _SUBGROUP:
            return (rows, columns) == (_SIDE, _SIDE)
        unit = (_LARGE, _SIDE) if use == 0 else (_SIDE, _LARGE) if use == 1 else (_LARGE, _LARGE)
        fits = all(
            not extent % each and 0 < extent <= _MOST_OF_MATRIX
            for extent, each in zip((rows, columns), unit)
        )
        return scope == _WORKGROUP and fits and prod(self.asked.workgroup) in _SIZES

    def mode(self, one: Instruction) -> None:
        """Takes the size of a workgroup."""
        mode = _NAMES["ExecutionMode"][number(one.parts[1])]
        if mode == "LocalSize":
            self.asked.workgroup = tuple(number(part) for part in one.parts[2:5])
        elif mode == "LocalSizeId":
            self.asked.workgroup = self.numbers([number(part) for part in one.parts[2:5]])

    def numbers(self, ids: list[int]) -> tuple[int, int, int]:
        """Three constants."""
        x, y, z = (self.number(name) for name in (*ids, 0, 0, 0)[:3])
        return x, y, z

    def number(self, name: int) -> int:
        """The value of a constant."""
        one = self.defined.get(name)
        if one is None or one.row.name not in {"Constant", "SpecConstant"}:
            return _UNKNOWN
        return next(number(part) for part in one.parts if part.kind in {"number", "wide"})

    def variable(self, one: Instruction) -> None:
        """Takes a buffer, shared memory, or push constants."""
        storage = _NAMES["StorageClass"][one.of("StorageClass")[0]]
        pointee = self.defined[self.defined[one.of("type")[0]].of("id")[0]]
        name, (align, size) = one.of("result")[0], self.layouts[pointee.of("result")[0]]
        if storage == "Workgroup":
            begin = self.asked.shared_memory + -self.asked.shared_memory % align
            self.asked.shared_memory = begin + size
        elif storage == "PushConstant":
            self.asked.push_constants = max(self.asked.push_constants, size)
        elif storage in {"StorageBuffer", "Uniform", "UniformConstant"}:
            binding = self.decorated.get((name, "Binding"), 0)
            wrong = ""
            if storage != "StorageBuffer":
                wrong = f"a variable in {storage}, where a storage buffer is given"
            elif self.decorated.get((name, "DescriptorSet"), 0):
                wrong = (
                    f"a buffer of set {self.decorated[name, 'DescriptorSet']}, where set 0 is given"
                )
            elif pointee.row.name != "TypeStruct":
                wrong = "several buffers, where one is given"
            self.asked.bindings[binding] = self.asked.bindings.get(binding) or wrong

    def matrix(self, one: Instruction) -> None:
        """Takes a type of matrices."""
        component, *shape = one.of("id")
        scope, rows, columns, use = (self.number(name) for name in (one.of("scope")[0], *shape))
        type_ = self.defined[component]
        known = type_.row.name == "TypeFloat" and type_.of("word")[0] in (16, 32)
        self.matrices.append((scope, rows, columns, use, known))

    def layout(self, one: Instruction) -> tuple[int, int]:
        """Alignment and bytes of a type, as its decorations say, else without room between its parts; those
        of its parts are known."""
        name, ids, own = one.row.name, one.of("id"), one.of("result")[0]
        if name in {"TypeInt", "TypeFloat"}:
            size = max(one.of("word")[0] // 8, 1)
            return size, size
        if name == "TypeBool":
            return 4, 4
        if name == "TypeVector":
            (align, size), count = self.layouts[ids[0]], one.of("word")[0]
            return align * (4 if count == 3 else count), size * count
        if name == "TypeArray":
            align, size = self.layouts[ids[0]]
            stride = self.decorated.get((own, "ArrayStride"), size + -size % align)
            return align, min(stride * self.number(ids[1]), _UNKNOWN)
        if name == "TypeStruct":
            most, end = 1, 0
            for index, part in enumerate(ids):
                align, size = self.layouts[part]
                begin = self.members.get((own, index, "Offset"), end + -end % align)
                most, end = max(most, align), max(end, begin + size)
            return most, min(end, _UNKNOWN)
        # Matrices, pointers and arrays without an end have no size that a module says.
        return 1, _UNKNOWN
