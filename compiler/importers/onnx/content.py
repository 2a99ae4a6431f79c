"""Arithmetic of shapes while the model is read: operators on contents that are known, sizes among them.

`Reshape(x, Concat(Gather(Shape(x), 0), -1))` leaves nothing but a reshape to `[B, -1]`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openinfer.compiler.importers.onnx.items import Array, Item, numpy_dtype, tidy
from openinfer.compiler.importers.onnx.node import Node
from openinfer.compiler.importers.onnx.protos import element_dtype
from openinfer.dialects.ops.base import INTEGERS
from openinfer.lowering.graph.imports.tensors import FOLD_LIMIT
from openinfer.runtime.sizes import Size

LIMIT = FOLD_LIMIT // 8
"""Elements of a content."""


class _UnknownError(Exception):
    """What sizes cannot say."""


def content_of(node: Node) -> list[Item] | None:
    """The results of a node as contents; None where it needs an op, or what sizes cannot say."""
    row = _ROWS.get(node.op) if node.domain == "" else None
    if row is None:
        return None
    try:
        found = row(node)
    except _UnknownError:
        node.taken.clear()
        return None
    if found is None:
        node.taken.clear()
        return None
    results = found if isinstance(found, list) else [found]
    return [
        node.reader.content(tidy(array, dtype), dtype, name)
        for (array, dtype), name in zip(results, [*node.outputs, *[""] * len(results)])
    ]


Typed = tuple[Array, str]
_Row = Callable[[Node], Typed | list[Typed] | None]


def _input(node: Node, place: int = 0) -> Array:
    item = node.item(place)
    if item.content is None:
        raise _UnknownError
    return item.content


def _inputs(node: Node) -> list[Array]:
    return [_input(node, place) for place in range(len(node.inputs))]


def _shape(node: Node) -> Typed:
    dims = list(node.item(0).dims)
    begin, end = node.int("start", 0), node.int("end", len(dims))
    rank = len(dims)
    begin = min(max(begin + rank if begin < 0 else begin, 0), rank)
    end = min(max(end + rank if end < 0 else end, 0), rank)
    return _sizes(dims[begin:end]), "i64"


def _size(node: Node) -> Typed:
    total = Size.of(1)
    for dim in node.item(0).dims:
        total = total * dim
    return _sizes([total]).reshape(()), "i64"


def _sizes(values: Sequence[Any]) -> Array:
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array


# Elements


def _exact(function: Callable[..., Any]) -> _Row:
    """Arithmetic on integers, sizes among them; floats are left to ops."""

    def row(node: Node) -> Typed | None:
        dtype = node.item(0).dtype
        arrays = _inputs(node)
        if dtype not in INTEGERS and dtype != "bool":
            return None
        if np.broadcast_shapes(*(one.shape for one in arrays)) and _too_large(
            np.broadcast_shapes(*(one.shape for one in arrays))
        ):
            return None
        whole = [one.astype(object) for one in arrays]
        result = np.asarray(np.frompyfunc(function, len(whole), 1)(*whole), object)
        return _wrapped(result, dtype), dtype

    return row


def _wrapped(array: Array, dtype: str) -> Array:
    """Integers as their dtype holds them."""
    if dtype == "bool":
        return array
    limits = np.iinfo(numpy_dtype(dtype)) if dtype[1:] in ("8", "16", "32", "64") else None
    for one in array.reshape(-1):
        if isinstance(one, int) and limits and not limits.min <= one <= limits.max:
            raise _UnknownError
    return array


def _compare(function: Callable[[Any, Any], bool]) -> _Row:
    def row(node: Node) -> Typed | None:
        a, b = _inputs(node)
        if node.item(0).dtype not in INTEGERS:
            return None
        result = np.frompyfunc(function, 2, 1)(a.astype(object), b.astype(object))
        return np.asarray(result, object), "bool"

    return row


def _equal(a: Any, b: Any) -> bool:
    difference = Size.of(a) - Size.of(b)
    if difference.constant is not None:
        return difference.constant == 0
    if (difference - 1).nonnegative or (-difference - 1).nonnegative:
        return False
    raise _UnknownError


def _less(a: Any, b: Any) -> bool:
    difference = Size.of(b) - Size.of(a)
    if difference.constant is not None:
        return difference.constant > 0
    if (difference - 1).nonnegative:
        return True
    if (-difference).nonnegative:
        return False
    raise _UnknownError


def _divided(a: Any, b: Any) -> Any:
    """Integer division toward zero."""
    if isinstance(a, Size) or isinstance(b, Size):
        if not (Size.of(a).nonnegative and Size.of(b).nonnegative):
            raise _UnknownError
        return Size.of(a) // Size.of(b)
    if b == 0:
        raise _UnknownError
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _mod(a: Any, b: Any) -> Any:
    if b == 0:
        raise _UnknownError
    if isinstance(a, Size) or isinstance(b, Size):
        return Size.of(a) - (Size.of(a) // Size.of(b)) * b
    return a % b


def _modulo(node: Node) -> Typed | None:
    return None if node.flag("fmod") else _exact(_mod)(node)  # pyright: ignore[reportReturnType]


def _largest(*values: Any) -> Any:
    return Size.max(*values) if any(isinstance(one, Size) for one in values) else max(values)


def _smallest(*values: Any) -> Any:
    return Size.min(*values) if any(isinstance(one, Size) for one in values) else min(values)


def _absolute(a: Any) -> Any:
    if isinstance(a, Size):
        if not a.nonnegative:
            raise _UnknownError
        return a
    return abs(a)


def _truth(function: Callable[..., bool]) -> _Row:
    def row(node: Node) -> Typed | None:
        arrays = _inputs(node)
        if any(one.dtype != bool for one in arrays):
            return None
        return np.asarray(np.frompyfunc(function, len(arrays), 1)(*arrays), object).astype(
            bool
        ), "bool"

    return row


def _where(node: Node) -> Typed | None:
    condition, a, b = _inputs(node)
    dtype = node.item(1).dtype
    if condition.dtype != bool:
        return None
    if a.dtype != object and b.dtype != object:
        return np.where(condition, a, b), dtype
    return np.where(condition, a.astype(object), b.astype(object)), dtype


def _cast(node: Node) -> Typed | None:
    found = _input(node)
    to = element_dtype(node.int("to", 0), f"{node.op}")
    node.ignore("saturate", "round_mode")
    return _converted(node.item(0), found, to)


def _cast_like(node: Node) -> Typed | None:
    node.ignore("saturate", "round_mode")
    return _converted(node.item(0), _input(node), node.item(1).dtype)


def _converted(item: Item, found: Array, to: str) -> Typed | None:
    if found.dtype == object:
        return (found, to) if to in ("i64", "i32") else None
    plain = ("i64", "i32", "f32", "f64", "bool")
    if to not in plain or item.dtype not in plain:
        return None
    if found.dtype.kind == "f" and to != "bool" and not to.startswith("f"):
        if not np.isfinite(found).all() or (np.abs(found) > 2**31 - 1).any():
            return None
    return found.astype(numpy_dtype(to)), to


# Movement


def _moved(function: Callable[[Node, Array], Array | None]) -> _Row:
    """What moves elements: of any dtype."""

    def row(node: Node) -> Typed | None:
        found = _input(node)
        result = function(node, found)
        return None if result is None else (result, node.item(0).dtype)

    return row


def _numbers(node: Node, place: int) -> list[int]:
    found = _input(node, place)
    if found.dtype == object:
        raise _UnknownError
    return [int(one) for one in found.reshape(-1)]


def _gather(node: Node, data: Array) -> Array | None:
    indices = _input(node, 1)
    if indices.dtype == object or data.ndim == 0:
        return None
    axis = node.axis(node.int("axis", 0), data.ndim)
    extent = data.shape[axis]
    if indices.size and not (-extent <= indices.min() and indices.max() < extent):
        return None
    return np.asarray(np.take(data, indices, axis))


def _concat(node: Node) -> Typed | None:
    arrays = _inputs(node)
    if len({one.ndim for one in arrays}) != 1 or arrays[0].ndim == 0:
        return None
    axis = node.axis(node.int("axis", 0), arrays[0].ndim)
    if any(one.dtype == object for one in arrays):
        arrays = [one.astype(object) for one in arrays]
    if sum(one.size for one in arrays) > LIMIT:
        return None
    try:
        return np.concatenate(arrays, axis), node.item(0).dtype
    except ValueError:
        return None


def _unsqueeze(node: Node, data: Array) -> Array | None:
    if not node.there(1) and node.ints("axes") is None:
        return None
    count = len(node.ints("axes") or _numbers(node, 1))
    axes = node.axes("axes", 1, data.ndim + count) or []
    return np.expand_dims(data, tuple(axes)) if len(set(axes)) == count else None


def _squeeze(node: Node, data: Array) -> Array | None:
    axes = node.axes("axes", 1, data.ndim)
    if axes is None:
        return data.squeeze()
    return data.squeeze(tuple(axes)) if all(data.shape[axis] == 1 for axis in axes) else None


def _reshape(node: Node, data: Array) -> Array | None:
    shape = _numbers(node, 1)
    if not node.flag("allowzero"):
        shape = [data.shape[i] if n == 0 and i < data.ndim else n for i, n in enumerate(shape)]
    try:
        return data.reshape(shape)
    except ValueError:
        return None


def _slice(node: Node, data: Array) -> Array | None:
    if node.version < 10:
        starts, ends = node.ints("starts") or [], node.ints("ends") or []
        axes, steps = node.ints("axes"), None
    else:
        starts, ends = _numbers(node, 1), _numbers(node, 2)
        axes = _numbers(node, 3) if node.there(3) else None
        steps = _numbers(node, 4) if node.there(4) else None
    axes = [node.axis(axis, data.ndim) for axis in (range(len(starts)) if axes is None else axes)]
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        return None
    cut: list[slice] = [slice(None)] * data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        extent = data.shape[axis]
        stop: int | None = end
        if step < 0 and end < -extent:
            stop = None
        cut[axis] = slice(start, stop, step)
    return data[tuple(cut)]


def _transpose(node: Node, data: Array) -> Array | None:
    perm = node.ints("perm")
    if perm is not None and sorted(perm) != list(range(data.ndim)):
        return None
    return data.transpose(perm)


def _flatten(node: Node, data: Array) -> Array | None:
    axis = node.int("axis", 1)
    axis = axis + data.ndim if axis < 0 else axis
    return data.reshape(int(np.prod(data.shape[:axis])), -1) if data.size else None


def _expand(node: Node, data: Array) -> Array | None:
    shape = np.broadcast_shapes(data.shape, tuple(_numbers(node, 1)))
    return None if _too_large(shape) else np.broadcast_to(data, shape)


def _tile(node: Node, data: Array) -> Array | None:
    repeats = _numbers(node, 1)
    if len(repeats) != data.ndim or data.size * int(np.prod(repeats, dtype=object)) > LIMIT:
        return None
    return np.tile(data, repeats)


def _too_large(shape: Sequence[int]) -> bool:
    count = 1
    for extent in shape:
        count *= extent
    return count > LIMIT


def _split(node: Node) -> list[Typed] | None:
    data = _input(node)
    axis = node.axis(node.int("axis", 0), data.ndim) if data.ndim else 0
    parts = (
        node.ints("split") if node.version < 13 else (_numbers(node, 1) if node.there(1) else None)
    )
    if data.ndim == 0:
        return None
    count = node.int("num_outputs", len(node.outputs))
    if count != len(node.outputs):
        return None
    if parts is None:
        each = -(-data.shape[axis] // count)
        parts = [each] * (count - 1) + [data.shape[axis] - each * (count - 1)]
    if sum(parts) != data.shape[axis] or min(parts) < 0:
        return None
    dtype = node.item(0).dtype
    return [(one, dtype) for one in np.split(data, np.cumsum(parts)[:-1], axis)]


# What makes tensors


def _constant_of_shape(node: Node) -> Typed | None:
    shape = _numbers(node, 0)
    fill = node.attributes.get("value")
    node.ignore("value")
    array = np.zeros(1, np.float32) if fill is None else np.asarray(fill).reshape(-1)
    if _too_large(shape) or len(array) != 1 or min(shape, default=0) < 0:
        return None
    from openinfer.compiler.importers.onnx.items import our_dtype

    return np.full(shape, array[0], array.dtype), our_dtype(array) or "f32"


def _range(node: Node) -> Typed | None:
    start, limit, delta = (_input(node, place) for place in range(3))
    dtype = node.item(0).dtype
    if dtype not in INTEGERS or any(
        one.dtype == object or one.size != 1 for one in (start, limit, delta)
    ):
        return None
    found = range(*(int(one.reshape(-1)[0]) for one in (start, limit, delta)))
    return None if len(found) > LIMIT else (np.array(found, numpy_dtype(dtype)), dtype)


def _reduce(function: Callable[[Any, Any], Any], start: Any) -> _Row:
    """Sums and products of sizes."""

    def row(node: Node) -> Typed | None:
        data = _input(node)
        if node.item(0).dtype not in INTEGERS:
            return None
        axes = node.axes("axes", 1, data.ndim)
        if (axes is not None and len(axes) != data.ndim) or data.size == 0:
            return None
        keep = node.flag("keepdims", True)
        node.ignore("noop_with_empty_axes")
        if axes == [] or (axes is None and node.flag("noop_with_empty_axes")):
            return None
        total = start
        for one in data.astype(object).reshape(-1):
            total = function(total, one) if total is not None else one
        return _sizes([total]).reshape((1,) * data.ndim if keep else ()), node.item(0).dtype

    return row


_ROWS: dict[str, _Row] = {
    "Shape": _shape,
    "Size": _size,
    "Add": _exact(operator.add),
    "Sub": _exact(operator.sub),
    "Mul": _exact(operator.mul),
    "Div": _exact(_divided),
    "Mod": _modulo,
    "Neg": _exact(operator.neg),
    "Abs": _exact(_absolute),
    "Max": _exact(_largest),
    "Min": _exact(_smallest),
    "Equal": _compare(_equal),
    "Less": _compare(_less),
    "Greater": _compare(lambda a, b: _less(b, a)),
    "LessOrEqual": _compare(lambda a, b: not _less(b, a)),
    "GreaterOrEqual": _compare(lambda a, b: not _less(a, b)),
    "Not": _truth(operator.not_),
    "And": _truth(lambda a, b: bool(a and b)),
    "Or": _truth(lambda a, b: bool(a or b)),
    "Xor": _truth(operator.ne),
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Identity": _moved(lambda node, data: data),
    "Gather": _moved(_gather),
    "Concat": _concat,
    "Unsqueeze": _moved(_unsqueeze),
    "Squeeze": _moved(_squeeze),
    "Reshape": _moved(_reshape),
    "Slice": _moved(_slice),
    "Transpose": _moved(_transpose),
    "Flatten": _moved(_flatten),
    "Expand": _moved(_expand),
    "Tile": _moved(_tile),
    "Split": _split,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "ReduceProd": _reduce(operator.mul, 1),
    "ReduceSum": _reduce(operator.add, 0),
    "ReduceMax": _reduce(_largest, None),
    "ReduceMin": _reduce(_smallest, None),
}
