"""Intrinsic operations of `llvm`: a row for each that xDSL 0.74 lacks, under MLIR's names, and a row
for each intrinsic, added or not, whose call is not named after the type of its first operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    BoolAttr,
    IntegerAttr,
    IntegerType,
    SignlessIntegerConstraint,
    VectorType,
    i1,
)
from xdsl.dialects.llvm import FastMathAttr, LLVMPointerType
from xdsl.ir import OpTrait
from xdsl.irdl import (
    AttrConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from openinfer.dialects.extensions.extend import extended_op
from openinfer.dialects.late_syntax import op_definition
from openinfer.runtime.quick_dataclass import dataclass

_FLOATS = VarConstraint("T", AnyFloatConstr | VectorType.constr(AnyFloatConstr))
_INTEGERS = VarConstraint(
    "T", SignlessIntegerConstraint | VectorType.constr(SignlessIntegerConstraint)
)
_ELEMENT = VarConstraint("ELEMENT", AnyFloatConstr | SignlessIntegerConstraint)
_VECTOR = VarConstraint("V", base(VectorType))
_MASK = VectorType.constr(i1)
_POINTER = base(LLVMPointerType)

_CALL = "`(` operands `)` attr-dict `:` functional-type(operands, results)"
_LIST = "operands attr-dict `:` functional-type(operands, results)"


@extended_op(operands={"value": base(VectorType)})
class MaskedStoreOp(llvm.MaskedStoreOp):
    """Masked store of a vector of any element type."""


def _op(
    name: str,
    operands: Mapping[str, AttrConstraint],
    result: AttrConstraint | None = None,
    properties: Mapping[str, Any] = {},
    traits: tuple[OpTrait, ...] = (Pure(),),
    syntax: str | None = _CALL,
) -> tuple[str, type[IRDLOperation]]:
    """The row of `llvm.intr.NAME`; without a syntax it prints in the generic one."""
    body: dict[str, Any] = {
        "name": f"llvm.intr.{name}",
        "__module__": __name__,
        "__annotations__": {},
        **{operand: operand_def(constraint) for operand, constraint in operands.items()},
        **properties,
        "traits": traits_def(*traits),
    }
    if result is not None:
        body["res"] = result_def(result)
    if syntax is not None:
        body["assembly_format"] = syntax
    if syntax is not None and properties:
        body["irdl_options"] = (ParsePropInAttrDict(),)
    class_name = "".join(part.capitalize() for part in name.split(".")) + "Op"
    return name, op_definition(type(class_name, (IRDLOperation,), body))


_FLAGS = {"fastmathFlags": prop_def(FastMathAttr, default_value=FastMathAttr(None))}
_MAYBE_FLAGS = {"fastmathFlags": opt_prop_def(FastMathAttr)}
_ALIGNMENT = {"alignment": prop_def(IntegerAttr[IntegerType])}
_READS = (MemoryReadEffect(),)
_READS_AND_WRITES = (MemoryReadEffect(), MemoryWriteEffect())

INTRINSICS: dict[str, type[IRDLOperation]] = dict(
    (
        *(
            _op(name, {"arg": _FLOATS}, _FLOATS, _FLAGS)
            for name in (
                *("acos", "asin", "atan", "cosh", "log10", "rint", "round", "roundeven", "sinh"),
                *("tan", "tanh", "trunc"),
            )
        ),
        *(
            _op(name, {"a": _FLOATS, "b": _FLOATS}, _FLOATS, _FLAGS)
            for name in ("atan2", "maximum", "minimum")
        ),
        *(
            _op(name, {"a": _INTEGERS, "b": _INTEGERS}, _INTEGERS)
            for name in ("smax", "smin", "umax", "umin")
        ),
        *(
            _op(
                f"vector.reduce.{kind}",
                {"arg": VectorType.constr(_ELEMENT)},
                _ELEMENT,
                _MAYBE_FLAGS,
            )
            for kind in (
                *("add", "and", "fmax", "fmaximum", "fmin", "fminimum", "mul", "or"),
                *("smax", "smin", "umax", "umin", "xor"),
            )
        ),
        *(
            _op(
                f"masked.{kind}",
                {address: constraint, "mask": _MASK, "pass_thru": _VECTOR},
                _VECTOR,
                _ALIGNMENT,
                _READS,
                _LIST,
            )
            for kind, address, constraint in (
                ("load", "data", _POINTER),
                ("gather", "ptrs", VectorType.constr(_POINTER)),
            )
        ),
        _op(
            "memcpy",
            {"dst": _POINTER, "src": _POINTER, "len": SignlessIntegerConstraint},
            properties={"isVolatile": prop_def(BoolAttr)},
            traits=_READS_AND_WRITES,
            syntax=None,
        ),
        # A line into the cache: `rw` 1 to write it, `hint` 0 to 3 to keep it, `cache` 1 for data. It
        # changes nothing that a program sees, but it must stay where it stands.
        _op(
            "prefetch",
            {"addr": _POINTER},
            properties={key: prop_def(IntegerAttr[IntegerType]) for key in ("rw", "hint", "cache")},
            traits=_READS_AND_WRITES,
            syntax=None,
        ),
    )
)
"""The added intrinsic ops by their name after `llvm.intr.`."""


@dataclass(frozen=True)
class IntrinsicCall:
    """How an op `llvm.intr.NAME` is a call of `@llvm.NAME.TYPES`."""

    types: tuple[int, ...] = (0,)
    """Whose types end the name: numbers of operands, `RESULT` for the result."""
    aligned: int | None = None
    """The operand that `alignment` is about."""
    constants: tuple[str, ...] = ()
    """Properties that are arguments behind the operands."""


RESULT = -1

CALLS: dict[str, IntrinsicCall] = {
    **dict.fromkeys(
        (
            *("ceil", "copysign", "cos", "exp", "exp2", "fabs", "floor", "fma", "log", "log2"),
            *("maxnum", "minnum", "pow", "sin", "sqrt", "stackrestore", *INTRINSICS),
        ),
        IntrinsicCall(),
    ),
    # A reduction with a start value is named after its vector.
    **dict.fromkeys(("vector.reduce.fadd", "vector.reduce.fmul"), IntrinsicCall((1,))),
    "masked.gather": IntrinsicCall((RESULT, 0), aligned=0),
    "masked.load": IntrinsicCall((RESULT, 0), aligned=0),
    "masked.store": IntrinsicCall((0, 1), aligned=1),
    "memcpy": IntrinsicCall((0, 1, 2), constants=("isVolatile",)),
    "prefetch": IntrinsicCall(constants=("rw", "hint", "cache")),
    "stacksave": IntrinsicCall((RESULT,)),
}
"""Every intrinsic, by its name after `llvm.intr.`."""
