"""What a module of SPIR-V says to the outside: capabilities of its types, layout of its buffers, and what its
entry points use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from openinfer.runtime.spirv.instructions import ENUMERATIONS
from openinfer.runtime.spirv.words import IDS, Instruction, Module, number

_STORAGE: Final = {
    (width, name): capabilities
    for width, named in {8: "8", 16: "16"}.items()
    for name, capabilities in {
        "StorageBuffer": {
            f"StorageBuffer{named}BitAccess",
            f"UniformAndStorageBuffer{named}BitAccess",
        },
        "Uniform": {f"UniformAndStorageBuffer{named}BitAccess"},
        "PushConstant": {f"StoragePushConstant{named}"},
        "Workgroup": {f"WorkgroupMemoryExplicitLayout{named}BitAccessKHR"},
    }.items()
}
"""By width and storage class: what lets such numbers be stored there, and be declared at all."""
_WIDTHS: Final = {
    ("TypeInt", 8): "Int8",
    ("TypeInt", 16): "Int16",
    ("TypeInt", 64): "Int64",
    ("TypeFloat", 16): "Float16",
    ("TypeFloat", 64): "Float64",
}
_POSITIONS: Final = frozenset({
    *("NumWorkgroups", "WorkgroupSize", "WorkgroupId", "LocalInvocationId", "GlobalInvocationId"),
})  # fmt: skip
_BUFFERS: Final = ("StorageBuffer", "Uniform", "PushConstant")
_LOCAL_SIZES: Final = {
    ENUMERATIONS["ExecutionMode"][name][0] for name in ("LocalSize", "LocalSizeId")
}
_BOUND: Final = ("StorageBuffer", "Uniform")
_NAMES: Final = {
    kind: {number: name for name, (number, _) in ENUMERATIONS[kind].items()}
    for kind in ("BuiltIn", "Decoration", "StorageClass")
}
_FROM: Final = {
    f"GroupNonUniform{kind}": 0x10300
    for kind in (
        "",
        "Vote",
        "Arithmetic",
        "Ballot",
        "Shuffle",
        "ShuffleRelative",
        "Clustered",
        "Quad",
    )
}
"""The first version with a capability."""

Fail = Callable[[Instruction, str], NoReturn]


def check_interface(
    module: Module, defined: Mapping[int, Instruction], capabilities: set[str], fail: Fail
) -> None:
    """Calls `fail` for the first rule that is broken; every id is known to be defined."""
    decorations = _decorations(module)
    for one in module.instructions:
        name = one.row.name
        if name in {"TypeInt", "TypeFloat"}:
            _check_width(one, capabilities, fail)
        elif name == "Variable":
            _check_variable(one, defined, decorations, capabilities, fail)
    for capability in sorted(capabilities):
        if module.version < _FROM.get(capability, 0):
            fail(module.instructions[0], f"{capability} needs a later version of SPIR-V")
    _check_model(module, capabilities, fail)
    _check_entries(module, defined, decorations, fail)


def _check_model(module: Module, capabilities: set[str], fail: Fail) -> None:
    """Vulkan's memory model is declared and used; matrices ask for it."""
    (one,) = (one for one in module.instructions if one.row.name == "MemoryModel")
    vulkan = one.of("MemoryModel")[0] == ENUMERATIONS["MemoryModel"]["Vulkan"][0]
    if vulkan != ("VulkanMemoryModel" in capabilities):
        fail(one, "is Vulkan where, and only where, the capability VulkanMemoryModel is declared")
    if {"CooperativeMatrixKHR", "Shader"} <= capabilities and not vulkan:
        fail(one, "is not Vulkan, which CooperativeMatrixKHR needs")


def _decorations(module: Module) -> dict[tuple[int, int | None, str], int]:
    """The numbers of decorations by id, member or None, and name; 0 where there is none."""
    found: dict[tuple[int, int | None, str], int] = {}
    for one in module.instructions:
        if one.row.name in {"Decorate", "MemberDecorate"}:
            member = number(one.parts[1]) if one.row.name == "MemberDecorate" else None
            what, *operands = one.parts[1 if member is None else 2 :]
            key = number(one.parts[0]), member, _NAMES["Decoration"][number(what)]
            found[key] = number(operands[0]) if operands else 0
    return found


def _layout(type_: Instruction, defined: Mapping[int, Instruction]) -> tuple[int, int]:
    """The least alignment and size of a number or a vector; an array is aligned as its elements are. The
    size of arrays and structs is not known here."""
    array = False
    while type_.row.name in {"TypeArray", "TypeRuntimeArray"}:
        array, type_ = True, defined[type_.of("id")[0]]
    if type_.row.name == "TypeVector":
        align, size = _layout(defined[type_.of("id")[0]], defined)
        return align, 0 if array else size * type_.of("word")[0]
    if type_.row.name in {"TypeInt", "TypeFloat"}:
        size = type_.of("word")[0] // 8
        return max(size, 1), 0 if array else size
    return 1, 0


def _check_built_in(
    one: Instruction, built_in: int, defined: Mapping[int, Instruction], fail: Fail
) -> None:
    """Positions are vectors of three, all other built-ins are numbers, of 32 bits each."""
    type_ = defined[defined[one.of("type")[0]].of("id")[0]]
    name = _NAMES["BuiltIn"][built_in]
    if type_.row.name == "TypeVector" and type_.of("word") == [3] and name in _POSITIONS:
        type_ = defined[type_.of("id")[0]]
    elif name in _POSITIONS:
        fail(one, f"of {name} is no vector of three")
    if type_.row.name != "TypeInt" or type_.of("word")[0] != 32:
        fail(one, f"of {name} has no integers of 32 bits")


def _check_width(one: Instruction, capabilities: set[str], fail: Fail) -> None:
    width = one.of("word")[0]
    wanted = _WIDTHS.get((one.row.name, width))
    if one.first("FPEncoding") is not None:
        wanted = {0: "BFloat16TypeKHR"}.get(one.of("FPEncoding")[0], "Float8EXT")
    if wanted is None or wanted in capabilities:
        return
    if one.first("FPEncoding") is None:
        for (stored, _), names in _STORAGE.items():
            if stored == width and names & capabilities:
                return
    fail(one, f"of {width} bits needs the capability {wanted}")


def _check_variable(
    one: Instruction,
    defined: Mapping[int, Instruction],
    decorations: Mapping[tuple[int, int | None, str], int],
    capabilities: set[str],
    fail: Fail,
) -> None:
    """Buffers are blocks with a layout, and hold narrow numbers only where that is allowed."""
    storage = _NAMES["StorageClass"][one.of("StorageClass")[0]]
    name = one.of("result")[0]
    places = [what for what in ("Binding", "DescriptorSet") if (name, None, what) in decorations]
    if places and storage not in _BOUND:
        fail(one, f"in {storage} has a {places[0]}, which buffers have")
    built_in = decorations.get((name, None, "BuiltIn"))
    if built_in is not None:
        _check_built_in(one, built_in, defined, fail)
    if storage not in _BUFFERS:
        return
    pointee = defined[defined[one.of("type")[0]].of("id")[0]]
    while pointee.row.name in {"TypeArray", "TypeRuntimeArray"}:
        pointee = defined[pointee.of("id")[0]]
    if pointee.row.name != "TypeStruct" or (pointee.result, None, "Block") not in decorations:
        fail(one, f"in {storage} is no struct with the decoration Block")
    pending, seen = [pointee], set[int]()
    while pending:
        type_ = pending.pop()
        result, kind, ids = type_.of("result")[0], type_.row.name, type_.of("id")
        if result in seen:
            continue
        seen.add(result)
        if kind == "TypeStruct":
            for index, part in enumerate(ids):
                offset = decorations.get((result, index, "Offset"))
                if offset is None or offset % _layout(defined[part], defined)[0]:
                    fail(
                        type_,
                        f"in {storage} needs an Offset of its member {index}, which is aligned",
                    )
            pending += [defined[part] for part in ids]
        elif kind in {"TypeArray", "TypeRuntimeArray"}:
            stride = decorations.get((result, None, "ArrayStride"))
            if stride is None:
                fail(type_, f"in {storage} needs an ArrayStride")
            align, size = _layout(defined[ids[0]], defined)
            if stride < size or stride % align:
                fail(type_, f"in {storage} has the ArrayStride {stride}, its elements take {size}")
            if kind == "TypeRuntimeArray" and storage != "StorageBuffer":
                fail(type_, f"stands in {storage}, where sizes are known")
            pending.append(defined[ids[0]])
        elif kind == "TypeVector":
            pending.append(defined[ids[0]])
        elif kind == "TypeBool":
            fail(type_, f"stands in {storage}, where truth values have no form")
        elif kind in {"TypeInt", "TypeFloat"}:
            needs = _STORAGE.get((type_.of("word")[0], storage), set[str]())
            if needs and not needs & capabilities:
                fail(one, f"in {storage} needs the capability {' or '.join(sorted(needs))}")


def _check_entries(
    module: Module,
    defined: Mapping[int, Instruction],
    decorations: Mapping[tuple[int, int | None, str], int],
    fail: Fail,
) -> None:
    """An entry point lists the variables that it uses: of inputs, and from version 1.4 on of all. Buffers
    that it uses have a place, and it says how large a workgroup is."""
    sized = {
        number(one.parts[0])
        for one in module.instructions
        if one.row.name in {"ExecutionMode", "ExecutionModeId"}
        and number(one.parts[1]) in _LOCAL_SIZES
    }
    whole = any(
        what == "BuiltIn" and _NAMES["BuiltIn"][value] == "WorkgroupSize"
        for (_, _, what), value in decorations.items()
    )
    uses: dict[int, set[int]] = {}
    function: int | None = None
    for one in module.instructions:
        if one.row.name == "Function":
            function = one.of("result")[0]
            uses[function] = set()
        elif one.row.name == "FunctionEnd":
            function = None
        elif function is not None:
            uses[function] |= {number(part) for part in one.parts if part.kind in IDS}
    inputs = {ENUMERATIONS["StorageClass"]["Input"][0]}
    everything = module.version >= 0x10400
    local = {ENUMERATIONS["StorageClass"]["Function"][0]}
    for entry in module.instructions:
        if entry.row.name != "EntryPoint":
            continue
        first, *listed = entry.of("id")
        if first not in sized and not whole:
            fail(entry, "says no LocalSize")
        reached, pending = {first}, [first]
        while pending:
            for name in uses.get(pending.pop(), set[int]()):
                if name in uses and name not in reached:
                    reached.add(name)
                    pending.append(name)
        for name in sorted(set().union(*(uses.get(one, set[int]()) for one in reached))):
            one = defined.get(name)
            if one is None or one.row.name != "Variable":
                continue
            storage = one.of("StorageClass")[0]
            if _NAMES["StorageClass"][storage] in _BOUND:
                for what in ("Binding", "DescriptorSet"):
                    if (name, None, what) not in decorations:
                        fail(one, f"of a buffer has no {what}")
            if name in listed:
                continue
            if storage in inputs or (everything and storage not in local):
                fail(entry, f"uses %{name}, and does not list it")
        for name in listed:
            one = defined[name]
            if one.row.name != "Variable":
                fail(entry, f"lists %{name}, which is no variable")
            if not everything and one.of("StorageClass")[0] not in inputs:
                fail(entry, f"lists %{name}, which is no input, in front of version 1.4")
