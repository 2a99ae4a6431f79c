"""The pass `expand-narrow-floats`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float8E4M3FNType, Float8E5M2Type, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from openinfer.lowering.kernels import bf16, f8
from openinfer.lowering.kernels.stored_floats import StoredFloats, expand
from openinfer.lowering.places import is_device_kernel

_STORED = (
    StoredFloats((BFloat16Type,), bf16.widen, bf16.narrow),
    StoredFloats((Float8E5M2Type, Float8E4M3FNType), f8.widen_exactly, f8.narrow),
)


@dataclass(frozen=True)
class ExpandNarrowFloats(ModulePass):
    """
    Turn bf16 and 8-bit floats in kernels of the device into integers of 16 and 8 bits, and what computes with
    them into f32.

    Before:
        %a = memref.load %x[%i] : memref<?xbf16>
        %b = arith.extf %a : bf16 to f32

    After:
        %a = memref.load %x[%i] : memref<?xi16>
        %0 = arith.extui %a : i16 to i32
        %1 = arith.shli %0, %c16 : i32
        %b = arith.bitcast %1 : i32 to f32

    A narrower result is rounded once, to nearest even; NaN and subnormal numbers are kept, also where the
    device takes subnormal numbers of f32 for zeros. No kernel needs more of a device than integers in memory.

    Requires: `lower-device-kernels`. Leaves: none of these types in kernels of the device; functions of the
    host as they are.
    """

    name: ClassVar[str] = "expand-narrow-floats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and is_device_kernel(function):
                for stored in _STORED:
                    expand(function, stored)
