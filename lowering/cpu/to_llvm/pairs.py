"""Pairs of bf16 to `llvm`: single instructions where the target has them, else what those compute."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    VectorType,
    bf16,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.llvm import PoisonOp
from openinfer.lowering.attributes import dense_i32
from openinfer.lowering.cpu.to_llvm.converter import Converter, Rule
from openinfer.lowering.cpu.to_llvm.half import narrow

_INTRINSICS = {4: "128", 8: "256", 16: "512"}
"""Lanes of the sums → width that the intrinsic is called after."""
_NO_FLAGS: dict[str, Attribute] = {"fastmathFlags": llvm.FastMathAttr(None)}
_NO_OVERFLOW_FLAGS: dict[str, Attribute] = {"overflowFlags": IntegerAttr(0, 32)}


def _dot_pairs(c: Converter, op: Operation) -> None:
    sums, a, b = c.values(op.operands)
    lanes = cast(VectorType, sums.type).get_shape()[0]
    if c.processor.bf16_dot and lanes in _INTRINSICS:
        made = llvm.CallIntrinsicOp(
            StringAttr(f"llvm.x86.avx512bf16.dpbf16ps.{_INTRINSICS[lanes]}"),
            [sums, a, b],
            [sums.type],
        )
        c.append(made)
        c.set(op.results[0], made.results[0])
        return
    words = VectorType(i32, [lanes])
    left, right = (c.emit(llvm.BitcastOp, (value,), words) for value in (a, b))
    # The second of each pair first, as the instruction does it.
    for half in (_second, _first):
        sums = _multiply_add(c, half(c, left), half(c, right), sums)
    c.set(op.results[0], sums)


def _first(c: Converter, words: SSAValue) -> SSAValue:
    """The low halves of 32-bit words as f32: bf16 is the upper half of it."""
    count = c.splat(16, words.type)
    bits = c.emit(llvm.ShlOp, (words, count), words.type, _NO_OVERFLOW_FLAGS)
    return c.emit(llvm.BitcastOp, (bits,), _floats(words))


def _second(c: Converter, words: SSAValue) -> SSAValue:
    bits = c.emit(llvm.AndOp, (words, c.splat(-(1 << 16), words.type)), words.type)
    return c.emit(llvm.BitcastOp, (bits,), _floats(words))


def _floats(words: SSAValue) -> VectorType:
    return VectorType(f32, cast(VectorType, words.type).shape)


def _multiply_add(c: Converter, a: SSAValue, b: SSAValue, total: SSAValue) -> SSAValue:
    # Products of bf16 are exact in f32, so that both forms round once.
    if c.has_fused_multiply_add:
        return c.emit(llvm.FMAOp, (a, b, total), total.type, _NO_FLAGS)
    product = c.emit(llvm.FMulOp, (a, b), total.type, _NO_FLAGS)
    return c.emit(llvm.FAddOp, (product, total), total.type, _NO_FLAGS)


def _round_pairs(c: Converter, op: Operation) -> None:
    a, b = c.values(op.operands)
    lanes = cast(VectorType, a.type).get_shape()[0]
    pairs = cast(VectorType, op.results[0].type)
    if c.processor.bf16_dot and lanes in _INTRINSICS:
        made = llvm.CallIntrinsicOp(
            StringAttr(f"llvm.x86.avx512bf16.cvtne2ps2bf16.{_INTRINSICS[lanes]}"), [b, a], [pairs]
        )
        c.append(made)
        both, rest = made.results[0], None
    else:
        both, rest = (narrow(c, value, VectorType(bf16, [lanes])) for value in (a, b))
    second = rest or c.in_entry(PoisonOp.create(result_types=(both.type,)))
    order = [place for lane in range(lanes) for place in (lane, lane + lanes)]
    mask: dict[str, Attribute] = {"mask": dense_i32(order)}
    c.set(op.results[0], c.emit(llvm.ShuffleVectorOp, (both, second), pairs, mask))


RULES: dict[str, Rule] = {"nn.dot_pairs": _dot_pairs, "nn.round_pairs": _round_pairs}
"""Rules by op name."""
