"""`GatherBlockQuantized` of `com.microsoft`: rows of a table whose numbers are integers in blocks.

As ONNX Runtime's documentation of contributed operators says (docs/ContribOperators.md of
microsoft/onnxruntime).
"""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.contrib import DOMAIN, stored_tensor
from openinfer.compiler.importers.onnx.indexing import positive
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.quantised import spread
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import Tensor


@operator("GatherBlockQuantized", domain=DOMAIN)
def gather_block_quantized(node: Node) -> Result:
    """`(data[indices] - zero_points[indices]) * scales[indices]`; only what is gathered is dequantised."""
    g, data, scales = node.g, node.item(0), node.x(2)
    if data.rank < 2 or scales.rank != data.rank:
        raise Refusal(
            DAMAGED, f"{node.op} has data of rank {data.rank}, and scales of rank {scales.rank}"
        )
    bits, block = node.int("bits", 4), node.int("block_size", 128)
    axis = node.axis(node.int("gather_axis", 0), data.rank)
    along = node.axis(node.int("quantize_axis", 1), data.rank)
    if data.dtype == "u8":
        node.need(bits in (2, 4, 8), f"bits={bits}")
        node.need(axis == 0 and along == data.rank - 1, "bytes along another axis than the last")
    node.need(axis != along, "gather_axis and quantize_axis the same")
    if block < 16 or block & (block - 1):
        raise Refusal(DAMAGED, f"{node.op} of blocks of {block}")
    packed = data.dtype == "u8" and bits < 8
    table = _apart(node, 0, bits) if packed else node.x(0)
    blocks = -(-(table.dims[along].constant or 0) // block)
    wanted = tuple(Size.of(blocks) if a == along else dim for a, dim in enumerate(table.dims))
    if scales.dims != wanted:
        raise Refusal(DAMAGED, f"{node.op} has scales {scales.dims} for blocks {wanted}")
    indices = positive(node, node.item(1), table.dims[axis])
    further = indices.rank - 1 if axis < along else 0

    def rows(value: Value) -> Value:
        return g.op("gather", value, indices, axis=axis)

    codes = rows(table)
    wide = g.op("cast", codes, to=scales.dtype)
    zeros: Value | float = 0.0
    if node.there(3):
        points = _apart(node, 3, bits) if packed else node.x(3)
        points = g.op("cast", rows(points), to=scales.dtype)
        if packed:
            # Each row of the file ends with a whole byte.
            points = g.op("slice", points, axis=along + further, start=0, stop=blocks)
        zeros = spread(node, points, codes, along + further, block)
    elif data.dtype == "u8":
        zeros = float(1 << (bits - 1))
    if zeros != 0.0:
        wide = g.op("sub", wide, zeros)
    return g.op("mul", wide, spread(node, rows(scales), codes, along + further, block))


def _apart(node: Node, place: int, bits: int) -> Value:
    """Bytes of the file as the numbers that lie in them along the last axis, from the lowest bits on."""
    found = stored_tensor(node, place)
    if found.dtype.name != "u8" or not found.shape:
        raise Refusal(DAMAGED, f"{node.op} has {found.dtype}{list(found.shape)} for bytes")
    *front, last = found.shape
    shape, dtype = (*front, last * 8 // bits), f"u{bits}"
    stored = found.storage.reshape(-1)
    name = node.item(place).name or "data"
    return node.g.weight(name, Tensor(find_dtype(dtype), shape, stored), dtype, shape)
