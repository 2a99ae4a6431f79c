"""Sizes, strides and offset of a buffer, as its type says them."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, StridedLayoutAttr

from openinfer.runtime.errors import CompileError


def memref_layout(type: MemRefType) -> tuple[list[int | None], list[int | None], int | None]:
    """Sizes, strides and offset of a memref type; None where only the run knows.

    Strides of an identity layout beyond a dynamic size are None too, but follow from the sizes.
    """
    sizes = [None if size == DYNAMIC_INDEX else size for size in type.get_shape()]
    if isinstance(type.layout, NoneAttr):
        strides: list[int | None] = []
        stride: int | None = 1
        for size in reversed(sizes):
            strides.append(stride)
            stride = None if stride is None or size is None else stride * size
        return sizes, strides[::-1], 0
    if not isinstance(type.layout, StridedLayoutAttr):
        raise CompileError("OI0980", f"{type} has a layout that is neither identity nor strided")
    return sizes, list(type.layout.get_strides()), type.layout.get_offset()
