"""What invocations do together, in GLSL: barriers, atomic updates, exchanges, matrices of a subgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import gpu
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.gpu import (
    OF_DEVICE,
    OF_SUBGROUP,
    ShuffleOp,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
)
from openinfer.dialects.extensions.memref import ATOMIC_KINDS, AtomicRMWOp
from openinfer.lowering.emit.expressions import binary, call, element, name
from openinfer.lowering.emit.memory_text import place_of
from openinfer.lowering.emit.operations import hint_of
from openinfer.lowering.emit.shader import no_text
from openinfer.lowering.emit.writing import Writer
from openinfer.lowering.locations import location_of

_SHUFFLES = {"xor": "subgroupShuffleXor", "idx": "subgroupShuffle"}
_UPDATES = {ATOMIC_KINDS.index("addi"): "atomicAdd"}
_ELEMENTWISE = {"addf": "+", "mulf": "*", "subf": "-"}


def barrier(writer: Writer, op: gpu.BarrierOp) -> None:
    writer.settle_reads()
    if OF_SUBGROUP in op.attributes:
        writer.shader.extensions.add("GL_KHR_shader_subgroup_basic")
        writer.statement(op, "subgroupBarrier();")
        return
    if OF_DEVICE in op.attributes:
        # What was written before is there for others, and what they wrote for what follows.
        writer.statement(op, "memoryBarrierBuffer();")
        writer.line("barrier();")
        writer.line("memoryBarrierBuffer();")
        return
    writer.statement(op, "barrier();")


def update(writer: Writer, op: AtomicRMWOp) -> None:
    """An element that is changed while nobody else changes it; what it was before."""
    function = _UPDATES.get(op.kind.value.data)
    if function is None:
        raise no_text(f"'memref.atomic_rmw {ATOMIC_KINDS[op.kind.value.data]}'", location_of(op))
    writer.settle_reads()
    buffer = writer.buffers[op.memref]
    place = place_of(writer, buffer, op.indices)
    writer.shader.array(buffer, writer.shader.type(buffer.element), read=True)
    array = writer.shader.array(buffer, writer.shader.type(buffer.element), read=False)
    writer.local(op.result, call(function, element(array, place), writer.use(op.value)), op)


def shuffle(writer: Writer, op: ShuffleOp) -> None:
    mode = op.mode.data.value
    if mode not in _SHUFFLES:
        raise no_text(f"'gpu.shuffle {mode}'", location_of(op))
    writer.shader.extensions.add("GL_KHR_shader_subgroup_shuffle")
    kind = writer.shader.type(op.value.type).removesuffix("_t")
    if kind not in ("int", "float"):
        writer.shader.extensions.add(f"GL_EXT_shader_subgroup_extended_types_{kind}")
    value, offset = writer.use(op.value), writer.use(op.offset)
    # All invocations come here together, which is so for a statement, not for a part of one.
    found = call(_SHUFFLES[mode], value, call("uint", offset) if offset.number is None else offset)
    writer.local(op.shuffled, found, op)


def load_matrix(writer: Writer, op: SubgroupMmaLoadMatrixOp) -> None:
    text = writer.shader.names.new(op.result.name_hint or hint_of(op))
    kind = writer.shader.type(op.result.type)
    layout = "RowMajor" if op.transpose is None else "ColumnMajor"
    place = matrix_place(writer, op.source, op.indices, op.lead_dimension, read=True)
    writer.statement(op, f"{kind} {text};")
    writer.line(f"coopMatLoad({text}, {place}, gl_CooperativeMatrixLayout{layout});")
    writer.values[op.result] = name(text)


def store_matrix(writer: Writer, op: SubgroupMmaStoreMatrixOp) -> None:
    place = matrix_place(writer, op.target, op.indices, op.lead_dimension, read=False)
    value = writer.use(op.value)
    writer.settle_reads()
    writer.statement(
        op, f"coopMatStore({value.text}, {place}, gl_CooperativeMatrixLayoutRowMajor);"
    )


def matrix_place(
    writer: Writer, memory: SSAValue, indices: Sequence[SSAValue], lead: IntegerAttr, *, read: bool
) -> str:
    """The array, the place in it and the elements from row to row."""
    buffer = writer.buffers[memory]
    place = place_of(writer, buffer, indices)
    kind = buffer.element
    array = buffer.array
    if not buffer.is_shared:
        array = writer.shader.array(buffer, writer.shader.type(kind), read=read)
    return f"{array}, {place.text}, {lead.value.data}"


def multiply_matrices(writer: Writer, op: SubgroupMmaComputeOp) -> None:
    found = call("coopMatMulAdd", *map(writer.use, op.operands))
    writer.define(op.result, found, op)


def each_element(writer: Writer, op: SubgroupMmaElementwiseOp) -> None:
    """Two matrices, element by element."""
    found = binary(_ELEMENTWISE[op.kind.data], writer.use(op.left), writer.use(op.right))
    writer.define(op.result, found, op)


def constant_matrix(writer: Writer, op: SubgroupMmaConstantMatrixOp) -> None:
    found = call(writer.shader.type(op.result.type), writer.use(op.value))
    writer.local(op.result, found, op)


STATEMENTS: dict[type[Operation], Callable[..., None]] = {
    gpu.BarrierOp: barrier,
    AtomicRMWOp: update,
    ShuffleOp: shuffle,
    SubgroupMmaLoadMatrixOp: load_matrix,
    SubgroupMmaStoreMatrixOp: store_matrix,
    SubgroupMmaComputeOp: multiply_matrices,
    SubgroupMmaConstantMatrixOp: constant_matrix,
    SubgroupMmaElementwiseOp: each_element,
}
