"""Accesses of memrefs to `llvm`: addresses by GEP, loads, stores, copies, static buffers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects import llvm, memref
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    SymbolRefAttr,
    i8,
)
from xdsl.dialects.llvm import LLVMArrayType
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.llvm_atomics import AtomicRMWOp
from openinfer.dialects.extensions.llvm_intrinsics import INTRINSICS
from openinfer.dialects.extensions.memref import ATOMIC_KINDS
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.attributes import i32_attribute
from openinfer.lowering.cpu.to_llvm import packed
from openinfer.lowering.cpu.to_llvm.converter import Buffer, Converter, Int, Rule
from openinfer.lowering.cpu.to_llvm.types import (
    POINTER,
    convert_type,
    element_bytes,
)
from openinfer.lowering.cpu.to_llvm.views import buffer_from_parts
from openinfer.lowering.memref_layout import memref_layout
from openinfer.lowering.operations import operands_of
from openinfer.runtime.errors import CompileError

_ATOMIC = {
    "addf": "fadd",
    "addi": "add",
    "andi": "_and",
    "assign": "xchg",
    "maxs": "max",
    "maxu": "umax",
    "mins": "min",
    "minu": "umin",
    "ori": "_or",
    "xori": "_xor",
}


def alignment_of(op: Operation, element: Attribute) -> int:
    """The bytes an access is aligned to: its `alignment` attribute, else the element's size."""
    attribute = op.attributes.get("alignment") or op.properties.get("alignment")
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    return element_bytes(element)


def _is_nontemporal(op: Operation) -> bool:
    attribute = op.properties.get("nontemporal")
    return isinstance(attribute, IntegerAttr) and bool(attribute.value.data)


def _load(c: Converter, op: Operation) -> None:
    (source, *indices), (result,) = operands_of(op), op.results
    buffer = c.buffer(source)
    if is_packed(buffer.element):
        c.set(result, packed.load(c, buffer, indices))
        return
    address = c.element_address(buffer, indices)
    type = convert_type(buffer.element)
    c.set(result, c.load(address, type, alignment_of(op, buffer.element)))


def _store(c: Converter, op: Operation) -> None:
    stored, target, *indices = operands_of(op)
    buffer = c.buffer(target)
    if is_packed(buffer.element):
        packed.store(c, c.value(stored), buffer, indices)
        return
    address = c.element_address(buffer, indices)
    alignment = alignment_of(op, buffer.element)
    c.store(c.value(stored), address, alignment, nontemporal=_is_nontemporal(op))


def _alloca(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.AllocaOp)
    type = op.memref.type
    if op.dynamic_sizes or op.symbol_operands:
        raise CompileError(
            "OI0980",
            f"'memref.alloca' of {type} has run-time sizes",
            hint="only small static buffers lie on the stack; use the arena",
        )
    sizes, strides, offset = memref_layout(type)
    count, element = prod(cast("list[int]", sizes)), convert_type(type.element_type)
    if is_packed(element):
        count, element = packed.bytes_for(count, element), i8
    alignment = op.alignment.value.data if op.alignment else 64
    allocation = llvm.AllocaOp.create(
        operands=(c.as_value(count),),
        result_types=(POINTER,),
        properties={
            "alignment": IntegerAttr(alignment, 64),
            "elem_type": element,
        },
    )
    # In the entry block, so that one in a loop does not grow the stack with each round.
    pointer = c.in_entry(allocation)
    c.set_buffer(
        op.memref,
        Buffer(
            pointer,
            cast(int, offset),
            list(cast("list[int]", sizes)),
            list(cast("list[int]", strides)),
            type.element_type,
        ),
    )


def _get_global(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.GetGlobalOp)
    name = op.name_.root_reference.data
    address = c.share(
        ("global", name),
        lambda: c.in_entry(
            llvm.AddressOfOp.create(
                result_types=(POINTER,), properties={"global_name": SymbolRefAttr(name)}
            )
        ),
    )
    type = op.memref.type
    c.set_buffer(op.memref, buffer_from_parts(c, type, (address,)))


def _copy(c: Converter, op: Operation) -> None:
    source, target = c.buffer(op.operands[0]), c.buffer(op.operands[1])
    if is_packed(source.element):
        assert isinstance(op, memref.CopyOp)
        packed.copy(c, op)
        return
    _copy_dimensions(c, source, target, _contiguous_from(c, source, target), 0, [], [])


def _contiguous_from(c: Converter, source: Buffer, target: Buffer) -> int:
    """The first dimension from which on both buffers hold their elements without gaps."""
    rank = len(source.sizes)
    stride: Int = 1
    for dimension in range(rank - 1, -1, -1):
        if source.strides[dimension] != stride or target.strides[dimension] != stride:
            if source.sizes[dimension] != 1:
                return dimension + 1
        stride = c.multiply(stride, target.sizes[dimension])
    return 0


def _copy_dimensions(
    c: Converter,
    source: Buffer,
    target: Buffer,
    contiguous: int,
    dimension: int,
    from_terms: list[Int],
    to_terms: list[Int],
) -> None:
    """Copy by loops over the leading dimensions and one memcpy, or one element, inside."""
    if dimension < contiguous:

        def body(index: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            _copy_dimensions(
                c,
                source,
                target,
                contiguous,
                dimension + 1,
                [*from_terms, c.multiply(index, source.strides[dimension])],
                [*to_terms, c.multiply(index, target.strides[dimension])],
            )
            return ()

        c.loop(0, source.sizes[dimension], 1, (), body)
        return
    from_position, to_position = source.offset, target.offset
    for a, b in zip(from_terms, to_terms):
        from_position, to_position = c.add(from_position, a), c.add(to_position, b)
    from_address = c.address(source.pointer, from_position, source.element)
    to_address = c.address(target.pointer, to_position, target.element)
    size = element_bytes(source.element)
    if contiguous == len(source.sizes):
        value = c.load(from_address, convert_type(source.element), size)
        c.store(value, to_address, size)
        return
    length: Int = size
    for extent in target.sizes[contiguous:]:
        length = c.multiply(length, extent)
    properties: dict[str, Attribute] = {"isVolatile": IntegerAttr.from_bool(False)}
    c.emit(INTRINSICS["memcpy"], (to_address, from_address, c.as_value(length)), None, properties)


def _atomic(c: Converter, op: Operation) -> None:
    assert isinstance(op, memref.AtomicRMWOp)
    if is_packed(c.buffer(op.memref).element):
        raise CompileError("OI0980", "'memref.atomic_rmw' of an element that shares its byte")
    kind = ATOMIC_KINDS[op.kind.value.data]
    if kind not in _ATOMIC:
        raise CompileError("OI0980", f"'memref.atomic_rmw {kind}' has no machine instruction")
    address = c.element_address(c.buffer(op.memref), op.indices)
    made = AtomicRMWOp(_ATOMIC[kind], address, c.value(op.value), "acq_rel")
    c.append(made)
    c.set(op.result, made.res)


def _prefetch(c: Converter, op: Operation) -> None:
    buffer = c.buffer(op.operands[0])
    # The line asked for may lie behind the end of the buffer.
    if is_packed(buffer.element):
        address = packed.byte_address(c, buffer, op.operands[1:])
    else:
        address = c.element_address(buffer, op.operands[1:], inbounds=False)
    write = cast(IntegerAttr, op.properties["isWrite"]).value.data
    hint = cast(IntegerAttr, op.properties["localityHint"]).value.data
    data = cast(IntegerAttr, op.properties["isDataCache"]).value.data
    rows = {"rw": int(bool(write)), "hint": hint, "cache": int(bool(data))}
    properties = {name: i32_attribute(value) for name, value in rows.items()}
    c.emit(INTRINSICS["prefetch"], (address,), None, properties)


def convert_global(op: memref.GlobalOp) -> llvm.GlobalOp:
    """The `llvm` global of a static buffer; its contents keep their bytes, as a flat array."""
    type = op.type
    count = prod(type.get_shape())
    element = convert_type(type.element_type)
    value: Attribute | None = None
    if isinstance(op.initial_value, DenseIntOrFPElementsAttr):
        value = op.initial_value
        if is_packed(element):
            value = packed.packed_constant(op.initial_value, type)
    if is_packed(element):
        count, element = packed.bytes_for(prod(type.get_shape()), element), i8
    alignment = op.alignment.value.data if op.alignment else 64
    external = op.sym_visibility.data == "public"
    return llvm.GlobalOp(
        LLVMArrayType(count, element),
        op.sym_name,
        "external" if external else "internal",
        constant=op.constant is not None,
        value=value,
        alignment=alignment,
    )


RULES: dict[str, Rule] = {
    "memref.alloca": _alloca,
    "memref.atomic_rmw": _atomic,
    "memref.copy": _copy,
    "memref.get_global": _get_global,
    "memref.load": _load,
    "memref.prefetch": _prefetch,
    "memref.store": _store,
}
"""Rules by op name."""
