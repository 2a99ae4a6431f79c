"""Words of four bytes to `llvm`: the dot products of the target, which must be ones that it has."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, VectorType, i1, i8, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.llvm import SelectOp
from openinfer.dialects.nn import LookUpBytesOp
from openinfer.lowering.attributes import dense_i32, text_attribute, vector_of
from openinfer.lowering.cpu.to_llvm.converter import Converter, Rule

_DOTS = {
    4: "llvm.x86.avx512.vpdpbusd.128",
    8: "llvm.x86.avx512.vpdpbusd.256",
    16: "llvm.x86.avx512.vpdpbusd.512",
}
"""Lanes of the sums → the intrinsic that adds four products of bytes, those of the left without a sign."""
_BYTE_PAIRS = {
    4: "llvm.x86.ssse3.pmadd.ub.sw.128",
    8: "llvm.x86.avx2.pmadd.ub.sw",
    16: "llvm.x86.avx512.pmaddubs.w.512",
}
"""The one that adds two of them in 16 bits, which hold the sum of small ones."""
_PAIRS = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
"""The one that adds two products of 16 bits in 32; every x86-64 has the first."""
_SIGNS = {4: "llvm.x86.ssse3.psign.b.128", 8: "llvm.x86.avx2.psign.b"}
"""The one that gives bytes the sign of others."""
_SHUFFLES = {
    4: "llvm.x86.ssse3.pshuf.b.128",
    8: "llvm.x86.avx2.pshuf.b",
    16: "llvm.x86.avx512.pshuf.b.512",
}
"""The one that looks bytes up, in a table of 16 for each 16 of them."""
_EQUAL = IntegerAttr(0, 64)
_NO_OVERFLOW_FLAGS: dict[str, Attribute] = {"overflowFlags": IntegerAttr(0, 32)}


def _dot_words(c: Converter, op: Operation) -> None:
    sums, a, b = c.values(op.operands)
    lanes = cast(VectorType, sums.type).get_shape()[0]
    unsigned, small = "unsigned" in op.properties, "small" in op.properties
    plain = c.processor.name == "generic"
    if not _fits(c, lanes):
        found = _by_halves(c, sums, a, b, lanes, unsigned=unsigned)
    elif unsigned and c.processor.byte_dot and lanes in _DOTS:
        found = _call(c, _DOTS[lanes], (sums, a, b), i32, lanes)
    elif small and not plain and lanes in _BYTE_PAIRS:
        found = _add(c, sums, _byte_pairs(c, a, b, lanes))
    elif not unsigned and not plain and lanes in _SIGNS:
        # |a| times b with the sign of a: both fit the instruction for bytes without and with a sign.
        left, right = (_bytes(c, value, lanes) for value in (a, b))
        positive = _call(c, _SIGNS[lanes], (left, left), i8, 4 * lanes)
        signed = _call(c, _SIGNS[lanes], (right, left), i8, 4 * lanes)
        found = _add(c, sums, _byte_pairs(c, positive, signed, lanes))
    else:
        found = _by_halves(c, sums, a, b, lanes, unsigned=unsigned)
    c.set(op.results[0], found)


def _fits(c: Converter, lanes: int) -> bool:
    """Whether so many words are a register: there is no instruction for more."""
    return 32 * lanes <= c.processor.vector_bits


def _byte_pairs(c: Converter, a: SSAValue, b: SSAValue, lanes: int) -> SSAValue:
    """The sums of four products, of bytes below or at 128 with others."""
    left, right = (_bytes(c, value, lanes) for value in (a, b))
    pairs = _call(c, _BYTE_PAIRS[lanes], (left, right), i16, 2 * lanes)
    ones = c.splat(1, VectorType(i16, [2 * lanes]))
    return _call(c, _PAIRS[lanes], (pairs, ones), i32, lanes)


def _by_halves(
    c: Converter, sums: SSAValue, a: SSAValue, b: SSAValue, lanes: int, *, unsigned: bool
) -> SSAValue:
    """Bytes of even and odd places, each widened to 16 bits."""
    kind = VectorType(i16, [2 * lanes])
    left, right = (c.emit(llvm.BitcastOp, (value,), kind) for value in (a, b))
    for shifted in (True, False):
        x = _widened(c, left, even=shifted, unsigned=unsigned)
        y = _widened(c, right, even=shifted, unsigned=False)
        if lanes in _PAIRS and _fits(c, lanes):
            products = _call(c, _PAIRS[lanes], (x, y), i32, lanes)
        else:
            products = _multiplied(c, x, y, lanes)
        sums = _add(c, sums, products)
    return sums


def _widened(c: Converter, values: SSAValue, *, even: bool, unsigned: bool) -> SSAValue:
    """The low (even) or high byte of each 16 bits, as 16 bits."""
    eight = c.splat(8, values.type)
    if even:
        values = c.emit(llvm.ShlOp, (values, eight), values.type, _NO_OVERFLOW_FLAGS)
    return c.emit(llvm.LShrOp if unsigned else llvm.AShrOp, (values, eight), values.type)


def _multiplied(c: Converter, a: SSAValue, b: SSAValue, lanes: int) -> SSAValue:
    """What the instruction for pairs computes, for a number of lanes that it does not have."""
    kind = VectorType(i32, [lanes])
    words = [c.emit(llvm.BitcastOp, (value,), kind) for value in (a, b)]
    sixteen = c.splat(16, kind)
    high = [c.emit(llvm.AShrOp, (w, sixteen), kind) for w in words]
    low = [
        c.emit(
            llvm.AShrOp,
            (c.emit(llvm.ShlOp, (w, sixteen), kind, _NO_OVERFLOW_FLAGS), sixteen),
            kind,
        )
        for w in words
    ]
    products = [c.emit(llvm.MulOp, tuple(pair), kind, _NO_OVERFLOW_FLAGS) for pair in (low, high)]
    return _add(c, *products)


def _look_up_bytes(c: Converter, op: Operation) -> None:
    assert isinstance(op, LookUpBytesOp)
    words = c.value(op.words)
    lanes = cast(VectorType, words.type).get_shape()[0]
    kind = VectorType(i8, [4 * lanes])
    codes, table = _bytes(c, words, lanes), [int(n) for n in op.table.get_values()]
    if c.processor.name != "generic" and lanes in _SHUFFLES and _fits(c, lanes):
        whole = c.constant_vector(table * (lanes // 4), kind)
        found = _call(c, _SHUFFLES[lanes], (whole, codes), i8, 4 * lanes)
    else:
        found = c.splat(table[0], kind)
        for code, value in enumerate(table[1:], 1):
            same = c.emit(
                llvm.ICmpOp,
                (codes, c.splat(code, kind)),
                VectorType(i1, [4 * lanes]),
                {"predicate": _EQUAL},
            )
            found = c.emit(SelectOp, (same, c.splat(value, kind), found), kind)
    c.set(op.results[0], c.emit(llvm.BitcastOp, (found,), words.type))


def _bytes(c: Converter, words: SSAValue, lanes: int) -> SSAValue:
    kind = VectorType(i8, [4 * lanes])
    return words if words.type == kind else c.emit(llvm.BitcastOp, (words,), kind)


def _add(c: Converter, a: SSAValue, b: SSAValue) -> SSAValue:
    return c.emit(llvm.AddOp, (a, b), a.type, _NO_OVERFLOW_FLAGS)


def _call(
    c: Converter, name: str, operands: tuple[SSAValue, ...], element: Attribute, lanes: int
) -> SSAValue:
    properties: dict[str, Attribute] = {
        "intrin": text_attribute(name),
        "op_bundle_sizes": dense_i32(()),
        "operandSegmentSizes": dense_i32((len(operands), 0)),
    }
    return c.emit(llvm.CallIntrinsicOp, operands, vector_of(element, lanes), properties)


RULES: dict[str, Rule] = {"nn.dot_words": _dot_words, "nn.look_up_bytes": _look_up_bytes}
"""Rules by op name."""
