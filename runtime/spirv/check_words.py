"""Checks a module of SPIR-V before a driver sees it: a driver may crash on a damaged one.

It holds the order of the sections, that each id is defined once and in front of its uses, that blocks
begin and end as they must, that a value is used where its block has run, that the capabilities are
declared, and the types of plain arithmetic. It is a guard for users who have no `spirv-val`, and no
replacement of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NoReturn

from openinfer.runtime.dominance import Dominance
from openinfer.runtime.errors import ArtefactError
from openinfer.runtime.spirv.check_interface import check_interface
from openinfer.runtime.spirv.check_tensors import CALLEES, check_calls, check_tensor
from openinfer.runtime.spirv.instructions import CAPABILITIES, ROWS
from openinfer.runtime.spirv.words import IDS, Instruction, Module, read_words

_SECTIONS: Final = (
    {"Capability"},
    {"Extension"},
    {"ExtInstImport"},
    {"MemoryModel"},
    {"EntryPoint"},
    {"ExecutionMode", "ExecutionModeId"},
    {"String", "Source", "SourceContinued", "SourceExtension"},
    {"Name", "MemberName"},
    {"ModuleProcessed"},
    {"Decorate", "MemberDecorate"},
)
_SECTION: Final = {name: index for index, names in enumerate(_SECTIONS) for name in names}
_GLOBALS: Final = len(_SECTIONS)
_FUNCTIONS: Final = _GLOBALS + 1
_LOOK_AHEAD: Final = frozenset({
    *("EntryPoint", "ExecutionMode", "ExecutionModeId", "Name", "MemberName", "Decorate"),
    *("MemberDecorate", "Branch", "BranchConditional", "Switch", "SelectionMerge", "LoopMerge"),
    *("Phi", "FunctionCall", "CooperativeMatrixPerElementOpEXT", "CooperativeMatrixReduceEXT"),
})  # fmt: skip
"""Instructions that may name what stands behind them."""
_ENDS: Final = frozenset({
    *("Branch", "BranchConditional", "Switch", "Return", "ReturnValue", "Unreachable"),
})  # fmt: skip
_PLACES: Final = frozenset({"Line", "NoLine"})
"""Where a module was made of; they stand between any two others."""
_MERGES: Final = frozenset({"SelectionMerge", "LoopMerge"})
_MERGED: Final = {
    "SelectionMerge": {"BranchConditional", "Switch"},
    "LoopMerge": {"Branch", "BranchConditional"},
}
_ARITHMETIC: Final = frozenset(row.name for code, row in ROWS.items() if 126 <= code <= 141)
_COMPUTES: Final = frozenset({
    *("SConvert", "UConvert", "FConvert", "SNegate", "Not", "IAdd", "ISub", "IMul", "UDiv", "SDiv"),
    *("UMod", "SRem", "SMod", "ShiftRightLogical", "ShiftRightArithmetic", "ShiftLeftLogical"),
    *("BitwiseOr", "BitwiseXor", "BitwiseAnd", "VectorShuffle", "CompositeExtract"),
    *("CompositeInsert", "LogicalOr", "LogicalAnd", "LogicalNot", "LogicalEqual"),
    *("LogicalNotEqual", "Select", "IEqual", "INotEqual", "ULessThan", "SLessThan"),
    *("UGreaterThan", "SGreaterThan", "ULessThanEqual", "SLessThanEqual", "UGreaterThanEqual"),
    *("SGreaterThanEqual", "QuantizeToF16"),
})  # fmt: skip
"""What a specialization constant may be computed by."""
_GLOBAL_NAMES: Final = frozenset(
    row.name
    for row in ROWS.values()
    if row.name.startswith(("Type", "Constant", "SpecConstant"))
    or row.name in {"Variable", "Undef"}
)


def check_words(data: bytes) -> Module:
    """The module of the bytes, if it is well formed.

    Raises:
        ArtefactError: OI0760, the bytes are no instructions; OI0761, the instructions are no module.
    """
    module = read_words(data)
    _Checker(module).check()
    return module


@dataclass
class _Function:
    """The blocks of a function, and what they define and use."""

    label: int = 0
    """Of the block that is read; 0 in front of the first."""
    successors: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    homes: dict[int, int] = field(default_factory=dict[int, int])
    """The block of each id."""
    uses: list[tuple[Instruction, int, int]] = field(
        default_factory=list[tuple[Instruction, int, int]]
    )
    """An instruction, what it uses, and the block at whose end or in which it does."""
    phis: list[tuple[Instruction, int]] = field(default_factory=list[tuple[Instruction, int]])


@dataclass
class _Checker:
    module: Module
    defined: dict[int, Instruction] = field(default_factory=dict[int, Instruction])
    ahead: list[tuple[Instruction, int]] = field(default_factory=list[tuple[Instruction, int]])
    capabilities: set[str] = field(default_factory=set[str])
    in_function: bool = False
    in_block: bool = False
    labels: set[int] = field(default_factory=set[int])
    targets: list[tuple[Instruction, int]] = field(default_factory=list[tuple[Instruction, int]])
    before: str = ""
    function: _Function = field(default_factory=lambda: _Function())
    locals: set[int] = field(default_factory=set[int])
    """What functions in front define."""

    def check(self) -> None:
        """Raises OI0761 for the first rule that is broken."""
        section = 0
        names = [one.row.name for one in self.module.instructions]
        for name in ("MemoryModel", "EntryPoint"):
            count = names.count(name)
            if not count or (count > 1 and name == "MemoryModel"):
                raise _broken(0, f"{count} Op{name}, expected one")
        for one in self.module.instructions:
            if one.row.name in _PLACES:
                self.uses(one)
                continue
            mine = self.section(one)
            if mine < section:
                self.fail(one, "stands behind its section of the module")
            section = mine
            self.declare(one)
            self.uses(one)
            if mine == _FUNCTIONS:
                self.in_order(one)
                self.follow(one)
            self.types(one)
            self.before = one.row.name
        if self.in_function:
            raise _broken(self.module.instructions[-1].place, "the last function has no end")
        for one, name in self.ahead:
            if name not in self.defined:
                self.fail(one, f"uses %{name}, which nothing defines")
        check_calls(self.module, self.defined, self.fail)
        check_interface(self.module, self.defined, self.capabilities, self.fail)

    def section(self, one: Instruction) -> int:
        """Where in a module an instruction belongs."""
        name = one.row.name
        if name in _SECTION:
            return _SECTION[name]
        if name in _GLOBAL_NAMES and not self.in_function:
            return _GLOBALS
        return _FUNCTIONS

    def declare(self, one: Instruction) -> None:
        """Takes the capabilities of the module, and asks for those of the instruction."""
        if one.row.name == "Capability":
            todo = [
                name for name, (code, _) in CAPABILITIES.items() if code == one.first("Capability")
            ]
            while todo:
                name = todo.pop()
                if name not in self.capabilities:
                    self.capabilities.add(name)
                    todo += CAPABILITIES[name][1]
        elif one.row.capabilities and not one.row.capabilities & self.capabilities:
            self.fail(one, f"needs the capability {' or '.join(sorted(one.row.capabilities))}")

    def uses(self, one: Instruction) -> None:
        """Each id is in the bound, defined once, and in front of its uses."""
        for part in one.parts:
            if part.kind not in IDS and part.kind != "result":
                continue
            name = part.value
            assert isinstance(name, int)
            if not 0 < name < self.module.bound:
                self.fail(one, f"id {name} is not from 1 to {self.module.bound - 1}")
            if part.kind == "result":
                if name in self.defined:
                    self.fail(one, f"defines %{name} a second time")
                continue
            definition = self.defined.get(name)
            if definition is None:
                if part.kind == "type" or one.row.name not in _LOOK_AHEAD:
                    self.fail(one, f"uses %{name} in front of its definition")
                self.ahead.append((one, name))
            elif part.kind == "type" and not definition.row.name.startswith("Type"):
                self.fail(one, f"%{name} is no type, Op{definition.row.name} defines it")
        if one.result is not None:
            self.defined[one.result] = one

    def in_order(self, one: Instruction) -> None:
        """Functions hold parameters and blocks, a block ends once, a merge stands in front of a branch."""
        name = one.row.name
        if name == "Function":
            if self.in_function:
                self.fail(one, "stands in a function")
            self.in_function, self.labels, self.targets = True, set(), []
            return
        if not self.in_function:
            self.fail(one, "stands outside of a function")
        if self.before in _MERGES and name not in _MERGED[self.before]:
            self.fail(one, f"stands behind Op{self.before}, where a branch is expected")
        if name == "Label":
            if self.in_block:
                self.fail(one, "begins a block where the one before has no end")
            self.in_block = True
            self.labels.add(one.of("result")[0])
        elif name == "FunctionParameter":
            if self.labels:
                self.fail(one, "stands behind the first block")
        elif name == "FunctionEnd":
            if self.in_block:
                self.fail(one, "stands where the last block has no end")
            self.in_function = False
            for branch, target in self.targets:
                if target not in self.labels:
                    self.fail(branch, f"%{target} is no label of its function")
        elif not self.in_block:
            self.fail(one, "stands outside of a block")
        elif name == "Phi" and self.before not in {"Label", "Phi"}:
            self.fail(one, "stands behind another instruction of its block")
        elif name in _ENDS or name in _MERGES:
            ids = one.of("id")
            values = 1 if name in {"BranchConditional", "Switch"} else 0
            if name != "ReturnValue":
                self.targets += [(one, target) for target in ids[values:]]
            self.in_block = name in _MERGES

    def follow(self, one: Instruction) -> None:
        """Takes where a function defines and uses ids; at its end, each must be where it can be used."""
        name, ids, function = one.row.name, one.of("id"), self.function
        if name == "Function":
            self.function = _Function()
        elif name == "Label":
            function.label = one.of("result")[0]
        elif name == "FunctionEnd":
            self.in_scope()
            self.locals |= function.homes.keys()
        elif name == "Phi":
            function.phis.append((one, function.label))
            function.uses += [(one, *edge) for edge in zip(ids[::2], ids[1::2])]
        elif name in _ENDS:
            targets = ids[name != "Branch" :] if name not in {"Return", "ReturnValue"} else []
            function.successors[function.label] = targets
            used = ids[: len(ids) - len(targets)]
            function.uses += [(one, value, function.label) for value in used]
        elif name not in _MERGES:
            # A function that is called may stand further behind.
            callee = CALLEES.get(name)
            used = [value for place, value in enumerate(ids) if place != callee]
            function.uses += [(one, value, function.label) for value in used]
        if one.result is not None and name not in {"Function", "Label"}:
            function.homes[one.result] = function.label

    def in_scope(self) -> None:
        """A value is used where the block that defines it has run."""
        function = self.function
        if not function.successors:
            return
        first, *_ = function.successors
        flow = Dominance(first, function.successors)
        for one, value, label in function.uses:
            home = function.homes.get(value)
            if home is None:
                if value in self.locals or value not in self.defined:
                    self.fail(one, f"uses %{value}, which its function does not define")
            elif home and flow.reached(label) and not flow.dominates(home, label):
                self.fail(one, f"uses %{value}, whose block need not have run")
        sources: dict[int, set[int]] = {label: set() for label in function.successors}
        for label, targets in function.successors.items():
            for target in targets:
                sources[target].add(label)
        for one, label in function.phis:
            if sorted(one.of("id")[1::2]) != sorted(sources[label]):
                self.fail(one, "has not one value for each block that branches to it")

    def types(self, one: Instruction) -> None:
        """What memory and arithmetic say of their types."""
        name, ids = one.row.name, one.of("id")
        if name == "SpecConstantOp":
            name = ROWS[one.of("opcode")[0]].name
            if name not in _COMPUTES:
                self.fail(one, f"is computed by Op{name}")
        if name in {"Load", "Store", "AccessChain", "InBoundsAccessChain"}:
            pointer = self.type_of(ids[0])
            if pointer is None or pointer.row.name != "TypePointer":
                self.fail(one, f"%{ids[0]} is no pointer")
            pointee = pointer.of("id")[0]
            value = one.type
            if name == "Store":
                stored = self.type_of(ids[1])
                value = stored.result if stored else None
            if name in {"Load", "Store"} and value != pointee:
                self.fail(one, f"the value is %{value}, the pointer is to %{pointee}")
        elif name == "Variable":
            pointer = self.defined[one.of("type")[0]]
            if pointer.row.name != "TypePointer" or pointer.first("StorageClass") != one.first(
                "StorageClass"
            ):
                self.fail(one, "its type is no pointer of its storage class")
        elif name in {"Constant", "SpecConstant"}:
            type_ = self.defined[one.of("type")[0]]
            width = type_.of("word")[0] if type_.row.name in {"TypeInt", "TypeFloat"} else 0
            if width not in {8, 16, 32, 64} or bool(one.of("wide")) != (width == 64):
                self.fail(one, "has not the words of a number of its type")
        elif name == "Switch":
            type_ = self.type_of(ids[0])
            if type_ is None or type_.row.name != "TypeInt" or type_.of("word")[0] > 32:
                self.fail(one, f"%{ids[0]} is no integer of up to 32 bits")
        elif name == "TypeVector":
            if self.defined[ids[0]].row.name not in {"TypeInt", "TypeFloat", "TypeBool"}:
                self.fail(one, f"%{ids[0]} is no scalar type")
        elif name in _ARITHMETIC:
            wanted = self.shape(self.defined[one.of("type")[0]])
            for used in ids:
                found = self.type_of(used)
                if found is None or self.shape(found) != wanted:
                    self.fail(one, f"%{used} has not the type of the result")
        else:
            check_tensor(one, self.defined, self.fail)

    def type_of(self, name: int) -> Instruction | None:
        """The type of a value."""
        definition = self.defined.get(name)
        return self.defined.get(definition.type or 0) if definition else None

    def shape(self, type_: Instruction) -> tuple[object, ...]:
        """A type without the sign of integers, which arithmetic does not ask for."""
        if type_.row.name == "TypeInt":
            return ("TypeInt", type_.of("word")[0])
        if type_.row.name == "TypeVector":
            return (self.shape(self.defined[type_.of("id")[0]]), type_.of("word")[0])
        return (type_.result,)

    def fail(self, one: Instruction, message: str) -> NoReturn:
        """Raises OI0761."""
        raise _broken(one.place, f"Op{one.row.name} {message}")


def _broken(place: int, message: str) -> ArtefactError:
    return ArtefactError(
        "OI0761",
        f"SPIR-V word {place}: {message}",
        hint="make the module anew; what lies on disk was edited",
    )
