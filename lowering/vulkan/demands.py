"""What Vulkan asks of the passes that all machines share."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    TensorType,
    f16,
    f32,
    i1,
)
from xdsl.dialects.linalg.ops import FillOp, GenericOp, IndexOp, YieldOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.demands import (
    BlockReader,
    Composite,
    Demands,
    Packed,
    Scratch,
    Tiling,
    Widening,
)
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.expand_math import POWER, REMAINDER, TANGENT, TURNS
from openinfer.lowering.kernels.expansions import EXPANSIONS
from openinfer.lowering.kernels.expansions_f64 import OF_F64
from openinfer.lowering.vulkan.schedules.attention_parts import parts_scratch
from openinfer.lowering.vulkan.schedules.block_bytes import ROW_FORMAT
from openinfer.lowering.vulkan.schedules.block_panels import COLUMNS, FORMATS, takes_halves
from openinfer.lowering.vulkan.schedules.fourier import MOST_SAMPLES
from openinfer.lowering.vulkan.schedules.lower_device_kernels import RULES
from openinfer.lowering.vulkan.schedules.matmul_few_rows import has_few_rows
from openinfer.lowering.vulkan.schedules.matmul_matrices import SIDE
from openinfer.lowering.vulkan.schedules.recurrence import state_scratch
from openinfer.lowering.vulkan.schedules.row_tiles import (
    fits_rows,
    fits_together,
    reads_squares,
    takes_norm,
)
from openinfer.lowering.vulkan.schedules.sort import sort_scratch
from openinfer.lowering.vulkan.to_spirv.value_conversions import CONVERTED
from openinfer.runtime.devices.description import MOST_BUFFERS, DeviceDescription
from openinfer.runtime.manifest import MOST_GROUPS

_INTEGERS = (1, 2, 4, 8, 16, 32, 64)
_PACKING = (FillOp, nn.SliceOp, nn.ConcatOp, nn.GatherOp, nn.ScatterOp, nn.MatmulOp)
"""Ops whose kernels have an invocation for each word of a result whose elements share bytes."""
_FLOATS = (Float32Type, Float16Type, BFloat16Type, Float8E5M2Type, Float8E4M3FNType)
_PLAIN = (Float16Type, Float32Type, Float64Type, nn.BlockType)
_NO_FUNCTIONS = "the device has no {} of f64"
_STRICT = "strict mathematics rounds functions once, which takes f64 and the C library"
_FUNCTIONS = frozenset((*EXPANSIONS, *TURNS, TANGENT, POWER))
_COMPUTED = CONVERTED | _FUNCTIONS | {REMAINDER}

_OF_FUNCTIONS = (nn.SoftmaxOp, nn.AttentionOp, nn.LstmOp, nn.GruOp, nn.FourierOp)
_WITH_FUNCTIONS = (*_OF_FUNCTIONS, nn.LayerNormOp, nn.RmsNormOp)


class VulkanDemands(Demands):
    """The schedules of `lowering/vulkan/schedules/` answer."""

    holds_states = True
    checks_indices = True
    versions_rows = True
    most_buffers = MOST_BUFFERS

    def supports(self, op: Operation) -> str | None:
        buffers = [v for v in (*op.operands, *op.results) if _is_buffer(v)]
        return self._refuses(op, buffers)

    def _refuses(self, op: Operation, buffers: Sequence[SSAValue]) -> str | None:
        """Why the device cannot run an op that has some buffers."""
        if op.name not in RULES:
            return "the device has no kernel for it"
        if len(set(buffers)) > MOST_BUFFERS:
            return f"a kernel has up to {MOST_BUFFERS} buffers"
        described = Facts.of(op).device_description
        if any(is_packed(nn.element_of(v)) for v in op.results) and not _packs(op):
            return "the device has no kernel of it for results that share bytes"
        for value in buffers:
            element = nn.element_of(value)
            if isinstance(element, nn.BlockType) and _reads_panels(op, element.block.data):
                continue
            if not _is_stored(element, described):
                return f"the device does not store {element}"
            if isinstance(element, Float64Type) and isinstance(op, nn.FourierOp):
                return _NO_FUNCTIONS.format("sines")
        if isinstance(op, nn.GatherOp) and isinstance(nn.element_of(op.inputs[0]), nn.BlockType):
            return "the host gathers rows of blocks"
        if (
            isinstance(op, nn.QuantizeBlocksOp | nn.DequantizeBlocksOp)
            and op.format.name != ROW_FORMAT
        ):
            return f"the device has no kernel for bytes of {op.format.name}"
        if isinstance(op, nn.MatmulOp) and (_is_foreign(op.layout) or op.precision is not None):
            return "the device has no kernel for products with weights in such a layout"
        if isinstance(op, nn.AttentionOp) and op.precision is not None:
            return "the device has no kernel for attention that is rounded to bf16"
        if isinstance(op, nn.FourierOp) and (op.n.data.constant or 0) > MOST_SAMPLES:
            return f"the host has fewer steps for rows of more than {MOST_SAMPLES} samples"
        strict = Facts.of(op).strict_math
        if strict and isinstance(op, nn.ExpertMatmulOp):
            return "strict mathematics adds up in order, which workgroups do not"
        if strict and isinstance(op, _WITH_FUNCTIONS):
            return _STRICT
        for region in op.regions:
            for inner in region.walk():
                if strict and inner.name in _FUNCTIONS:
                    return _STRICT
                if (reason := _refused(inner, described)) is not None:
                    return reason
        return None

    def whole(self, op: Composite) -> bool:
        # Where this is asked a mask still has bools, which become bytes; i1 in memory are packed bits.
        stored = [v for v in op.inputs if nn.element_of(v) != i1]
        if isinstance(op, nn.RotaryOp):
            described = Facts.of(op).device_description
            return all(_is_stored(nn.element_of(value), described) for value in stored)
        return not Facts.of(op).strict_math and self._refuses(op, stored) is None

    def widens(self, op: Widening, operand: int, dtype: Attribute) -> bool:
        return isinstance(dtype, Float16Type) and not isinstance(op, nn.AttentionOp)

    def reads_blocks(self, op: BlockReader, block: str) -> bool:
        # Rows of a table are the host's: its memory has the file.
        if isinstance(op, nn.GatherOp):
            return block in FORMATS and not Facts.of(op).no_fallback
        if not isinstance(op, nn.MatmulOp):
            return False
        kinds = {nn.element_of(value) for value in (op.left, op.result[0])}
        return block in FORMATS and kinds <= {f16, f32} and self.matvec(op)

    def unpacks_blocks(self, op: nn.MatmulOp, block: str) -> bool:
        known = all(size.constant is not None for size in nn.dims_of(op.right))
        return block in FORMATS and known and nn.element_of(op.left) in (f16, f32)

    def turns_halves(self, op: nn.MatmulOp, half: int, *, interleaved: bool) -> bool:
        in_blocks = isinstance(nn.element_of(op.right), nn.BlockType)
        return not in_blocks or takes_halves(half, interleaved=interleaved)

    def rounds_to_half(self, op: nn.MatmulOp | nn.AttentionOp) -> bool:
        described = Facts.of(op).device_description
        if isinstance(op, nn.AttentionOp):
            axis = op.layouts.data[0].data.index("l")
            one = nn.dims_of(op.inputs[0])[axis].constant == 1
            sizes = [nn.dims_of(value)[-1].constant for value in op.inputs[:3]]
            whole = all(size is not None and size % SIDE == 0 for size in sizes)
            return described.matrices and not one and whole
        *_, rows, depth = (size.constant for size in nn.dims_of(op.left))
        few = rows is not None and has_few_rows(rows, depth or 0)
        return described.matrices and not few and op.transpose_a is None

    def matvec(self, product: nn.MatmulOp) -> bool:
        buffers = [*product.operands, *product.results]
        if Facts.of(product).strict_math or self._refuses(product, buffers) is not None:
            return False
        rights = nn.dims_of(product.right)
        *_, rows, depth = (size.constant for size in nn.dims_of(product.left))
        plain = product.transpose_a is None and product.transpose_b is not None
        # What a norm or a second product rounds is not rounded there: it would show in narrower floats.
        kinds = [nn.element_of(value) for value in product.inputs]
        floats = all(isinstance(kind, _PLAIN) for kind in kinds)
        if not plain or not floats or len(rights) != 2:
            return False
        return rows is not None and depth is not None and has_few_rows(rows, depth)

    def scratch(self, op: nn.NNOp) -> list[Scratch]:
        if isinstance(op, nn.SortOp):
            return sort_scratch(op)
        if isinstance(op, nn.LstmOp | nn.GruOp):
            return state_scratch(op)
        return parts_scratch(op) if isinstance(op, nn.AttentionOp) else []

    def tiling(self, op: Packed) -> Tiling | None:
        block = nn.element_of(op.inputs[0] if isinstance(op, nn.UnpackBlocksOp) else op.inputs[1])
        if isinstance(block, nn.BlockType):
            return Tiling(nn.BlocksAttr.of(block.block.data, COLUMNS))
        fits = isinstance(op, nn.MatmulOp) and fits_rows(op)
        return Tiling(nn.TilesAttr(SIDE)) if fits else None

    def takes_in(self, product: nn.MatmulOp | nn.ConvOp, consumer: GenericOp) -> bool:
        # The matrices of a workgroup end with functions of sums alone (`matmul_starts.py`). Those of
        # subgroups would compute a gated layer, too: in three times as long, by a very long kernel.
        if (
            not isinstance(product, nn.MatmulOp)
            or not Facts.of(product).device_description.matrices
        ):
            return True
        rows = nn.dims_of(product.result[0])[-2].constant
        if [nn.element_of(value) for value in product.inputs] != [f16, f16] or rows is not None:
            return True
        maps = list(consumer.indexing_maps)[: len(consumer.inputs)]
        whole = [v for v, m in zip(consumer.inputs, maps) if m.data.num_dims == len(m.data.results)]
        computes = any(inner.name.startswith("math.") for inner in consumer.body.walk())
        return not computes or all(value is product.result[0] for value in whole)

    def joins(self, products: Sequence[nn.MatmulOp]) -> bool:
        first = products[0]
        buffers = len({*first.operands}) + len(products)
        fits = buffers <= MOST_BUFFERS and isinstance(first.layout, nn.TilesAttr)
        return fits and fits_together(first, len(products))

    def starts_together(self, kernels: Sequence[nn.NNOp]) -> bool:
        operands = {operand for op in kernels for operand in op.operands}
        if len(operands) > MOST_BUFFERS or not all(isinstance(op, nn.MatvecOp) for op in kernels):
            return False
        # Workgroups have one size, and the types say how many there are.
        shapes = {(str(op.inputs[0].type), nn.element_of(op.inputs[1])) for op in kernels}
        outs = [op.output.type for op in kernels]
        known = [t for t in outs if isinstance(t, MemRefType) and t.has_static_shape()]
        groups = sum(prod(t.get_shape()) for t in known)
        return len(known) == len(outs) and groups <= MOST_GROUPS and len(shapes) == 1

    def reads_squares(self, product: nn.MatmulOp | nn.RowMatmulOp) -> bool:
        return isinstance(product.layout, nn.TilesAttr) and reads_squares(product)

    def takes_norm(self, product: nn.MatmulOp | nn.RowMatmulOp) -> bool:
        return isinstance(product.layout, nn.TilesAttr) and takes_norm(product)


def _reads_panels(op: Operation, block: str) -> bool:
    """Whether a kernel reads weights of a format in blocks."""
    return block in FORMATS and isinstance(op, nn.MatmulOp | nn.MatvecOp | nn.UnpackBlocksOp)


def _is_foreign(layout: Attribute | None) -> bool:
    """Whether no kernel of the device reads a layout."""
    return layout is not None and not isinstance(layout, nn.TilesAttr | nn.BlocksAttr)


def _packs(op: Operation) -> bool:
    """Whether elements of a result that share a byte are computed by one invocation."""
    if not isinstance(op, GenericOp):
        return isinstance(op, _PACKING)
    # An invocation has neighbours in the order of the dimensions.
    for written in list(op.indexing_maps)[len(op.inputs) :]:
        places = [part.position for part in written.data.results if isinstance(part, AffineDimExpr)]
        if len(places) < len(written.data.results) or places != sorted(set(places)):
            return False
    return True


def _is_buffer(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType | MemRefType)


def _is_stored(element: Attribute, device: DeviceDescription) -> bool:
    """Whether a buffer may hold an element: integers, floats, f64 of some devices."""
    if isinstance(element, IntegerType):
        return element.width.data in _INTEGERS
    return _is_float(element, device)


def _is_float(type_: Attribute, device: DeviceDescription) -> bool:
    if isinstance(type_, Float64Type):
        return device.f64
    return isinstance(type_, _FLOATS)


def _is_value(type_: Attribute, device: DeviceDescription) -> bool:
    if isinstance(type_, IntegerType):
        return type_.width.data in _INTEGERS
    return isinstance(type_, IndexType) or _is_float(type_, device)


def _refused(op: Operation, device: DeviceDescription) -> str | None:
    """Why an op of a body cannot be computed; None where it can."""
    if isinstance(op, IndexOp | YieldOp | nn.YieldOp):
        return None
    if op.name not in _COMPUTED:
        return f"the device has nothing to compute {op.name} with"
    for value in (*op.operands, *op.results):
        if not _is_value(value.type, device):
            return f"the device does not compute with {value.type}"
        if isinstance(value.type, Float64Type) and op.name in _FUNCTIONS - OF_F64.keys():
            return _NO_FUNCTIONS.format(op.name.removeprefix("math."))
    return None
