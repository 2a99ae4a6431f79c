"""Every pair of dtypes: the simulator against exact arithmetic, compiled code against the simulator.

All values of the dtypes of 8 and 16 bits and of the packed ones; of wider ones those beside the
middle between two neighbours of a narrower float, and the ends of the integers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from conversion_oracle import BITS, MODES, codes, limits, to_float, to_integer, whole
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FunctionType,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint

from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.linalg.generic import PARALLEL
from openinfer.lowering.linalg.scalar_bodies import emit_body, memory_type
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import round_values, to_storage, to_values
from openinfer.runtime.target import named_target
from openinfer.runtime.tensors import Tensor

Array = np.ndarray[Any, Any]
Cast = tuple[str, dict[str, Any]]
"""The dtype of the result, and the settings."""

FLOATS = tuple(name for name, row in DTYPES.items() if row.is_float)
NARROW = ("f16", "bf16", "f8", "f8e4m3")
OLDER = ("generic", "avx2", "avx512")[: ("generic", "avx2", "avx512").index(host_target().name)]
INTEGERS = tuple(name for name in DTYPES if name not in (*FLOATS, "bool"))


@cache
def _values(dtype: str) -> Array:
    """The values to convert: float64 for floats, Python integers for all others."""
    if dtype in NARROW:
        return codes(dtype)
    if dtype in FLOATS:
        return _floats(dtype)
    low, high = limits(dtype)
    if BITS[dtype] <= 16:
        values = [v for v in range(low, high + 1) if v or dtype != "t1"]
        # Several vectors of them, whatever the width.
        return np.array(values * (1 if len(values) > 100 else 40 // len(values) + 1), dtype=object)
    return np.array(_integers(low, high), dtype=object)


def _integers(low: int, high: int) -> list[int]:
    """The ends, and numbers beside the middle of two neighbours among the narrower floats."""
    found = {
        low,
        high,
        low + 1,
        high - 1,
        0,
        1,
        -1,
        448,
        464,
        465,
        57344,
        61439,
        61440,
        65519,
        65520,
    }
    for power in range(1, 64):
        for kept in (2, 3, 7, 10, 23, 52):
            ties = 2**power + (2 ** (power - kept - 1) if power > kept else 0)
            for upper in (0, 2 ** (power - kept) if power >= kept else 0):
                found |= {ties + upper + d for d in (-1, 0, 1)}
    return sorted(s * v for v in found for s in (1, -1) if low <= s * v <= high)


def _floats(dtype: str) -> Array:
    kind = np.dtype(DTYPES[dtype].storage)
    found = [np.array([0.0, np.inf, np.nan, 5e-324, 1e-40, 1e300, 3.4e38, 3.5e38, 0.5, 2.5, 1e10])]
    found.append(np.array([2.0**k + d for k in (7, 8, 31, 32, 52, 63, 64) for d in (-1, -0.5, 0)]))
    for narrow in (*NARROW, "f32"):
        if narrow == dtype:
            continue
        if narrow == "f32":
            rng = np.random.default_rng(7)
            grid = np.abs(rng.integers(0, 0x7F800000, 500).astype(np.uint32).view(np.float32))
            lower, upper = grid.astype(np.float64), np.nextafter(grid, np.float32(np.inf))
        else:
            table = codes(narrow)[: 2 ** (BITS[narrow] - 1)]
            table = table[np.isfinite(table)]
            table = np.append(table, 2 * table[-1] - table[-2])
            places = np.unique(np.linspace(0, table.size - 2, 250).astype(int))
            lower, upper = table[places], table[places + 1]
        middle = ((lower + upper) / 2).astype(kind)
        found += [
            middle,
            np.nextafter(middle, kind.type(np.inf)),
            np.nextafter(middle, kind.type(0)),
        ]
    with np.errstate(over="ignore"):
        values = np.concatenate([part.astype(kind).astype(np.float64) for part in found])
    return np.concatenate([values, -values])


@cache
def _tensor(dtype: str) -> Tensor:
    values = _values(dtype)
    row = DTYPES[dtype]
    if dtype in NARROW:  # By their codes, NaN and all.
        numbers = np.arange(values.size, dtype=f"uint{row.bits}")
        stored = numbers.view(row.storage)
    else:
        array = values.astype(row.value) if row.is_float else np.array(values.tolist(), row.value)
        stored = to_storage(row, array)
    return Tensor(row, values.shape, stored)


def _casts(source: str) -> list[Cast]:
    casts: list[Cast] = []
    for target in DTYPES:
        casts.append((target, {}))
        if target in INTEGERS:
            casts.append((target, {"saturate": False}))
    if source in FLOATS:
        casts += [(t, {"rounding_mode": m}) for t in ("i32", "u8", "i4", "t1") for m in MODES[1:]]
    return casts


def _expected(source: str, target: str, settings: dict[str, Any]) -> Array:
    """float64 for a float result, else int64 or uint64."""
    values = _values(source)
    if target in FLOATS:
        return to_float(target, values)
    if source in FLOATS:
        if target == "bool":
            return (values != 0).astype(np.int64)
        values = whole(settings.get("rounding_mode", "trunc"), values)
    return to_integer(target, values, settings.get("saturate", True))


def _simulated(source: str, target: str, settings: dict[str, Any]) -> Array:
    given = {"to": target, **settings}
    return evaluate("cast", [_tensor(source).values()], [source], given)[0]


def _same(found: Array, expected: Array) -> Array:
    """Element by element: equal numbers, NaN with NaN, the sign of 0 too."""
    if expected.dtype.kind != "f":
        return found == expected
    signs = np.signbit(found) == np.signbit(expected)
    return ((found == expected) & signs) | (np.isnan(found) & np.isnan(expected))


@pytest.mark.parametrize("source", DTYPES)
def test_simulator_converts_exactly(source: str) -> None:
    for target, settings in _casts(source):
        expected = _expected(source, target, settings)
        found = _simulated(source, target, settings)
        with np.errstate(invalid="ignore"):
            wide = found.astype(np.float64 if target in FLOATS else expected.dtype)
        bad = np.flatnonzero(~_same(wide, expected))[:5]
        shown = [(_values(source)[i], wide[i], expected[i]) for i in bad]
        assert not shown, f"{source} to {target} {settings}: (value, found, expected) {shown}"


def _module(source: str, casts: list[Cast], count: int, target: str) -> ModuleOp:
    """One loop that makes all results of all values."""
    types = [MemRefType(memory_type(d), [count]) for d in (source, *(c[0] for c in casts))]
    body = Block(arg_types=[kind.element_type for kind in types])
    b = LoopBuilder(InsertPoint.at_end(body))
    made = [emit_body(b, "cast", s, [body.args[0]], [source], t) for t, s in casts]
    b.do(YieldOp(*made))
    block = Block(arg_types=types)
    maps = [AffineMapAttr(AffineMap.identity(1))] * len(types)
    generic = GenericOp(block.args[:1], block.args[1:], Region(body), maps, [PARALLEL], [])
    block.add_ops([generic, ReturnOp()])
    function = FuncOp("f", FunctionType.from_lists(types, []), Region(block))
    module = ModuleOp([function], {"openinfer.target": StringAttr(target)})
    module.verify()
    LowerKernels().apply(None, module)  # pyright: ignore[reportArgumentType]
    return module


@pytest.mark.parametrize("source", DTYPES)
def test_compiled_casts_are_those_of_the_simulator(source: str) -> None:
    _check_compiled(source, _casts(source), host_target().name)


@pytest.mark.parametrize("target", OLDER)
@pytest.mark.parametrize("source", ["f8", "f8e4m3", "f32", "f64", "i4", "u2", "u1", "t1", "i64"])
def test_older_processors_convert_alike(source: str, target: str) -> None:
    casts: list[Cast] = [(name, {}) for name in DTYPES if DTYPES[name].bits <= 16 or name == "f32"]
    _check_compiled(source, casts, target)


def _check_compiled(source: str, casts: list[Cast], target: str) -> None:
    given = _tensor(source)
    count = given.size
    outputs = [_room(t, count) for t, _ in casts]
    module = _module(source, casts, count, target)
    compile_loops(module, "f", target=named_target(target))(given, *outputs)
    for (name, settings), output in zip(casts, outputs):
        expected = _simulated(source, name, settings)
        found = to_values(DTYPES[name], output.storage, (count,))
        bad = np.flatnonzero(~_same(found, expected))[:5]
        shown = [(_values(source)[i], found[i], expected[i]) for i in bad]
        assert not shown, f"{source} to {name} {settings}: (value, found, expected) {shown}"


def _room(dtype: str, count: int) -> Tensor:
    row = DTYPES[dtype]
    stored = (row.nbytes(count),) if row.packed else (count,)
    return Tensor(row, (count,), np.zeros(stored, row.storage))


def test_known_roundings() -> None:
    """What the original gets wrong (its `f8` loses the carry, its f16 halves subnormals)."""
    for value, expected in ((1.9, 2.0), (3.9, 4.0), (0.999, 1.0), (61440.0, np.inf)):
        assert round_values(DTYPES["f8"], value) == expected
    assert np.isnan(round_values(DTYPES["f8"], np.nan))
    assert to_values(DTYPES["f16"], b"\x01\x00", ()) == 2.0**-24
    # Through f32 this would fall on the middle between two bf16, and go to the even one.
    assert round_values(DTYPES["bf16"], 1 + 2.0**-8 + 2.0**-40) == 1 + 2.0**-7


@pytest.mark.parametrize("dtype", ["bf16", "f8", "f8e4m3"])
def test_another_library_rounds_alike(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = {"bf16": "bfloat16", "f8": "float8_e5m2", "f8e4m3": "float8_e4m3fn"}
    kind: Any = getattr(ml_dtypes, names[dtype])
    with np.errstate(all="ignore"):
        expected = _values("f32").astype(np.float32).astype(kind).astype(np.float32)
    found = round_values(DTYPES[dtype], _values("f32").astype(np.float32))
    assert _same(found, expected).all()
    np.testing.assert_array_equal(
        np.arange(2 ** BITS[dtype]).astype(DTYPES[dtype].storage).view(kind).astype(np.float32),
        round_values(DTYPES["f32"], codes(dtype)),
    )
