"""LLVM IR text from the `llvm` dialect.

Values are named after their SSA name hints, constants stand where they are used, block arguments
become phis, and an op that knows its place in a program carries it as a trailing comment. The same
module gives the same text, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from hashlib import sha256

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr, VectorType
from xdsl.ir import Operation

from openinfer.dialects.extensions.llvm import UIToFPOp
from openinfer.dialects.nn import InterfaceOp
from openinfer.lowering.cpu.llvm_ir.function_writer import FunctionWriter
from openinfer.lowering.cpu.llvm_ir.literals import (
    DEVICE_CODE,
    constant_text,
    string_text,
    symbol_text,
    type_text,
)
from openinfer.lowering.cpu.team_text import TeamText, team_text
from openinfer.lowering.kernels.units import is_elsewhere, unit_of
from openinfer.lowering.operations import operations
from openinfer.runtime.devices.cpu.llvm_module import LlvmModule, Passes
from openinfer.runtime.devices.cpu.object_symbols import PROVIDED
from openinfer.runtime.errors import CompileError
from openinfer.runtime.program import HOST, OBJECT
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.target import TargetDescription


def emit_llvm(module: ModuleOp, target: TargetDescription) -> str:
    """The text of a module of `llvm` functions and globals, for `target`.

    Raises CompileError (OI0981) for an op that has no spelling.
    """
    parts = _Parts.of(module)
    return _text(parts, target, team=parts.team())


def emit_modules(module: ModuleOp, target: TargetDescription) -> Iterator[LlvmModule]:
    """The same program as several texts that LLVM compiles by themselves: one for each large kernel, and
    `HOST` at the end with all the rest. Raises CompileError (OI0981) for an op that has no spelling.
    """
    return Texts(target).rest(module)


@dataclass(frozen=True)
class Elsewhere:
    """What the texts of a program must know of kernels whose texts another process writes."""

    symbols: Mapping[str, str]
    """Their symbols, by their names in the IR."""
    exported: Collection[str]
    """Functions of the program that they call."""


class Texts:
    """The texts of a program. A kernel is called by what it is and a hash of its text: equal kernels of two
    programs have the same text and the same name."""

    def __init__(self, target: TargetDescription) -> None:
        self._target = target
        self._symbols: dict[str, str] = {}
        self._exported: set[str] = set()
        self._written: set[str] = set()
        self._small: dict[llvm.FuncOp, None] = {}
        """Kernels that share a module, under their own names."""
        self._has_team = False

    def kernel(
        self, function: llvm.FuncOp, known: Mapping[str, llvm.FuncOp | None]
    ) -> LlvmModule | None:
        """The text of a function that is a module of its own, and not equal to one before it; else None.
        `known` is as in `early_kernels`. Raises CompileError (OI0981)."""
        own = _own_module(function, known)
        if own is None:
            return None
        name = function.sym_name.data
        text = _text(_Parts([], own, [function]), self._target, bare=True)
        kind = name.partition("_")[0]
        self._symbols[name] = symbol = f"{kind}.{sha256(text.encode()).hexdigest()[:20]}"
        self._exported.update(f.sym_name.data for f in own if _is_hidden(f))
        if symbol in self._written:
            return None
        self._written.add(symbol)
        text = text.replace(_OWN, symbol)
        return LlvmModule(symbol + OBJECT, name, text, passes_for([function]))

    def elsewhere(self, module: ModuleOp) -> Elsewhere:
        """The kernels of a module, which were written, for another process. Raises CompileError (OI0962)
        where one was not."""
        for function in _Parts.of(module).functions:
            if function.sym_name.data not in self._symbols and function not in self._small:
                name = function.sym_name.data
                raise CompileError("OI0962", f"@{name} cannot be compiled without the step")
        return Elsewhere(dict(self._symbols), frozenset(self._exported))

    def know(self, others: Elsewhere) -> None:
        """Takes down kernels that another process has written."""
        self._symbols.update(others.symbols)
        self._exported.update(others.exported)

    def large(self, module: ModuleOp) -> Iterator[LlvmModule]:
        """The team, and the kernels of a module that were not written yet and are modules of their own."""
        parts = _Parts.of(module)
        known = parts.known()
        team = parts.team()
        if team is not None and not self._has_team:
            self._has_team = True
            called = [known[name] for name in team.calls if name in known]
            self._exported.update(f.sym_name.data for f in called if _is_internal(f))
            yield self._team(team)
        yield from self._large(parts, known)

    def _large(
        self, parts: _Parts, known: Mapping[str, llvm.FuncOp | None]
    ) -> Iterator[LlvmModule]:
        # LLVM begins with the first that is written: what takes long comes first.
        for function in sorted(parts.functions, key=_size, reverse=True):
            if function.sym_name.data not in self._symbols:
                text = self.kernel(function, known)
                if text is not None:
                    yield text

    def kernels(self, module: ModuleOp) -> Iterator[LlvmModule]:
        """All kernels that were not written yet: large ones, and small ones of a unit together."""
        parts = _Parts.of(module)
        known = parts.known()
        yield from self._large(parts, known)
        rest = [f for f in parts.functions if f.sym_name.data not in self._symbols]
        for group in _groups(f for f in rest if f not in self._small and _is_kernel(f)):
            yield self._together(group, known)
            self._small.update(dict.fromkeys(group))

    def rest(self, module: ModuleOp) -> Iterator[LlvmModule]:
        """All that was not written yet, `HOST` at the end. Raises CompileError (OI0981)."""
        yield from self.large(module)
        yield from self.kernels(module)
        parts = _Parts.of(module)
        rest = [f for f in parts.functions if f.sym_name.data not in self._symbols]
        rest = [f for f in rest if f not in self._small]
        # What is called, and in one order, whoever wrote which of them.
        known, outside = parts.known(), {f.sym_name.data for f in (*parts.outside, *rest)}
        names = {name for f in rest for name in _callees(f)} - outside
        called = {self._symbols.get(name, name): known[name] for name in names if name in known}
        declared = [called[symbol] for symbol in sorted(called)]
        whole = _Parts(parts.globals, [*parts.outside, *declared], rest)
        text = _text(whole, self._target, self._symbols, self._exported)
        yield LlvmModule(HOST, HOST, text, passes_for(rest))

    def _together(
        self, group: list[llvm.FuncOp], known: Mapping[str, llvm.FuncOp | None]
    ) -> LlvmModule:
        """The text of small kernels under their own names: it is for this program."""
        own = {f.sym_name.data for f in group}
        called = sorted({name for f in group for name in _callees(f)} - own)
        outside = [f for f in map(known.get, called) if f is not None]
        self._exported.update(f.sym_name.data for f in outside if _is_hidden(f))
        # Equal kernels have one symbol, which is declared once.
        symbols = {self._symbols.get(f.sym_name.data, f.sym_name.data): f for f in outside}
        text = _text(_Parts([], [*symbols.values()], group), self._target, self._symbols, own)
        name = f"{_SMALL}.{sha256(text.encode()).hexdigest()[:20]}"
        return LlvmModule(name + OBJECT, _SMALL, text, passes_for(group))

    def _team(self, team: TeamText) -> LlvmModule:
        """The text of what lets threads run a step together: it is the same in all programs."""
        text = _text(_Parts([], [], []), self._target, team=team)
        name = f"team.{sha256(text.encode()).hexdigest()[:20]}"
        return LlvmModule(name + OBJECT, "team", text, Passes.ALL)


_CONVERSIONS = (llvm.SExtOp, llvm.ZExtOp, llvm.SIToFPOp, UIToFPOp, llvm.BitcastOp)
_OWN = "openinfer.own"
"""What a kernel is called while its name is not known."""
OWN_MODULE = 150
"""Ops from which on a kernel is a module of its own. Smaller ones are better off where they are called, but
for those that LLVM's passes are for: the step would go through them, too."""

SMALL_KERNELS = 1500
"""Ops of smaller kernels from which on they are a module together: LLVM makes it beside the step."""
_SMALL = "kernels"


def _groups(kernels: Iterable[llvm.FuncOp]) -> Iterator[list[llvm.FuncOp]]:
    """Small kernels of a unit in their order, as many at once as are worth a module."""
    groups: dict[int, list[llvm.FuncOp]] = {}
    sizes: dict[int, int] = {}
    for function in kernels:
        unit = unit_of(function)
        groups.setdefault(unit, []).append(function)
        sizes[unit] = sizes.get(unit, 0) + _size(function)
        if sizes[unit] >= SMALL_KERNELS:
            yield groups.pop(unit)
            sizes[unit] = 0
    # What is left of unit 0 is not: the step, which is there, has room for it.
    yield from (group for unit, group in groups.items() if unit)


def _own_module(
    function: llvm.FuncOp, known: Mapping[str, llvm.FuncOp | None]
) -> list[llvm.FuncOp] | None:
    """The functions that a kernel calls, where it can be a module of its own; else None."""
    if not _is_internal(function):
        return None
    if _size(function) < OWN_MODULE and passes_for([function]) is Passes.NONE:
        return None
    called: dict[str, llvm.FuncOp] = {}
    for op in operations(function.body):
        if type(op) is llvm.AddressOfOp:
            return None
        if type(op) is llvm.CallOp and op.callee is not None:
            name = op.callee.root_reference.data
            callee = known.get(name)
            # What a program has is its own; what is written by hand is the same in all of them.
            if callee is None or (_has_body(callee) and not name.startswith(_WRITTEN)):
                return None
            called[name] = callee
    return list(called.values())


_WRITTEN = "openinfer_"


def _is_kernel(function: llvm.FuncOp) -> bool:
    """Whether a function is none of those that run the step, and needs none of its data."""
    name = function.sym_name.data
    return (
        _is_internal(function)
        and name != "step"
        and not name.startswith(_WRITTEN)
        and all(type(op) is not llvm.AddressOfOp for op in operations(function.body))
    )


def _is_internal(function: llvm.FuncOp) -> bool:
    return function.linkage.linkage.data == "internal"


def _callees(function: llvm.FuncOp) -> Iterator[str]:
    for op in operations(function.body):
        if isinstance(op, llvm.CallOp) and op.callee is not None:
            yield op.callee.root_reference.data


def _is_hidden(function: llvm.FuncOp) -> bool:
    """Whether a function that a kernel calls is in the program's objects: also where it has no body yet."""
    name = function.sym_name.data
    return _has_body(function) or (name.startswith(_WRITTEN) and name not in PROVIDED)


def _has_body(function: llvm.FuncOp) -> bool:
    return bool(function.body.blocks) or is_elsewhere(function)


def _size(function: llvm.FuncOp) -> int:
    # Functions of this level hold no ops with regions.
    return len(operations(function.body))


def passes_for(functions: Iterable[llvm.FuncOp]) -> Passes:
    """LLVM's passes buy nothing in what the lowering has written as vectors of floats. Where bits are
    unpacked from bytes they find shorter ways: a fifth of the time of a product with q5_k."""
    unpacks = any(
        _unpacks(op)
        for function in functions
        if not function.sym_name.data.startswith("prepare_")
        for op in operations(function.body)
        if type(op) in _CONVERSIONS
    )
    return Passes.ALL if unpacks else Passes.NONE


def _unpacks(op: Operation) -> bool:
    """Whether a conversion makes words of other sizes, or numbers, of the bytes of a weight."""
    widths = (8, 16) if type(op) is llvm.BitcastOp else (8,)
    types = (op.operands[0].type, op.results[0].type)
    elements = (type.element_type for type in types if isinstance(type, VectorType))
    return any(isinstance(e, IntegerType) and e.width.data in widths for e in elements)


@dataclass(frozen=True)
class _Parts:
    """What stands in a text, in its order."""

    globals: list[llvm.GlobalOp]
    outside: list[llvm.FuncOp]
    """Functions that are only declared."""
    functions: list[llvm.FuncOp]
    elsewhere: list[llvm.FuncOp] = field(default_factory=list[llvm.FuncOp])
    """Kernels that another process writes: no text of this one has them."""

    def known(self) -> dict[str, llvm.FuncOp]:
        """All functions by their names."""
        every = (*self.outside, *self.elsewhere, *self.functions)
        return {function.sym_name.data: function for function in every}

    def team(self) -> TeamText | None:
        """What lets several threads run the step, where the program asks for it."""
        return team_text(self.known(), [f.sym_name.data for f in self.outside])

    @staticmethod
    def of(module: ModuleOp) -> _Parts:
        parts = _Parts([], [], [])
        for op in module.ops:
            if isinstance(op, llvm.GlobalOp):
                parts.globals.append(op)
            elif isinstance(op, llvm.FuncOp):
                if is_elsewhere(op):
                    parts.elsewhere.append(op)
                else:
                    (parts.functions if op.body.blocks else parts.outside).append(op)
            elif not (isinstance(op, InterfaceOp) or op.name == DEVICE_CODE):
                raise CompileError(
                    "OI0981",
                    f"'{op.name}' cannot stand at the top of an llvm module",
                    hint="lower it first: openinfer-opt FILE --pipeline cpu",
                )
        return parts


def _text(
    parts: _Parts,
    target: TargetDescription,
    symbols: Mapping[str, str] | None = None,
    exported: Collection[str] = (),
    *,
    bare: bool = False,
    team: TeamText | None = None,
) -> str:
    """One text. `symbols` are functions of other texts by their names there, `exported` those that other
    texts call; a `bare` one holds a single kernel, called `_OWN`; that of `team` is put in as it is."""
    declarations: dict[str, str] = {}
    outside = [op for op in parts.outside if team is None or op.sym_name.data not in team.defines]
    uses_nontemporal = False
    functions: list[list[str]] = []
    for op in parts.functions:
        writer = FunctionWriter(declarations, symbols, bare=bare)
        name = op.sym_name.data
        linkage = "hidden" if bare or name in exported else None
        functions.append(list(writer.lines(op, _OWN if bare else name, linkage)))
        uses_nontemporal |= writer.operands.uses_nontemporal
    if team is not None:
        there = {op.sym_name.data for op in (*parts.functions, *parts.outside)}
        declarations.update({k: v for k, v in team.declarations.items() if k not in there})
    intrinsics = [declarations[name] for name in sorted(declarations)]
    attributes = f"attributes #0 = {{ {' '.join(_target_attributes(target))} }}"
    sections = [
        [f'target triple = "{target.triple}"'],
        [_global_text(op) for op in parts.globals],
        [_declaration_text(op, symbols or {}) for op in outside],
        *functions,
        [team.functions] if team is not None else [],
        intrinsics,
        [attributes],
        ["!0 = !{i32 1}"] if uses_nontemporal else [],
    ]
    return "\n\n".join("\n".join(section) for section in sections if section) + "\n"


def _target_attributes(target: TargetDescription) -> Iterator[str]:
    yield "nounwind"
    yield f'"min-legal-vector-width"="{target.vector_bits}"'
    yield f'"prefer-vector-width"="{target.vector_bits}"'
    yield f'"target-cpu"="{target.cpu}"'
    if target.features:
        yield f'"target-features"="{target.features}"'


def _global_text(op: llvm.GlobalOp) -> str:
    linkage = op.linkage.linkage.data
    kind = "constant" if op.constant is not None else "global"
    address = ""
    if op.unnamed_addr is not None:
        number = op.unnamed_addr.value.data
        address = {1: "local_unnamed_addr ", 2: "unnamed_addr "}.get(number, "")
    type = type_text(op.global_type)
    if op.value is not None:
        initial = " " + _global_value(op)
    else:
        initial = " zeroinitializer"
    if linkage == "external" and op.value is not None:
        linkage = ""
    elif linkage == "external":
        initial = ""
    alignment = f", align {op.alignment.value.data}" if op.alignment is not None else ""
    words = f"{linkage} " if linkage else ""
    return f"{symbol_text(op.sym_name.data)} = {words}{address}{kind} {type}{initial}{alignment}"


def _global_value(op: llvm.GlobalOp) -> str:
    value = op.value
    if isinstance(value, StringAttr):
        return "c" + string_text(value.data)
    assert value is not None
    return constant_text(value, op.global_type)


def _declaration_text(op: llvm.FuncOp, symbols: Mapping[str, str]) -> str:
    type = op.function_type
    arguments = [type_text(argument) for argument in type.inputs]
    if type.is_variadic:
        arguments.append("...")
    name = op.sym_name.data
    words = "hidden " if _is_hidden(op) else ""
    symbol = symbol_text(symbols.get(name, name))
    return f"declare {words}{type_text(type.output)} {symbol}({', '.join(arguments)}) nounwind"
