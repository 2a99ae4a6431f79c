"""Rows of the ops that choose, order and count, of borders, random numbers and quantisation."""

from __future__ import annotations

from collections.abc import Iterator

from case import FLOATS, INTS, NUMBERS, Case, Shapes

_QUICK = ("i8", "bf16", "i4", "bool")
"""The dtypes beside the first one that run without being asked for."""
_LINES: tuple[Shapes, ...] = (
    ((3, 5),), ((33,),), ((1,),), ((4, 1),), ((2, 7, 17),), ((0, 3),), ((3, 0),), ((64, 65),),
)  # fmt: skip
_SCATTERS: tuple[tuple[Shapes, int], ...] = (
    (((7, 3), (4,), (4, 3)), 0),
    (((7,), (5,), (5,)), 0),
    (((7, 3), (), (3,)), 0),
    (((2, 7, 3), (4,), (2, 4, 3)), 1),
    (((2, 5), (2, 3), (2, 2, 3)), -1),
    (((7, 33), (9,), (9, 33)), 0),
    (((7, 3), (4,), ()), 0),
    (((7, 3), (0,), (0, 3)), 0),
    (((1, 1), (6,), (6, 1)), 0),
)


def rows() -> Iterator[Case]:
    yield from _scatters()
    yield from _by_elements()
    yield from _orders()
    yield from _sums()
    yield from _borders()
    yield from _numbers()


def _scatters() -> Iterator[Case]:
    for mode in ("set", "add", "min", "max"):
        for shapes, axis in _SCATTERS:
            settings = {"axis": axis, "mode": mode}
            yield Case("scatter", shapes, ("f32", "i64", "f32"), settings, draw="indices")
        dtypes = (*FLOATS[1:], *INTS, "u4", *(("bool",) if mode == "set" else ()))
        for dtype in dtypes:
            # Few rows and many indices, so that they meet.
            shapes = ((3, 5), (8,), (8, 5))
            yield Case("scatter", shapes, (dtype, "i32", dtype), {"mode": mode}, draw="indices")
    yield Case("scatter", ((5, 3), (4,), (4, 3)), ("f32", "u8", "f32"), draw="indices")
    yield Case(
        "scatter", ((5, 3), (4,), (4, 3)), ("f32", "i64", "f32"), draw="indices", runtime=True
    )
    for dtype in ("i64", "i32", "u8", "i4"):
        yield Case("one_hot", ((4,),), (dtype,), {"depth": 5}, draw="indices")
    for settings in (
        {"depth": 3, "axis": 0, "dtype": "i8", "on_value": 7, "off_value": -1},
        {"depth": 1, "axis": 1, "dtype": "bool"},
        {"depth": 3, "dtype": "f16", "on_value": 0.1, "off_value": -0.1},
        {"depth": 3, "axis": -2, "dtype": "u8", "on_value": 255},
        {"depth": 4, "dtype": "u4", "on_value": 15, "off_value": 1},
        {"depth": 4, "dtype": "bf16", "on_value": 0.3},
    ):
        yield Case("one_hot", ((2, 3),), ("i64",), settings, draw="indices")
    yield Case("one_hot", ((),), ("i64",), {"depth": 4}, draw="indices")
    yield Case("one_hot", ((0,),), ("i64",), {"depth": 4}, draw="indices")
    yield Case("one_hot", ((5,),), ("i64",), {"depth": 4}, draw="indices", runtime=True)


def _by_elements() -> Iterator[Case]:
    for shapes, axis in (
        (((7, 3), (4, 3)), 0),
        (((2, 7, 3), (2, 9, 2)), 1),
        (((3, 33), (3, 5)), -1),
        (((9,), (0,)), 0),
    ):
        for op in ("gather_elements", "scatter_elements"):
            operands = (*shapes, shapes[1])[: 2 if op[0] == "g" else 3]
            dtypes = ("f32", "i64", "f32")[: len(operands)]
            yield Case(op, operands, dtypes, {"axis": axis}, draw="indices")
    for how in ("add", "mul", "min", "max"):
        for dtype in ("f32", "i8", "u8", "bf16"):
            settings = {"axis": 1, "reduction": how}
            shapes = ((5, 3), (5, 8), (5, 8))
            yield Case("scatter_elements", shapes, (dtype, "i32", dtype), settings, draw="indices")
    yield Case("gather_elements", ((5, 3), (5, 3)), ("f32", "u8"), draw="indices", runtime=True)
    shapes = ((5, 3), (5, 3), (5, 3))
    yield Case("scatter_elements", shapes, ("f32", "i64", "f32"), draw="indices", runtime=True)
    yield Case("scatter_elements", shapes, ("f32", "i64", "f32"), draw="indices", inplace=0)


def _orders() -> Iterator[Case]:
    for descending in (False, True):
        for shapes in _LINES:
            settings = {"descending": descending}
            yield Case("sort", shapes, ("f32",), settings, outputs=2, draw="small")
        for dtype in (*NUMBERS[1:], "u16", "u32", "u4"):
            settings = {"descending": descending}
            full = dtype not in _QUICK
            yield Case("sort", ((3, 9),), (dtype,), settings, 2, draw="wide", full=full)
        yield Case(
            "sort", ((40,),), ("f32",), {"descending": descending}, outputs=2, draw="special"
        )
        yield Case("sort", ((40,),), ("u8",), {"descending": descending}, outputs=2, draw="extreme")
        yield Case("sort", ((40,),), ("i64",), {"descending": descending}, draw="extreme")
        yield Case("sort", ((9, 5),), ("f32",), {"axis": 0, "descending": descending}, outputs=2)
        yield Case("sort", ((5, 9),), ("f32",), {"descending": descending}, runtime=True)
        yield Case("argsort", ((9, 5),), ("f32",), {"axis": 0, "descending": descending})
        yield Case(
            "sort", ((5, 9),), ("f32",), {"axis": 0, "descending": descending}, 2, runtime=True
        )
    for largest in (True, False):
        for k, shapes in ((1, ((3, 5),)), (3, ((33,),)), (1, ((1,),)), (5, ((4, 5),)),
                          (0, ((4, 5),)), (2, ((0, 3),)), (4, ((2, 7, 17),))):  # fmt: skip
            settings = {"k": k, "largest": largest}
            yield Case("topk", shapes, ("f32",), settings, outputs=2, draw="small")
        for dtype in (*NUMBERS[1:], "u16"):
            settings = {"k": 2, "largest": largest}
            yield Case("topk", ((3, 9),), (dtype,), settings, 2, full=dtype not in _QUICK)
        yield Case("topk", ((40,),), ("f32",), {"k": 9, "largest": largest}, 2, draw="special")
        yield Case("topk", ((9, 5),), ("f32",), {"k": 2, "axis": 0, "largest": largest}, outputs=2)
    for k, size in ((20, 33), (20, 100), (70, 300)):
        yield Case("topk", ((2, size),), ("f32",), {"k": k}, outputs=2, draw="small")
    yield Case("topk", ((9,),), ("f32",), {"k": 4, "sorted": False})
    yield Case("topk", ((5, 9),), ("f32",), {"k": 4}, outputs=2, runtime=True)


def _sums() -> Iterator[Case]:
    for exclusive in (False, True):
        for reverse in (False, True):
            settings = {"exclusive": exclusive, "reverse": reverse}
            for shapes in _LINES:
                yield Case("cumsum", shapes, ("f32",), settings)
            yield Case("cumsum", ((9, 5),), ("f32",), {"axis": 0, **settings})
            yield Case("cumsum", ((3, 4, 5),), ("f32",), {"axis": 1, **settings})
            yield Case("cumsum", ((9,),), ("f32",), settings, draw="special")
            yield Case("cumsum", ((5, 9),), ("f32",), {"axis": 0, **settings}, runtime=True)
    for dtype in (*NUMBERS[1:], "u16", "u4"):
        full = dtype not in _QUICK
        yield Case("cumsum", ((3, 9),), (dtype,), full=full)
        yield Case("cumsum", ((9, 33),), (dtype,), {"axis": 0}, full=full)
    yield Case("cumsum", ((40,),), ("i8",), draw="extreme")
    yield Case("cumsum", ((40,),), ("i8",), {"acc": "i32"}, draw="extreme")
    yield Case("cumsum", ((40,),), ("u8",), {"acc": "u16"}, draw="extreme")
    yield Case("cumsum", ((40,),), ("f32",), {"acc": "f64"})
    yield Case("cumsum", ((40,),), ("bf16",), out="f32")
    yield Case("cumprod", ((9, 5),), ("f32",), {"axis": 0}, runtime=True)
    yield Case("cumprod", ((3, 9),), ("f32",), {"exclusive": True, "reverse": True})
    yield Case("cumprod", ((9,),), ("f32",), draw="special")
    yield Case("cumprod", ((40,),), ("i8",), draw="extreme")


def _borders() -> Iterator[Case]:
    for mode in ("constant", "edge", "reflect"):
        for shapes, pads in (
            (((5,),), [2, 3]),
            (((5,),), [0, 0]),
            (((3, 4),), [1, 2, 2, 3]),
            (((2, 3, 4),), [0, 1, 0, 1, 0, 3]),
            (((4, 33),), [3, 17, 0, 20]),
        ):
            yield Case("pad", shapes, ("f32",), {"pads": pads, "mode": mode})
        for dtype in (*NUMBERS[1:], "bool", "u4"):
            settings = {"pads": [1, 0, 0, 2], "mode": mode}
            yield Case("pad", ((3, 4),), (dtype,), settings, full=dtype not in _QUICK)
        settings = {"pads": [1, 2], "axes": [-1], "mode": mode}
        yield Case("pad", ((3, 5),), ("f32",), settings)
        yield Case("pad", ((3, 5),), ("f32",), {**settings, "axes": [0]}, runtime=True)
    yield Case("pad", ((0, 3),), ("f32",), {"pads": [1, 1, 1, 1], "value": 2.5})
    yield Case("pad", ((1, 1),), ("f32",), {"pads": [1, 2, 3, 4], "mode": "edge"})
    yield Case("pad", ((),), ("f32",), {"pads": []})
    yield Case("pad", ((3,),), ("f16",), {"pads": [1, 1], "value": 0.1})
    yield Case("pad", ((3,),), ("bf16",), {"pads": [1, 1], "value": float("-inf")})
    yield Case("pad", ((3,),), ("u8",), {"pads": [1, 1], "value": 255})
    for shapes, settings in (
        (((5,),), {}),
        (((3, 33),), {"axes": [1]}),
        (((3, 33),), {"axes": [0]}),
        (((2, 3, 4),), {"axes": [0, -1]}),
        (((),), {}),
        (((0, 3),), {}),
        (((1, 1),), {}),
    ):
        yield Case("flip", shapes, ("f32",), settings)
    for dtype in (*NUMBERS[1:], "bool", "u4"):
        yield Case("flip", ((3, 5),), (dtype,), full=dtype not in _QUICK)
    yield Case("flip", ((3, 5),), ("f32",), runtime=True)


def _numbers() -> Iterator[Case]:
    for dtype in FLOATS:
        yield Case("random_uniform", (), (), {"shape": [3, 37], "dtype": dtype, "seed": 5})
        settings = {"shape": [50], "dtype": dtype, "seed": -1, "low": -2.7, "high": 3.1}
        yield Case("random_uniform", (), (), settings)
    yield Case("random_uniform", (), (), {"shape": [0]})
    for dtype in ("f32", "f64", "bf16"):
        settings = {"samples": 30, "seed": 7}
        yield Case("multinomial", ((3, 17),), (dtype,), settings, draw="positive")
    yield Case("multinomial", ((9,),), ("f32",), {"samples": 50}, draw="special")
    yield Case("multinomial", ((2, 3, 65),), ("f32",), {"seed": -1}, runtime=True)
    yield Case("random_uniform", (), (), {"shape": []})
    for codes in ("i8", "u8", "i4", "u4", "i2", "u1", "i16", "u16", "i32", "u32"):
        settings = {"dtype": codes, "scale": 0.3, "zero_point": 0 if codes[0] == "i" else 1}
        yield Case("quantize", ((3, 17),), ("f32",), settings)
        yield Case("quantize", ((9,),), ("f32",), settings, draw="special")
        yield Case("dequantize", ((3, 17),), (codes,), {**settings, "dtype": "f32"}, draw="extreme")
    for dtype in FLOATS[1:]:
        yield Case("quantize", ((3, 5),), (dtype,), {"dtype": "i8", "scale": 0.05})
        yield Case("dequantize", ((3, 5),), ("i8",), {"dtype": dtype, "scale": 0.05})
    # Halves: 0.5 of a step between two codes.
    yield Case("quantize", ((40,),), ("f32",), {"dtype": "i8", "scale": 1.0}, draw="halves")
    yield Case(
        "quantize",
        ((40,),),
        ("f32",),
        {"dtype": "u8", "scale": 1.0, "zero_point": 5},
        draw="halves",
    )
    shapes: Shapes = ((3, 5), (5,), (5,))
    for zero in ("i8", "i32"):
        yield Case(
            "quantize", shapes, ("f32", "f32", zero), {"axis": 1, "dtype": "i8"}, draw="positive"
        )
        yield Case("dequantize", shapes, ("i8", "f32", zero), {"axis": -1}, draw="positive")
    yield Case("quantize", ((3, 5), (3,)), ("f32", "f32"), {"axis": 0, "dtype": "u8"})
    yield Case("quantize", ((3, 5), ()), ("f32", "f32"), {"dtype": "u8", "zero_point": 128})
    yield Case("quantize", ((3, 5), (1,)), ("f32", "f64"), {"dtype": "i32"})
    yield Case("dequantize", ((3, 5), (3,), (3,)), ("u8", "f32", "u8"), {"axis": 0})
    yield Case("dequantize", ((3, 5), ()), ("i32", "f32"), {"zero_point": -9}, draw="extreme")
    yield Case("dequantize", ((3, 5), ()), ("i8", "f16"), {"dtype": "f16"})
    yield Case("dequantize", ((3, 5), (5,)), ("i8", "f32"), {"axis": 1}, runtime=True)
    yield Case("quantize", ((0, 5),), ("f32",), {"dtype": "i8", "scale": 0.1})
    for shape, dtype in (((3, 64), "f32"), ((2, 3, 32), "f16"), ((96,), "bf16"), ((0, 32), "f32")):
        yield Case("quantize_blocks", (shape,), (dtype,))
        packed = (*shape[:-1], shape[-1] // 32 * 34)
        yield Case("dequantize_blocks", (packed,), ("u8",))
    yield Case("quantize_blocks", ((5, 64),), ("f32",), draw="special")
    names = (("T", "64"),)
    yield Case("quantize_blocks", ((3, 64),), ("f32",), names=names)
    yield Case("dequantize_blocks", ((3, 68),), ("u8",), {"format": "q8_0"}, names=(("T", "68"),))
