"""Types of the `threads` level in `llvm`, and how a memref argument travels.

A memref is passed as a bare pointer, then one i64 for each thing that its type leaves open, in this
order: sizes, the offset, strides. `memref<?x8xf32, strided<[?, 1], offset: ?>>` is
`(ptr, size 0, offset, stride 0)`. Nothing else describes a buffer, and functions return none.
"""

from __future__ import annotations

from typing import get_args

from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    StridedLayoutAttr,
    VectorType,
    i64,
)
from xdsl.dialects.llvm import LLVMArrayType, LLVMPointerType, LLVMStructType
from xdsl.ir import Attribute

from openinfer.lowering.memref_layout import memref_layout
from openinfer.runtime.errors import CompileError

POINTER = LLVMPointerType()
_KEPT = frozenset(
    {IntegerType, *get_args(AnyFloat), LLVMPointerType, LLVMStructType, LLVMArrayType}
)
"""Types that `llvm` has, too."""
_FLOAT_BYTES: dict[type[Attribute], int] = {Float16Type: 2, Float32Type: 4, Float64Type: 8}


def convert_type(type: Attribute) -> Attribute:
    """The `llvm` type of a scalar or vector; raises CompileError for others (OI0980)."""
    # By class: `isinstance` of an attribute that is none asks the abstract base class.
    kind = type.__class__
    if kind in _KEPT:
        return type
    if kind is IndexType:
        return i64
    if kind is VectorType:
        assert isinstance(type, VectorType)
        if type.get_num_dims() != 1:
            raise CompileError(
                "OI0980",
                f"{type} is not a 1-D vector",
                hint="keep a tile as several 1-D vectors",
            )
        if type.element_type.__class__ is IndexType:
            return VectorType(i64, type.shape)
        return type
    raise CompileError("OI0980", f"type {type} has no counterpart in the llvm dialect")


def element_bytes(type: Attribute) -> int:
    """Bytes of one element in memory; raises CompileError for types that cannot lie there."""
    kind = type.__class__
    if kind in _FLOAT_BYTES:
        return _FLOAT_BYTES[kind]
    if kind is IndexType:
        return 8
    if isinstance(type, FixedBitwidthType) and type.bitwidth % 8 == 0:
        return type.bitwidth // 8
    raise CompileError("OI0980", f"{type} has no address of its own in memory")


def argument_parts(type: MemRefType) -> list[str]:
    """What a memref of `type` expands to, in order: "ptr", "size0", "offset", "stride1"."""
    sizes, strides, offset = memref_layout(type)
    parts = ["ptr", *(f"size{i}" for i, size in enumerate(sizes) if size is None)]
    if isinstance(type.layout, StridedLayoutAttr):
        if offset is None:
            parts.append("offset")
        parts += [f"stride{i}" for i, stride in enumerate(strides) if stride is None]
    return parts


def expanded_types(types: list[Attribute]) -> list[Attribute]:
    """The `llvm` argument types of a function whose arguments have `types`."""
    expanded: list[Attribute] = []
    for type in types:
        if isinstance(type, MemRefType):
            expanded.append(POINTER)
            expanded += [i64] * (len(argument_parts(type)) - 1)
        else:
            expanded.append(convert_type(type))
    return expanded
