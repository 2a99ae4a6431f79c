"""Rows of convolutions, pooling and resampling, and of norms by channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from case import FLOATS, Case, Shapes

_WHOLE = ("i32", "i64", "i8", "u8", "i16", "u32")


def rows() -> Iterator[Case]:
    yield from _convolutions()
    yield from _convolutions_of_volumes()
    yield from _transposed()
    yield from _pools()
    yield from _pools_of_other_ranks()
    yield from _adaptive_pools()
    yield from _upsamples()
    yield from _samples()
    yield from _norms()


def _convolutions() -> Iterator[Case]:
    plain: Shapes = ((2, 4, 7, 9), (6, 4, 3, 3), (6,))
    for dtype in FLOATS:
        yield Case("conv2d", plain, (dtype,) * 3, {"padding": 1})
        yield Case("conv2d", plain[:2], (dtype,) * 2, {"stride": 2})
        yield Case("conv1d", ((2, 4, 17), (6, 4, 3), (6,)), (dtype,) * 3, {"padding": 1})
    for dtype in _WHOLE:
        yield Case("conv2d", plain, (dtype,) * 3, {"padding": 1}, draw="wide")
        yield Case("conv1d", ((2, 4, 9), (6, 4, 3)), (dtype,) * 2, draw="extreme")
    acc = {"padding": 1, "acc": "i32"}
    yield Case("conv2d", plain, ("i8", "i8", "i32"), acc, draw="extreme")
    yield Case("conv2d", plain[:2], ("u8", "u8"), {"acc": "u32"}, draw="extreme")
    yield Case("conv2d", plain[:2], ("f16", "f32"))
    yield Case("conv2d", plain[:2], ("f16", "f16"), out="f32")
    yield Case("conv2d", plain, ("f32", "f32", "f16"), out="f16")
    yield Case("conv2d", plain, ("f32",) * 3, {"padding": 1}, draw="gaps")
    yield Case("conv1d", ((2, 4, 17), (6, 4, 3)), ("f32",) * 2, {"padding": 2}, draw="gaps")
    for x, w, settings in _two_dimensional():
        yield Case("conv2d", (x, w, (w[0],)), ("f32",) * 3, settings)
    for x, w, settings in _one_dimensional():
        yield Case("conv1d", (x, w), ("f32",) * 2, settings)
    names = (("N", "4", "H", "W"),)
    for settings in ({"padding": 1}, {"stride": 2, "padding": [0, 1, 2, 1]}, {"padding": "same"}):
        yield Case("conv2d", plain, ("f32",) * 3, settings, names=names)
    many = (("N", "C", "H", "W"), ("O", "C", "K", "K"), ("O",))
    yield Case("conv2d", plain, ("f32",) * 3, {"stride": [1, 2]}, names=many)
    yield Case("conv1d", ((2, 4, 17), (6, 4, 3)), ("f32",) * 2, {"stride": 2}, runtime=True)
    yield Case(
        "conv1d", ((2, 4, 17), (6, 2, 3)), ("f32",) * 2, {"groups": 2}, names=(("N", "4", "L"),)
    )


def _two_dimensional() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Mapping[str, Any]]]:
    yield (1, 1, 1, 1), (1, 1, 1, 1), {}
    yield (1, 3, 5, 33), (2, 3, 1, 1), {}
    yield (1, 3, 5, 33), (2, 3, 1, 1), {"padding": 1}
    yield (2, 3, 5, 6), (4, 3, 1, 1), {"stride": [2, 3]}
    yield (1, 2, 3, 3), (2, 2, 3, 3), {}
    yield (1, 2, 9, 40), (3, 2, 3, 5), {"padding": "same"}
    yield (1, 2, 6, 7), (3, 2, 2, 4), {"padding": "same", "dilation": 2}
    yield (1, 2, 6, 7), (3, 2, 2, 4), {"padding": "valid", "dilation": [1, 2]}
    yield (1, 2, 6, 7), (3, 2, 4, 4), {"padding": [3, 2]}
    yield (1, 2, 6, 7), (3, 2, 3, 3), {"padding": [1, 0, 0, 2], "stride": 3}
    yield (1, 2, 2, 3), (3, 2, 3, 3), {"padding": 5, "dilation": 3}
    yield (2, 4, 5, 6), (4, 1, 3, 3), {"groups": 4, "padding": 1}
    yield (2, 4, 5, 6), (8, 1, 2, 2), {"groups": 4, "stride": 2}
    yield (2, 6, 5, 6), (4, 3, 2, 2), {"groups": 2, "dilation": 2}
    yield (4, 5, 6), (3, 4, 2, 2), {}
    yield (0, 4, 5, 6), (3, 4, 2, 2), {}
    yield (2, 0, 5, 6), (3, 0, 2, 2), {}
    yield (2, 3, 5, 6), (0, 3, 2, 2), {}
    yield (1, 2, 0, 3), (3, 2, 2, 2), {"padding": 1}


def _one_dimensional() -> Iterator[tuple[tuple[int, ...], tuple[int, ...], Mapping[str, Any]]]:
    yield (1, 1, 1), (1, 1, 1), {}
    yield (3, 17), (4, 3, 5), {"padding": [4, 0]}
    yield (2, 3, 17), (4, 3, 5), {"padding": "same", "dilation": 2}
    yield (2, 4, 33), (4, 1, 4), {"groups": 4, "stride": 2, "padding": 1}
    yield (1, 20, 40), (16, 20, 3), {"padding": 1}
    yield (0, 3, 17), (4, 3, 5), {}


def _convolutions_of_volumes() -> Iterator[Case]:
    plain: Shapes = ((2, 4, 5, 4, 6), (6, 4, 3, 2, 3), (6,))
    for dtype in ("f32", "f16", "i8"):
        yield Case("conv3d", plain, (dtype,) * 3, {"padding": 1})
    for x, w, settings in (
        (
            (2, 4, 5, 4, 6),
            (4, 2, 2, 2, 2),
            {"groups": 2, "stride": [2, 1, 2], "dilation": [2, 1, 1]},
        ),
        ((3, 5, 4, 6), (4, 3, 1, 3, 3), {"padding": [0, 0, 1, 1, 2, 0]}),
        ((2, 3, 0, 4, 6), (4, 3, 2, 1, 1), {"padding": 1}),
    ):
        yield Case("conv3d", (x, w), ("f32",) * 2, settings)
    names = (("N", "4", "D", "H", "W"),)
    yield Case("conv3d", plain, ("f32",) * 3, {"stride": 2, "padding": 1}, names=names)


def _transposed() -> Iterator[Case]:
    plain: Shapes = ((2, 4, 3, 5), (4, 3, 3, 2), (3,))
    for dtype in FLOATS:
        yield Case("conv_transpose2d", plain, (dtype,) * 3, {"stride": 2, "padding": 1})
    for dtype in _WHOLE[:4]:
        yield Case("conv_transpose2d", plain, (dtype,) * 3, {"stride": 2}, draw="wide")
    yield Case("conv_transpose2d", plain, ("f16", "f32", "f32"), out="f32")
    yield Case("conv_transpose2d", plain, ("f32",) * 3, {"stride": 2}, draw="gaps")
    settings: Mapping[str, Any]
    for settings in (
        {},
        {"padding": [1, 0]},
        {"padding": [2, 0, 0, 1]},
        {"stride": [1, 3], "output_padding": [0, 2]},
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"dilation": 2},
        {"dilation": [1, 3], "stride": 2, "output_padding": [0, 2]},
    ):
        yield Case("conv_transpose2d", plain, ("f32",) * 3, settings)
    for shapes, groups in (
        (((1, 1, 1, 1), (1, 1, 1, 1)), 1),
        (((2, 4, 3, 3), (4, 2, 2, 2)), 2),
        (((2, 4, 3, 33), (4, 1, 2, 2)), 4),
        (((4, 3, 3), (4, 2, 2, 2)), 1),
        (((0, 4, 3, 3), (4, 2, 2, 2)), 1),
        (((2, 0, 3, 3), (0, 2, 2, 2)), 1),
    ):
        yield Case("conv_transpose2d", shapes, ("f32",) * 2, {"groups": groups})
    yield from _side_by_side()
    names = (("N", "4", "H", "W"),)
    settings = {"stride": 2, "padding": 1, "output_padding": 1}
    yield Case("conv_transpose2d", plain, ("f32",) * 3, settings, names=names)


def _side_by_side() -> Iterator[Case]:
    """Transposed convolutions that give each element of the result one product."""
    doubled: Shapes = ((2, 4, 3, 21), (4, 3, 2, 2), (3,))
    for dtype in (*FLOATS, *_WHOLE[:4]):
        yield Case("conv_transpose2d", doubled, (dtype,) * 3, {"stride": 2})
    yield Case("conv_transpose2d", doubled, ("f16", "f16", "f32"), {"stride": 2}, out="f16")
    yield Case("conv_transpose2d", doubled[:2], ("f32",) * 2, {"stride": 2}, draw="gaps")
    yield Case(
        "conv_transpose2d", doubled, ("f32",) * 3, {"stride": 2}, names=(("N", "4", "H", "W"),)
    )
    yield Case("conv_transpose2d", doubled, ("f32",) * 3, {"stride": 2, "padding": [0, 0, 1, 0]})
    for shapes, settings in (
        (((1, 2, 4, 37), (2, 3, 1, 4), (3,)), {"stride": [1, 4]}),
        (((1, 2, 4, 37), (2, 3, 2, 3), (3,)), {"stride": [2, 3]}),
        (((1, 4, 4, 64), (4, 3, 3, 1), (6,)), {"stride": [3, 1], "groups": 2}),
        (((4, 5, 16), (4, 3, 2, 2), (3,)), {"stride": 2}),
        (((1, 1, 1, 8), (1, 1, 2, 8), (1,)), {"stride": [2, 8]}),
        (((1, 2, 2, 1), (2, 1, 2, 2), (1,)), {"stride": 2}),
        (((0, 4, 3, 3), (4, 2, 2, 2), (2,)), {"stride": 2}),
    ):
        yield Case("conv_transpose2d", shapes, ("f32",) * 3, settings)


def _pools() -> Iterator[Case]:
    x: Shapes = ((2, 3, 7, 9),)
    names = (("N", "3", "H", "W"),)
    settings: list[Mapping[str, Any]] = [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": [3, 2], "stride": 1},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True},
        {"kernel_size": 3, "stride": 2, "padding": [1, 0, 0, 1], "ceil_mode": True},
        {"kernel_size": [1, 1], "stride": [3, 2]},
        {"kernel_size": [7, 9]},
        {"kernel_size": [3, 5], "stride": 1, "padding": "same"},
        {"kernel_size": 12, "stride": 8, "ceil_mode": True, "padding": 2},
    ]
    for op in ("max_pool2d", "avg_pool2d"):
        for dtype in FLOATS:
            yield Case(op, x, (dtype,), settings[1])
        for row in settings:
            yield Case(op, x, ("f32",), row)
            yield Case(op, x, ("f32",), row, draw="gaps")
            yield Case(op, x, ("f32",), row, names=names)
        for shapes in (((3, 7, 9),), ((1, 1, 1, 1),), ((0, 3, 7, 9),), ((1, 1, 40, 3),)):
            yield Case(op, shapes, ("f32",), {"kernel_size": 1, "stride": 2})
        yield Case(op, x, ("f32",), settings[1], out="f16")
    for row in settings:
        if "padding" in row:
            yield Case("avg_pool2d", x, ("f32",), {**row, "count_include_pad": False})
        yield Case("avg_pool2d", x, ("f32",), {**row, "divisor_override": 3})
    yield Case("avg_pool2d", x, ("f16",), {**settings[4], "count_include_pad": False}, names=names)
    for dtype in _WHOLE:
        yield Case("max_pool2d", x, (dtype,), settings[4], draw="extreme")
    for dilation in (2, [1, 3]):
        row = {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": dilation}
        yield Case("max_pool2d", x, ("f32",), row)
    row = {"kernel_size": 2, "stride": 2, "padding": 2, "dilation": 3, "ceil_mode": True}
    yield Case("max_pool2d", ((1, 1, 2, 2),), ("f32",), row, note="windows without elements")


def _pools_of_other_ranks() -> Iterator[Case]:
    settings: list[Mapping[str, Any]] = [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    ]
    for x, axes in (((2, 3, 11), 1), ((2, 3, 5, 4, 6), 3)):
        for op in (f"max_pool{axes}d", f"avg_pool{axes}d"):
            yield Case(op, (x,), ("f32",), settings[0])
            yield Case(op, (x,), ("f16",), settings[0])
            yield Case(op, (x,), ("f32",), settings[1], draw="gaps")
            names = (("N", "3", *"DHW"[-axes:]),)
            yield Case(op, (x,), ("f32",), settings[0], names=names)
        yield Case(f"max_pool{axes}d", (x,), ("u8",), settings[0], draw="extreme")
        row = {**settings[0], "count_include_pad": False}
        yield Case(f"avg_pool{axes}d", (x,), ("f32",), row)
        yield Case(f"avg_pool{axes}d", (x[1:],), ("f32",), {**settings[1], "divisor_override": 5})
    row = {"kernel_size": [2, 1, 3], "stride": 1, "dilation": [2, 1, 1], "padding": [1, 0, 1]}
    yield Case("max_pool3d", ((3, 5, 4, 6),), ("f32",), row)
    for x, axes in (((2, 3, 11), 1), ((2, 3, 5, 6), 2), ((2, 3, 5, 4, 6), 3)):
        for p in (2, 1, 3.5):
            yield Case(f"lp_pool{axes}d", (x,), ("f32",), {**settings[0], "p": p})
        yield Case(f"lp_pool{axes}d", (x,), ("f16",), settings[1])
        names = (("N", "3", *"DHW"[-axes:]),)
        yield Case(f"lp_pool{axes}d", (x,), ("f32",), settings[1], names=names)


def _adaptive_pools() -> Iterator[Case]:
    for x, axes, ops in (
        ((2, 3, 11), 1, ("max", "avg")),
        ((2, 3, 6, 7), 2, ("max", "avg")),
        ((2, 3, 4, 6, 5), 3, ("max", "avg")),
    ):
        for kind in ops:
            op = f"adaptive_{kind}_pool{axes}d"
            yield Case(op, (x,), ("f32",), {"output_size": 3})
            yield Case(op, (x,), ("f32",), {"output_size": 1})
            yield Case(op, (x[1:],), ("f16",), {"output_size": 2})
            yield Case(op, (x,), ("f32",), {"output_size": 8}, draw="gaps")
            names = (("N", "3", *"DHW"[-axes:]),)
            yield Case(op, (x,), ("f32",), {"output_size": 4}, names=names)
    yield Case("adaptive_max_pool1d", ((3, 7),), ("u8",), {"output_size": 3}, draw="extreme")


def _upsamples() -> Iterator[Case]:
    x: Shapes = ((2, 3, 4, 5),)
    names = (("N", "3", "H", "W"),)
    modes: tuple[Mapping[str, Any], ...] = (
        {},
        {"mode": "bilinear"},
        {"mode": "bilinear", "align_corners": True},
    )
    for mode in modes:
        for dtype in FLOATS:
            yield Case("upsample2d", x, (dtype,), {"scale": 2, **mode})
        for settings in (
            {"scale": [1.5, 3]},
            {"scale": 0.4},
            {"scale": [1, 2.75]},
            {"size": [7, 3]},
            {"size": 1},
            {"size": [4, 5]},
        ):
            yield Case("upsample2d", x, ("f32",), {**settings, **mode})
        yield Case("upsample2d", x, ("f32",), {"scale": 1.5, **mode}, names=names)
        yield Case("upsample2d", x, ("f32",), {"size": [9, 9], **mode}, names=names)
        yield Case("upsample2d", x, ("f32",), {"scale": 2, **mode}, draw="gaps")
        for shapes in (((3, 4, 5),), ((1, 1, 1, 1),), ((0, 3, 4, 5),)):
            yield Case("upsample2d", shapes, ("f32",), {"scale": 3, **mode})
    for dtype in _WHOLE:
        yield Case("upsample2d", x, (dtype,), {"scale": [2, 1.5]}, draw="extreme")


def _samples() -> Iterator[Case]:
    """Places from -1 to 1 and beyond."""
    shapes: Shapes = ((2, 3, 4, 5), (2, 3, 2, 2))
    yield Case("grid_sample", shapes, ("f32", "f32"))
    for mode, padding in (("nearest", "border"), ("bilinear", "reflection"), ("bicubic", "zeros")):
        settings = {"mode": mode, "padding_mode": padding, "align_corners": mode == "bilinear"}
        yield Case("grid_sample", shapes, ("f32", "f32"), settings)
    yield Case("grid_sample", ((1, 2, 3, 4, 5), (1, 2, 1, 3, 3)), ("f32", "f32"))
    yield Case("grid_sample", ((1, 2, 1, 1), (1, 3, 2, 2)), ("f32", "f32"), runtime=True)


def _norms() -> Iterator[Case]:
    vector = (4,)
    for dtype in FLOATS:
        shapes: Shapes = ((2, 4, 3, 5), vector, vector, vector, vector)
        yield Case("batch_norm", shapes, (dtype,) * 5, draw="variance")
        yield Case("group_norm", ((2, 4, 3, 5), vector, vector), (dtype,) * 3, {"groups": 2})
        yield Case("group_norm", ((2, 4, 3, 5),), (dtype,), {"groups": 4})
    yield Case("instance_norm", ((2, 4, 3, 5), vector, vector), ("f32",) * 3)
    yield Case("instance_norm", ((2, 4, 7),), ("f32",), {"eps": 0.1}, names=(("N", "C", "L"),))
    yield Case("instance_norm", ((2, 4, 7), vector), ("bf16", "f32"))
    for count in (3, 4):
        shapes = ((7, 4), *(vector,) * (count - 1))
        yield Case("batch_norm", shapes, ("f32",) * count, {"eps": 0.1}, draw="variance")
    for x, axis in (((2, 3, 4), -1), ((4, 3), 0), ((4,), 0), ((0, 4, 2), 1), ((1, 4, 1), 1)):
        shapes = (x, vector, vector, vector)
        yield Case("batch_norm", shapes, ("f32",) * 4, {"axis": axis}, draw="variance")
    mixed = ("f16", "f32", "f32", "f32", "f32")
    shapes = ((2, 4, 3, 5), vector, vector, vector, vector)
    yield Case("batch_norm", shapes, mixed, draw="variance")
    yield Case("batch_norm", shapes, ("f32",) * 5, draw="variance", names=(("N", "4", "H", "W"),))
    yield Case("batch_norm", shapes[:3], ("f32",) * 3, draw="gaps")
    for x in ((2, 4), (1, 4, 1), (2, 4, 65), (2, 4, 2, 3, 2), (0, 4, 3), (2, 4, 0)):
        for groups in (1, 2, 4):
            yield Case("group_norm", (x, vector), ("f32",) * 2, {"groups": groups})
    names = (("N", "4", "H", "W"),)
    yield Case(
        "group_norm", ((2, 4, 3, 5), vector, vector), ("f32",) * 3, {"groups": 2}, names=names
    )
    yield Case("group_norm", ((2, 4, 3), vector), ("bf16", "f32"), {"groups": 2, "eps": 0.5})
    yield Case("group_norm", ((2, 4, 3),), ("f32",), {"groups": 2}, draw="gaps")
