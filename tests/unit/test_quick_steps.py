"""The quick way into a step: what takes it, what does not, and that results are the same."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from benchmarks import overhead
from openinfer.runtime.devices.compiled.quick_inputs import QuickInput, QuickInputs, address_of
from openinfer.runtime.devices.cpu import native_call
from openinfer.runtime.devices.cpu.native_call import native_place
from openinfer.runtime.tensors import Tensor, as_tensor

PROGRAM = """
dynamic { x: f32[B, 4]; b: bool[4]; t: i32; s: f32; h: bf16[4]; p: i4[3]; }
volatile { y: f32[B, 4]; z: f32[B, 4]; k: i32; w: bf16[4]; q: i4[3]; never: f32[2]; }
block entry {
    op mul(x, s) >> y;
    op where(b, x, y) >> z;
    op add(t, t) >> k;
    op add(h, h) >> w;
    op add(p, p) >> q;
    return;
}
"""
HALF = Tensor.from_values("bf16", [1.0, 2.0, 3.0, 4.0])
PACKED = Tensor.from_values("i4", [1, 2, 3])


def inputs(scale: float = 2.0) -> dict[str, Any]:
    return {
        "x": np.arange(8, dtype=np.float32).reshape(2, 4) * np.float32(scale),
        "b": np.array([True, False, True, False]),
        "t": 21,
        "s": 0.5,
        "h": HALF,
        "p": PACKED,
    }


def check(values: dict[str, Any], given: dict[str, Any]) -> None:
    x = np.asarray(given["x"], np.float32)
    np.testing.assert_array_equal(values["y"], x * np.float32(given["s"]))
    np.testing.assert_array_equal(values["z"], np.where(given["b"], x, x * np.float32(given["s"])))
    assert values["k"] == 2 * int(given["t"])
    np.testing.assert_array_equal(values["w"].values(), 2 * HALF.values())


@pytest.fixture(scope="module")
def program() -> oi.Program:
    return oi.compile(oi.graph(PROGRAM))


@pytest.fixture(scope="module")
def placed() -> oi.Program:
    """All inputs of this one may come the quick way: `run` puts their addresses into the frame."""
    text = PROGRAM.replace(" p: i4[3];", "").replace(" q: i4[3];", "")
    return oi.compile(oi.graph(text.replace("op add(p, p) >> q;", "")))


def placed_inputs(scale: float = 2.0) -> dict[str, Any]:
    return {name: value for name, value in inputs(scale).items() if name != "p"}


VARIANTS: dict[str, dict[str, Any]] = {
    "as before": {},
    "another batch": {"x": np.ones((5, 4), np.float32)},
    "transposed": {"x": np.arange(8, dtype=np.float32).reshape(4, 2).T},
    "read-only": {"x": np.broadcast_to(np.float32(3), (2, 4))},
    "frozen": {"x": np.frombuffer(bytes(32), np.float32).reshape(2, 4)},
    "swapped": {"x": np.arange(8).reshape(2, 4).astype(">f4")},
    "unaligned": {"x": np.frombuffer(bytearray(33), np.float32, 8, 1).reshape(2, 4)},
    "empty": {"x": np.zeros((0, 4), np.float32)},
    "a list": {"x": [[1.0, 2.0, 3.0, 4.0]]},
    "numpy scalars": {"t": np.int32(-4), "s": np.float32(0.25)},
    "0-d arrays": {"t": np.array(7, np.int32), "s": np.array(-1, np.float32)},
}


@pytest.mark.parametrize("names", [[a, b] for a in VARIANTS for b in ("as before", a)])
def test_inputs_of_all_kinds_after_each_other(program: oi.Program, names: list[str]) -> None:
    with program.make_executor(1) as executor:
        for name in ["as before", "as before", *names, "as before"]:
            given = {**inputs(), **VARIANTS[name]}
            check(executor.run(**given), given)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", list(VARIANTS))
def test_run_with_inputs_of_all_kinds(placed: oi.Program, name: str, threads: int) -> None:
    with placed.make_executor(threads) as executor:
        for number, variant in enumerate(["as before", "as before", name, "as before", name, name]):
            given = {**placed_inputs(1.0 + number), "s": 0.5 + number, **VARIANTS[variant]}
            check(executor.run(**given), given)
        assert executor.finished_steps == 6


MISTAKES = pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"t": 1 << 31}, "OI0543"),
        ({"t": 1.0}, "OI0541"),
        ({"t": True}, "OI0541"),
        ({"s": 1e39}, "OI0543"),
        ({"b": np.array([0, 1, 2, 0], np.uint8).view(np.bool_)}, "OI0543"),
        ({"b": np.zeros(4, np.uint8)}, "OI0541"),
        ({"x": np.zeros((2, 4))}, "OI0541"),
        ({"x": np.zeros((2, 5), np.float32)}, "OI0503"),
        ({"h": np.zeros(4, np.uint16)}, "OI0541"),
        ({"h": Tensor.from_values("f16", [1, 2, 3, 4])}, "OI0541"),
        ({"y": np.zeros((2, 4), np.float32)}, "OI0502"),
        ({"x": None}, "OI0544"),
        ({"unknown": 1}, "OI0501"),
    ],
)


@MISTAKES
def test_mistakes_are_found_by_a_run(placed: oi.Program, change: dict[str, Any], code: str) -> None:
    with placed.make_executor(1) as executor:
        executor.run(**placed_inputs())
        with pytest.raises(oi.InputError) as caught:
            executor.run(**{**placed_inputs(), **change})
        assert caught.value.code == code
        assert executor.finished_steps == 1
        # One wrong name instead of a right one: as many as there should be.
        name, value = next(iter(change.items()))
        others = {n: v for n, v in placed_inputs().items() if n != ("x" if name != "x" else "t")}
        with pytest.raises(oi.InputError):
            executor.run(**{**others, name: value})
        check(executor.run(**placed_inputs(4.0)), placed_inputs(4.0))


def test_run_takes_what_was_inserted_before(placed: oi.Program) -> None:
    first, second = placed_inputs(), placed_inputs(3.0)
    with placed.make_executor(1) as executor:
        executor.run(**first)
        executor.insert(x=second["x"], t=4)
        check(
            executor.run(**{n: v for n, v in first.items() if n not in ("x", "t")}),
            {**first, "x": second["x"], "t": 4},
        )
        executor.insert(**second)
        check(executor.run(**first), first)
        with pytest.raises(oi.InputError) as caught:
            executor.run(first["x"])
        assert caught.value.code == "OI0501"
        with pytest.raises(oi.InputError) as caught:
            executor.run(**{n: v for n, v in first.items() if n != "h"})
        assert caught.value.code == "OI0505"


def test_run_while_a_step_is_iterated_and_after_close(placed: oi.Program) -> None:
    executor = placed.make_executor(1)
    executor.run(**placed_inputs())
    executor.insert(**placed_inputs())
    for _ in executor.iterate():
        with pytest.raises(oi.InputError) as caught:
            executor.run(**placed_inputs())
        assert caught.value.code == "OI0509"
    check(executor.run(**placed_inputs(5.0)), placed_inputs(5.0))
    executor.close()
    with pytest.raises(oi.InputError) as caught:
        executor.run(**placed_inputs())
    assert caught.value.code == "OI0507"


ARRAYS = """
dynamic { x: f32[B, 4]; n: i64[]; m: i64[3]; }
volatile { y: f32[B, 4]; k: i64[3]; }
block entry { op add(x, x) >> y; op add(m, n) >> k; return y, k; }
"""


class Named(np.ndarray[Any, Any]):
    """A class of its own, as `np.matrix` is one."""


ODD: dict[str, Any] = {
    "a subclass": np.ones((2, 4), np.float32).view(Named),
    "another dtype object": np.ones((2, 4), np.dtype("f4", metadata={"unit": "m"})),
    "read-only": np.broadcast_to(np.ones(4, np.float32), (1, 4)).repeat(2, 0),
    "every other row": np.ones((4, 4), np.float32)[::2],
    "unaligned": np.frombuffer(bytearray(33), np.float32, 8, 1).reshape(2, 4),
    "swapped": np.ones((2, 4), ">f4"),
    "Fortran order": np.asfortranarray(np.arange(8, dtype=np.float32).reshape(2, 4)),
    "empty": np.zeros((0, 4), np.float32),
    "another batch": np.ones((3, 4), np.float32),
    "a list": [[1.0, 2.0, 3.0, 4.0]] * 2,
}
ODD["read-only"].flags.writeable = False


@pytest.fixture(scope="module")
def arrays() -> oi.Program:
    return oi.compile(oi.graph(ARRAYS))


@pytest.mark.parametrize("builtins", [True, False])
@pytest.mark.parametrize("apart", [True, False])
def test_arrays_by_builtins_and_without(
    arrays: oi.Program, builtins: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not builtins:
        monkeypatch.setattr(native_call, "_builtins", lambda: None)
    plain: dict[str, Any] = {
        "x": np.arange(8, dtype=np.float32).reshape(2, 4),
        "n": np.array(2),
        "m": np.arange(3),
    }
    with arrays.make_executor(1) as executor:
        for value in ODD.values():
            for given in (plain, plain, {**plain, "x": value}, {**plain, "x": value}):
                if apart:
                    executor.insert(**given)
                    executor.step()
                    found: Any = {name: executor.fetch(name) for name in ("y", "k")}
                else:
                    found = executor.run(**given)
                np.testing.assert_array_equal(found["y"], 2 * np.asarray(given["x"]))
                np.testing.assert_array_equal(found["k"], [2, 3, 4])
            for change, code in (
                ({"x": np.ones((2, 4))}, "OI0541"),
                ({"x": np.ones((2, 4, 1), np.float32)}, "OI0503"),
                ({"x": np.ones(4, np.float32)}, "OI0503"),
                ({"m": np.arange(4)}, "OI0503"),
                ({"z": 1}, "OI0501"),
            ):
                with pytest.raises(oi.InputError) as caught:
                    executor.run(**{**plain, **change})
                assert caught.value.code == code


def test_builtins_keep_the_count_of_references(arrays: oi.Program) -> None:
    x, n, m = np.ones((2, 4), np.float32), np.array(2), np.arange(3)
    with arrays.make_executor(1) as executor:
        watched: list[object] = [x, n, m, x.dtype, np.ndarray, executor]
        for _ in range(3):
            executor.run(x=x, n=n, m=m)
        before = [sys.getrefcount(thing) for thing in watched]
        for _ in range(200):
            executor.run(x=x, n=n, m=m)
            executor.insert(x=x, n=n, m=m)
            with pytest.raises(oi.InputError):
                executor.run(x=x, n=n, m=x)
            executor.step()
        assert max(abs(sys.getrefcount(t) - b) for t, b in zip(watched, before)) < 20


def test_a_closed_executor_is_freed(arrays: oi.Program) -> None:
    executor = arrays.make_executor(1)
    for _ in range(3):
        executor.run(x=np.ones((2, 4), np.float32), n=np.array(2), m=np.arange(3))
    gone = weakref.ref(executor)
    del executor
    gc.collect()
    assert gone() is None


def test_numbers_go_to_other_memory_while_a_worker_may_read_them() -> None:
    entry = QuickInput.of(as_tensor(5, "i32"))
    frame = [0]
    quick = QuickInputs({"t": entry}, {"t": 0}, frame, native_place)
    assert quick.place({"t": 7})
    before = frame[0]
    assert quick.place({"t": 8})
    assert frame[0] == before
    (held,) = quick.renew()
    assert held == 8
    assert quick.place({"t": 9})
    assert frame[0] != before
    assert held == 8
    array = np.array(3, np.int32)
    assert quick.place({"t": array})
    assert frame[0] == array.ctypes.data
    assert not quick.place({"t": 1 << 31})
    assert not quick.place({"u": 1})
    assert not quick.place({})
    # What is looked at more closely every time is never placed.
    assert not QuickInputs({"p": None}, {"p": 0}, frame, native_place).place({"p": PACKED})


@MISTAKES
def test_mistakes_are_found_on_the_quick_way(
    program: oi.Program, change: dict[str, Any], code: str
) -> None:
    with program.make_executor(1) as executor:
        executor.run(**inputs())
        executor.insert(**inputs())
        with pytest.raises(oi.InputError) as caught:
            executor.insert(**change)
        assert caught.value.code == code
        # What was inserted before is still there, and the executor goes on.
        executor.step()
        check({name: executor.fetch(name) for name in executor.results}, inputs())


def test_an_insert_of_two_parts_takes_the_last_value(program: oi.Program) -> None:
    first, second = inputs(), inputs(3.0)
    with program.make_executor(1) as executor:
        executor.run(**first)
        executor.insert(**first)
        executor.insert(x=second["x"])  # quick after quick
        executor.step()
        check({name: executor.fetch(name) for name in executor.results}, second)
        executor.insert(**first)
        executor.insert(x=second["x"].tolist())  # checked after quick
        executor.step()
        check({name: executor.fetch(name) for name in executor.results}, second)
        executor.insert(x=first["x"].tolist())
        executor.insert(**second)  # quick after checked
        executor.step()
        check({name: executor.fetch(name) for name in executor.results}, second)


def test_a_missing_input_is_missing_on_the_quick_way(program: oi.Program) -> None:
    with program.make_executor(1) as executor:
        executor.run(**inputs())
        executor.insert(**{name: value for name, value in inputs().items() if name != "h"})
        with pytest.raises(oi.InputError) as caught:
            executor.step()
        assert caught.value.code == "OI0505"


def test_a_volatile_that_no_step_writes(program: oi.Program) -> None:
    with program.make_executor(1) as executor:
        executor.run(**inputs())
        first = np.asarray(executor.fetch("never"))
        first[:] = 9
        np.testing.assert_array_equal(executor.fetch("never"), [0, 0])
        np.testing.assert_array_equal(executor.fetch("never", copy=False), [0, 0])


def test_steps_without_inputs_keep_their_count() -> None:
    text = (
        "persistent { n: i32; } volatile { y: i32; }"
        "block entry { cache.increment n; cache.read n >> y; return; }"
    )
    with oi.compile(oi.graph(text)).make_executor(1) as executor:
        for count in range(1, 4):
            assert executor.run()["y"] == count
        assert executor.finished_steps == 3
        executor.reset()
        assert executor.run()["y"] == 1
        executor.close()
        with pytest.raises(oi.InputError) as caught:
            executor.step()
        assert caught.value.code == "OI0507"


def test_quick_inputs_by_themselves() -> None:
    quick = QuickInput.of(as_tensor(5, "i8"))
    assert quick is not None
    taken = quick.take(-128)
    assert taken is not None
    assert taken == -128
    assert taken.dtype == np.int8
    for value in (128, True, np.int16(1)):
        assert quick.take(value) is None
    assert QuickInput.of(PACKED) is None
    single = QuickInput.of(as_tensor(0.5, "f32"))
    assert single is not None
    for value in (float("nan"), float("inf"), 1e39, 1):
        assert single.take(value) is None


def test_addresses() -> None:
    for array in (np.arange(3), np.zeros(0), np.broadcast_to(np.float32(1), (1,)), np.array(2.5)):
        assert address_of(array) == array.ctypes.data
    frozen = np.arange(3)
    frozen.flags.writeable = False
    assert address_of(frozen) == frozen.ctypes.data


@pytest.mark.parametrize("name", list(overhead.PROGRAMS))
def test_the_measured_programs_run(name: str) -> None:
    row = overhead.measure(name, 1, rounds=1, calls=2)
    assert set(row.seconds) == set(overhead.LIMITS)
    assert name in overhead.table([row])
