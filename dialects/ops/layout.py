"""Ops that only move elements: joining, cutting, reordering, reshaping; and `iota`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    NUMBERS,
    REQUIRED,
    STORED,
    Infer,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_int,
    as_size,
    as_sizes,
    broadcast_dims,
    check_equal,
    dims_text,
    normal_axes,
    normal_axis,
    not_negative,
    product,
    same_dtype,
)
from openinfer.runtime.sizes import Size, equal_if_exact

Settings = Mapping[str, object]


def _concat(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    first = operands[0]
    dtype = same_dtype(operands, [f"operand {i}" for i in range(len(operands))])
    axis = normal_axis(settings["axis"], first.rank)
    total = first.dims[axis]
    for number, operand in enumerate(operands[1:], 1):
        rest = [d for i, d in enumerate(operand.dims) if i != axis]
        if operand.rank != first.rank or rest != [d for i, d in enumerate(first.dims) if i != axis]:
            raise ShapeError(
                f"operand {number} {operand} does not fit operand 0 {first} along axis {axis}",
                "all other dimensions must be equal",
            )
        total = total + operand.dims[axis]
    return [TensorSpec(dtype, (*first.dims[:axis], total, *first.dims[axis + 1 :]))]


def _split(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    axis = normal_axis(settings["axis"], x.rank)
    count = as_int(settings["outputs"], "outputs")
    extent = x.dims[axis]
    if settings["sizes"] is None:
        if extent.constant is not None and extent.constant % count:
            raise ShapeError(
                f"axis {axis} of {x} does not divide into {count} equal parts",
                "give the sizes: `sizes=[…]`",
            )
        parts = (extent // count,) * count
    else:
        parts = as_sizes(settings["sizes"], "sizes")
        if len(parts) != count:
            raise SettingError("sizes", f"sizes has {len(parts)} entries for {count} outputs")
        total = Size.of(0)
        for part in parts:
            total = total + part
        check_equal(total, extent, f"the sum of sizes and axis {axis} of {x}")
        not_negative(parts, "sizes")
    return [TensorSpec(x.dtype, (*x.dims[:axis], p, *x.dims[axis + 1 :])) for p in parts]


def slice_bounds(x: TensorSpec, settings: Settings) -> list[tuple[Size, Size, int]]:
    """(start, stop, step) for every axis of x, counted from the front.

    `starts`, `stops`, `axes`, `steps` give several axes; `axis`, `start`, `stop`, `step` one.
    Raises SettingError or ShapeError for what is provably wrong; the rest is checked when it runs.
    """
    bounds = [(Size.of(0), d, 1) for d in x.dims]
    if any(settings[name] is not None for name in ("starts", "stops", "axes", "steps")):
        if settings["start"] is not None or settings["stop"] is not None:
            raise SettingError("starts", "starts/stops and start/stop exclude each other")
        requests = _many(x, settings)
    else:
        start = settings["start"]
        stop = settings["stop"]
        requests = [
            (
                normal_axis(settings["axis"], x.rank),
                None if start is None else as_size(start, "start"),
                None if stop is None else as_size(stop, "stop"),
                as_int(settings["step"], "step"),
            )
        ]
    for axis, start, stop, step in requests:
        extent = x.dims[axis]
        low = Size.of(0) if start is None else _from_front(start, extent)
        high = extent if stop is None else _from_front(stop, extent)
        if step < 1:
            raise SettingError("step", f"step={step} is not positive", "use `flip` to reverse")
        _check_order(x, axis, low, high)
        bounds[axis] = (low, high, step)
    return bounds


def _many(x: TensorSpec, settings: Settings) -> list[tuple[int, Size | None, Size | None, int]]:
    given = {n: settings[n] for n in ("starts", "stops", "axes", "steps")}
    lists = {n: as_sizes(v, n) for n, v in given.items() if v is not None}
    count = max(len(v) for v in lists.values())
    for name, values in lists.items():
        if len(values) != count:
            raise SettingError(name, f"{name} has {len(values)} entries, others have {count}")
    if "axes" not in lists and count > x.rank:
        raise SettingError("starts", f"{count} bounds for a tensor of rank {x.rank}")
    axes = lists.get("axes", tuple(Size.of(i) for i in range(count)))
    requests: list[tuple[int, Size | None, Size | None, int]] = []
    for i in range(count):
        start = lists["starts"][i] if "starts" in lists else None
        stop = lists["stops"][i] if "stops" in lists else None
        step = as_int(lists["steps"][i], "steps") if "steps" in lists else 1
        requests.append((normal_axis(axes[i], x.rank, "axes"), start, stop, step))
    return requests


def _from_front(bound: Size, extent: Size) -> Size:
    """A negative constant counts from the end."""
    return extent + bound if bound.constant is not None and bound.constant < 0 else bound


def _check_order(x: TensorSpec, axis: int, low: Size, high: Size) -> None:
    """What is provable: 0 <= low <= high <= extent."""
    for left, right, words in (
        (Size.of(0), low, f"start {low} lies before the beginning of"),
        (low, high, f"start {low} lies behind stop {high} on"),
        (high, x.dims[axis], f"stop {high} lies behind the end of"),
    ):
        difference = (right - left).constant
        if difference is not None and difference < 0:
            raise ShapeError(f"{words} axis {axis} of {x}")


def _slice(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    dims: list[Size] = []
    for low, high, step in slice_bounds(x, settings):
        extent = high - low
        dims.append(extent if step == 1 else (extent + (step - 1)) // step)
    return [TensorSpec(x.dtype, tuple(dims))]


def permutation(rank: int, settings: Settings) -> tuple[int, ...]:
    """The order of axes that `transpose` or `permute` asks for; default: swap the last two."""
    perm = settings["perm"]
    if perm is not None:
        order = tuple(normal_axis(a, rank, "perm") for a in as_sizes(perm, "perm"))
        if sorted(order) != list(range(rank)):
            raise SettingError(
                "perm", f"perm={list(order)} is not an order of the {rank} axes of the operand"
            )
        return order
    axes = settings.get("axes")
    if axes is None and rank < 2:
        raise ShapeError(f"a tensor of rank {rank} has no two axes to swap")
    pair = (-2, -1) if axes is None else as_sizes(axes, "axes")
    if len(pair) != 2:
        raise SettingError("axes", f"axes names {len(pair)} axes, a swap needs two", "or use perm")
    first, second = (normal_axis(a, rank, "axes") for a in pair)
    order_list = list(range(rank))
    order_list[first], order_list[second] = second, first
    return tuple(order_list)


def _transpose(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    return [TensorSpec(x.dtype, tuple(x.dims[a] for a in permutation(x.rank, settings)))]


def _reshape(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    shape = list(as_sizes(settings["shape"], "shape"))
    open_slots = [i for i, d in enumerate(shape) if d.constant == -1]
    if len(open_slots) > 1:
        raise SettingError("shape", "shape holds -1 more than once")
    if open_slots:
        rest = product([d for i, d in enumerate(shape) if i != open_slots[0]])
        if rest.constant == 0:
            raise SettingError("shape", "shape holds -1 and 0")
        if x.count.constant is not None and rest.constant is not None:
            if x.count.constant % rest.constant:
                raise ShapeError(f"{x} does not divide by {rest}, the rest of the new shape")
        shape[open_slots[0]] = x.count // rest
    elif not _may_be_equal(product(shape), x.count):
        raise ShapeError(
            f"{x} has {x.count} elements, the new shape {dims_text(shape)} has {product(shape)}",
            "one dimension may be -1",
        )
    not_negative(shape, "shape")
    return [TensorSpec(x.dtype, tuple(shape))]


def _may_be_equal(left: Size, right: Size) -> bool:
    """Whether two counts are equal as far as their names tell; the step compares the numbers.

    A division is taken to come out even, and a size that has no name in the program, as those that only a
    step knows, may have any value.
    """
    unnamed = any("." in name for name in left.names | right.names)
    return unnamed or equal_if_exact(left, right)


def _squeeze(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    if settings["axes"] is None:
        return [TensorSpec(x.dtype, tuple(d for d in x.dims if d.constant != 1))]
    axes = normal_axes(settings["axes"], x.rank)
    for axis in axes:
        if x.dims[axis].constant != 1:
            raise ShapeError(f"axis {axis} of {x} is {x.dims[axis]}, not 1")
    return [TensorSpec(x.dtype, tuple(d for i, d in enumerate(x.dims) if i not in axes))]


def _unsqueeze(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    given = as_sizes(settings["axes"], "axes")
    rank = x.rank + len(given)
    axes = normal_axes(given, rank)
    if len(axes) != len(given):
        raise SettingError("axes", "axes names one axis twice")
    rest = iter(x.dims)
    return [
        TensorSpec(x.dtype, tuple(Size.of(1) if i in axes else next(rest) for i in range(rank)))
    ]


def _expand(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    shape = list(as_sizes(settings["shape"], "shape"))
    lead = len(shape) - x.rank
    if lead < 0:
        raise ShapeError(f"{x} has more dimensions than the new shape {dims_text(shape)}")
    for i, dim in enumerate(shape):
        if dim.constant == -1:
            if i < lead:
                raise SettingError("shape", "-1 stands for an axis that the operand lacks")
            shape[i] = x.dims[i - lead]
    if broadcast_dims([tuple(shape), x.dims]) != tuple(shape):
        raise ShapeError(f"{x} does not stretch to {dims_text(shape)}")
    not_negative(shape, "shape")
    return [TensorSpec(x.dtype, tuple(shape))]


def _iota(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    shape = as_sizes(settings["shape"], "shape")
    not_negative(shape, "shape")
    if shape:
        normal_axis(settings["axis"], len(shape))
    return [TensorSpec(str(settings["dtype"]), shape)]


_PERM = Setting("perm", "ints", None, "the order of the axes", ("order", "permutation"))
_SHAPE = Setting("shape", "ints", REQUIRED, "the new shape; sizes may stand in it")


def _layout(
    name: str, infer: Infer, doc: str, *settings: Setting, variadic: bool = False
) -> OpSpec:
    operands = ("x",)
    return OpSpec(
        name,
        operands,
        infer,
        doc,
        "layout",
        STORED,
        settings,
        variadic=variadic,
        meeting=operands if variadic else (),
    )


SPECS: tuple[OpSpec, ...] = (
    _layout(
        "concat",
        _concat,
        "Operands one after the other along an axis.",
        Setting("axis", "int", 0, "the axis along which to join", ("dim",)),
        variadic=True,
    ),
    OpSpec(
        "split",
        ("x",),
        _split,
        "Consecutive parts along an axis, equal ones unless `sizes` is given.",
        "layout",
        STORED,
        (
            Setting("axis", "int", 0, "the axis to cut", ("dim",)),
            Setting("sizes", "ints", None, "the size of each part"),
        ),
        outputs=None,
    ),
    _layout(
        "slice",
        _slice,
        "The half-open range start..stop of an axis, or of several; negative counts from the end.",
        Setting("axis", "int", 0, "the axis to cut", ("dim",)),
        Setting("start", "size", None, "first position"),
        Setting("stop", "size", None, "position behind the last", ("end",)),
        Setting("step", "int", 1, "distance of positions"),
        Setting("starts", "ints", None, "first position for each of `axes`"),
        Setting("stops", "ints", None, "position behind the last for each of `axes`", ("ends",)),
        Setting("axes", "ints", None, "the axes to cut; default the first ones"),
        Setting("steps", "ints", None, "distance of positions for each of `axes`"),
    ),
    _layout(
        "transpose",
        _transpose,
        "Axes in another order; without settings the last two change places.",
        _PERM,
        Setting("axes", "ints", None, "the two axes that change places"),
    ),
    _layout(
        "permute",
        _transpose,
        "Axes in another order.",
        Setting("perm", "ints", REQUIRED, _PERM.doc, ("order", "permutation", "dims", "axes")),
    ),
    _layout("reshape", _reshape, "The same elements, row-major, in another shape.", _SHAPE),
    _layout(
        "squeeze",
        _squeeze,
        "Without axes of size 1.",
        Setting("axes", "ints", None, "which; default all that are 1", ("axis",)),
    ),
    _layout(
        "unsqueeze",
        _unsqueeze,
        "With new axes of size 1.",
        Setting("axes", "ints", REQUIRED, "where they stand in the result", ("axis",)),
    ),
    _layout("expand", _expand, "Axes of size 1 repeated; -1 keeps one.", _SHAPE),
    OpSpec(
        "iota",
        (),
        _iota,
        "`start + step * i`, i the position along an axis.",
        "layout",
        NUMBERS,
        (
            _SHAPE,
            Setting("axis", "int", -1, "the axis that counts", ("dim",)),
            Setting("start", "int", 0, "the first value"),
            Setting("step", "int", 1, "the difference of neighbours"),
            Setting("dtype", "dtype", "i64", "the dtype of the result", ("to",)),
        ),
    ),
)
