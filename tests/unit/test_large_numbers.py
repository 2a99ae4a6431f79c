"""Numbers of any size wherever a step may count, select or measure: right, or one error on both."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.sizes import MAX_NUMBER, Size

NUMBERS: Final = (
    *(0, 1, 7, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**40 - 1, 2**40, 2**40 + 3, 2**45, 2**48, 2**48 + 1),
    *(2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1, -1, -3, -(2**40) - 5, -(2**62), -(2**63)),
)  # fmt: skip
_ONE: Final = "constant { one: i64 @init(1); }"
_COUNT: Final = "volatile { c: i64; }"
_TABLE: Final = "persistent { T(i): f32[2] @table; } volatile { o: f32[2]; }"
_FIXED: Final = _TABLE.replace("@table", "@table @fixed(i=4)")
_MATRIX: Final = "persistent { A(i, j): f32[0, 2] @auto_dim(i, j); }"
_LINE: Final = "dynamic { x: f32[4]; }"
_WINDOW: Final = "dynamic { x: f32[1, 1, 4]; w: f32[1, 1, 2]; }"
_PLANE: Final = "dynamic { x: f32[1, 1, 4, 4]; }"

# What stands before the entry block, and in it. Loops have few rounds: m is close to n.
PLACES: Final = {
    "loop": (_COUNT + _ONE, "loop i (i in m..n) { op add(c, one) >> c; } return c;"),
    "loop with sums": (_COUNT + _ONE, "loop i (i in n..n + 3) { op add(c, one) >> c; } return c;"),
    "loop with products": (
        _COUNT + _ONE, "loop i (i in m*n - n*n..m*n - n*n + 2) { op add(c, one) >> c; } return c;",
    ),
    "loop with quotients": (_COUNT, "loop i (i in n/m..n/m + 2) { op fill(c, value=i) >> c; } return c;"),
    "loop that is left": (_COUNT, "loop i (i in m..n) { op fill(c, value=i) >> c; return c; } return c;"),
    "index of a loop": (_COUNT, "loop i (i in m..n) { op fill(c, value=i) >> c; } return c;"),
    "index in a sum": (_COUNT, "loop i (i in m..n) { loop j (j in i..i + 2) {"
                               " op fill(c, value=j) >> c; } } return c;"),
    "index of a table in a loop": (_FIXED, "loop i (i in m..n) { cache.read T[i] >> o; } return o;"),
    "empty dimension": ("", "assign t: f32[n, 0]; return t;"),
    "product of dimensions": ("", "assign t: f32[n*n, 0]; return t;"),
    "difference of dimensions": ("", "assign t: f32[n - m]; return t;"),
    "dimension": ("", "assign t: f32[n]; return t;"),
    "table": (_TABLE, "cache.read T[n] >> o; return o;"),
    "fixed table": (_FIXED, "cache.read T[n] >> o; return o;"),
    "slice of a table": (_TABLE, "assign s: f32[_, 2]; cache.read T[m..n] >> s; return s;"),
    "slice of a fixed table": (_FIXED, "assign s: f32[_, 2]; cache.read T[m..n] >> s; return s;"),
    "end of a slice": (_TABLE, "assign s: f32[_, 2]; cache.read T[..n] >> s; return s;"),
    "matrix": (_MATRIX, "assign s: f32[_, _]; cache.read A[n, 0] >> s; return s;"),
    "slice of a matrix": (_MATRIX, "assign s: f32[_, _]; cache.read A[m..n, ] >> s; return s;"),
    "row of a matrix": (_MATRIX + "dynamic { v: f32[2]; }", "cache.write v >> A[n, ]; return v;"),
    "entry that is reset": (_TABLE, "cache.reset T[n]; cache.read T[0] >> o; return o;"),
    "slice": (_LINE, "assign o: f32[_]; op slice(x, starts=[m], stops=[n]) >> o; return o;"),
    "pad": (_LINE, "assign o: f32[_]; op pad(x, pads=[n, 0]) >> o; return o;"),
    "topk": (_LINE, "assign o: f32[_]; assign p: i64[_]; op topk(x, k=n) >> o, p; return o;"),
    "one_hot": ("dynamic { x: i64[0]; }", "assign o: f32[_, _]; op one_hot(x, depth=n) >> o; return o;"),
    "split": (
        _LINE,
        "assign o: f32[_]; assign p: f32[_]; op split(x, axis=0, sizes=[n, 4 - n]) >> o, p; return o;",
    ),
    "expand": ("dynamic { x: f32[1, 0]; }", "assign o: f32[_, _]; op expand(x, shape=[n, 0]) >> o;"
                                            " return o;"),
    "upsample": ("dynamic { x: f32[1, 1, 2, 2]; }",
                 "assign o: f32[_, _, _, _]; op upsample2d(x, size=[n, 1]) >> o; return o;"),
    "stride": (_WINDOW, "assign o: f32[_, _, _]; op conv1d(x, w, padding=3, stride=n) >> o; return o;"),
    "padding": (_WINDOW, "assign o: f32[_, _, _]; op conv1d(x, w, padding=n) >> o; return o;"),
    "dilation": (_WINDOW, "assign o: f32[_, _, _]; op conv1d(x, w, dilation=n) >> o; return o;"),
    "kernel": (_PLANE, "assign o: f32[_, _, _, _];"
                       " op max_pool2d(x, kernel_size=n, stride=1) >> o; return o;"),
    "kernel and dilation": (
        _PLANE, "assign o: f32[_, _, _, _];"
                " op max_pool2d(x, kernel_size=n, dilation=n, stride=1) >> o; return o;",
    ),
    "iota": ("", "assign o: i64[3]; op iota(shape=[3], start=n, step=m) >> o; return o;"),
    "iota of an index": ("", "assign o: i64[3]; loop i (i in m..n) {"
                             " op iota(shape=[3], start=i) >> o; } return o;"),
    "window of attention": (
        "dynamic { q: f32[1, 3, 4]; }",
        "assign o: f32[1, 3, 4]; op attention(q, q, q, causal=true, window=n) >> o; return o;",
    ),
}  # fmt: skip
TAKES_MEMORY: Final = frozenset(
    {"difference of dimensions", "dimension", "end of a slice", "expand", "matrix", "one_hot", "pad",
     "padding", "slice of a table", "table", "upsample"}
)  # fmt: skip
"""Places where a number of some billions asks for as many bytes, and gets them."""
UNSIGNED: Final = ("loop", "dimension", "fixed table", "slice of a fixed table", "index of a loop")


def _inputs(place: str, dtype: str) -> list[dict[str, Any]]:
    """Pairs of numbers, those that differ little, with arrays for what else the program takes."""
    before, body = PLACES[place]
    kind = np.dtype(dtype)
    low, high = (-(2**63), 2**63) if dtype == "int64" else (0, 2**64)
    others: dict[str, Any] = {}
    for name, element, shape in re.findall(
        r"(\w): (\w+)\[([\d, ]+)\]", before.partition("persistent")[0]
    ):
        dims = [int(n) for n in shape.split(",")]
        others[name] = np.zeros(dims, np.int64 if element == "i64" else np.float32)
    if "v: f32" in before:
        others["v"] = np.zeros(2, np.float32)
    numbers = (*NUMBERS, 2**63, 2**64 - 1) if dtype == "uint64" else NUMBERS
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for n in numbers:
        for m in (n - 3, n, n + 2, 0, 2**40 + 1):
            rounds = n - m if "loop" in place or "index" in place else 0
            if not low <= n < high or not low <= m < high or rounds > 3:
                continue
            if not re.search(r"\bm\b", body):
                m = 0
            asked = n - m if "n - m" in body else n
            if place in TAKES_MEMORY and 2**20 < asked < 2**48:
                continue
            found[n, m] = {"n": kind.type(n), "m": kind.type(m), **others}
    return list(found.values())


def _result(executor: BaseExecutor, inputs: dict[str, Any]) -> object:
    """The code of the error, or dtype, shape and elements of the result."""
    try:
        (value,) = executor.run(**inputs).values()
    except oi.OpenInferError as error:
        return error.code
    array = np.asarray(value)
    return str(array.dtype), array.shape, array.reshape(-1)[:8].tolist()


@pytest.mark.parametrize(
    ("place", "dtype"), [*((p, "int64") for p in PLACES), *((p, "uint64") for p in UNSIGNED)]
)
def test_every_number_gives_the_same(place: str, dtype: str) -> None:
    before, body = PLACES[place]
    scalars = f"dynamic {{ n: {dtype[0]}64; m: {dtype[0]}64; }}"
    text = f"{scalars} {before} block entry {{ {body} }}"
    simulator, program = oi.Simulator(text), oi.compile(text)
    cases = _inputs(place, dtype)
    assert len(cases) >= 10
    for inputs in cases:
        wanted = _result(simulator.make_executor(max_state_bytes=1 << 24), inputs)
        found = _result(program.make_executor(1, max_state_bytes=1 << 24), inputs)
        assert found == wanted, f"n = {inputs['n']}, m = {inputs['m']}"


def test_three_rounds_far_out() -> None:
    text = f"dynamic {{ n: i64; }} {_COUNT} {_ONE} block entry {{ {PLACES['loop with sums'][1]} }}"
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor(1)):
        for n in (2**40, -(2**40), 2**62 - 5, -(2**62) + 1):
            assert executor.run(n=np.int64(n))["c"] == 3
        with pytest.raises(oi.OpenInferError, match=r"2\^62 - 1") as failure:
            executor.run(n=np.int64(2**62 - 3))
        assert failure.value.code == "OI0611"
        assert executor.run(n=np.int64(2))["c"] == 3


def test_a_product_of_sizes_that_no_word_holds() -> None:
    """Arrays without elements may have dimensions whose product is any number."""
    text = (
        "dynamic { a: f32[B, 0]; b: f32[L, 0]; } volatile { c: i64; }"
        "block entry { loop i (i in 0..B*L) { op fill(c, value=7) >> c; return c; } return c; }"
    )
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor(1)):
        few, many = np.zeros((3, 0), np.float32), np.zeros((2**40, 0), np.float32)
        assert executor.run(a=few, b=few)["c"] == 7
        assert executor.run(a=few, b=many)["c"] == 7
        with pytest.raises(oi.OpenInferError) as failure:
            executor.run(a=many, b=many)
        assert failure.value.code == "OI0611"


def test_an_intermediate_number_counts_too() -> None:
    size = Size.of("n*n - n*n/2 - 5")
    assert size.evaluate_within({"n": 4}, MAX_NUMBER) == size.evaluate({"n": 4}) == 3
    with pytest.raises(OverflowError):
        size.evaluate_within({"n": 2**31 + 1}, MAX_NUMBER)
    assert Size.of("3*n*m + n + 2").largest(10) == 312


def test_a_constant_is_no_check() -> None:
    """What the program says is known when it is compiled: nothing of it is left to the step."""
    text = (
        "constant { rounds: i64 @init(3); one: i64 @init(1); } volatile { c: i64; }"
        "block entry { loop i (i in 0..rounds) { op add(c, one) >> c; } return c; }"
    )
    program = oi.compile(text)
    assert program.make_executor(1).run()["c"] == 3
