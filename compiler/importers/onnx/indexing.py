"""Elements by their indices: gathering, scattering, sorting."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import Item, number_of
from openinfer.compiler.importers.onnx.node import Node, Result, operator, product
from openinfer.compiler.importers.onnx.refusals import CONTENT, DAMAGED, Refusal
from openinfer.runtime.sizes import Size


def positive(node: Node, item: Item, extent: Size) -> Value:
    """Indices of which negative ones count from the end."""
    known = item.numbers()
    if known is not None and (known >= 0).all():
        return item.value
    if known is not None and extent.constant is not None:
        moved = known + (known < 0) * known.dtype.type(extent.constant)
        return node.const(moved, item.dtype, "indices")
    return from_end(node, item.value, extent)


def from_end(node: Node, indices: Value, extent: Size) -> Value:
    """Adds the extent to negative indices."""
    g = node.g
    if indices.dtype[0] == "u":
        return indices
    if extent.constant is not None:
        moved = g.op("add", indices, extent.constant)
    else:
        length = node.reader.content(_one(extent), indices.dtype).value
        moved = g.op("add", indices, length)
    return g.op("where", g.op("lt", indices, 0), moved, indices)


def _one(size: Size) -> Any:
    from openinfer.compiler.importers.onnx.items import sizes_array

    return sizes_array([size])


@operator("Gather")
def gather(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.rank)
    item = node.item(1)
    known = item.numbers()
    if known is not None and known.size == 1 and known.ndim == 0:
        place = int(known)
        extent = x.dims[axis]
        if place >= 0 or extent.constant is not None:
            start = place if place >= 0 else place + (extent.constant or 0)
            cut = node.g.op("slice", x, axis=axis, start=start, stop=start + 1)
        else:
            cut = node.g.op(
                "slice",
                x,
                axis=axis,
                start=number_of(extent + place),
                stop=number_of(extent + place + 1),
            )
        return node.g.op("squeeze", cut, axes=[axis])
    embedding = axis == 0 and x.rank == 2 and node.item(0).weight
    if embedding and node.reader.shared.file.proto.producer_name == "pytorch":
        # PyTorch's tables take no negative indices; gather refuses them, too.
        return node.g.op("gather", x, item.value)
    indices = positive(node, item, x.dims[axis])
    return node.g.op("gather", x, indices, axis=axis) if axis else node.g.op("gather", x, indices)


@operator("GatherElements")
def gather_elements(node: Node) -> Result:
    x = node.x(0)
    axis = node.axis(node.int("axis", 0), x.rank)
    return node.g.op("gather_elements", x, positive(node, node.item(1), x.dims[axis]), axis=axis)


@operator("ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Result:
    x, updates = node.x(0), node.x(2)
    axis = node.axis(node.int("axis", 0), x.rank)
    node.expect("reduction", "none", "add", "mul", "min", "max")
    indices = positive(node, node.item(1), x.dims[axis])
    return node.g.op(
        "scatter_elements", x, indices, updates, axis=axis, reduction=node.text("reduction", "none")
    )


def flat_index(node: Node, item: Item, dims: tuple[Size, ...]) -> Value:
    """Index vectors along the last axis as places in a row-major tensor of these dimensions."""
    g, indices = node.g, item.value
    total: Value | None = None
    for place, extent in enumerate(dims):
        one = g.op("slice", indices, axis=indices.rank - 1, start=place, stop=place + 1)
        one = from_end(node, g.op("squeeze", one, axes=[indices.rank - 1]), extent)
        if total is None:
            total = one
            continue
        total = g.op("add", g.op("mul", total, _count(node, extent, indices.dtype)), one)
    assert total is not None
    return total


def _count(node: Node, extent: Size, dtype: str) -> Any:
    if extent.constant is not None:
        return extent.constant
    return node.reader.content(_one(extent), dtype).value


@operator("GatherND")
def gather_nd(node: Node) -> Result:
    g, x, item = node.g, node.x(0), node.item(1)
    batch = node.int("batch_dims", 0)
    width = item.dims[-1].constant if item.rank else None
    if width is None or not 1 <= width + batch <= x.rank:
        raise Refusal(DAMAGED, "GatherND has indices that do not fit its tensor")
    indexed = x.dims[batch : batch + width]
    if batch == 0:
        flat = g.op("reshape", x, shape=[product(indexed), *x.dims[width:]])
        return g.op("gather", flat, flat_index(node, item, indexed))
    # Places count through all batches.
    batches = product(list(x.dims[:batch]))
    inner = product(indexed)
    node.need(
        batches.constant is not None and inner.constant is not None, "batch_dims of open sizes"
    )
    rest = x.dims[batch + width :]
    flat = g.op("reshape", x, shape=[batches * inner, *rest])
    places = flat_index(node, item, indexed)
    shape = [1] * (places.rank - 1)
    first = g.op("iota", shape=[batches], step=inner.constant, dtype=places.dtype)
    first = g.op("reshape", first, shape=[*x.dims[:batch], *shape[: places.rank - batch]])
    return g.op("gather", flat, g.op("add", places, first))


@operator("ScatterND")
def scatter_nd(node: Node) -> Result:
    g, x, item, updates = node.g, node.x(0), node.item(1), node.x(2)
    node.expect("reduction", "none", "add", "mul", "min", "max")
    reduction = node.text("reduction", "none")
    width = item.dims[-1].constant if item.rank else None
    if width is None or not 1 <= width <= x.rank:
        raise Refusal(DAMAGED, "ScatterND has indices that do not fit its tensor")
    indexed, rest = x.dims[:width], x.dims[width:]
    flat = g.op("reshape", x, shape=[product(list(indexed)), product(list(rest))])
    places = flat_index(node, item, indexed)
    count = product(list(places.dims))
    rows = g.op("reshape", places, shape=[count])
    values = g.op("reshape", updates, shape=[count, product(list(rest))])
    if reduction == "mul":
        wide = g.op(
            "expand", g.op("reshape", rows, shape=[count, 1]), shape=[count, product(list(rest))]
        )
        result = g.op("scatter_elements", flat, wide, values, axis=0, reduction="mul")
    else:
        mode = "set" if reduction == "none" else reduction
        result = g.op("scatter", flat, rows, values, mode=mode)
    return g.op("reshape", result, shape=list(x.dims))


@operator("TopK")
def top_k(node: Node) -> list[Result]:
    x = node.x(0)
    k = node.int("k", 1) if node.version < 10 else node.sizes(1)[0]
    axis = node.axis(node.int("axis", -1), x.rank)
    largest, ordered = node.flag("largest", True), node.flag("sorted", True)
    del ordered  # ONNX allows any order then.
    return list(node.g.ops("topk", x, results=2, k=k, axis=axis, largest=largest))


@operator("ReverseSequence")
def reverse_sequence(node: Node) -> Result:
    g, x = node.g, node.x(0)
    batch, time = node.int("batch_axis", 1), node.int("time_axis", 0)
    if {batch, time} != {0, 1} or x.rank < 2:
        raise Refusal(DAMAGED, "ReverseSequence needs the first two axes")
    lengths = g.op("reshape", node.x(1), shape=[-1 if i == batch else 1 for i in range(2)])
    places = g.op("iota", shape=[x.dims[time] if i == time else 1 for i in range(2)], axis=time)
    reversed_ = g.op("sub", g.op("sub", lengths, 1), places)
    index = g.op("where", g.op("lt", places, lengths), reversed_, places)
    index = g.op("reshape", index, shape=[*x.dims[:2], *[1] * (x.rank - 2)])
    if x.rank > 2:
        index = g.op("expand", index, shape=list(x.dims))
    return g.op("gather_elements", x, index, axis=time)


@operator("NonZero", "Compress", "Unique")
def data_dependent(node: Node) -> Result:
    raise Refusal(
        CONTENT,
        f"{node.op} has a result whose shape depends on the data",
        "use a mask and `Where` instead",
    )


@operator("TensorScatter")
def tensor_scatter(node: Node) -> Result:
    g, past, update = node.g, node.x(0), node.x(1)
    axis = node.axis(node.int("axis", -2), past.rank)
    node.expect("mode", "linear", "circular")
    circular = node.text("mode", "linear") == "circular"
    length, extent = update.dims[axis], past.dims[axis]
    batch = past.dims[0]
    if axis == 0:
        raise Refusal(DAMAGED, "TensorScatter along the batch axis")
    shape = [1] * past.rank
    shape[axis] = number_of(length)  # pyright: ignore[reportArgumentType, reportCallIssue]
    places = g.op("iota", shape=shape, axis=axis)
    if node.there(2):
        starts = g.op("cast", node.x(2), to="i64")
        places = g.op("add", places, g.op("reshape", starts, shape=[batch, *[1] * (past.rank - 1)]))
    if circular:
        node.need(extent.constant is not None, "mode=circular along an open axis")
        places = g.op("rem", places, extent.constant or 1)
    index = g.op("expand", places, shape=list(update.dims))
    return g.op("scatter_elements", past, index, update, axis=axis)
