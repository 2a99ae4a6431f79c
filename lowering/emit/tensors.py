"""Matrices of a workgroup in GLSL (`GL_NV_cooperative_matrix2`): parts of buffers, functions of elements.

What a kernel takes of a buffer is a slice of its layout, which stands at the beginning of `main`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.extensions.gpu_matrix_type import MMAMatrixType
from openinfer.dialects.extensions.gpu_tensors import (
    MatrixConvertOp,
    MatrixElementOp,
    MatrixMapOp,
    MatrixReduceOp,
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
from openinfer.lowering.emit.shader import Buffer, no_text
from openinfer.lowering.emit.types import OF_WORKGROUP
from openinfer.lowering.emit.writing import Writer

ROLLED = "[[dont_unroll]] "
"""In front of a loop whose turns a driver is to leave as they are."""
_BOUNDED = "gl_CooperativeMatrixClampModeConstantNV"


def load_tensor(writer: Writer, op: TensorLoadOp) -> None:
    """A matrix that a part of a buffer is."""
    writer.shader.extensions.add(OF_WORKGROUP)
    kind = op.result.type
    assert isinstance(kind, MMAMatrixType)
    text = writer.shader.names.new(op.result.name_hint or hint_of(op))
    extents = [kind.rows.data, kind.columns.data]
    if op.transpose is not None:
        extents.reverse()
    bounded = op.bounded is not None
    repeated = extents[0] if op.repeated is not None else None
    part = _part(writer, op, op.source, op.indices, extents, repeated, bounded=bounded, read=True)
    view = ", createTensorViewNV(2, false, 1, 0)" if op.transpose is not None else ""
    writer.statement(op, f"{writer.shader.type(kind)} {text};")
    writer.line(f"coopMatLoadTensorNV({text}, {part}{view});")
    writer.values[op.result] = name(text)


def store_tensor(writer: Writer, op: TensorStoreOp) -> None:
    """A matrix into a part of a buffer."""
    writer.shader.extensions.add(OF_WORKGROUP)
    kind = op.value.type
    assert isinstance(kind, MMAMatrixType)
    extents = [kind.rows.data, kind.columns.data]
    bounded = op.bounded is not None
    part = _part(writer, op, op.target, op.indices, extents, None, bounded=bounded, read=False)
    value = writer.use(op.value)
    writer.settle_reads()
    writer.statement(op, f"coopMatStoreTensorNV({value.text}, {part});")


def convert_matrix(writer: Writer, op: MatrixConvertOp) -> None:
    """A matrix of other elements."""
    writer.shader.extensions.add(OF_WORKGROUP)
    found = call(writer.shader.type(op.result.type), writer.use(op.value))
    writer.define(op.result, found, op)


def map_matrix(writer: Writer, op: MatrixMapOp) -> None:
    """A function of each element, which stands in front of `main`."""
    writer.shader.extensions.add(OF_WORKGROUP)
    shader = writer.shader
    shader.extensions.add("GL_EXT_shader_explicit_arithmetic_types_int32")
    row, column, *others = op.body.block.args
    buffers: dict[SSAValue, Buffer] = {
        argument: writer.buffers[value]
        for argument, value in zip(others, op.values)
        if isinstance(value.type, MemRefType)
    }
    if any(buffer.word is not None for buffer in buffers.values()):
        raise no_text("functions of elements that read a buffer which begins anywhere")
    places = [(row, "uint32_t"), (column, "uint32_t")]
    places += [(one, "") for one in others if one not in buffers]
    function = _function(writer, op, places, buffers)
    text = shader.names.new(f"{function}_of_all")
    plain = [one for one in op.values[1:] if not isinstance(one.type, MemRefType)]
    values = ", ".join(writer.use(one).text for one in plain)
    value = writer.use(op.values[0])
    writer.statement(op, f"{shader.type(op.result.type)} {text};")
    more = f", {values}" if values else ""
    writer.line(f"coopMatPerElementNV({text}, {value.text}, {function}{more});")
    writer.values[op.result] = name(text)


def reduce_matrix(writer: Writer, op: MatrixReduceOp) -> None:
    """The elements of rows joined by a function of two."""
    writer.shader.extensions.add(OF_WORKGROUP)
    shader = writer.shader
    function = _function(writer, op, [(one, "") for one in op.body.block.args])
    text = shader.names.new(f"{function}_of_rows")
    value = writer.use(op.value)
    what = "gl_CooperativeMatrixReduceRowNV"
    if op.whole is not None:
        what = "gl_CooperativeMatrixReduceRowAndColumnNV"
    writer.statement(op, f"{shader.type(op.result.type)} {text};")
    writer.line(f"coopMatReduceNV({text}, {value.text}, {what}, {function});")
    writer.values[op.result] = name(text)


def element_of_matrix(writer: Writer, op: MatrixElementOp) -> None:
    """An element that the invocation has."""
    found = writer.use(op.value)
    writer.define(op.result, name(f"{found.text}[0]"), op)


def _function(
    writer: Writer,
    op: MatrixMapOp | MatrixReduceOp,
    given: Sequence[tuple[SSAValue, str]],
    buffers: Mapping[SSAValue, Buffer] | None = None,
) -> str:
    """The name of a function with the body of an op; `given`: its arguments, with a type where that is not
    that of the value. Functions see all `buffers` of the shader."""
    shader, block = writer.shader, op.body.block
    function = shader.names.new(op.result.name_hint or hint_of(op))
    listed: list[str] = []
    arguments: dict[SSAValue, Expression | Buffer] = dict(buffers or {})
    for value, wanted in given:
        kind = shader.type(value.type)
        text = shader.names.new(value.name_hint or "x")
        listed.append(f"const in {wanted or kind} {text}")
        arguments[value] = call(kind, name(text)) if wanted else name(text)
    lines, last = writer.function_of(block, arguments)
    result = shader.type(last_of(block).type)
    head = f"{result} {function}({', '.join(listed)}) {{"
    shader.functions.append("\n".join([head, *lines, f"    return {last.text};", "}"]))
    return function


def _part(
    writer: Writer,
    op: TensorLoadOp | TensorStoreOp,
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
    axis = len(indices) - 1
    row = axis if repeated is not None else op.row_axis(memory)
    place = number(0)
    for number_, index in enumerate(indices):
        place = place if place.number == 0 else product_of(place, shader.dim(buffer, number_))
        if number_ not in (row, axis):
            place = sum_of(place, writer.use(index))
    place = sum_of(shader.first(buffer), place)
    if repeated is not None:
        dims, strides = [number(repeated), shader.dim(buffer, axis)], [number(0), number(1)]
        firsts = [number(0), writer.use(indices[axis])]
    else:
        between = number(1)
        for number_ in range(row + 1, axis + 1):
            between = product_of(between, shader.dim(buffer, number_))
        dims, strides = [shader.dim(buffer, one) for one in (row, axis)], [between, number(1)]
        firsts = [writer.use(indices[one]) for one in (row, axis)]
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
    MatrixReduceOp: reduce_matrix,
    MatrixElementOp: element_of_matrix,
}


def is_of_tensors(op: Operation) -> bool:
    """Whether something in an op is done with matrices of a workgroup."""
    return any(type(inner) in STATEMENTS for inner in op.walk())


def last_of(block: Block) -> SSAValue:
    """What the function of an element gives."""
    last = block.last_op
    assert isinstance(last, MatrixYieldOp)
    return last.value
