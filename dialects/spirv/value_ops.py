"""Ops of SPIR-V that compute a value of values: a row for each form, with the ops that have it.

The names are MLIR's, and the words behind them are those of the row of the same name in
`runtime/spirv/instructions.py`; `GL.X` is instruction X of `GLSL.std.450`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from xdsl.ir import OpTrait
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from openinfer.dialects.spirv.enums import (
    EnumAttr,
    GroupOperationAttr,
    MatrixLayoutAttr,
    MatrixOperandsAttr,
    MemoryAccessAttr,
    MemorySemanticsAttr,
    PackedVectorFormatAttr,
    ScopeAttr,
)
from openinfer.dialects.spirv.forms import Form, FormOp

_ONE, _TWO, _THREE = "%0 dict : {0}", "%0, %1 dict : {0}", "%0, %1, %2 dict : {0}"


def _same(letter: str, count: int) -> Form:
    """Operands and result of one type."""
    syntax = (_ONE, _TWO, _THREE)[count - 1].format(letter)
    return Form(syntax, f"{' '.join([letter] * count)} -> {letter}")


_PURE: tuple[OpTrait, ...] = (Pure(),)
# What lanes of a subgroup tell each other must stay where it stands.
_LANES: tuple[OpTrait, ...] = (MemoryReadEffect(), MemoryWriteEffect())
_GROUP = {"execution_scope": ScopeAttr, "group_operation": GroupOperationAttr}
_SCOPE = {"execution_scope": ScopeAttr}
_ATOMIC = {"memory_scope": ScopeAttr, "semantics": MemorySemanticsAttr}
_FORMAT = {"format?": PackedVectorFormatAttr}
_MATRIX_MEMORY = {"matrix_layout": MatrixLayoutAttr, "memory_operand?": MemoryAccessAttr}
_REDUCE = '"execution_scope" "group_operation" %0 {{cluster_size(%1)}} dict : {0}'

_Rows = tuple[tuple[Form, str, Mapping[str, type[EnumAttr]], tuple[OpTrait, ...]], ...]
_ROWS: Final[_Rows] = (
    (_same("F", 1), "FNegate", {}, _PURE),
    (_same("F", 2), "FAdd FSub FMul FDiv FRem FMod", {}, _PURE),
    (_same("I", 1), "SNegate Not BitCount BitReverse", {}, _PURE),
    (
        _same("I", 2),
        "IAdd ISub IMul UDiv SDiv UMod SRem SMod BitwiseOr BitwiseXor BitwiseAnd",
        {},
        _PURE,
    ),
    (_same("B", 1), "LogicalNot", {}, _PURE),
    (_same("B", 2), "LogicalEqual LogicalNotEqual LogicalOr LogicalAnd", {}, _PURE),
    (
        _same("F", 1),
        "GL.Round GL.RoundEven GL.Trunc GL.FAbs GL.FSign GL.Floor GL.Ceil GL.Fract GL.Sin GL.Cos GL.Tan "
        "GL.Asin GL.Acos GL.Atan GL.Sinh GL.Cosh GL.Tanh GL.Asinh GL.Acosh GL.Atanh GL.Exp GL.Log GL.Exp2 "
        "GL.Log2 GL.Sqrt GL.InverseSqrt",
        {},
        _PURE,
    ),
    (_same("F", 2), "GL.Atan2 GL.Pow GL.FMin GL.FMax GL.NMin GL.NMax", {}, _PURE),
    (_same("F", 3), "GL.FClamp GL.NClamp GL.Fma", {}, _PURE),
    (_same("I", 1), "GL.SAbs GL.SSign GL.FindILsb GL.FindSMsb GL.FindUMsb", {}, _PURE),
    (_same("I", 2), "GL.UMin GL.SMin GL.UMax GL.SMax", {}, _PURE),
    (_same("I", 3), "GL.UClamp GL.SClamp", {}, _PURE),
    (Form("%0 : F, %1 : F1, %2 : F2 -> F3", "F F1 F2 -> F3"), "GL.FMix", {}, _PURE),
    (Form("%0 : F, %1 : I -> F1", "F I -> F1"), "GL.Ldexp", {}, _PURE),
    (Form("%0 dict : V to I", "V -> I"), "GL.PackHalf2x16", {}, _PURE),
    (Form("%0 dict : I to V", "I -> V"), "GL.UnpackHalf2x16", {}, _PURE),
    (
        Form("%0, %1 dict : I", "I I -> truth(I)"),
        "IEqual INotEqual UGreaterThan SGreaterThan UGreaterThanEqual SGreaterThanEqual ULessThan SLessThan "
        "ULessThanEqual SLessThanEqual",
        {},
        _PURE,
    ),
    (
        Form("%0, %1 dict : F", "F F -> truth(F)"),
        "FOrdEqual FUnordEqual FOrdNotEqual FUnordNotEqual FOrdLessThan FUnordLessThan FOrdGreaterThan "
        "FUnordGreaterThan FOrdLessThanEqual FUnordLessThanEqual FOrdGreaterThanEqual FUnordGreaterThanEqual",
        {},
        _PURE,
    ),
    (Form("%0 dict : F", "F -> truth(F)"), "IsNan IsInf", {}, _PURE),
    (Form("%0, %1, %2 dict : B, T", "B T T -> T"), "Select", {}, _PURE),
    (
        Form("%0, %1 dict : I, I1", "I I1 -> I"),
        "ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical",
        {},
        _PURE,
    ),
    (Form("%0, %1, %2, %3 dict : I, I1, I2", "I I I1 I2 -> I"), "BitFieldInsert", {}, _PURE),
    (
        Form("%0, %1, %2 dict : I, I1, I2", "I I1 I2 -> I"),
        "BitFieldSExtract BitFieldUExtract",
        {},
        _PURE,
    ),
    (
        Form("%0, %1 dict : T", "first(T) first(T) -> T"),
        "IAddCarry ISubBorrow UMulExtended SMulExtended",
        {},
        _PURE,
    ),
    (Form("%0 dict : F to I", "F -> I"), "ConvertFToU ConvertFToS", {}, _PURE),
    (Form("%0 dict : I to F", "I -> F"), "ConvertSToF ConvertUToF", {}, _PURE),
    (Form("%0 dict : I to I1", "I -> I1"), "UConvert SConvert", {}, _PURE),
    (Form("%0 dict : F to F1", "F -> F1"), "FConvert", {}, _PURE),
    (Form("%0 dict : T to T1", "T -> T1"), "Bitcast", {}, _PURE),
    (Form("%0 dict : I to P", "I -> P"), "ConvertUToPtr", {}, _PURE),
    (Form("%0 dict : P to I", "P -> I"), "ConvertPtrToU", {}, _PURE),
    (Form("dict : T", "-> T"), "Undef", {}, _PURE),
    (Form("%0, %1 dict : (V, S) -> V", "V S -> V"), "VectorTimesScalar", {}, _PURE),
    (Form("%0, %1 dict : M, S", "M S -> M"), "MatrixTimesScalar", {}, _PURE),
    (Form("%0, %1 dict : V -> S", "V V -> S"), "Dot", {}, _PURE),
    (
        Form("%0, %1 {, <format>} dict : I -> I1", "I I -> I1"),
        "SDot UDot SUDot",
        _FORMAT,
        _PURE,
    ),
    (
        Form("%0, %1, %2 {, <format>} dict : I -> I1", "I I I1 -> I1"),
        "SDotAccSat UDotAccSat SUDotAccSat",
        _FORMAT,
        _PURE,
    ),
    (Form("%0[%1] dict : V, I", "V I -> element(V)"), "VectorExtractDynamic", {}, _PURE),
    (
        Form("%1, %0[%2] dict : V, I", "V element(V) I -> V"),
        "VectorInsertDynamic",
        {},
        _PURE,
    ),
    (Form("<execution_scope> dict : i1", "-> i1"), "GroupNonUniformElect", _SCOPE, _LANES),
    (
        Form("<execution_scope> %0 dict : i1", "i1 -> i1"),
        "GroupNonUniformAll GroupNonUniformAny",
        _SCOPE,
        _LANES,
    ),
    (
        Form("<execution_scope> %0 dict : T", "i1 -> T"),
        "GroupNonUniformBallot",
        _SCOPE,
        _LANES,
    ),
    (
        Form("<execution_scope> %0, %1 dict : T, I", "T I -> T"),
        "GroupNonUniformBroadcast GroupNonUniformShuffle GroupNonUniformShuffleXor GroupNonUniformShuffleUp "
        "GroupNonUniformShuffleDown",
        _SCOPE,
        _LANES,
    ),
    (
        Form("<execution_scope> %0 dict : T", "T -> T"),
        "GroupNonUniformBroadcastFirst",
        _SCOPE,
        _LANES,
    ),
    (
        Form(_REDUCE.format("F"), "F i32 -> F"),
        "GroupNonUniformFAdd GroupNonUniformFMul GroupNonUniformFMin GroupNonUniformFMax",
        _GROUP,
        _LANES,
    ),
    (
        Form(_REDUCE.format("I"), "I i32 -> I"),
        "GroupNonUniformIAdd GroupNonUniformIMul GroupNonUniformSMin GroupNonUniformUMin GroupNonUniformSMax "
        "GroupNonUniformUMax GroupNonUniformBitwiseAnd GroupNonUniformBitwiseOr GroupNonUniformBitwiseXor",
        _GROUP,
        _LANES,
    ),
    (
        Form(_REDUCE.format("B"), "B i32 -> B"),
        "GroupNonUniformLogicalAnd GroupNonUniformLogicalOr GroupNonUniformLogicalXor",
        _GROUP,
        _LANES,
    ),
    (
        Form("<memory_scope> <semantics> %0, %1 dict : P", "P pointee(P) -> pointee(P)"),
        "AtomicExchange AtomicIAdd AtomicISub AtomicSMin AtomicUMin AtomicSMax AtomicUMax AtomicAnd AtomicOr "
        "AtomicXor EXT.AtomicFAdd",
        _ATOMIC,
        _LANES,
    ),
    (
        Form("<memory_scope> <semantics> %0 dict : P", "P -> pointee(P)"),
        "AtomicIIncrement",
        _ATOMIC,
        _LANES,
    ),
    (
        Form(
            "<memory_scope> <equal_semantics> <unequal_semantics> %0, %1, %2 dict : P",
            "P pointee(P) pointee(P) -> pointee(P)",
        ),
        "AtomicCompareExchange",
        {
            "memory_scope": ScopeAttr,
            "equal_semantics": MemorySemanticsAttr,
            "unequal_semantics": MemorySemanticsAttr,
        },
        _LANES,
    ),
    (
        Form("<execution_scope>, <memory_scope>, <memory_semantics> dict", ""),
        "ControlBarrier",
        {
            "execution_scope": ScopeAttr,
            "memory_scope": ScopeAttr,
            "memory_semantics": MemorySemanticsAttr,
        },
        _LANES,
    ),
    (
        Form("<memory_scope>, <memory_semantics> dict", ""),
        "MemoryBarrier",
        {"memory_scope": ScopeAttr, "memory_semantics": MemorySemanticsAttr},
        _LANES,
    ),
    (
        Form("%0, %1, <matrix_layout> {, <memory_operand>} dict : P, I -> M", "P I -> M"),
        "KHR.CooperativeMatrixLoad",
        _MATRIX_MEMORY,
        (MemoryReadEffect(),),
    ),
    (
        Form("%0, %1, %2, <matrix_layout> {, <memory_operand>} dict : P, M, I", "P M I"),
        "KHR.CooperativeMatrixStore",
        _MATRIX_MEMORY,
        (MemoryWriteEffect(),),
    ),
    (
        Form("%0, %1, %2 {, <matrix_operands>} dict : M, M1 -> M2", "M M1 M2 -> M2"),
        "KHR.CooperativeMatrixMulAdd",
        {"matrix_operands?": MatrixOperandsAttr},
        _PURE,
    ),
    # MLIR has no names for these of NVIDIA's extensions.
    (
        Form("%0 dict : M to M1", "M -> M1"),
        "EXT.CooperativeMatrixConvertUse NV.CooperativeMatrixTranspose",
        {},
        _PURE,
    ),
    (Form("dict : L", "-> L"), "NV.CreateTensorLayout", {}, _PURE),
    (Form("dict : W", "-> W"), "NV.CreateTensorView", {}, _PURE),
)


def _define(
    name: str, form: Form, properties: Mapping[str, type[EnumAttr]], traits: tuple[OpTrait, ...]
) -> type[FormOp]:
    enums = {key.rstrip("?"): kind for key, kind in properties.items()}
    body: dict[str, Any] = {
        "__module__": __name__,
        "__annotations__": {},
        "name": f"spirv.{name}",
        "traits": traits_def(*traits),
    }
    for key, kind in properties.items():
        body[key.rstrip("?")] = opt_prop_def(kind) if key.endswith("?") else prop_def(kind)
    made: type[FormOp] = irdl_op_definition(type(f"{name.replace('.', '')}Op", (FormOp,), body))
    made.FORM, made.ENUMS = form, enums
    return made


VALUE_OPS: Final[dict[str, type[FormOp]]] = {
    name: _define(name, form, properties, traits)
    for form, names, properties, traits in _ROWS
    for name in names.split()
}
"""The ops by what stands behind `spirv.` in their names."""
