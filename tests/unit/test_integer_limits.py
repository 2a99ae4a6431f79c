"""Integers at their limits, where a processor or LLVM would do as it likes: shifts by the width and more,
the least number divided by -1, division by 0, floats that no integer holds. Each on both executors, and
compiled for every kind of processor that this one can run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.cpu.support import host_can_run
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.storage import value_range
from openinfer.runtime.target import TARGETS
from openinfer.runtime.tensors import Tensor

pytestmark = [
    pytest.mark.every_target,
    pytest.mark.skipif(cpu_unavailable_reason() is not None, reason=str(cpu_unavailable_reason())),
]

SIGNED = ("i2", "i4", "i8", "i16", "i32", "i64")
UNSIGNED = ("u2", "u4", "u8", "u16", "u32", "u64")
DTYPES_HERE = (*SIGNED, *UNSIGNED)
PLACES = (0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 63, 64, 65, 200, 2**40)
FLOATS = ("f8", "f16", "bf16", "f32", "f64")


def values_of(dtype: str) -> Tensor:
    """The limits of a dtype, what lies beside them, and what lies around 0; 19 of them."""
    bounds = value_range(DTYPES[dtype])
    assert bounds is not None
    low, high = bounds
    near = [low, low + 1, low // 2, high, high - 1, high // 2, high // 3, 0, 1, 2, 3, 5, 7]
    near += [-1, -2, -3, -5, -7, high - 2]
    kept = [min(max(value, low), high) for value in near]
    return Tensor.from_values(dtype, np.array(kept, np.int64 if low else np.uint64))


def plain(value: Any) -> Any:
    return value.values() if isinstance(value, Tensor) else np.asarray(value)


@cache
def targets() -> tuple[str, ...]:
    return tuple(target for target in TARGETS if host_can_run(target) is None)


def agreed(text: str, **given: Any) -> Mapping[str, Any]:
    """The results of a program, which are the same bits on all executors."""
    graph = oi.graph(text)
    expected = oi.Simulator(graph).make_executor().run(**given)
    for target in targets():
        found = oi.compile(graph, target=target).make_executor(1).run(**given)
        for name, value in expected.items():
            np.testing.assert_array_equal(plain(found[name]), plain(value), f"{target}: {name}")
    return {name: plain(value) for name, value in expected.items()}


def shifted(op: str, value: int, places: int, dtype: str) -> int:
    """What a shift is: of a number of any length, cut off at the width of the dtype."""
    bits = DTYPES[dtype].bits
    number = (value << min(places, bits)) if op == "shl" else value >> places
    number %= 1 << bits
    return number - (1 << bits) if dtype[0] == "i" and number >> (bits - 1) else number


@pytest.mark.parametrize("dtype", DTYPES_HERE)
def test_shifts_by_any_number_of_places(dtype: str) -> None:
    uses = [(op, number, places) for op in ("shl", "shr") for number, places in enumerate(PLACES)]
    outputs = " ".join(f"{op}{number}: {dtype}[19];" for op, number, _ in uses)
    nodes = "\n".join(f"op {op}(x, bits={p}) >> {op}{number};" for op, number, p in uses)
    x = values_of(dtype)
    text = (
        f"dynamic {{ x: {dtype}[19]; }} volatile {{ {outputs} }} block entry {{ {nodes} return; }}"
    )
    found = agreed(text, x=x)
    for op, number, places in uses:
        expected = [shifted(op, int(value), places, dtype) for value in x.values()]
        assert found[f"{op}{number}"].tolist() == expected, (op, places)


@pytest.mark.parametrize("dtype", DTYPES_HERE)
def test_shifts_by_a_number_that_the_step_knows(dtype: str) -> None:
    text = f"""dynamic {{ x: {dtype}[19]; n: i64; u: u64; }}
        volatile {{ a: {dtype}[19]; b: {dtype}[19]; c: {dtype}[19]; d: {dtype}[19]; }}
        block entry {{
          op shl(x, bits=n) >> a; op shr(x, bits=n) >> b;
          op shl(x, bits=u) >> c; op shr(x, bits=u) >> d;
          return;
        }}"""
    graph = oi.graph(text)
    x = values_of(dtype)
    runs = [oi.Simulator(graph).make_executor()]
    runs += [oi.compile(graph, target=target).make_executor(1) for target in targets()]
    for places in (*PLACES, 2**62, 2**63 - 1):
        for run in runs:
            found = run.run(x=x, n=np.int64(places), u=np.uint64(2 * places))
            for name, op, count in (
                ("a", "shl", places), ("b", "shr", places),
                ("c", "shl", 2 * places), ("d", "shr", 2 * places),
            ):  # fmt: skip
                expected = [shifted(op, int(value), count, dtype) for value in x.values()]
                assert plain(found[name]).tolist() == expected, (run, op, count)


@pytest.mark.parametrize("op", ["shl", "shr"])
def test_a_negative_number_of_places_is_found_when_it_is_known(op: str) -> None:
    block = f"block entry {{ assign y: i8[3]; op {op}(x, bits=%s) >> y; return y; }}"
    written = f"dynamic {{ x: i8[3]; }} {block % '-1'}"
    held = f"constant {{ k: i32 @init(-3); }} dynamic {{ x: i8[3]; }} {block % 'k'}"
    x = np.zeros(3, np.int8)
    for made in (oi.Simulator, oi.compile):
        with pytest.raises(oi.ProgramError, match="bits=-1 is negative") as refused:
            made(oi.graph(written)).make_executor().run(x=x)
        assert "OI0304" in str(refused.value)
    with pytest.raises(oi.ProgramError, match="bits=-3 is negative"):
        oi.compile(oi.graph(held))
    with pytest.raises(oi.StepError, match="bits=-3 is negative"):
        oi.Simulator(oi.graph(held)).make_executor().run(x=x)


@pytest.mark.parametrize("dtype", DTYPES_HERE)
def test_quotients_and_powers_at_the_limits(dtype: str) -> None:
    """Every pair of the limits: the least number by -1, all by 0."""
    x = plain(values_of(dtype))
    pairs = np.array([(a, b) for a in x for b in x], x.dtype)
    left, right = (Tensor.from_values(dtype, pairs[:, i]) for i in (0, 1))
    ops = ("div", "floor_div", "rem", "mul", "add", "sub", "min", "max")
    outputs = " ".join(f"r{i}: {dtype}[361];" for i in range(len(ops)))
    nodes = " ".join(f"op {op}(x, y) >> r{i};" for i, op in enumerate(ops))
    head = f"dynamic {{ x: {dtype}[361]; y: {dtype}[361]; }}"
    agreed(f"{head} volatile {{ {outputs} }} block entry {{ {nodes} return; }}", x=left, y=right)


@pytest.mark.parametrize("dtype", DTYPES_HERE)
def test_signs_at_the_limits(dtype: str) -> None:
    ops = ["not", "popcount", *(("abs", "neg", "sign") if dtype in SIGNED else ())]
    results = {"popcount": "u8", "sign": "i8"}
    outputs = " ".join(f"r{i}: {results.get(op, dtype)}[19];" for i, op in enumerate(ops))
    nodes = " ".join(f"op {op}(x) >> r{i};" for i, op in enumerate(ops))
    head = f"dynamic {{ x: {dtype}[19]; }} volatile {{ {outputs} }}"
    agreed(f"{head} block entry {{ {nodes} return; }}", x=values_of(dtype))


@pytest.mark.parametrize("source", FLOATS)
def test_floats_that_no_integer_holds(source: str) -> None:
    """Infinities, NaN, and what lies around each limit: alone, and in vectors."""
    edges = [0.0, -0.0, 0.5, -0.5, np.nan, np.inf, -np.inf, 1e30, -1e30]
    for bits in (2, 4, 8, 16, 32, 64):
        for edge in (2.0 ** (bits - 1), 2.0**bits):
            edges += [edge, -edge, edge - 0.75, -edge - 0.75, edge * (1 - 2.0**-12)]
    values = Tensor.from_values(source, np.array(edges))
    count = len(edges)
    outputs = " ".join(f"{to}: {to}[{count}];".replace(":", "_:", 1) for to in DTYPES_HERE)
    nodes = " ".join(f"op cast(x, to={to}) >> {to}_;" for to in DTYPES_HERE)
    head = f"dynamic {{ x: {source}[{count}]; }} volatile {{ {outputs} }}"
    agreed(f"{head} block entry {{ {nodes} return; }}", x=values)
