"""THE case table: op × dtype × shape, as data. Modes that read it are in `modes.py`.

A new op needs a row: the coverage test fails until it has one. Rows of a family may stand in a file
of their own, whose `rows` is named in `_all`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import dtype_rows
import edge_rows
import indexing_rows
import sequence_rows
import window_rows
from case import (
    BOTH,
    FLOATS,
    INTS,
    MAIN_INTS,
    NUMBERS,
    PAIRS,
    SINGLES,
    Case,
    Shapes,
    Tolerance,
    grid,
    tolerance,
)

from openinfer.runtime.dtypes import DTYPES

__all__ = ["CASES", "Case", "Tolerance", "tolerance"]


def _elementwise() -> Iterator[Case]:
    for op in ("add", "sub", "mul"):
        yield from grid(op, PAIRS, NUMBERS)
        yield Case(op, ((5,), (5,)), ("i8", "i8"), {"acc": "i32"}, draw="extreme")
        yield Case(op, ((9,), (9,)), ("f32", "f32"), draw="special")
        yield Case(op, ((9,), (9,)), ("i8", "i8"), draw="extreme")
    yield Case("add", ((5,), (5,)), ("bool", "bool"))
    yield Case("mul", ((5,), (5,)), ("bool", "bool"))
    yield Case("add", ((5,), (5,)), ("bf16", "bf16"), out="f32")
    yield from grid("div", PAIRS, NUMBERS, draw="nonzero")
    yield Case("div", ((9,), (9,)), ("f32", "f32"), draw="special")
    yield Case("div", ((9,), (9,)), ("i32", "i32"), draw="extreme")
    yield Case("div", ((9,), (9,)), ("i32", "i32"), {"div_by_zero_mask": 7}, draw="zeros")
    yield Case("div", ((9,), (9,)), ("f32", "f32"), {"div_by_zero_mask": 7.0}, draw="zeros")
    for op in ("floor_div", "rem", "floor_mod"):
        yield from grid(op, PAIRS, INTS, draw="nonzero")
        yield Case(op, ((9,), (9,)), ("i32", "i32"), draw="extreme")
        yield Case(op, ((9,), (9,)), ("i32", "i32"), draw="zeros")
    for op in ("rem", "floor_mod"):
        yield from grid(op, PAIRS[3:5], FLOATS[:4], draw="nonzero")
        yield Case(op, ((9,), (9,)), ("f32", "f32"), draw="special")
    yield from grid("pow", PAIRS, FLOATS[:4], draw="positive")
    for op in ("min", "max"):
        yield from grid(op, PAIRS, BOTH)
        yield Case(op, ((9,), (9,)), ("f32", "f32"), draw="special")
    yield from grid("fma", (((3, 5), (3, 5), (3, 5)), ((2, 3), (3,), ())), FLOATS[:4])
    for op in ("neg", "abs", "sign"):
        yield from grid(op, SINGLES, (*FLOATS, "i32", "i8"))
        yield Case(op, ((9,),), ("f32",), draw="special")
        yield Case(op, ((9,),), ("i8",), draw="extreme")
    yield from grid("recip", SINGLES, FLOATS, draw="nonzero")
    yield Case("recip", ((9,),), ("f32",), draw="special")
    for settings in ({"min": -0.5, "max": 0.5}, {"min": 0.0}, {"max": 0.25}):
        yield from grid("clamp", SINGLES[:1], FLOATS[:4], settings=settings)
        yield Case("clamp", ((9,),), ("f32",), settings, draw="special")
    yield Case("clamp", ((7,),), ("i8",), {"min": -3, "max": 100}, draw="extreme")
    yield Case("clamp", ((7,),), ("u8",), {"min": 0, "max": 1}, draw="extreme")
    for op in ("floor", "ceil", "round", "round_even", "trunc"):
        yield from grid(op, SINGLES, FLOATS[:4], draw="halves")
        yield Case(op, ((9,),), ("f32",), draw="special")
    for op in ("and", "or", "xor"):
        yield from grid(op, PAIRS, ("i32", "i64", "i8", "u8", "bool", "i4"))
    yield from grid("not", SINGLES, ("i32", "i64", "i8", "u8", "bool", "i4"))
    for op in ("shl", "shr"):
        for bits in (1, 7):
            yield from grid(op, SINGLES[:1], ("i32", "i64", "i8", "u8"), settings={"bits": bits})
    for op in ("shift_left", "shift_right"):
        yield from grid(op, PAIRS[3:5], ("i32", "i64", "i8", "u8"), draw="small")
        yield Case(op, ((9,), (9,)), ("i16", "i16"), draw="extreme")
    yield from grid("popcount", SINGLES, ("i32", "i64", "i8", "u8", "i4"))
    for op in ("exp", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "softplus"):
        yield from grid(op, SINGLES, FLOATS)
        yield Case(op, ((33,),), ("f32",), draw="wide")
        if op not in ("sin", "cos"):
            yield Case(op, ((9,),), ("f32",), draw="special")
    for op in ("log", "sqrt", "rsqrt"):
        yield from grid(op, SINGLES, FLOATS, draw="positive")
        yield Case(op, ((9,),), ("f32",), draw="special")
    yield from _curves()
    for mode in ("none", "tanh"):
        yield from grid("gelu", SINGLES, FLOATS, settings={"approximate": mode})
        yield Case("gelu", ((33,),), ("f32",), {"approximate": mode}, draw="wide")
    yield from grid("relu", SINGLES, (*FLOATS, "i32", "i8"))
    yield Case("relu", ((9,),), ("f32",), draw="special")
    yield Case("relu", ((3, 5),), ("f32",), {"negative_slope": 0.1, "clamp_max": 0.5})
    yield Case("relu", ((3, 5),), ("f32",), {"alpha": 0.5, "clamp_min": -0.25})
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        yield from grid(op, PAIRS, BOTH, draw="small")
        yield Case(op, ((9,), (9,)), ("f32", "f32"), draw="special")
    yield Case("eq", ((5,), (5,)), ("bool", "bool"))
    for op in ("is_finite", "is_nan", "is_inf", "is_neg"):
        yield from grid(op, SINGLES[:2], FLOATS[:4])
        yield Case(op, ((9,),), ("f32",), draw="special")
    yield Case("is_neg", ((5,),), ("i32",))
    yield Case("filter", ((3, 5), (3, 5), (3, 5)), ("f32", "f32", "f32"), draw="zeros")
    yield Case("filter", ((3, 5), (3, 5), (3, 5)), ("i32", "i32", "bool"))
    for dtype in BOTH:
        yield Case("where", ((3, 5), (3, 5), (5,)), ("bool", dtype, dtype))
    yield Case("where", ((3, 1), (), (3, 5)), ("bool", "f32", "f32"))
    yield Case("where", ((3, 5), (3, 5), (3, 5)), ("f32", "f32", "f32"), draw="zeros")
    for dtype in DTYPES:
        yield Case("where", ((3, 5), (3, 5), (5,)), ("bool", dtype, dtype), column=True)
    yield from _casts()
    bits = "f64 i64, f32 u32, f16 i16, bf16 u16, f8 u8, f8e4m3 i8, i64 f64, i32 f32, i16 bf16, i8 u8, u64 i64"
    for source, target in (pair.split() for pair in f"{bits}, u32 f32, u16 f16, u8 f8".split(", ")):
        yield Case("bit_cast", ((4, 5),), (source,), {"to": target})
    for dtype, value in (
        ("f32", 1.5),
        ("f16", 0.1),
        ("bf16", 0.1),
        ("i32", -7),
        ("i8", 127),
        ("i1", -1),
    ):
        yield Case("fill", ((3, 5),), (dtype,), {"value": value})
    yield Case("fill", ((3,),), ("bool",), {"value": True})
    yield Case("fill_nan_like", ((3,),), ("f32",))
    yield Case("fill_nan_like", ((3,),), ("f32",), {"value": 0.0})


def _curves() -> Iterator[Case]:
    """Functions and activations, whose edges and other dtypes the registry adds."""
    curves = "expm1 log1p tan atan sinh cosh asinh acosh elu celu selu mish hard_swish"
    for op in curves.split():
        yield Case(op, ((33,),), ("f32",), draw="positive" if op == "log1p" else "wide")
    for op in ("asin", "acos", "atanh"):
        yield Case(op, ((33,),), ("f32",))
    for op in ("sinh", "cosh", "asinh", "acosh", "asin", "acos", "atanh"):
        yield Case(op, ((9,),), ("f32",), draw="special")
    yield Case("atan2", ((4, 17), (17,)), ("f32", "f32"))
    yield Case("celu", ((33,),), ("f32",), {"alpha": -0.5})
    for slope in ((5,), (5, 1)):
        yield Case("prelu", ((3, 5, 2), slope), ("f32", "f32"))
    yield Case("prelu", ((9,), ()), ("f32", "f32"), draw="special")


def _casts() -> Iterator[Case]:
    names = ("f32", "f16", "bf16", "f64", "i32", "i64", "i8", "bool", "u8")
    for source in names:
        for target in names:
            if source != target:
                yield Case("cast", ((4, 5),), (source,), {"to": target}, draw="wide")
    for mode in ("floor", "ceil", "nearest"):
        settings = {"to": "i32", "rounding_mode": mode}
        yield Case("cast", ((17,),), ("f32",), settings, draw="halves")
    yield Case("cast", ((9,),), ("f32",), {"to": "i8"}, draw="special")
    yield Case("cast", ((9,),), ("i32",), {"to": "i8", "saturate": False}, draw="extreme")
    yield Case("cast", ((9,),), ("f32",), {"to": "i8", "saturate": False}, draw="wide")


def _reductions() -> Iterator[Case]:
    shapes = (((4, 6),), ((2, 3, 5),), ((7, 65),), ((1, 1),), ((3, 0),))
    for op in ("sum_axis", "mean_axis", "prod_axis", "max_axis", "min_axis"):
        dtypes = (*FLOATS[:4], *MAIN_INTS, "u8")
        fold = shapes[:4] if op in ("mean_axis", "max_axis", "min_axis") else shapes
        yield from grid(op, fold, dtypes, settings={"axes": [-1]})
        yield Case(op, ((2, 3, 5),), ("f32",), {"axes": [0, 2], "keepdims": True})
        yield Case(op, ((2, 3, 5),), ("f32",), {"axes": [0, 1, 2]})
        yield Case(op, ((2, 3, 5),), ("f32",), {"axes": [1]})
        yield Case(op, ((9,),), ("f32",), {"axes": [0]}, draw="special")
    yield Case("sum_axis", ((3, 9),), ("i8",), {"axes": [1], "acc": "i32"}, draw="extreme")
    yield Case("sum_axis", ((3, 9),), ("f32",), {"axes": [1], "acc": "f64"})
    yield Case("mean_axis", ((3, 9),), ("i32",), {"axes": [1], "acc": ["i32", "f32"]})
    for op in ("logsumexp", "var", "std"):
        yield Case(op, ((2, 3, 5),), ("f32",), {"axes": [0, 2], "keepdims": True})
        yield Case(op, ((7, 65),), ("f32",), {"axes": [0]}, runtime=True)
        yield Case(op, ((3, 0),), ("f32",), {"axes": [1]})
    yield Case("logsumexp", ((3, 33),), ("f32",), {"axes": [-1]}, draw="wide")
    for op, draw in (("any", "zeros"), ("all", "nonzero")):
        yield Case(op, ((5, 3),), ("f32",), {"axes": [-1]}, draw=draw)
        yield Case(op, ((2, 3, 5),), ("bool",), {"axes": [0, 2], "keepdims": True})
        yield Case(op, ((3, 0),), ("i32",), {"axes": [1]})
    for op in ("argmax_axis", "argmin_axis"):
        yield from grid(op, shapes[:4], ("f32", "f16", "i32", "i8"), settings={"axis": -1})
        yield Case(op, ((4, 6),), ("i32",), {"axis": 0, "keepdims": True}, draw="small")
        yield Case(op, ((4, 6),), ("i32",), {"axis": 1, "select_first": False}, draw="small")
        yield Case(op, ((9,),), ("f32",), {"axis": 0}, draw="special")
    for op in ("softmax", "log_softmax"):
        yield from grid(op, (((4, 6),), ((2, 3, 17),), ((1, 1),), ((0, 3),)), FLOATS[:4])
        yield Case(op, ((4, 6),), ("f32",), {"axis": 0})
        yield Case(op, ((3, 33),), ("f32",), draw="wide")
    norms: tuple[Shapes, ...] = (((4, 6), (6,), (6,)), ((4, 6), (6,)), ((4, 6),), ((2, 3, 65),))
    yield from grid("layer_norm", norms, FLOATS[:4])
    yield Case("layer_norm", ((4, 6), (6,), (6,)), ("f32",) * 3, {"eps": 1e-12})
    yield Case("layer_norm", ((2, 3, 4), (3, 4)), ("f32",) * 2, {"axis": 1})
    yield Case("layer_norm", ((4, 6), (6,), (6,)), ("f16", "f32", "f32"))
    yield from grid("rms_norm", (((4, 6), (6,)), ((4, 6),), ((2, 3, 65), (65,))), FLOATS[:4])


def _structured() -> Iterator[Case]:
    products: tuple[Shapes, ...] = (
        ((4, 6), (6, 5)),
        ((1, 1), (1, 1)),
        ((1, 64), (64, 48)),
        ((17, 33), (33, 65)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((2, 3, 4), (4, 5)),
        ((0, 4), (4, 5)),
        ((3, 0), (0, 5)),
    )
    yield from grid("matmul", products, (*FLOATS, *MAIN_INTS, "u8", "bool", "i4"))
    for flags in ((True, False), (False, True), (True, True)):
        a, b = ((6, 4) if flags[0] else (4, 6)), ((5, 6) if flags[1] else (6, 5))
        settings = {"transpose_a": flags[0], "transpose_b": flags[1]}
        yield Case("matmul", (a, b), ("f32", "f32"), settings)
    yield Case("matmul", ((4, 6), (6, 5)), ("i8", "i8"), {"acc": "i32"}, draw="extreme")
    yield Case("matmul", ((4, 6), (6, 5)), ("i4", "i4"), {"acc": "i32"})
    yield Case("matmul", ((4, 6), (6, 5)), ("f32", "f32"), {"acc": ["f32", "f64"]})
    yield Case("matmul", ((4, 6), (6, 5)), ("bf16", "f32"))
    for dtype in ("f32", "f16", "i8", "i4"):
        shapes: Shapes = ((2, 3, 4), (5, 4))
        yield Case("einsum", shapes, (dtype,) * 2, {"equation": "bld,hd->blh"})
    for equation, shapes in (
        ("kii,jk->ij", ((4, 3, 3), (5, 4))),
        ("...i,i,i->...", ((2, 3, 17), (17,), (17,))),
        ("ij->", ((3, 0),)),
    ):
        yield Case("einsum", shapes, ("f32",) * len(shapes), {"equation": equation})
    names = (("B", "L", "4"), ("H", "4"))
    settings = {"equation": "bld,hd->bhl"}
    yield Case("einsum", ((2, 3, 4), (5, 4)), ("f32", "f16"), settings, names=names)
    yield Case("matmul", ((4, 6), (6, 5)), ("f16", "f16"), out="f32")
    yield from _linear()
    same: Shapes = ((2, 3, 5, 8),) * 3
    yield from grid("attention", (same, ((5, 8),) * 3), FLOATS[:4])
    grouped: Shapes = ((2, 4, 3, 8), (2, 2, 7, 8), (2, 2, 7, 6))
    yield Case("attention", grouped, ("f32",) * 3)
    yield Case("attention", grouped, ("f32",) * 3, {"causal": True})
    yield Case("attention", grouped, ("f32",) * 3, {"causal": True, "window": 2})
    yield Case("attention", grouped, ("f32",) * 3, {"scale": 0.5})
    for dtype in ("f32", "f16", "f64"):
        yield Case("attention", grouped, (dtype,) * 3, {"softcap": 0.5, "causal": True})
    yield Case("attention", (*same, (2, 1, 1, 5)), ("f32",) * 3 + ("bool",))
    yield Case("attention", (*same, (5, 5)), ("f32",) * 4)
    yield Case("attn", ((3, 8), (5, 2, 4), (5, 2, 4), (8, 8)), ("f32",) * 4)
    yield Case("attn", ((3, 8), (2, 4), (2, 4)), ("f32",) * 3)
    yield from _heads()
    yield from _experts()
    for dtype in ("f32", "f16", "bf16", "i32", "bool"):
        yield Case("gather", ((7, 3), (4,)), (dtype, "i64"), draw="indices")
    yield Case("gather", ((7, 3), (2, 5)), ("f32", "i32"), draw="indices")
    yield Case("gather", ((7, 3), ()), ("f32", "i64"), draw="indices")
    yield Case("gather", ((2, 7, 3), (4,)), ("f32", "i64"), {"axis": 1}, draw="indices")
    yield Case("embedding", ((7, 3), (2, 5)), ("f32", "i64"), draw="indices")


def _heads() -> Iterator[Case]:
    """Heads that are parts of the last axis."""
    three: Shapes = ((2, 3, 8), (2, 5, 8), (2, 5, 8))
    heads = {"heads": 2}
    yield from grid("attention", (three, tuple(s[1:] for s in three)), FLOATS[:4], settings=heads)
    grouped = {"heads": 4, "kv_heads": 2, "causal": True}
    yield Case("attention", ((2, 3, 32), (2, 5, 16), (2, 5, 12)), ("f32",) * 3, grouped)
    apart: Shapes = ((3, 32), (5, 2, 8), (5, 2, 6))
    yield Case("attention", apart, ("f32",) * 3, {"heads": 4, "window": 3})
    yield Case("attention", ((3, 32), (5, 16), (5, 2, 8)), ("f32",) * 3, grouped)
    yield Case("attention", ((1, 32), (5, 2, 8), (5, 2, 8)), ("f32", "f16", "f16"), {"heads": 4})
    masks = ((2, 1, 1, 5), (3, 5), (2, 2, 3, 5))
    for mask, dtype in zip(masks, ("bool", "f32", "f32")):
        yield Case("attention", (*three, mask), ("f32",) * 3 + (dtype,), heads)
    yield Case("attention", ((2, 2, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8)), ("f32",) * 3, heads)
    names = (("B", "L", "W"), ("B", "T", "W"), ("B", "T", "W"))
    yield Case("attention", three, ("f32",) * 3, heads, names=names)
    yield Case("attention", ((0, 8), (5, 8), (5, 8)), ("f32",) * 3, heads)
    yield Case("attention", ((3, 8), (0, 8), (0, 8)), ("f32",) * 3, heads)


def _experts() -> Iterator[Case]:
    """A row for all choices, and one for each; dtypes that meet; nothing to do."""
    shared: Shapes = ((4, 6), (7, 5, 6), (4, 2))
    for dtype in FLOATS:
        yield Case("expert_linear", shared, (dtype, dtype, "i32"), draw="experts")
    for shapes in (
        ((4, 2, 33), (3, 9, 33), (4, 2)),
        ((2, 3, 40), (7, 33, 40), (2, 3, 2)),
        ((17,), (7, 4, 17), (3,)),
        ((0, 6), (7, 5, 6), (0, 2)),
        ((4, 0), (7, 5, 0), (4, 2)),
    ):
        yield Case("expert_linear", shapes, ("f32", "f16", "i64"), draw="experts")
    names = (("T", "6"), ("7", "5", "6"), ("T", "2"))
    yield Case("expert_linear", shared, ("f32", "f32", "u8"), names=names, draw="experts")


def _linear() -> Iterator[Case]:
    layers: tuple[Shapes, ...] = (
        ((4, 6), (5, 6), (5,)),
        ((4, 6), (5, 6)),
        ((6,), (5, 6), (5,)),
        ((2, 3, 33), (65, 33), (65,)),
        ((0, 6), (5, 6), (5,)),
        ((3, 0), (5, 0), (5,)),
    )
    yield from grid("linear", layers, (*FLOATS, *MAIN_INTS, "u8", "i4"))
    yield Case("linear", ((2, 6), (5, 6)), ("f16", "f16"), out="f32")
    yield Case("linear", layers[0], ("f16", "f32", "f32"))
    yield Case("linear", layers[0], ("f16", "bf16", "f16"), out="f16")
    yield Case("linear", layers[0], ("f32", "f32", "f64"), {"acc": "f32"})
    yield Case("linear", layers[0], ("i8", "i8", "i32"), {"acc": "i32"}, draw="extreme")
    yield Case("linear", layers[0], ("i8", "i8", "i8"), {"acc": ["i32", "i8"]}, draw="extreme")
    yield Case("linear", layers[0], ("f32",) * 3, {"acc": ["f32", "f64"]})
    yield Case("linear", ((2, 3, 6), *layers[0][1:]), ("f32",) * 3, names=(("B", "T", "6"),))


def _layout() -> Iterator[Case]:
    kinds = ("f32", "f16", "bf16", "i64", "i8", "bool", "i4")
    yield from grid("concat", (((2, 3), (4, 3)), ((2, 3),), ((1, 3), (2, 3), (3, 3))), kinds)
    yield Case("concat", ((2, 3), (2, 4)), ("f32", "f32"), {"axis": -1})
    yield Case("split", ((6, 4),), ("f32",), {"axis": 1}, outputs=2)
    yield Case("split", ((6, 4),), ("i32",), {"sizes": [1, 2, 3]}, outputs=3)
    for settings in (
        {"axis": 1, "start": 1, "stop": 4},
        {"start": -3},
        {"axis": -1, "stop": -1, "step": 2},
        {"starts": [1, 0], "stops": [3, 2]},
        {"starts": [2], "axes": [1], "steps": [2]},
    ):
        yield Case("slice", ((4, 6),), ("f32",), settings)
    for dtype in kinds[1:]:
        yield Case("slice", ((4, 6),), (dtype,), {"axis": 1, "start": 1, "stop": 4})
    yield from grid("transpose", (((4, 6),), ((2, 3, 5),), ((33, 17),)), kinds)
    yield Case("transpose", ((2, 3, 5),), ("f32",), {"perm": [2, 0, 1]})
    yield Case("transpose", ((2, 3, 5),), ("f32",), {"axes": [0, 2]})
    yield Case("permute", ((2, 3, 5, 4),), ("f32",), {"perm": [0, 2, 1, 3]})
    yield from (Case("reshape", ((4, 6),), (d,), {"shape": [2, 12]}) for d in kinds)
    yield Case("reshape", ((4, 6),), ("f32",), {"shape": [3, -1, 2]})
    yield Case("reshape", ((1,),), ("f32",), {"shape": []})
    yield Case("reshape", ((5, 4),), ("f32",), {"shape": [-1]}, runtime=True)
    yield Case("squeeze", ((1, 3, 1),), ("f32",))
    yield Case("squeeze", ((1, 3, 1),), ("i8",), {"axes": [0]})
    yield Case("unsqueeze", ((3, 4),), ("f32",), {"axes": [0, -1]})
    yield Case("expand", ((1, 3),), ("f32",), {"shape": [4, -1]})
    yield Case("expand", ((3,),), ("i32",), {"shape": [2, 3]})
    yield Case("expand", ((),), ("f32",), {"shape": [2, 3]})
    for dtype in ("i64", "i32", "f32"):
        yield Case("iota", (), (), {"shape": [2, 5], "dtype": dtype}, note=dtype)
    yield Case("iota", (), (), {"shape": [3, 4], "axis": 0, "start": 5, "step": -2})


def _arrangement() -> Iterator[Case]:
    yield Case("stack", ((2, 3),) * 3, ("f32",) * 3, {"axis": 1})
    yield Case("stack", ((2, 3),) * 2, ("i4",) * 2, {"axis": -1})
    for repeats in ([2, 1], [3], [2, 1, 2], [0, 2]):
        yield Case("tile", ((2, 3),), ("f32",), {"repeats": repeats})
    yield Case("tile", ((2, 3),), ("i4",), {"repeats": [1, 2]})
    yield Case("roll", ((4, 6),), ("f32",), {"shifts": [1, -8], "axes": [0, -1]})
    yield Case("roll", ((4, 6),), ("i4",), {"shifts": [5]})
    yield Case("roll", ((4, 6),), ("f32",), {"shifts": [-5], "axes": [0]}, runtime=True)
    for op, diagonal in (("tril", -1), ("triu", 1)):
        yield Case(op, ((2, 4, 6),), ("f32",), {"diagonal": diagonal}, draw="special")
        yield Case(op, ((5, 3),), ("i4",))
    yield Case("tril", ((4, 6),), ("bool",), runtime=True)


def _all() -> dict[str, Case]:
    found: dict[str, Case] = {}
    families = (_elementwise, _reductions, _structured, _layout, _arrangement)
    families = (*families, indexing_rows.rows, window_rows.rows, sequence_rows.rows)
    for family in families:
        for case in family():
            found.setdefault(case.name, case)
    for case in (*dtype_rows.rows(list(found.values())), *edge_rows.rows()):
        found.setdefault(case.name, case)
    return found


CASES: Mapping[str, Case] = _all()
"""Every case by its name."""
