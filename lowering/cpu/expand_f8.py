"""The pass `expand-f8`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, ModuleOp
from xdsl.passes import ModulePass

from openinfer.lowering.kernels.f8 import narrow, widen
from openinfer.lowering.kernels.stored_floats import StoredFloats, expand


@dataclass(frozen=True)
class ExpandF8(ModulePass):
    """
    Turn 8-bit floats into bytes: conversions in integer arithmetic, all else in f32.

    Before:
        %a = vector.load %x[%i] : memref<?xf8E5M2>, vector<16xf8E5M2>
        %b = arith.extf %a : vector<16xf8E5M2> to vector<16xf32>

    After:
        %a = vector.load %x[%i] : memref<?xi8>, vector<16xi8>
        %0 = arith.extui %a : vector<16xi8> to vector<16xi16>
        %1 = arith.shli %0, %c8 : vector<16xi16>
        %2 = arith.bitcast %1 : vector<16xi16> to vector<16xf16>
        %b = arith.extf %2 : vector<16xf16> to vector<16xf32>

    A narrower result is rounded once, to nearest even. Subnormal numbers are kept, overflow of f8E5M2
    gives infinity and of f8E4M3FN, which has none, NaN.

    Requires: the loops level. Leaves: no type f8E5M2 or f8E4M3FN.
    """

    name: ClassVar[str] = "expand-f8"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        expand(op, StoredFloats((Float8E5M2Type, Float8E4M3FNType), widen, narrow))
