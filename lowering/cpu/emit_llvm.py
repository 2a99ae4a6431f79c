"""LLVM IR text from the `llvm` dialect.

Values are named after their SSA name hints, constants stand where they are used, block arguments
become phis, and an op that knows its place in a program carries it as a trailing comment. The same
module gives the same text, byte for byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, StringAttr

from openinfer.dialects.nn import InterfaceOp
from openinfer.lowering.cpu.llvm_ir.function_writer import FunctionWriter
from openinfer.lowering.cpu.llvm_ir.literals import (
    DEVICE_CODE,
    constant_text,
    string_text,
    symbol_text,
    type_text,
)
from openinfer.lowering.operations import operations
from openinfer.runtime.devices.cpu.llvm_module import LlvmModule, Passes
from openinfer.runtime.errors import CompileError
from openinfer.runtime.program import HOST, OBJECT
from openinfer.runtime.target import TargetDescription


def emit_llvm(module: ModuleOp, target: TargetDescription) -> str:
    """The text of a module of `llvm` functions and globals, for `target`.

    Raises CompileError (OI0981) for an op that has no spelling.
    """
    return _text(_Parts.of(module), target)


def emit_modules(module: ModuleOp, target: TargetDescription) -> Iterator[LlvmModule]:
    """The same program as several texts that LLVM compiles by themselves: one for each large kernel, and
    `HOST` at the end with all the rest.

    A kernel is called by what it is and a hash of its text: equal kernels of two programs have the same text
    and the same name. Raises CompileError (OI0981) for an op that has no spelling.
    """
    parts = _Parts.of(module)
    known = {f.sym_name.data: f for f in (*parts.outside, *parts.functions)}
    symbols: dict[str, str] = {}
    exported: set[str] = set()
    rest: list[llvm.FuncOp] = []
    written: dict[str, llvm.FuncOp] = {}
    # LLVM begins with the first that is written: what takes long comes first.
    for function in sorted(parts.functions, key=_size, reverse=True):
        own = _own_module(function, known)
        if own is None:
            rest.append(function)
            continue
        name = function.sym_name.data
        text = _text(_Parts([], own, [function]), target, bare=True)
        kind = name.partition("_")[0]
        symbols[name] = symbol = f"{kind}.{sha256(text.encode()).hexdigest()[:20]}"
        exported.update(f.sym_name.data for f in own if f.body.blocks)
        if symbol not in written:
            written[symbol] = function
            text = text.replace(_OWN, symbol)
            yield LlvmModule(symbol + OBJECT, name, text, _passes_for(function))
    outside = [*parts.outside, *written.values()]
    rest.sort(key=parts.functions.index)
    whole = _text(_Parts(parts.globals, outside, rest), target, symbols, exported)
    yield LlvmModule(HOST, HOST, whole, Passes.ALL)


_OWN = "openinfer.own"
"""What a kernel is called while its name is not known."""
OWN_MODULE = 150
"""Ops from which on a kernel is a module of its own. Smaller ones are better off where they are called."""


def _own_module(
    function: llvm.FuncOp, known: Mapping[str, llvm.FuncOp]
) -> list[llvm.FuncOp] | None:
    """The functions that a kernel calls, where it can be a module of its own; else None."""
    if function.linkage.linkage.data != "internal" or _size(function) < OWN_MODULE:
        return None
    called: dict[str, llvm.FuncOp] = {}
    for op in operations(function.body):
        if isinstance(op, llvm.AddressOfOp):
            return None
        if isinstance(op, llvm.CallOp) and op.callee is not None:
            name = op.callee.root_reference.data
            callee = known.get(name)
            # What a program has is its own; what is written by hand is the same in all of them.
            if callee is None or (callee.body.blocks and not name.startswith(_WRITTEN)):
                return None
            called[name] = callee
    return list(called.values())


_WRITTEN = "openinfer_"


def _size(function: llvm.FuncOp) -> int:
    return sum(1 for block in function.body.blocks for _ in block.ops)


def _passes_for(function: llvm.FuncOp) -> Passes:
    return Passes.NONE if function.sym_name.data.startswith("prepare_") else Passes.ALL


@dataclass(frozen=True)
class _Parts:
    """What stands in a text, in its order."""

    globals: list[llvm.GlobalOp]
    outside: list[llvm.FuncOp]
    """Functions that are only declared."""
    functions: list[llvm.FuncOp]

    @staticmethod
    def of(module: ModuleOp) -> _Parts:
        parts = _Parts([], [], [])
        for op in module.ops:
            if isinstance(op, llvm.GlobalOp):
                parts.globals.append(op)
            elif isinstance(op, llvm.FuncOp):
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
) -> str:
    """One text. `symbols` are functions of other texts by their names there, `exported` those that other
    texts call; a `bare` one holds a single kernel, called `_OWN`."""
    declarations: dict[str, str] = {}
    uses_nontemporal = False
    functions: list[list[str]] = []
    for op in parts.functions:
        writer = FunctionWriter(declarations, symbols, bare=bare)
        name = op.sym_name.data
        linkage = "hidden" if bare or name in exported else None
        functions.append(list(writer.lines(op, _OWN if bare else name, linkage)))
        uses_nontemporal |= writer.operands.uses_nontemporal
    intrinsics = [declarations[name] for name in sorted(declarations)]
    attributes = f"attributes #0 = {{ {' '.join(_target_attributes(target))} }}"
    sections = [
        [f'target triple = "{target.triple}"'],
        [_global_text(op) for op in parts.globals],
        [_declaration_text(op, symbols or {}) for op in parts.outside],
        *functions,
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
    words = "hidden " if op.body.blocks else ""
    symbol = symbol_text(symbols.get(name, name))
    return f"declare {words}{type_text(type.output)} {symbol}({', '.join(arguments)}) nounwind"
