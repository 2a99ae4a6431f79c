"""Matrices of a workgroup in GLSL (`GL_NV_cooperative_matrix2`): parts of buffers, functions of elements.

What a kernel takes of a buffer is a slice of its layout, which stands at the beginning of `main`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixMapOp,
    MatrixYieldOp,
    TensorLoadOp,
    TensorStoreOp,
)
from openinfer.lowering.emit.expressions import (
    Expression,
    call,
    name,
    number,
    product_of,
    sum_of,
)
from openinfer.lowering.emit.operations import hint_of
from openinfer.lowering.emit.shader import Buffer, Shader

ROLLED = "[[dont_unroll]] "
"""In front of a loop whose turns a driver is to leave as they are."""
_BOUNDED = "gl_CooperativeMatrixClampModeConstantNV"


class Writer(Protocol):
    """What is asked of the text that is being written."""

    shader: Shader
    buffers: dict[SSAValue, Buffer]
    values: dict[SSAValue, Expression]
    front: list[str]
    layouts: dict[tuple[object, ...], str]

    def statement(self, op: Operation, text: str) -> None: ...
    def line(self, text: str) -> None: ...
    def use(self, value: SSAValue) -> Expression: ...
    def settle_reads(self) -> None: ...
    def define(self, value: SSAValue, expression: Expression, op: Operation) -> None: ...
    def function_of(
        self, block: Block, arguments: Sequence[Expression]
    ) -> tuple[list[str], Expression]: ...


def load_tensor(writer: Writer, op: TensorLoadOp) -> None:
    """A matrix that a part of a buffer is."""
    kind = op.result.type
    assert isinstance(kind, MMAMatrixType)
    text = writer.shader.names.new(op.result.name_hint or hint_of(op))
    extents = [kind.rows.data, kind.columns.data]
    if op.transpose is not None:
        extents.reverse()
    bounded = op.bounded is not None
    repeated = extents[0] if op.repeated is not None else None
    part = _part(writer, op.source, op.indices, extents, repeated, bounded=bounded, read=True)
    view = ", createTensorViewNV(2, false, 1, 0)" if op.transpose is not None else ""
    writer.statement(op, f"{writer.shader.type(kind)} {text};")
    writer.line(f"coopMatLoadTensorNV({text}, {part}{view});")
    writer.values[op.result] = name(text)


def store_tensor(writer: Writer, op: TensorStoreOp) -> None:
    """A matrix into a part of a buffer."""
    kind = op.value.type
    assert isinstance(kind, MMAMatrixType)
    extents = [kind.rows.data, kind.columns.data]
    bounded = op.bounded is not None
    part = _part(writer, op.target, op.indices, extents, None, bounded=bounded, read=False)
    value = writer.use(op.value)
    writer.settle_reads()
    writer.statement(op, f"coopMatStoreTensorNV({value.text}, {part});")


def convert_matrix(writer: Writer, op: MatrixConvertOp) -> None:
    """A matrix of other elements."""
    found = call(writer.shader.type(op.result.type), writer.use(op.value))
    writer.define(op.result, found, op)


def map_matrix(writer: Writer, op: MatrixMapOp) -> None:
    """A function of each element, which stands in front of `main`."""
    shader = writer.shader
    block = op.body.block
    (given,) = block.args
    kind = shader.type(given.type)
    function = shader.names.new(op.result.name_hint or hint_of(op))
    element = shader.names.new(given.name_hint or "x")
    lines, last = writer.function_of(block, [name(element)])
    shader.extensions.add("GL_EXT_shader_explicit_arithmetic_types_int32")
    arguments = f"const in uint32_t row, const in uint32_t column, const in {kind} {element}"
    shader.functions.append(
        "\n".join([f"{kind} {function}({arguments}) {{", *lines, f"    return {last.text};", "}"])
    )
    text = shader.names.new(f"{function}_of_all")
    value = writer.use(op.value)
    writer.statement(op, f"{shader.type(op.result.type)} {text};")
    writer.line(f"coopMatPerElementNV({text}, {value.text}, {function});")
    writer.values[op.result] = name(text)


def _part(
    writer: Writer,
    memory: SSAValue,
    indices: Sequence[SSAValue],
    extents: Sequence[int],
    repeated: int | None,
    *,
    bounded: bool,
    read: bool,
) -> str:
    """The array, the number of the element where a batch begins, and the slice of the layout. `repeated`: how
    many equal rows a row of the buffer is."""
    shader, buffer = writer.shader, writer.buffers[memory]
    array = shader.array(buffer, shader.type(buffer.element), read=read)
    axes = 1 if repeated is not None else 2
    place = number(0)
    for axis, index in enumerate(indices):
        moved = place if place.number == 0 else product_of(place, shader.dim(buffer, axis))
        place = moved if axis >= len(indices) - axes else sum_of(moved, writer.use(index))
    place = sum_of(shader.first(buffer), place)
    dims = [shader.dim(buffer, len(buffer.dims) - axes + n) for n in range(axes)]
    strides, firsts = [dims[-1], number(1)], [writer.use(one) for one in indices[-axes:]]
    if repeated is not None:
        dims, strides = [number(repeated), *dims], [number(0), number(1)]
        firsts = [number(0), *firsts]
    layout = _layout(writer, buffer, dims, strides, bounded=bounded)
    slices = ", ".join(f"{first.text}, {extent}" for first, extent in zip(firsts, extents))
    return f"{array}, {place.text}, sliceTensorLayoutNV({layout}, {slices})"


def _layout(
    writer: Writer,
    buffer: Buffer,
    dims: Sequence[Expression],
    strides: Sequence[Expression],
    *,
    bounded: bool,
) -> str:
    """The name of a layout, which is declared."""
    said = [", ".join(one.text for one in numbers) for numbers in (dims, strides)]
    key = (buffer.array, *said, bounded)
    if key not in writer.layouts:
        text = writer.layouts[key] = writer.shader.names.new(f"{buffer.array}_layout")
        mode = f", {_BOUNDED}" if bounded else ""
        writer.front += [
            f"    tensorLayoutNV<2{mode}> {text} = createTensorLayoutNV(2{mode});",
            f"    {text} = setTensorLayoutDimensionNV({text}, {said[0]});",
            f"    {text} = setTensorLayoutStrideNV({text}, {said[1]});",
        ]
    return writer.layouts[key]


STATEMENTS: dict[type[Operation], Callable[..., None]] = {
    TensorLoadOp: load_tensor,
    TensorStoreOp: store_tensor,
    MatrixConvertOp: convert_matrix,
    MatrixMapOp: map_matrix,
}


def is_of_tensors(op: Operation) -> bool:
    """Whether something in an op is done with matrices of a workgroup."""
    return any(type(inner) in STATEMENTS for inner in op.walk())


def last_of(block: Block) -> SSAValue:
    """What the function of an element gives."""
    last = block.last_op
    assert isinstance(last, MatrixYieldOp)
    return last.value
