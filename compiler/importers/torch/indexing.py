"""Handlers that read and write elements at computed positions."""

from __future__ import annotations

from math import prod
from typing import Any

from openinfer.compiler.importers.graph_writer import Operand, Value
from openinfer.compiler.importers.torch.handlers import REFUSALS, Call, handles
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.compiler.importers.torch.shapes import permuted
from openinfer.runtime.sizes import Size

_BY_DATA = ("the size of its result depends on data", "keep the full size and use torch.where")
for (
    _name
) in "nonzero masked_select unique unique2 _unique2 unique_consecutive unique_dim bincount".split():
    REFUSALS[f"aten.{_name}"] = _BY_DATA
_BAGS = "take the rows with nn.Embedding and join them with sum, mean or amax: table(x).sum(-2)"
REFUSALS["aten._embedding_bag"] = ("bags are rows of a table that are joined", _BAGS)


@handles("aten.embedding.default")
def embedding(call: Call) -> Value:
    """The arguments beside table and indices matter for gradients only."""
    call.skip("padding_idx", "scale_grad_by_freq", "sparse")
    return call.g.op("gather", call.tensor("weight"), call.tensor("indices"))


@handles("aten.embedding_bag.padding_idx", "aten.embedding_bag.default")
def embedding_bag(call: Call) -> tuple[Value, ...]:
    """Rows of a table, joined in bags of one length: `nn.EmbeddingBag` of indices (bags, length)."""
    call.skip("scale_grad_by_freq", "sparse", "include_last_offset")
    call.must("padding_idx", None, -1, hint=_BAGS)
    table, indices = call.tensor("weight"), call.tensor("indices")
    length = _bag_length(call, indices)
    bags = call.tensor("offsets").dims[0]
    g = call.g
    rows = g.op("gather", table, g.op("reshape", indices, shape=[bags, length]))
    if call.given("per_sample_weights"):
        weights = g.op("reshape", call.tensor("per_sample_weights"), shape=[bags, length, 1])
        rows = g.op("mul", rows, weights)
    joined = ("sum_axis", "mean_axis", "max_axis")[call.integer("mode")]
    # The other results are for gradients.
    return (g.op(joined, rows, axes=[1]),)


def _bag_length(call: Call, indices: Value) -> Size:
    """Of all bags: they begin at 0, length, 2 length, … of as many indices as there are in them."""
    offsets = call.raw("offsets")
    if str(getattr(offsets, "target", "")) == "aten.arange.start_step" and not call.flag(
        "include_last_offset"
    ):
        start, end, step = (call.reader.size(one) for one in offsets.args[:3])
        if start == Size.of(0) and end == indices.dims[0] and step.constant is not None:
            return step
    raise Refused("bags whose lengths are not known to be equal", _BAGS)


@handles("aten.index_select.default")
def index_select(call: Call) -> Value:
    x, index = call.tensor("self"), call.tensor("index")
    axis = call.axis(max(x.rank, 1))
    return call.g.op("gather", x, index, **({"axis": axis} if axis else {}))


@handles("aten.gather.default")
def gather(call: Call) -> Value:
    """An index chooses along one axis; along the others its place does, so that x may be larger there."""
    call.skip("sparse_grad")
    x, index = call.tensor("self"), call.tensor("index")
    axis = call.axis(max(x.rank, 1))
    for other in range(x.rank):
        if other != axis and index.dims[other] != x.dims[other]:
            x = call.g.op("slice", x, axis=other, start=0, stop=index.dims[other])
    found = call.g.op("gather_elements", x, index, axis=axis)
    return call.reader.keep_sign(call.tensor("self"), found)


@handles("aten.take_along_dim.default")
def take_along_dim(call: Call) -> Value:
    """As `gather`, but x and the indices broadcast along the other axes; without an axis both are rows."""
    x, index = call.tensor("self"), call.tensor("indices")
    if call.raw("dim") is None:
        x, index = (call.reshape(one, [prod(one.dims, start=Size.of(1))]) for one in (x, index))
    axis = call.axis(x.rank) if call.given("dim") else 0
    index = call.expand(index, call.dims)
    x = call.expand(x, [*call.dims[:axis], x.dims[axis], *call.dims[axis + 1 :]])
    found = call.g.op("gather_elements", x, index, axis=axis)
    return call.reader.keep_sign(call.tensor("self"), found)


def wrapped(call: Call, index: Value, length: Size) -> Value:
    """Indices counted from the front: PyTorch lets negative ones count from the end."""
    if index.name in call.reader.nonnegative or index.dtype.startswith("u"):
        return index
    g = call.g
    behind = _plus(call, index, length)
    found = g.op("where", g.op("lt", index, 0), behind, index)
    call.reader.nonnegative.add(found.name)
    return found


def _plus(call: Call, index: Value, length: Size) -> Value:
    if length.constant is not None:
        return call.g.op("add", index, length.constant)
    return call.g.op("add", index, call.reader.size_value(length, index.dtype))


def _times(call: Call, index: Value, length: Size) -> Value:
    if length.constant is not None:
        return call.g.op("mul", index, length.constant)
    return call.g.op("mul", index, call.reader.size_value(length, index.dtype))


class _Places:
    """The indices of `x[i, :, j]`: the axes that they choose from, and one index for all of them together."""

    def __init__(self, call: Call, x: Value) -> None:
        self.call = call
        given: list[tuple[int, Value]] = []
        for axis, raw in enumerate(call.raw("indices")):
            if raw is not None:
                given.append((axis, call.tensor_of(raw)))
        if any(index.dtype in ("bool", "u8") for _, index in given):
            raise Refused(*_BY_DATA)
        self.axes = [axis for axis, _ in given]
        rank = max(index.rank for _, index in given)
        # The axes of the indices stand where those that they choose from stood, or in front of all if these
        # are not neighbours.
        together = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        self.at = self.axes[0] if together else 0
        self.rank = rank
        total: Value | None = None
        for axis, index in given:
            index = call.cast(wrapped(call, index, x.dims[axis]), "i64")
            if total is None:
                total = index
            else:
                moved = call.g.op("add", _times(call, total, x.dims[axis]), index)
                call.reader.nonnegative.add(moved.name)
                total = moved
        assert total is not None
        self.index = total

    @property
    def order(self) -> list[int]:
        """The axes of x, the chosen ones first."""
        return [*self.axes, *(axis for axis in range(self.x_rank) if axis not in self.axes)]

    def flat(self, x: Value) -> Value:
        """x with the chosen axes as one, in front."""
        self.x_rank = x.rank
        moved = permuted(self.call.g, x, self.order)
        count = len(self.axes)
        first = prod(moved.dims[:count], start=Size.of(1))
        return self.call.reshape(moved, [first, *moved.dims[count:]])


def _spread(call: Call, x: Value) -> Value | None:
    """`x[i, j]` where i counts a whole axis of x along an axis of the result, and j the next one further
    behind: x with axes of size 1 between its own. That is how masks are built."""
    axes: list[int] = []
    for axis, raw in enumerate(call.raw("indices")):
        if raw is None:
            return None
        index = call.tensor_of(raw)
        counted = call.reader.counting.get(index.name)
        if counted is None or counted[1] != x.dims[axis]:
            return None
        axes.append(counted[0] - index.rank)
    if axes != sorted(set(axes)):
        return None
    return call.reader.reshaped(x, call.dims)


@handles("aten.index.Tensor")
def index(call: Call) -> Value:
    """Several indices are one into the chosen axes taken as one axis."""
    x = call.tensor("self")
    spread = _spread(call, x)
    if spread is not None:
        return spread
    places = _Places(call, x)
    if len(places.axes) == 1:
        axis = places.axes[0]
        found = call.g.op("gather", x, places.index, **({"axis": axis} if axis else {}))
        return call.reader.keep_sign(x, found)
    found = call.g.op("gather", places.flat(x), places.index)
    if places.at:
        kept = list(range(places.rank, found.rank))
        before, behind = kept[: places.at], kept[places.at :]
        found = permuted(call.g, found, [*before, *range(places.rank), *behind])
    return call.reader.keep_sign(x, found)


@handles("aten.index_put.default")
def index_put(call: Call) -> Value:
    """Elements replaced, or with `accumulate` added to; a mask alone chooses by `where`."""
    x, values = call.tensor("self"), call.cast(call.tensor("values"), call.dtype)
    raw = call.raw("indices")
    mask = call.tensor_of(raw[0]) if len(raw) == 1 and raw[0] is not None else None
    if mask is not None and mask.dtype == "bool":
        if call.flag("accumulate"):
            raise Refused("a mask with accumulate=True", "x + torch.where(mask, value, 0)")
        if values.rank and values.shape != (1,):
            raise Refused("a mask with as many values as it has true elements", "use torch.where")
        shape = [*mask.dims, *[Size.of(1)] * (x.rank - mask.rank)]
        return call.g.op("where", call.reshape(mask, shape), call.reshape(values, []), x)
    places = _Places(call, x)
    flat = places.flat(x)
    rest = flat.dims[1:]
    mode = {"mode": "add"} if call.flag("accumulate") else {}
    before = places.at
    whole = [*rest[:before], *places.index.dims, *rest[before:]]
    chosen = list(range(before, before + places.rank))
    others = [axis for axis in range(len(whole)) if axis not in chosen]
    updates = permuted(call.g, call.expand(values, whole), [*chosen, *others])
    written = call.g.op("scatter", flat, places.index, updates, **mode)
    order = places.order
    apart = call.reshape(written, [x.dims[axis] for axis in order])
    back = [order.index(axis) for axis in range(x.rank)]
    return permuted(call.g, apart, back)


@handles("aten.index_copy.default")
def index_copy(call: Call) -> Value:
    return _written(call, "source", {})


@handles("aten.index_add.default")
def index_add(call: Call) -> Value:
    call.must("alpha", 1)
    return _written(call, "source", {"mode": "add"})


def _written(call: Call, name: str, mode: dict[str, Any]) -> Value:
    """Slices of one axis replaced or added to."""
    x, index = call.tensor("self"), call.tensor("index")
    axis = call.axis(max(x.rank, 1))
    source = call.cast(call.tensor(name), x.dtype)
    index = call.reshape(index, [prod(index.dims, start=Size.of(1))])
    settings = mode | ({"axis": axis} if axis else {})
    return call.g.op("scatter", x, index, source, **settings)


@handles("aten.index_fill.int_Scalar")
def index_fill(call: Call) -> Value:
    x, index = call.tensor("self"), call.tensor("index")
    axis = call.axis(max(x.rank, 1))
    dims = [*x.dims[:axis], *index.dims, *x.dims[axis + 1 :]]
    value: Operand = call.operand("value", x.dtype)
    assert not isinstance(value, Value)
    source = call.expand(call.reader.scalar(value, x.dtype), dims)
    return call.g.op("scatter", x, index, source, **({"axis": axis} if axis else {}))


@handles("aten.one_hot.default")
def one_hot(call: Call) -> Value:
    call.skip("num_classes")
    return call.g.op("one_hot", call.tensor("self"), depth=call.dims[-1], dtype=call.dtype)


@handles("aten.bucketize.Tensor", "aten.searchsorted.Tensor")
def bucketize(call: Call) -> Value:
    """How many bounds are below a value, or with `right` not above it."""
    g = call.g
    search = "searchsorted" in str(call.node.target)
    values = call.tensor("self")
    bounds = call.tensor("sorted_sequence" if search else "boundaries")
    if search:
        call.skip("sorter")
        call.must("side", None)
        if call.given("sorter"):
            raise Refused("sorter is not taken")
    if bounds.rank != 1:
        raise Refused("rows of bounds", "search in one row of them at a time")
    right = call.flag("right")
    column = g.op("unsqueeze", values, axes=[values.rank])
    # As written: a NaN is above all bounds.
    below = g.op("not", g.op("gt" if right else "ge", bounds, column))
    call.skip("out_int32")
    return call.cast(
        g.op("sum_axis", g.op("cast", below, to="i64"), axes=[values.rank]), call.dtype
    )
