"""Scalar bodies against the NumPy twins: every kind and dtype, as scalars and as vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint

from openinfer.dialects.opset import find
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.linalg.scalar_bodies import emit_body, memory_type, scalar_kinds
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.dtypes import dtype as dtype_row
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.storage import to_storage

Array = np.ndarray[Any, Any]
FLOATS = ("f64", "f32", "f16", "bf16")
SIGNED = ("i64", "i32", "i16", "i8")
UNSIGNED = ("u64", "u32", "u16", "u8")
DTYPES = (*FLOATS, *SIGNED, *UNSIGNED, "bool")
LANES = 8
COUNT = 64

Case = tuple[str, dict[str, Any], tuple[str, ...], str]
"""kind, settings, operand dtypes, result dtype"""


def _values(dtype: str, seed: int) -> Array:
    """Values with the special ones of the dtype in front."""
    rng = np.random.default_rng(seed)
    row = dtype_row(dtype)
    if row.kind == "bool":
        return rng.integers(0, 2, COUNT).astype(np.bool_)
    if row.is_float:
        values = rng.normal(size=COUNT) * 3
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, -2.5, 1.0, -1.0, 1e-3]
        special += [100.0, -100.0, 300.7, -40000.5, 2.5, 6e4, 1e-7, -1e-7]
        place = rng.permutation(COUNT)[: len(special)]
        values[place] = special
        storage = to_storage(row, values.astype(np.float32 if dtype != "f64" else np.float64))
        return _as_values(storage, dtype)
    info = np.iinfo(row.value)
    values = rng.integers(info.min, info.max, COUNT, dtype=row.value, endpoint=True)
    small = rng.integers(max(info.min, -7), 8, COUNT).astype(row.value)
    values = np.where(rng.random(COUNT) < 0.5, values, small)
    place = rng.permutation(COUNT)[:8]
    values[place] = np.array([info.min, info.max, 0, 1, 0, 2, info.max, info.min], row.value)
    if row.kind == "int":
        values[rng.permutation(COUNT)[:4]] = -1
    return values.astype(row.value)


def _as_values(storage: Array, dtype: str) -> Array:
    if dtype == "bf16":
        return (storage.astype(np.uint32) << 16).view(np.float32)
    return storage


def _cases(dtype: str) -> list[Case]:
    """Every kind that the registry allows for a dtype, with the settings that change its code."""
    cases: list[Case] = []

    def add(kind: str, settings: Mapping[str, Any] | None = None, out: str | None = None) -> None:
        spec = find(kind)
        assert spec is not None, kind
        if dtype not in spec.dtypes:
            return
        operands = (dtype,) * len(spec.operands)
        if kind == "filter":
            operands = (dtype, dtype, "bool")
        if kind == "where":
            operands = ("bool", dtype, dtype)
        cases.append((kind, dict(settings or {}), operands, out or dtype))

    for kind in ("add", "sub", "mul", "div", "floor_div", "rem", "min", "max", "fma", "neg", "abs"):
        add(kind)
    for kind in ("floor", "ceil", "round", "trunc", "and", "or", "xor", "not", "recip"):
        add(kind)
    for kind in ("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "sigmoid", "silu"):
        add(kind)
    for kind in ("eq", "ne", "lt", "le", "gt", "ge", "is_nan", "is_inf", "is_neg"):
        add(kind, out="bool")
    for kind in ("softplus", "gelu", "filter", "where", "relu", "clamp", "fill_nan_like", "pow"):
        add(kind)
    for kind in ("expm1", "log1p", "tan", "atan", "atan2", "elu", "selu", "mish", "hard_swish"):
        add(kind)
    for kind in ("asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "round_even"):
        add(kind)
    for kind in ("floor_mod", "shift_left", "shift_right"):
        add(kind)
    for target in DTYPES:
        row = dtype_row(target)
        if target != "bool" and not row.packed and row.bits == dtype_row(dtype).bits:
            add("bit_cast", {"to": target}, out=target)
    add("gelu", {"approximate": "tanh"})
    add("celu", {"alpha": 0.5})
    add("sign", out="i8")
    add("popcount", out="u8")
    add("fill", {"value": 1})
    add("div", {"div_by_zero_mask": 3})
    add("recip", {"div_by_zero_mask": 3.0})
    add("floor_div", {"div_by_zero_mask": 5})
    add("clamp", {"min": 1, "max": 5})
    add("clamp", {"max": 3})
    add("relu", {"negative_slope": 2})
    add("relu", {"clamp_min": 1, "clamp_max": 6})
    if dtype in FLOATS:
        add("clamp", {"min": -0.25})
        add("relu", {"negative_slope": 0.125})
    for bits in (1, 7, 40, 200):
        add("shl", {"bits": bits})
        add("shr", {"bits": bits})
    if dtype in ("i8", "i32", "u8", "u16"):
        wide = dtype[0] + "64"
        add("add", {"acc": (wide, wide)}, out=wide)
        add("mul", {"acc": (wide, wide)}, out=wide)
    if dtype == "i16":
        add("abs", {"acc": ("i32", "i32")}, out="i32")
    if dtype in ("f16", "bf16", "f32"):
        add("mul", out="f64" if dtype == "f32" else "f32")
    return cases


def _cast_cases(dtype: str) -> list[Case]:
    cases: list[Case] = []
    for target in DTYPES:
        cases.append(("cast", {"to": target}, (dtype,), target))
        integer = target not in (*FLOATS, "bool")
        if integer and dtype in FLOATS:
            for mode in ("floor", "ceil", "nearest"):
                settings = {"to": target, "rounding_mode": mode}
                cases.append(("cast", settings, (dtype,), target))
        if integer:
            cases.append(("cast", {"to": target, "saturate": False}, (dtype,), target))
    return cases


def _module(cases: Sequence[Case]) -> ModuleOp:
    """A function that runs every case twice: element by element, and vector by vector."""
    names = sorted({d for case in cases for d in case[2]})
    inputs = {(d, n): i for i, (d, n) in enumerate((d, n) for d in names for n in range(3))}
    types = [MemRefType(memory_type(d), [COUNT]) for d, _ in inputs]
    types += [MemRefType(memory_type(case[3]), [COUNT]) for case in cases for _ in range(2)]
    block = Block(arg_types=types)
    b = LoopBuilder(InsertPoint.at_end(block))
    for number, (kind, settings, operands, out) in enumerate(cases):
        buffers = [block.args[inputs[d, n]] for n, d in enumerate(operands)]
        scalars, vectors = block.args[len(inputs) + 2 * number :][:2]

        def scalar(i: Any) -> None:
            args = [b.load(buffer, [i]) for buffer in buffers]  # noqa: B023
            value = emit_body(b, kind, settings, args, operands, out)  # noqa: B023
            b.store(value, scalars, [i])  # noqa: B023

        def vector(i: Any) -> None:
            args = [b.vload(buffer, [i], LANES) for buffer in buffers]  # noqa: B023
            value = emit_body(b, kind, settings, args, operands, out)  # noqa: B023
            b.vstore(value, vectors, [i])  # noqa: B023

        b.loop(0, COUNT, 1, scalar)
        b.loop(0, COUNT, LANES, vector)
    b.do(ReturnOp())
    function = FuncOp("f", FunctionType.from_lists(types, []), Region(block))
    module = ModuleOp([function], {"openinfer.target": StringAttr("avx512")})
    module.verify()
    return module


def _check(cases: Sequence[Case]) -> None:
    names = sorted({d for case in cases for d in case[2]})
    values = {(d, n): _values(d, 10 * n + len(d)) for d in names for n in range(3)}
    stored = [np.ascontiguousarray(to_storage(dtype_row(d), v)) for (d, _), v in values.items()]
    outs = [np.zeros(COUNT, dtype_row(case[3]).storage).view() for case in cases for _ in range(2)]
    compile_loops(_module(cases), "f")(*stored, *outs)
    for number, (kind, settings, operands, out) in enumerate(cases):
        given = [values[d, n] for n, d in enumerate(operands)]
        if kind == "is_finite":
            continue
        with np.errstate(all="ignore"):
            expected = evaluate(kind, given, operands, settings, [out])[0]
        for form, result in zip(("scalar", "vector"), outs[2 * number : 2 * number + 2]):
            found = _as_values(result, out)
            _compare(f"{kind}{settings} {operands} -> {out} ({form})", found, expected, out, given)


_FUNCTIONS = frozenset(
    "exp log sqrt rsqrt sin cos tanh erf sigmoid silu softplus gelu pow fma "
    "asin acos sinh cosh asinh acosh atanh expm1 log1p tan atan atan2 elu celu selu mish hard_swish".split()
)


def _compare(what: str, found: Array, expected: Array, dtype: str, given: Sequence[Array]) -> None:
    expected = np.broadcast_to(expected, found.shape)
    if dtype not in FLOATS or what.split("{")[0] not in _FUNCTIONS:
        good = found == expected
        if dtype in FLOATS:
            good |= np.isnan(found) & np.isnan(expected)
    else:
        relative = {"f64": 1e-13, "f32": 4e-6, "f16": 2e-3, "bf16": 1.6e-2}[dtype]
        # sin and cos of large arguments, and results that nearly cancel, have absolute errors.
        absolute = {"f64": 1e-13, "f32": 4e-6, "f16": 1e-4, "bf16": 1e-4}[dtype]
        good = np.isclose(
            found.astype(np.float64), expected.astype(np.float64), relative, absolute, True
        )
    bad = np.flatnonzero(~good)[:5]
    shown = [([g[i] for g in given], found[i], expected[i]) for i in bad]
    assert not len(bad), f"{what}: (operands, found, expected) {shown}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_bodies_agree_with_twins(dtype: str) -> None:
    _check(_cases(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_agree_with_twins(dtype: str) -> None:
    _check(_cast_cases(dtype))


def test_every_elementwise_op_has_a_body() -> None:
    from openinfer.dialects.opset import names

    families = {"elementwise", "compare"}
    wanted = {n for n in names() if (spec := find(n)) is not None and spec.family in families}
    assert wanted <= set(scalar_kinds())


def _builder() -> LoopBuilder:
    return LoopBuilder(InsertPoint.at_end(Block()))


def test_unknown_kind_and_dtype_are_named() -> None:
    b = _builder()
    x = b.constant(1, i64)
    with pytest.raises(UnsupportedError, match="'no_such_op'"):
        emit_body(b, "no_such_op", {}, [x], ["i64"], "i64")
    with pytest.raises(UnsupportedError, match="exp has no code for dtype i64"):
        emit_body(b, "exp", {}, [x], ["i64"], "i64")
    with pytest.raises(UnsupportedError, match="add has no code for dtype q8_0"):
        emit_body(b, "add", {}, [x, x], ["q8_0", "q8_0"], "q8_0")


def test_attributes_are_settings_too() -> None:
    from xdsl.dialects.builtin import IntegerAttr

    b = _builder()
    x = b.constant(1, i64)
    emit_body(b, "shl", {"bits": IntegerAttr(3, i64)}, [x], ["i64"], "i64")
    block = x.owner.parent
    assert isinstance(block, Block)
    assert [op.name for op in block.ops] == ["arith.constant", "arith.constant", "arith.shli"]


def test_double_is_rounded_to_half_once() -> None:
    """1 + 2⁻¹¹ + 2⁻⁴⁰ lies above the tie between two halves; through f32 it would fall on it."""
    cases: list[Case] = [("cast", {"to": "f16"}, ("f64",), "f16")]
    out = [np.zeros(COUNT, np.float16) for _ in range(2)]
    rng = np.random.default_rng(5)
    near_ties = (1 + 2.0**-11 + rng.choice([0, 2.0**-40, -(2.0**-40)], COUNT)) * np.exp2(
        rng.integers(-30, 18, COUNT)
    )
    near_ties *= rng.choice([1, -1], COUNT)
    near_ties[:4] = [1e300, -1e300, 1e-300, 65520.0]
    unused = np.zeros(COUNT)
    with np.errstate(over="ignore"):
        compile_loops(_module(cases), "f")(near_ties, unused, unused, *out)
        for result in out:
            np.testing.assert_array_equal(result, near_ties.astype(np.float16))
