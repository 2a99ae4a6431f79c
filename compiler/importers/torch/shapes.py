"""Handlers that move elements: shapes, orders of axes, parts, joins, borders."""

from __future__ import annotations

from math import prod

from openinfer.compiler.importers.graph_writer import GraphWriter, Value
from openinfer.compiler.importers.torch.handlers import Call, handles, number_of
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.runtime.sizes import Size


@handles(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.view_copy.default",
    "aten._reshape_copy.default",
    "aten._reshape_alias.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.ravel.default",
)
def view(call: Call) -> Value:
    """The shape is that of the result."""
    call.skip("size", "sizes", "stride", "shape", "start_dim", "end_dim", "dim")
    return call.reader.reshaped(call.tensor("self"), call.dims)


@handles("aten.unsqueeze.default", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(call: Call) -> Value:
    call.skip("dim")
    return call.reader.reshaped(call.tensor("self"), call.dims)


@handles("aten.permute.default", "aten.permute_copy.default")
def permute(call: Call) -> Value:
    x = call.tensor("self")
    return permuted(call.g, x, call.axes(x.rank, "dims"))


def permuted(g: GraphWriter, x: Value, order: list[int]) -> Value:
    """Axes in another order; the value itself where that is no other."""
    if order == list(range(x.rank)):
        return x
    return g.op("permute", x, perm=order)


@handles("aten.transpose.int", "aten.swapaxes.default", "aten.transpose_copy.int")
def transpose(call: Call) -> Value:
    x = call.tensor("self")
    names = ("axis0", "axis1") if "swapaxes" in str(call.node.target) else ("dim0", "dim1")
    first, second = (call.axis(max(x.rank, 1), name) for name in names)
    order = list(range(x.rank))
    if order:
        order[first], order[second] = order[second], order[first]
    return permuted(call.g, x, order)


@handles("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def matrix_transpose(call: Call) -> Value:
    x = call.tensor("self")
    if "mT" in str(call.node.target) and x.rank > 2:
        return call.g.op("transpose", x)
    return permuted(call.g, x, list(range(x.rank))[::-1])


@handles("aten.expand.default", "aten.broadcast_to.default", "aten.expand_copy.default")
def expand(call: Call) -> Value:
    call.skip("size", "implicit")
    return call.expand(call.tensor("self"), call.dims)


@handles("aten.expand_as.default")
def expand_as(call: Call) -> Value:
    call.skip("other")
    return call.expand(call.tensor("self"), call.dims)


@handles("aten.repeat.default", "aten.tile.default")
def repeat(call: Call) -> Value:
    repeats = call.sizes("repeats" if "repeat" in str(call.node.target) else "dims")
    x = call.tensor("self")
    if all(one.constant == 1 for one in repeats):
        return call.reader.reshaped(x, call.dims)
    numbers = [one.constant for one in repeats]
    if None not in numbers:
        return call.g.op("tile", x, repeats=numbers)
    # A number of copies that only a step knows: an axis of copies before each axis.
    ones = [Size.of(1)] * (len(repeats) - x.rank)
    dims = [*ones, *x.dims]
    apart = [part for dim in dims for part in (Size.of(1), dim)]
    copied = [part for count, dim in zip(repeats, dims) for part in (count, dim)]
    spread = call.expand(call.reader.reshaped(x, apart), copied)
    return call.reader.reshaped(spread, call.dims)


@handles("aten.repeat_interleave.self_int")
def repeat_interleave(call: Call) -> Value:
    """Each element several times in a row."""
    call.skip("output_size")
    x, count = call.tensor("self"), call.size("repeats")
    if call.raw("dim") is None:
        x, axis = call.reader.reshaped(x, [_count(x)]), 0
    else:
        axis = call.axis(x.rank)
    dims = list(x.dims)
    apart = call.reader.reshaped(x, [*dims[: axis + 1], Size.of(1), *dims[axis + 1 :]])
    spread = call.expand(apart, [*dims[: axis + 1], count, *dims[axis + 1 :]])
    return call.reader.reshaped(spread, call.dims)


def _count(x: Value) -> Size:
    return prod(x.dims, start=Size.of(1))


@handles("aten.cat.default", "aten.concat.default")
def cat(call: Call) -> Value:
    values = [call.cast(one, call.dtype) for one in call.tensors("tensors")]
    # An empty tensor of one axis joins with every shape.
    kept = [one for one in values if one.shape != (0,)] or values[:1]
    axis = call.axis(call.spec.rank)
    if len(kept) == 1:
        return kept[0]
    return call.g.op("concat", *call.reader.agreed(kept, call.spec.rank - axis), axis=axis)


@handles("aten.stack.default")
def stack(call: Call) -> Value:
    values = [call.cast(one, call.dtype) for one in call.tensors("tensors")]
    return call.g.op("stack", *call.reader.agreed(values), axis=call.axis(call.spec.rank))


@handles(
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.tensor_split.sections",
    "aten.split_copy.Tensor",
    "aten.split_with_sizes_copy.default",
)
def split(call: Call) -> tuple[Value, ...]:
    """The sizes are those of the results."""
    call.skip("split_size", "split_sizes", "chunks", "sections")
    x = call.tensor("self")
    axis = call.axis(x.rank)
    parts = [spec.dims[axis] for spec in call.specs]
    if len(parts) == 1:
        return (x,)
    if all(part.constant is not None for part in parts):
        settings = {} if len(set(parts)) == 1 else {"sizes": parts}
        return call.g.ops("split", x, results=len(parts), axis=axis, **settings)
    found: list[Value] = []
    start = Size.of(0)
    for part in parts:
        found.append(sliced(call.g, x, axis, start, start + part))
        start = start + part
    return tuple(found)


@handles("aten.unbind.int", "aten.unbind_copy.int")
def unbind(call: Call) -> tuple[Value, ...]:
    x = call.tensor("self")
    axis, count = call.axis(x.rank), len(call.specs)
    parts = [x] if count == 1 else call.g.ops("split", x, results=count, axis=axis)
    return tuple(call.g.op("squeeze", part, axes=[axis]) for part in parts)


def sliced(
    g: GraphWriter, x: Value, axis: int, start: Size | int, stop: Size | int, step: int = 1
) -> Value:
    """A range of an axis; the value itself where that is the whole axis."""
    begin, end = Size.of(start), Size.of(stop)
    if begin.constant == 0 and end == x.dims[axis] and step == 1:
        return x
    settings = {} if step == 1 else {"step": step}
    return g.op("slice", x, axis=axis, start=begin, stop=end, **settings)


def bounds(call: Call, length: Size, extent: Size) -> tuple[Size, Size, int]:
    """Start, stop and step of a slice with `extent` elements of an axis of `length`.

    PyTorch cuts what lies outside of the axis; how many elements are left is what the export says.
    """
    step = call.integer("step")
    start = call.size("start") if call.given("start") else Size.of(0)
    end = call.size("end") if call.given("end") else length
    at_end = end.constant is not None and end.constant > 1 << 48
    if start.constant is not None and start.constant < 0:
        to_end = step == 1 and (at_end or end == length)
        start = length - extent if to_end else length + start
        if start.constant is not None:
            start = Size.max(start, 0)
    elif start.constant is not None and length.constant is not None:
        start = Size.min(start, length)
    elif start.constant != 0 and any(
        atom[0] in ("min", "max") for m, _ in extent.terms for atom in m
    ):
        start = Size.min(start, length)
    if extent.constant == 0:
        return start, start, step
    return start, start + (extent - 1) * step + 1, step


@handles("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(call: Call) -> Value:
    x = call.tensor("self")
    axis = call.axis(x.rank)
    start, stop, step = bounds(call, x.dims[axis], call.dims[axis])
    return call.reader.keep_sign(x, sliced(call.g, x, axis, start, stop, step))


@handles("aten.narrow.default")
def narrow(call: Call) -> Value:
    x = call.tensor("self")
    axis = call.axis(x.rank)
    start = position(call, "start", x.dims[axis])
    return sliced(call.g, x, axis, start, start + call.size("length"))


def position(call: Call, name: str, length: Size) -> Size:
    """An index, counted from the front."""
    index = call.size(name)
    return length + index if index.constant is not None and index.constant < 0 else index


@handles("aten.select.int", "aten.select_copy.int")
def select(call: Call) -> Value:
    x = call.tensor("self")
    axis = call.axis(x.rank)
    index = position(call, "index", x.dims[axis])
    part = sliced(call.g, x, axis, index, index + 1)
    return call.reader.keep_sign(x, call.g.op("squeeze", part, axes=[axis]))


@handles("aten.flip.default")
def flip(call: Call) -> Value:
    x = call.tensor("self")
    return call.g.op("flip", x, axes=call.axes(x.rank, "dims"))


@handles("aten.roll.default")
def roll(call: Call) -> Value:
    x, shifts = call.tensor("self"), call.integers("shifts")
    axes = call.raw("dims")
    settings = {"axes": call.axes(x.rank, "dims")} if axes else {}
    return call.g.op("roll", x, shifts=shifts, **settings)


@handles("aten.tril.default", "aten.triu.default")
def triangle(call: Call) -> Value:
    op = "tril" if "tril" in str(call.node.target) else "triu"
    settings = {"diagonal": call.integer("diagonal")} if call.raw("diagonal") else {}
    return call.g.op(op, call.tensor("self"), **settings)


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@handles("aten.constant_pad_nd.default")
def constant_pad(call: Call) -> Value:
    return _padded(call, "constant", call.number("value"))


@handles("aten.pad.default")
def pad(call: Call) -> Value:
    mode = call.text("mode")
    if mode == "circular":
        call.raw("value")
        return _circular(call)
    call.must("mode", *_MODES)
    value = call.number("value") if call.given("value") else 0
    return _padded(call, _MODES[mode], value)


for _rank in (1, 2, 3):
    handles(f"aten.reflection_pad{_rank}d.default")(
        lambda call: _padded(call, "reflect", 0, "padding")
    )
    handles(f"aten.replication_pad{_rank}d.default")(
        lambda call: _padded(call, "edge", 0, "padding")
    )


def _borders(call: Call, x: Value, name: str) -> list[tuple[Size, Size]]:
    """Before and behind each axis; PyTorch lists the last axis first."""
    pads = call.sizes(name)
    found = [(Size.of(0), Size.of(0))] * x.rank
    for place in range(len(pads) // 2):
        found[x.rank - 1 - place] = (pads[2 * place], pads[2 * place + 1])
    return found


def _padded(call: Call, mode: str, value: bool | int | float, name: str = "pad") -> Value:
    """Borders; a negative one takes elements away."""
    g, x = call.g, call.tensor("self")
    borders = _borders(call, x, name)
    for axis, (before, behind) in enumerate(borders):
        cuts = [
            -one.constant if one.constant and one.constant < 0 else 0 for one in (before, behind)
        ]
        if any(cuts):
            x = sliced(g, x, axis, cuts[0], x.dims[axis] - cuts[1])
            borders[axis] = (Size.max(before, 0), Size.max(behind, 0))
    axes = [axis for axis, pair in enumerate(borders) if any(one.constant != 0 for one in pair)]
    if not axes:
        return x
    pads = [borders[axis][0] for axis in axes] + [borders[axis][1] for axis in axes]
    settings: dict[str, object] = {} if mode == "constant" else {"mode": mode}
    if mode == "constant" and value != 0:
        settings["value"] = number_of(value, x.dtype)
    if len(axes) < x.rank:
        settings["axes"] = axes
    return g.op("pad", x, pads=pads, **settings)


def _circular(call: Call) -> Value:
    """Borders that continue with the other end."""
    g, x = call.g, call.tensor("self")
    for axis, (before, behind) in enumerate(_borders(call, x, "pad")):
        length = x.dims[axis]
        parts = [x]
        if before.constant != 0:
            parts.insert(0, sliced(g, x, axis, length - before, length))
        if behind.constant != 0:
            parts.append(sliced(g, x, axis, 0, behind))
        if len(parts) > 1:
            x = g.op("concat", *parts, axis=axis)
    return x


@handles("aten.pixel_shuffle.default")
def pixel_shuffle(call: Call) -> Value:
    """`[…, C*r*r, H, W]` as `[…, C, H*r, W*r]`."""
    x, r = call.tensor("self"), call.integer("upscale_factor")
    *lead, _, _, _ = x.dims
    channels, height, width = call.dims[-3], x.dims[-2], x.dims[-1]
    apart = call.reader.reshaped(x, [*lead, channels, r, r, height, width])
    k = len(lead)
    moved = permuted(call.g, apart, [*range(k), k, k + 3, k + 1, k + 4, k + 2])
    return call.reader.reshaped(moved, call.dims)


@handles("aten.pixel_unshuffle.default")
def pixel_unshuffle(call: Call) -> Value:
    """The reverse of `pixel_shuffle`."""
    x, r = call.tensor("self"), call.integer("downscale_factor")
    *lead, channels, _, _ = x.dims
    height, width = call.dims[-2], call.dims[-1]
    apart = call.reader.reshaped(x, [*lead, channels, height, r, width, r])
    k = len(lead)
    moved = permuted(call.g, apart, [*range(k), k, k + 2, k + 4, k + 1, k + 3])
    return call.reader.reshaped(moved, call.dims)


@handles("aten.channel_shuffle.default")
def channel_shuffle(call: Call) -> Value:
    x, groups = call.tensor("self"), call.integer("groups")
    batch, channels, *rest = x.dims
    apart = call.reader.reshaped(x, [batch, groups, channels // groups, *rest])
    moved = permuted(call.g, apart, [0, 2, 1, *range(3, apart.rank)])
    return call.reader.reshaped(moved, call.dims)


@handles("aten.unfold.default")
def unfold(call: Call) -> Value:
    """Windows of an axis, side by side as a new last axis: one slice for each place in a window."""
    x, size, step = call.tensor("self"), call.integer("size"), call.integer("step")
    axis = call.axis(x.rank, "dimension")
    if size > 64:
        raise Refused(f"windows of {size} elements", "a convolution with an identity does the same")
    count = call.dims[axis]
    parts = [
        sliced(call.g, x, axis, place, (count - 1) * step + place + 1, step)
        for place in range(size)
    ]
    return call.g.op("stack", *parts, axis=x.rank)


@handles("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(call: Call) -> Value:
    """The diagonal of a matrix by einsum; another one is that of a part."""
    x = call.tensor("self")
    first, second = call.axis(x.rank, "dim1"), call.axis(x.rank, "dim2")
    offset = call.integer("offset")
    extent = call.dims[-1]
    x = sliced(call.g, x, first, max(-offset, 0), extent + max(-offset, 0))
    x = sliced(call.g, x, second, max(offset, 0), extent + max(offset, 0))
    if x.dtype == "bool":
        return call.cast(_diagonal(call, call.cast(x, "u8"), first, second), "bool")
    return _diagonal(call, x, first, second)


def _diagonal(call: Call, x: Value, first: int, second: int) -> Value:
    letters = [chr(ord("a") + axis) for axis in range(x.rank)]
    letters[second] = letters[first]
    rest = "".join(letter for axis, letter in enumerate(letters) if axis not in (first, second))
    return call.g.op("einsum", x, equation=f"{''.join(letters)}->{rest}{letters[first]}")


@handles("aten.diff.default")
def diff(call: Call) -> Value:
    """Differences of neighbours, of the axis with what is put in front of and behind it."""
    call.must("n", 1)
    x = call.tensor("self")
    axis = call.axis(x.rank)
    ends = [call.tensor(name) for name in ("prepend",) if call.given(name)] + [x]
    ends += [call.tensor(name) for name in ("append",) if call.given(name)]
    if len(ends) > 1:
        x = call.g.op("concat", *ends, axis=axis)
    length = x.dims[axis]
    later, earlier = sliced(call.g, x, axis, 1, length), sliced(call.g, x, axis, 0, length - 1)
    return call.g.op("xor" if x.dtype == "bool" else "sub", later, earlier)


@handles("aten.slice_scatter.default")
def slice_scatter(call: Call) -> Value:
    """x with a range of an axis replaced: what is before it, the new part, what is behind; with a step every
    place by itself."""
    g, x, source = call.g, call.tensor("self"), call.tensor("src")
    axis = call.axis(x.rank)
    start, stop, step = bounds(call, x.dims[axis], source.dims[axis])
    if step != 1:
        if start.constant is None:
            raise Refused(f"step={step} from {start} on", "begin at a number")
        shape = [source.dims[axis]]
        places = g.op("iota", shape=shape, start=start.constant, step=step)
        return g.op("scatter", x, places, call.cast(source, x.dtype), axis=axis)
    return _replaced(g, x, call.cast(source, x.dtype), axis, start, stop)


def _replaced(g: GraphWriter, x: Value, part: Value, axis: int, start: Size, stop: Size) -> Value:
    length = x.dims[axis]
    parts = [part]
    if start.constant != 0:
        parts.insert(0, sliced(g, x, axis, 0, start))
    if stop != length:
        parts.append(sliced(g, x, axis, stop, length))
    return part if len(parts) == 1 else g.op("concat", *parts, axis=axis)


@handles("aten.select_scatter.default")
def select_scatter(call: Call) -> Value:
    """x with one position of an axis replaced."""
    g, x = call.g, call.tensor("self")
    axis = call.axis(x.rank)
    source = g.op("unsqueeze", call.cast(call.tensor("src"), x.dtype), axes=[axis])
    index = position(call, "index", x.dims[axis])
    return _replaced(g, x, source, axis, index, index + 1)


@handles("aten.copy.default")
def copy(call: Call) -> Value:
    """The values of src in the shape and dtype of self."""
    call.skip("self")
    return call.expand(call.cast(call.tensor("src"), call.dtype), call.dims)
