"""The spelling of each `llvm` op as an instruction: one table, op name to format function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from openinfer.dialects.extensions.llvm_intrinsics import (
    INTRINSICS,
    MaskedGatherOp,
    MaskedLoadOp,
    PrefetchOp,
)
from openinfer.lowering.cpu.llvm_ir.literals import (
    mangled_type,
    string_text,
    symbol_text,
    type_text,
)

_FLAG_ORDER = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn")


class Operands:
    """Spells operands and types of one function; knows every value's name or literal."""

    def __init__(self) -> None:
        self.texts: dict[SSAValue, str] = {}
        self.declarations: dict[str, str] = {}
        """Intrinsics used, with the lines that declare them; one for all functions of a module."""
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
        return f"{self.type(value.type)} {self.texts[value]}"

    def list(self, values: Sequence[SSAValue]) -> str:
        return ", ".join([self.typed(value) for value in values])

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


def _binary(opcode: str) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        a, b = op.operands
        return f"{opcode} {o.typed(a)}, {o.name(b)}"

    return text


def _overflowing(opcode: str) -> Formatter:
    spelled = ("", " nsw", " nuw", " nuw nsw")

    def text(o: Operands, op: Operation) -> str:
        a, b = op.operands
        flags = op.properties.get("overflowFlags")
        number = flags.value.data if isinstance(flags, IntegerAttr) else 0
        return f"{opcode}{spelled[number]} {o.typed(a)}, {o.name(b)}"

    return text


def _marked(opcode: str, prop: str, mark: str) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        a, b = op.operands
        marked = f" {mark}" if prop in op.properties else ""
        return f"{opcode}{marked} {o.typed(a)}, {o.name(b)}"

    return text


def _float_binary(opcode: str) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        a, b = op.operands
        return f"{opcode} {_flags(op)}{o.typed(a)}, {o.name(b)}"

    return text


def _float_unary(opcode: str) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        return f"{opcode} {_flags(op)}{o.typed(op.operands[0])}"

    return text


def _conversion(opcode: str) -> Formatter:
    def text(o: Operands, op: Operation) -> str:
        marks = " nneg" if "nonNeg" in op.properties else ""
        flags = op.properties.get("overflowFlags")
        if isinstance(flags, llvm.OverflowAttr):
            marks += "".join(f" {flag}" for flag in ("nuw", "nsw") if flag in flags.data)
        return f"{opcode}{marks} {o.typed(op.operands[0])} to {o.type(op.results[0].type)}"

    return text


def _icmp(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.ICmpOp)
    predicate = ALL_ICMP_FLAGS[op.predicate.value.data].value
    return f"icmp {predicate} {o.typed(op.lhs)}, {o.name(op.rhs)}"


def _fcmp(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.FCmpOp)
    predicate = ALL_FCMP_FLAGS[op.predicate.value.data].value.lstrip("_")
    return f"fcmp {_flags(op)}{predicate} {o.typed(op.lhs)}, {o.name(op.rhs)}"


def _select(o: Operands, op: Operation) -> str:
    return f"select {_flags(op)}{o.list(op.operands)}"


def _freeze(o: Operands, op: Operation) -> str:
    return f"freeze {o.typed(op.operands[0])}"


def _gep(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.GEPOp)
    inbounds = " inbounds" if op.inbounds is not None else ""
    dynamic = iter(op.ssa_indices)
    indices = [
        o.typed(next(dynamic)) if index == GEP_USE_SSA_VAL else f"i32 {index}"
        for index in op.rawConstantIndices.iter_values()
    ]
    element = o.type(op.elem_type)
    return f"getelementptr{inbounds} {element}, {o.typed(op.ptr)}, {', '.join(indices)}"


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
    type = o.type(op.results[0].type)
    return f"load{atomic} {type}, {o.typed(op.operands[0])}{ordering}{_alignment(op)}"


def _store(o: Operands, op: Operation) -> str:
    ordering = _ordering(op)
    kind = (" atomic" if ordering else "") + (" volatile" if "volatile_" in op.properties else "")
    text = f"store{kind} {o.list(op.operands)}{ordering}{_alignment(op)}"
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
    return f"atomicrmw {kind} {o.list(op.operands)}{_ordering(op)}{_alignment(op)}"


def _compare_exchange(o: Operands, op: Operation) -> str:
    assert isinstance(op, CmpXchgOp)
    success = ATOMIC_ORDERING_KEYWORDS[op.success_ordering.value.data]
    failure = ATOMIC_ORDERING_KEYWORDS[op.failure_ordering.value.data]
    return f"cmpxchg {o.list(op.operands)} {success} {failure}"


def _fence(o: Operands, op: Operation) -> str:
    assert isinstance(op, FenceOp)
    return f"fence {ATOMIC_ORDERING_KEYWORDS[op.ordering.value.data]}"


def _extract_element(o: Operands, op: Operation) -> str:
    return f"extractelement {o.list(op.operands)}"


def _insert_element(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.InsertElementOp)
    return f"insertelement {o.list((op.vector, op.value, op.index))}"


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
        callee = symbol_text(op.callee.root_reference.data)
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


def _simple_intrinsic(name: str) -> Formatter:
    """An intrinsic named after the type of its first operand."""

    def text(o: Operands, op: Operation) -> str:
        arguments = [(o.type(v.type), o.name(v)) for v in op.operands]
        mangled = mangled_type(op.operands[0].type)
        return o.intrinsic(
            f"llvm.{name}.{mangled}", o.type(op.results[0].type), arguments, _flags(op)
        )

    return text


def _ordered_reduction(name: str) -> Formatter:
    """A reduction with a start value: named after the type of its vector."""

    def text(o: Operands, op: Operation) -> str:
        arguments = [(o.type(v.type), o.name(v)) for v in op.operands]
        mangled = mangled_type(op.operands[1].type)
        return o.intrinsic(
            f"llvm.{name}.{mangled}", o.type(op.results[0].type), arguments, _flags(op)
        )

    return text


def _masked_alignment(op: Operation) -> str:
    return f" align {cast(IntegerAttr, op.properties['alignment']).value.data}"


def _masked_load(o: Operands, op: Operation) -> str:
    assert isinstance(op, MaskedLoadOp)
    result = o.type(op.res.type)
    pointer = (f"ptr{_masked_alignment(op)}", o.name(op.data))
    others = [(o.type(v.type), o.name(v)) for v in (op.mask, op.pass_thru)]
    return o.intrinsic(
        f"llvm.masked.load.{mangled_type(op.res.type)}.p0", result, [pointer, *others]
    )


def _masked_store(o: Operands, op: Operation) -> str:
    assert isinstance(op, llvm.MaskedStoreOp)
    value = (o.type(op.value.type), o.name(op.value))
    pointer = (f"ptr{_masked_alignment(op)}", o.name(op.data))
    mask = (o.type(op.mask.type), o.name(op.mask))
    name = f"llvm.masked.store.{mangled_type(op.value.type)}.p0"
    return o.intrinsic(name, "void", [value, pointer, mask])


def _masked_gather(o: Operands, op: Operation) -> str:
    assert isinstance(op, MaskedGatherOp)
    type = op.res.type
    length = type.get_shape()[0]
    pointers = (f"<{length} x ptr>{_masked_alignment(op)}", o.name(op.ptrs))
    others = [(o.type(v.type), o.name(v)) for v in (op.mask, op.pass_thru)]
    name = f"llvm.masked.gather.{mangled_type(type)}.v{length}p0"
    return o.intrinsic(name, o.type(type), [pointers, *others])


def _memcpy(o: Operands, op: Operation) -> str:
    arguments = [(o.type(v.type), o.name(v)) for v in op.operands]
    name = f"llvm.memcpy.p0.p0.{mangled_type(op.operands[2].type)}"
    return o.intrinsic(name, "void", [*arguments, ("i1", "false")])


def _prefetch(o: Operands, op: Operation) -> str:
    assert isinstance(op, PrefetchOp)
    numbers = [str(p.value.data) for p in (op.rw, op.hint, op.cache)]
    arguments = [("ptr", o.name(op.addr)), *(("i32", number) for number in numbers)]
    return o.intrinsic("llvm.prefetch.p0", "void", arguments)


def _stack_save(o: Operands, op: Operation) -> str:
    return o.intrinsic("llvm.stacksave.p0", "ptr", [])


def _stack_restore(o: Operands, op: Operation) -> str:
    return o.intrinsic("llvm.stackrestore.p0", "void", [("ptr", o.name(op.operands[0]))])


def _return(o: Operands, op: Operation) -> str:
    return f"ret {o.typed(op.operands[0])}" if op.operands else "ret void"


def _unreachable(o: Operands, op: Operation) -> str:
    return "unreachable"


_NAMED_INTRINSICS = (
    *("ceil", "copysign", "cos", "exp", "exp2", "fabs", "floor", "fma", "log", "log2"),
    *("maxnum", "minnum", "pow", "sin", "sqrt"),
)

INSTRUCTIONS: dict[str, Formatter] = {
    **{f"llvm.{name}": _overflowing(name) for name in ("add", "mul", "shl", "sub")},
    **{
        f"llvm.{name}": _marked(name, "isExact", "exact")
        for name in ("ashr", "lshr", "sdiv", "udiv")
    },
    **{f"llvm.{name}": _binary(name) for name in ("and", "srem", "urem", "xor")},
    "llvm.or": _marked("or", "isDisjoint", "disjoint"),
    **{f"llvm.{name}": _float_binary(name) for name in ("fadd", "fdiv", "fmul", "frem", "fsub")},
    "llvm.fneg": _float_unary("fneg"),
    **{
        f"llvm.{name}": _conversion(name)
        for name in (
            *("bitcast", "fpext", "fptosi", "fptoui", "fptrunc", "inttoptr", "ptrtoint", "sext"),
            *("sitofp", "trunc", "uitofp", "zext"),
        )
    },
    **{f"llvm.intr.{name}": _simple_intrinsic(name) for name in _NAMED_INTRINSICS},
    **{f"llvm.intr.{name}": _simple_intrinsic(name) for name in INTRINSICS},
    "llvm.intr.vector.reduce.fadd": _ordered_reduction("vector.reduce.fadd"),
    "llvm.intr.vector.reduce.fmul": _ordered_reduction("vector.reduce.fmul"),
    "llvm.alloca": _alloca,
    "llvm.atomicrmw": _atomic_update,
    "llvm.call": _call,
    "llvm.call_intrinsic": _call_intrinsic,
    "llvm.cmpxchg": _compare_exchange,
    "llvm.extractelement": _extract_element,
    "llvm.extractvalue": _extract_value,
    "llvm.fcmp": _fcmp,
    "llvm.fence": _fence,
    "llvm.freeze": _freeze,
    "llvm.getelementptr": _gep,
    "llvm.icmp": _icmp,
    "llvm.inline_asm": _inline_assembly,
    "llvm.insertelement": _insert_element,
    "llvm.insertvalue": _insert_value,
    "llvm.intr.masked.gather": _masked_gather,
    "llvm.intr.masked.load": _masked_load,
    "llvm.intr.masked.store": _masked_store,
    "llvm.intr.memcpy": _memcpy,
    "llvm.intr.prefetch": _prefetch,
    "llvm.intr.stackrestore": _stack_restore,
    "llvm.intr.stacksave": _stack_save,
    "llvm.load": _load,
    "llvm.return": _return,
    "llvm.select": _select,
    "llvm.shufflevector": _shuffle,
    "llvm.store": _store,
    "llvm.unreachable": _unreachable,
}
"""How each op is spelled; branches and constants are the emitter's own business."""
