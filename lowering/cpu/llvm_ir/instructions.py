"""The spelling of each `llvm` op as an instruction: one table, op name to format function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import BFloat16Type, IntegerAttr, VectorType
from xdsl.dialects.llvm import (
    ALL_FCMP_FLAGS,
    ALL_ICMP_FLAGS,
    ATOMIC_ORDERING_KEYWORDS,
    GEP_USE_SSA_VAL,
    FastMathAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.llvm_atomics import (
    ATOMIC_BIN_OPS,
    AtomicRMWOp,
    CmpXchgOp,
    FenceOp,
)
from openinfer.dialects.extensions.llvm_intrinsics import CALLS, RESULT, IntrinsicCall
from openinfer.lowering.attributes import dense_i32
from openinfer.lowering.cpu.llvm_ir.literals import (
    constant_text,
    mangled_type,
    string_text,
    symbol_text,
    type_text,
)
from openinfer.lowering.operations import operands_of

_FLAG_ORDER = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")


class Operands:
    """Spells operands and types of one function; knows every value's name or literal."""

    def __init__(self) -> None:
        self.texts: dict[SSAValue, str] = {}
        self.declarations: dict[str, str] = {}
        """Intrinsics used, with the lines that declare them; one for all functions of a module."""
        self.symbols: Mapping[str, str] = {}
        """Names of functions that are called by another one here."""
        self.uses_nontemporal = False
        self.before: list[str] = []
        """Instructions that stand before the one that is being written; the writer takes them."""
        self._types: dict[int, tuple[Attribute, str]] = {}

    def type(self, type: Attribute) -> str:
        """`type_text`, remembered by identity: hashing an attribute costs more than spelling it."""
        known = self._types.get(id(type))
        if known is None:
            known = self._types[id(type)] = (type, type_text(type))
        return known[1]

    def name(self, value: SSAValue) -> str:
        return self.texts[value]

    def typed(self, value: SSAValue) -> str:
        type = value.type
        known = self._types.get(id(type))
        return f"{known[1] if known is not None else self.type(type)} {self.texts[value]}"

    def list(self, values: Sequence[SSAValue]) -> str:
        typed = self.typed
        return ", ".join([typed(value) for value in values])

    def intrinsic(
        self, name: str, result: str, arguments: Sequence[tuple[str, str]], flags: str = ""
    ) -> str:
        """A call of intrinsic `name`; `arguments` are pairs of type and operand text."""
        if name not in self.declarations:
            types = ", ".join(type.split(" align ")[0] for type, _ in arguments)
            self.declarations[name] = f"declare {result} @{name}({types})"
        listed = ", ".join(f"{type} {operand}" for type, operand in arguments)
        return f"call {flags}{result} @{name}({listed})"


Formatter = Callable[[Operands, Operation], str]


def _flags(op: Operation) -> str:
    attribute = op.properties.get("fastmathFlags")
    if not isinstance(attribute, FastMathAttr) or not attribute.data:
        return ""
    if len(attribute.data) == len(_FLAG_ORDER):
        return "fast "
    return "".join(f"{flag} " for flag in _FLAG_ORDER if flag in attribute.data)


_MARKS = {"isDisjoint": "disjoint ", "isExact": "exact ", "nonNeg": "nneg "}


def _marks(op: Operation) -> str:
    """What properties put between the opcode and the operands."""
    found = ""
    for name, value in op.properties.items():
        if name in _MARKS:
            found += _MARKS[name]
        elif name == "fastmathFlags":
            found += _flags(op)
        elif name == "overflowFlags" and isinstance(value, llvm.OverflowAttr):
            found += "".join(f"{flag} " for flag in ("nuw", "nsw") if flag in value.data)
        elif name == "overflowFlags" and isinstance(value, IntegerAttr):
            found += ("", "nsw ", "nuw ", "nuw nsw ")[value.value.data]
    return found


def _binary(opcode: str) -> Formatter:
    """Two operands of one type, which is written once."""

    def text(o: Operands, op: Operation) -> str:
        a, b = operands_of(op)
        return f"{opcode} {_marks(op)}{o.typed(a)}, {o.texts[b]}"

    return text


def _listed(opcode: str) -> Formatter:
    """Each operand with its type."""
    return lambda o, op: f"{opcode} {_marks(op)}{o.list(operands_of(op))}"


def _conversion(opcode: str) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        (operand,), (result,) = operands_of(op), op.results
        return f"{opcode} {_marks(op)}{o.typed(operand)} to {o.type(result.type)}"

    return text


def _icmp(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.ICmpOp)
    predicate = ALL_ICMP_FLAGS[op.predicate.value.data].value
    a, b = operands_of(op)
    return f"icmp {predicate} {o.typed(a)}, {o.texts[b]}"


def _fcmp(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.FCmpOp)
    predicate = ALL_FCMP_FLAGS[op.predicate.value.data].value.lstrip("_")
    a, b = operands_of(op)
    return f"fcmp {_flags(op)}{predicate} {o.typed(a)}, {o.texts[b]}"


def _gep(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.GEPOp)
    inbounds = " inbounds" if op.inbounds is not None else ""
    pointer, *dynamic = operands_of(op)
    raw = op.rawConstantIndices.data.data
    element = o.type(op.elem_type)
    if raw == _ONE_DYNAMIC:
        (index,) = dynamic
        return f"getelementptr{inbounds} {element}, {o.typed(pointer)}, {o.typed(index)}"
    rest = iter(dynamic)
    indices = [
        o.typed(next(rest)) if index == GEP_USE_SSA_VAL else f"i32 {index}"
        for index in op.rawConstantIndices.iter_values()
    ]
    return f"getelementptr{inbounds} {element}, {o.typed(pointer)}, {', '.join(indices)}"


_ONE_DYNAMIC = dense_i32((GEP_USE_SSA_VAL,)).data.data
"""What most of them have: a single index, which is a value."""


def _alignment(op: Operation) -> str:
    alignment = op.properties.get("alignment")
    return f", align {alignment.value.data}" if isinstance(alignment, IntegerAttr) else ""


def _ordering(op: Operation) -> str:
    ordering = op.properties.get("ordering")
    number = ordering.value.data if isinstance(ordering, IntegerAttr) else 0
    return f" {ATOMIC_ORDERING_KEYWORDS[number]}" if number else ""


def _load(o: Operands, op: Operation) -> str:
    ordering = _ordering(op)
    atomic = " atomic" if ordering else ""
    (address,), (result,) = operands_of(op), op.results
    return f"load{atomic} {o.type(result.type)}, {o.typed(address)}{ordering}{_alignment(op)}"


def _store(o: Operands, op: Operation) -> str:
    ordering = _ordering(op)
    kind = (" atomic" if ordering else "") + (" volatile" if "volatile_" in op.properties else "")
    text = f"store{kind} {o.list(operands_of(op))}{ordering}{_alignment(op)}"
    if "nontemporal" in op.properties:
        o.uses_nontemporal = True
        text += ", !nontemporal !0"
    return text


def _alloca(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.AllocaOp)
    return f"alloca {o.type(op.elem_type)}, {o.typed(op.size)}{_alignment(op)}"


def _atomic_update(o: Operands, op: Operation) -> str:
    assert isinstance(op, AtomicRMWOp)
    kind = ATOMIC_BIN_OPS[op.bin_op.value.data].lstrip("_")
    return f"atomicrmw {kind} {o.list(operands_of(op))}{_ordering(op)}{_alignment(op)}"


def _compare_exchange(o: Operands, op: Operation) -> str:
    assert isinstance(op, CmpXchgOp)
    success = ATOMIC_ORDERING_KEYWORDS[op.success_ordering.value.data]
    failure = ATOMIC_ORDERING_KEYWORDS[op.failure_ordering.value.data]
    return f"cmpxchg {o.list(operands_of(op))} {success} {failure}"


def _fence(o: Operands, op: Operation) -> str:
    assert isinstance(op, FenceOp)
    return f"fence {ATOMIC_ORDERING_KEYWORDS[op.ordering.value.data]}"


def _shuffle(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.ShuffleVectorOp)
    mask = op.mask.get_values()
    if not any(mask):
        spelled = "zeroinitializer"
    else:
        spelled = f"<{', '.join('i32 poison' if m < 0 else f'i32 {m}' for m in mask)}>"
    return f"shufflevector {o.list((op.v1, op.v2))}, <{len(mask)} x i32> {spelled}"


def _positions(op: llvm.ExtractValueOp | llvm.InsertValueOp) -> str:
    return ", ".join(str(position) for position in op.position.iter_values())


def _extract_value(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.ExtractValueOp)
    return f"extractvalue {o.typed(op.container)}, {_positions(op)}"


def _insert_value(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.InsertValueOp)
    return f"insertvalue {o.list((op.container, op.value))}, {_positions(op)}"


def _call(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.CallOp)
    tail = op.properties.get("TailCallKind")
    kind = tail.data.value if isinstance(tail, llvm.TailCallKindAttr) else "none"
    prefix = f"{kind} " if kind != "none" else ""
    result = "void" if op.returned is None else o.type(op.returned.type)
    if op.var_callee_type is not None:
        result = o.type(op.var_callee_type)
    if op.callee is not None:
        name = op.callee.root_reference.data
        callee = symbol_text(o.symbols.get(name, name))
        arguments = op.args
    else:
        callee = o.name(op.args[0])
        arguments = op.args[1:]
    return f"{prefix}call {_flags(op)}{result} {callee}({o.list(arguments)})"


def _call_intrinsic(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.CallIntrinsicOp)
    name = op.intrin.data
    result = "void" if not op.results else o.type(op.results[0].type)
    arguments = [(o.type(v.type), o.name(v)) for v in op.args]
    if not name.startswith(_BF16_INTRINSICS):
        return o.intrinsic(name, result, arguments, _flags(op))
    # These alone name LLVM's type; everything around them has the bits.
    place = o.name(op.results[0])
    for number, value in enumerate(op.args):
        if _is_bf16(value.type):
            type, text = arguments[number]
            own = (_as_bfloat(type), f"{place}.bfloat{number}")
            o.before.append(f"{own[1]} = bitcast {type} {text} to {own[0]}")
            arguments[number] = own
    if not _is_bf16(op.results[0].type):
        return o.intrinsic(name, result, arguments, _flags(op))
    whole = _as_bfloat(result)
    o.before.append(f"{place}.bfloat = {o.intrinsic(name, whole, arguments, _flags(op))}")
    return f"bitcast {whole} {place}.bfloat to {result}"


_BF16_INTRINSICS = "llvm.x86.avx512bf16."


def _is_bf16(type: Attribute) -> bool:
    return isinstance(type, VectorType) and isinstance(type.element_type, BFloat16Type)


def _as_bfloat(type: str) -> str:
    return type.replace("i16", "bfloat")


def _inline_assembly(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.InlineAsmOp)
    result = "void" if op.res is None else o.type(op.res.type)
    marks = " sideeffect" if op.has_side_effects is not None else ""
    marks += " alignstack" if op.is_align_stack is not None else ""
    if op.asm_dialect is not None and op.asm_dialect.value.data == 1:
        marks += " inteldialect"
    code = string_text(op.asm_string.data)
    constraints = string_text(op.constraints.data)
    return f"call {result} asm{marks} {code}, {constraints}({o.list(op.operands_)})"


def _intrinsic(name: str, call: IntrinsicCall) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        operands, results = operands_of(op), op.results
        types = [results[0].type if n == RESULT else operands[n].type for n in call.types]
        arguments = [(o.type(v.type), o.texts[v]) for v in operands]
        if call.aligned is not None:
            type, address = arguments[call.aligned]
            alignment = cast(IntegerAttr, op.properties["alignment"]).value.data
            arguments[call.aligned] = (f"{type} align {alignment}", address)
        for constant in call.constants:
            value = cast(IntegerAttr, op.properties[constant])
            arguments.append((o.type(value.type), constant_text(value, value.type)))
        mangled = ".".join(mangled_type(type) for type in types)
        result = o.type(results[0].type) if results else "void"
        return o.intrinsic(f"llvm.{name}.{mangled}", result, arguments, _flags(op))

    return text


def _return(o: Operands, op: Operation) -> str:
    operands = operands_of(op)
    return f"ret {o.typed(operands[0])}" if operands else "ret void"


def _unreachable(o: Operands, op: Operation) -> str:
    return "unreachable"


INSTRUCTIONS: dict[str, Formatter] = {
    **{
        f"llvm.{name}": _binary(name)
        for name in (
            *("add", "and", "ashr", "fadd", "fdiv", "fmul", "frem", "fsub", "lshr", "mul", "or"),
            *("sdiv", "shl", "srem", "sub", "udiv", "urem", "xor"),
        )
    },
    **{
        f"llvm.{name}": _listed(name)
        for name in ("extractelement", "fneg", "freeze", "insertelement", "select")
    },
    **{
        f"llvm.{name}": _conversion(name)
        for name in (
            *("bitcast", "fpext", "fptosi", "fptoui", "fptrunc", "inttoptr", "ptrtoint", "sext"),
            *("sitofp", "trunc", "uitofp", "zext"),
        )
    },
    **{f"llvm.intr.{name}": _intrinsic(name, call) for name, call in CALLS.items()},
    "llvm.alloca": _alloca,
    "llvm.atomicrmw": _atomic_update,
    "llvm.call": _call,
    "llvm.call_intrinsic": _call_intrinsic,
    "llvm.cmpxchg": _compare_exchange,
    "llvm.extractvalue": _extract_value,
    "llvm.fcmp": _fcmp,
    "llvm.fence": _fence,
    "llvm.getelementptr": _gep,
    "llvm.icmp": _icmp,
    "llvm.inline_asm": _inline_assembly,
    "llvm.insertvalue": _insert_value,
    "llvm.load": _load,
    "llvm.return": _return,
    "llvm.shufflevector": _shuffle,
    "llvm.store": _store,
    "llvm.unreachable": _unreachable,
}
"""How each op is spelled; branches and constants are the emitter's own business."""
