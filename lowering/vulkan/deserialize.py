"""Words of SPIR-V back into a `spirv.module`.

Constants, addresses of global variables and undefined values stand at the beginning of a function, one of
each. A construct becomes a region: what stands in front of its merge instruction in a block stays around
it, and blocks come in the order in which `serialize` writes them, so a second round trip changes nothing.
What is computed in a region and used behind it goes through a variable of the function.
"""

from __future__ import annotations

from itertools import count

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.enums import (
    AddressingModelAttr,
    ExecutionModeAttr,
    ExecutionModelAttr,
    MemoryModelAttr,
)
from openinfer.dialects.spirv.global_ops import (
    GlobalVariableOp,
    SpecConstantCompositeOp,
    SpecConstantOp,
)
from openinfer.dialects.spirv.structure_ops import (
    VERSIONS,
    EntryPointOp,
    ExecutionModeOp,
    SpirvModuleOp,
    VersionAttr,
)
from openinfer.dialects.spirv.types import PointerType
from openinfer.lowering.vulkan.read_function import FunctionReader
from openinfer.lowering.vulkan.read_globals import Globals, cannot_hold, is_word, name_of
from openinfer.runtime.spirv.check_words import check_words
from openinfer.runtime.spirv.words import Instruction, Module, number

_IGNORED = frozenset({
    *("String", "Source", "SourceContinued", "SourceExtension", "Line", "NoLine"),
    *("ModuleProcessed", "MemberName"),
})  # fmt: skip


def deserialize(data: bytes) -> SpirvModuleOp:
    """The module that words stand for.

    Raises:
        ArtefactError: OI0760, OI0761, the words are no module.
        UnsupportedError: OI0763, the dialect has no form for a part of them.
    """
    module = check_words(data)
    try:
        found = _Reader(module).read()
        found.verify()
    except VerifyException as error:
        cannot_hold(None, str(error).strip().splitlines()[-1])
    return found


class _Reader:
    """Takes the instructions of a module one after the other."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.globals = Globals(module)
        self.symbols: dict[int, str] = {}
        """The names of functions, global variables and specialization constants."""
        self.kinds: dict[int, Attribute] = {}
        """The types of global variables and specialization constants."""
        self.local_size: ArrayAttr[IntegerAttr] | None = None

    def read(self) -> SpirvModuleOp:
        """The op of the module."""
        self.name_symbols()
        declared: list[Operation] = []
        functions: list[Operation] = []
        behind: list[Instruction] = []
        models: list[int] = []
        capabilities: list[str] = []
        extensions: list[str] = []
        body: list[Instruction] = []
        for one in self.module.instructions:
            name = one.row.name
            if body or name == "Function":
                if name not in {"Line", "NoLine"}:
                    body.append(one)
                if name == "FunctionEnd":
                    functions.append(
                        FunctionReader(self.globals, self.symbols, self.kinds, body).read()
                    )
                    body = []
            elif name == "Capability":
                capabilities.append(name_of("Capability", number(one.parts[0])))
            elif name == "Extension":
                text = str(one.parts[0].value)
                if not is_word(text):
                    cannot_hold(one, f"the name {text!r}")
                extensions.append(text)
            elif name == "MemoryModel":
                models = [number(part) for part in one.parts]
            elif name in {"EntryPoint", "ExecutionMode", "ExecutionModeId"}:
                behind.append(one)
            elif name in {"ExtInstImport", "Name", "Decorate", "MemberDecorate"}:
                self.globals.note(one)
            elif name.startswith("Type"):
                self.globals.declare_type(one)
            elif name == "Variable":
                declared.append(self.variable(one))
            elif name in {"SpecConstant", "SpecConstantTrue", "SpecConstantFalse"}:
                declared.append(self.spec_constant(one))
            elif name == "SpecConstantComposite":
                declared += self.spec_composite(one)
            elif name in {"Undef", "ConstantTrue", "ConstantFalse", "Constant"} or name in {
                *("ConstantComposite", "ConstantNull"),
            }:
                self.globals.declare_constant(one)
                self.note_local_size(one)
            elif name not in _IGNORED:
                cannot_hold(one, "the dialect lacks this instruction of a module")
        self.globals.check_blocks()
        ops = [*declared, *functions, *(self.behind(one) for one in behind)]
        version = VersionAttr.of(VERSIONS[self.module.version >> 8 & 255], capabilities, extensions)
        return SpirvModuleOp(
            Region(Block(ops)),
            version,
            AddressingModelAttr(models[0]).text,
            MemoryModelAttr(models[1]).text,
        )

    def name_symbols(self) -> None:
        """A name for each function, variable and specialization constant, none of them twice."""
        wanted: dict[int, str] = {}
        entries: dict[int, str] = {}
        for one in self.module.instructions:
            if one.row.name == "EntryPoint":
                (function, *_), (text,) = (
                    one.of("id"),
                    [part.value for part in one.parts if isinstance(part.value, str)],
                )
                if not text or entries.setdefault(function, text) != text:
                    cannot_hold(one, "a function has one name, which is not empty")
            elif one.row.name == "Name" and isinstance(one.parts[1].value, str):
                wanted[number(one.parts[0])] = one.parts[1].value
        if len(set(entries.values())) < len(entries):
            cannot_hold(None, "two entry points of one name")
        taken = set(entries.values())
        parts = {
            part
            for one in self.module.instructions
            if one.row.name == "SpecConstantComposite"
            for part in one.of("id")
        }
        inside = False
        unnamed: list[int] = []
        for one in self.module.instructions:
            kind, name = one.row.name, one.result
            if kind in {"Function", "FunctionEnd"}:
                inside = kind == "Function"
            elif inside or name is None:
                continue
            elif kind != "Variable" and not kind.startswith("SpecConstant") and name not in parts:
                continue
            if name is None:
                continue
            if name in entries:
                self.symbols[name] = entries[name]
            elif wanted.get(name) and wanted[name] not in taken:
                self.symbols[name] = wanted[name]
                taken.add(wanted[name])
            else:
                unnamed.append(name)
        for name in unnamed:
            stem = wanted.get(name) or "symbol"
            text = next(one for index in count() if (one := f"{stem}_{index}") not in taken)
            self.symbols[name] = text
            taken.add(text)

    def variable(self, one: Instruction) -> GlobalVariableOp:
        """A global variable."""
        name, type_ = one.of("result")[0], self.globals.type(one.of("type")[0], one)
        assert isinstance(type_, PointerType)
        attributes = self.globals.attributes(one)
        properties: dict[str, Attribute | None] = {
            "sym_name": StringAttr(self.symbols[name]),
            "type": type_,
            "descriptor_set": attributes.pop("descriptor_set", None),
            "binding": attributes.pop("binding", None),
        }
        for initial in one.of("id"):
            if initial not in self.kinds:
                cannot_hold(one, f"begins as %{initial}, no variable or specialization constant")
            properties["initializer"] = SymbolRefAttr(self.symbols[initial])
        self.kinds[name] = type_
        return GlobalVariableOp.build(properties=properties, attributes=attributes)

    def spec_constant(self, one: Instruction) -> SpecConstantOp:
        """A specialization constant of one number."""
        name, value = one.of("result")[0], self.globals.number(one)
        attributes = self.globals.attributes(one)
        found = attributes.pop("spec_id", None)
        if attributes:
            cannot_hold(one, f"the dialect has no {', '.join(attributes)} of a constant")
        self.kinds[name] = value.type
        number_ = found.value.data if isinstance(found, IntegerAttr) else None
        return SpecConstantOp(self.symbols[name], value, number_)

    def spec_composite(self, one: Instruction) -> list[Operation]:
        """A specialization constant of several, and in front of it those that nobody may give."""
        name = one.of("result")[0]
        type_ = self.globals.type(one.of("type")[0], one)
        if self.globals.attributes(one):
            cannot_hold(one, "the dialect has no decorated constants")
        found: list[Operation] = []
        for part in one.of("id"):
            if part in self.globals.constants and part not in self.kinds:
                value, _ = self.globals.constants[part]
                if not isinstance(value, IntegerAttr | FloatAttr):
                    cannot_hold(one, f"its part %{part} is no number")
                self.kinds[part] = value.type
                found.append(SpecConstantOp(self.symbols[part], value))
            if part not in self.symbols:
                cannot_hold(one, f"its part %{part} is no constant")
        self.kinds[name] = type_
        parts = [self.symbols[part] for part in one.of("id")]
        return [*found, SpecConstantCompositeOp(self.symbols[name], type_, parts)]

    def note_local_size(self, one: Instruction) -> None:
        """A constant that is the WorkgroupSize is what `LocalSize` says otherwise."""
        decorations = self.globals.decorations.get(one.result or 0, {})
        if "BuiltIn" not in decorations:
            return
        what = name_of("BuiltIn", number(decorations["BuiltIn"][0]))
        if what != "WorkgroupSize" or one.row.name != "ConstantComposite" or len(one.of("id")) != 3:
            cannot_hold(one, f"a constant that is {what}")
        sizes = [IntegerAttr(self.globals.integer(part, one), i32) for part in one.of("id")]
        self.local_size = ArrayAttr(sizes)

    def behind(self, one: Instruction) -> Operation:
        """An entry point or how one runs, which stand behind the functions in the dialect."""
        ids = one.of("id")
        for name in ids if one.row.name == "EntryPoint" else ids[:1]:
            if name not in self.symbols:
                cannot_hold(one, f"%{name} is no function or variable")
        function = SymbolRefAttr(self.symbols[ids[0]])
        if one.row.name == "EntryPoint":
            interface = [SymbolRefAttr(self.symbols[name]) for name in ids[1:]]
            model = ExecutionModelAttr(one.of("ExecutionModel")[0])
            return EntryPointOp.build(
                properties={
                    "fn": function,
                    "execution_model": model,
                    "interface": ArrayAttr(interface),
                }
            )
        mode, values = ExecutionModeAttr(one.of("ExecutionMode")[0]), one.of("word")
        if mode.text == "LocalSizeId":
            mode = ExecutionModeAttr.of("LocalSize")
            values = [self.globals.integer(part, one) for part in ids[1:]]
        listed = ArrayAttr(IntegerAttr(value, i32) for value in values)
        if mode.text == "LocalSize" and self.local_size is not None:
            listed = self.local_size
        return ExecutionModeOp.build(
            properties={"fn": function, "execution_mode": mode, "values": listed}
        )
