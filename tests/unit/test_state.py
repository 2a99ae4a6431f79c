"""Snapshots: taking, restoring, files, damaged files, and programs that do not fit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors import safe_open

import openinfer as oi
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.sizes import Size
from openinfer.runtime.state import State, StateValue, physical_memory
from openinfer.runtime.state_check import check_state
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.variables import VariableInfo

TEXT = """
dynamic { x: f32[N]; a: i64; }
persistent {
  n: i32 @init(3);
  h: f32[N];
  K(l, t): f16[2] @table;
  F(t): i4[3] @table @fixed(t=4);
  A(i, j): f32[1, 2] @auto_dim(i, j) @fixed(i=5);
  C(l, i): bf16[1] @table @auto_dim(i);
  flag: bool;
}
block entry {
  assign k: f16[2]; assign f: i4[3]; assign m: f32[_, _]; assign c: bf16[_]; assign b: bool;
  cache.increment n;
  cache.write x >> h;
  op fill(k, value=1.5) >> k; cache.write k >> K[1, a];
  op fill(f, value=-3) >> f; cache.write f >> F[a];
  cache.read A[a, 1] >> m; op fill(m, value=2.5) >> m; cache.write m >> A;
  cache.read C[a, a] >> c; op fill(c, value=0.5) >> c; cache.write c >> C[a];
  op is_finite(h) >> b; cache.write b >> flag;
  return m;
}
"""


def executor(text: str = TEXT, **options: Any) -> BaseExecutor:
    return oi.Simulator(text).make_executor(**options)


def used(steps: int = 2) -> BaseExecutor:
    ex = executor()
    for number in range(steps):
        advance(ex, number)
    return ex


def advance(ex: BaseExecutor, number: int) -> None:
    ex.run(x=np.array([1, np.nan, number], np.float32), a=number)


def wrong(code: str, call: Any, *args: Any) -> str:
    with pytest.raises(oi.OpenInferError) as caught:
        call(*args)
    assert caught.value.code == code, caught.value
    return caught.value.message


# Snapshots of an executor


def test_what_a_snapshot_holds() -> None:
    state = used().snapshot()
    assert list(state) == ["n", "h", "K", "F", "A", "C", "flag"]
    assert [value.extents for value in state.values()] == [(), (), (2, 2), (4,), (), (2,), ()]
    assert sorted(state["K"].entries) == [(1, 0), (1, 1)]
    assert sorted(state["F"].entries) == [(0,), (1,)]
    assert state["A"].entries[()].shape == (2, 3)
    assert [t.shape for t in state["C"].entries.values()] == [(1,), (2,)]
    assert state["F"].entries[(0,)].storage.tolist() == [0xDD, 0x0D]
    assert state["C"].entries[(1,)].storage.tolist() == [0x3F00, 0x3F00]
    assert state.nbytes == 4 + 12 + 8 + 4 + 24 + 6 + 1
    assert repr(state["K"]) == "<f16, 2 entries of [2, 2]>"
    assert "n: <i32, 1 entry>" in repr(state)


def test_an_untouched_executor() -> None:
    state = executor().snapshot()
    assert state["n"].entries[()].values() == 3
    assert state["A"].entries[()].shape == (1, 2)
    assert state["F"].extents == (4,)
    # A shape that only inputs fix is not known yet.
    assert [name for name, value in state.items() if not value.entries] == ["h", "K", "F", "C"]
    fresh = executor()
    fresh.restore(state)
    assert fresh.snapshot() == state
    advance(fresh, 0)
    assert fresh.fetch("n") == 4


def test_a_snapshot_is_detached() -> None:
    ex = used()
    state, again = ex.snapshot(), ex.snapshot()
    assert state == again
    advance(ex, 2)
    assert state == again != ex.snapshot()
    state["h"].entries[()].storage[:] = 7
    other = executor()
    other.restore(state)
    state["h"].entries[()].storage[:] = 8
    np.testing.assert_array_equal(cast(Any, other.fetch("h")), [7, 7, 7])
    held = other.snapshot()
    held["h"].entries[()].storage[:] = 9
    np.testing.assert_array_equal(cast(Any, other.fetch("h")), [7, 7, 7])


def test_restored_executors_go_on_alike(tmp_path: Path) -> None:
    ex = used()
    path = tmp_path / "state.safetensors"
    ex.snapshot().save(path)
    for source in (ex.snapshot(), path, str(path), State.load(path)):
        other = executor()
        other.restore(source)
        assert other.snapshot() == ex.snapshot()
        # Everything can be fetched before a step has told the sizes.
        for name in ("n", "h", "K", "F", "A", "C[1]", "K[1, 0]"):
            left, right = other.fetch(name), ex.fetch(name)
            assert type(left) is type(right)
            np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
    going, there = executor(), used(4)
    going.restore(path)
    for number in (2, 3):
        advance(going, number)
    assert going.snapshot() == there.snapshot()


def test_restoring_goes_back() -> None:
    ex = used()
    state = ex.snapshot()
    advance(ex, 2)
    ex.restore(state)
    assert ex.snapshot() == state
    assert ex.fetch("n") == 5
    ex.restore(executor().snapshot())
    assert ex.fetch("n") == 3
    assert np.asarray(ex.fetch("K")).shape == (0, 0, 2)


def test_a_restored_shape_is_the_shape() -> None:
    ex = executor()
    ex.restore(used().snapshot())
    message = wrong("OI0608", lambda: ex.run(x=np.zeros(2, np.float32), a=0))
    assert "h: f32[N] is [2] in this step, but holds values for [3]" in message


def test_not_while_a_step_is_iterated_or_after_close() -> None:
    ex = used()
    state = ex.snapshot()
    ex.insert(x=np.zeros(3, np.float32), a=0)
    nodes = ex.iterate()
    next(nodes)
    assert "snapshot" in wrong("OI0509", ex.snapshot)
    assert "restore" in wrong("OI0509", ex.restore, state)
    nodes.close()
    assert ex.snapshot() == state
    ex.close()
    wrong("OI0507", ex.snapshot)
    wrong("OI0507", ex.restore, state)


class Bare(BaseExecutor):
    """An executor that says nothing about state."""

    def _run_step(self, inputs: Any, sizes: Any) -> None: ...

    def _iterate_step(self, inputs: Any, sizes: Any) -> Any: ...

    def _value(self, name: str) -> Any: ...

    def _reset_state(self) -> None: ...


def test_executors_without_snapshots_say_so_when_there_is_state() -> None:
    bare = Bare([], sizes={}, results=[])
    assert bare.snapshot() == State({})
    bare.restore(State({}))
    info = VariableInfo("n", "persistent", "i32", ())
    bare = Bare([info], sizes={}, results=[])
    assert "n" in wrong("OI0735", bare.snapshot)
    value = StateValue(DTYPES["i32"], (), {(): Tensor.from_values("i32", 1)})
    wrong("OI0735", bare.restore, State({"n": value}))
    assert bare.max_state_bytes == physical_memory() // 2


# Values


def test_values_check_themselves() -> None:
    one = Tensor.from_values("f32", [1.0])
    f32 = DTYPES["f32"]
    assert "outside" in wrong("OI0551", StateValue, f32, (2,), {(2,): one})
    assert "outside" in wrong("OI0551", StateValue, f32, (2,), {(-1,): one})
    assert "outside" in wrong("OI0551", StateValue, f32, (), {(0,): one})
    assert "negative" in wrong("OI0551", StateValue, f32, (-1,), {})
    assert "expected f64" in wrong("OI0551", StateValue, DTYPES["f64"], (), {(): one})


def test_equality_is_that_of_bits() -> None:
    f32 = DTYPES["f32"]

    def value(*numbers: float, extents: tuple[int, ...] = ()) -> StateValue:
        index = (0,) * len(extents)
        return StateValue(f32, extents, {index: Tensor.from_values("f32", list(numbers))})

    assert value(np.nan) == value(np.nan)
    assert value(0.0) != value(-0.0)
    assert value(1.0) != value(1.0, 2.0)
    assert value(1.0, extents=(1,)) != value(1.0, extents=(2,))
    assert value(1.0) != StateValue(f32, (), {})
    assert value(1.0) != 1
    assert State({"a": value(1.0)}) != State({"b": value(1.0)})
    assert State({}) != {}
    copied = value(1.0).copy()
    assert copied == value(1.0)


# Programs that do not fit


def replaced(state: State, **values: Any) -> State:
    kept = {n: v for n, v in {**state, **values}.items() if v is not None}
    return State(kept)


def table(dtype: str, extents: tuple[int, ...], **entries: Any) -> StateValue:
    found = {
        tuple(int(c) for c in name.removeprefix("e")): Tensor.from_values(dtype, value)
        for name, value in entries.items()
    }
    return StateValue(DTYPES[dtype], extents, found)


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"n": None}, "it has no n"),
        ({"q": table("i32", (), e=1)}, "the program has no persistent q"),
        ({"n": table("i64", (), e=1)}, "n: it is i64, declared i32"),
        ({"n": table("i32", (), e=[1])}, "n: it has shape [1], declared []"),
        ({"n": table("i32", (1,), e0=1)}, "n: it has 1 table indices, declared 0"),
        ({"K": table("f16", (2,))}, "K: it has 1 table indices, declared 2"),
        ({"K": table("f16", (2, 1), e00=[1, 2, 3])}, "K: it has shape [3], declared [2]"),
        ({"K": table("f16", (2, 1), e00=[1, 2], e10=[1])}, "different shapes"),
        ({"F": table("i4", (3,))}, "F: t counts 3 entries, declared @fixed(t=4)"),
        ({"A": table("f32", (), e=[[1.0, 2, 3]] * 7)}, "A: it has shape [7, 3], declared [1, 2]"),
        ({"A": table("f32", (), e=[[1.0]])}, "A: it has shape [1, 1], declared [1, 2] @auto_dim"),
        ({"A": table("f32", (), e=[1.0, 2.0])}, "A: it has shape [2]"),
        ({"C": table("bf16", (1,), e0=np.zeros(0))}, "C: it has shape [0], declared [1]"),
    ],
)
def test_what_does_not_fit_changes_nothing(values: dict[str, Any], part: str) -> None:
    ex = used()
    before = ex.snapshot()
    assert part in wrong("OI0551", ex.restore, replaced(before, **values))
    assert ex.snapshot() == before


def test_all_differences_are_told() -> None:
    state = replaced(used().snapshot(), n=None, q=table("i32", ()), flag=table("i8", ()))
    message = wrong("OI0551", used().restore, state)
    assert "it has no n; the program has no persistent q; flag: it is i8" in message


def test_sizes_that_inputs_fix_are_checked_by_the_next_step() -> None:
    info = VariableInfo("h", "persistent", "f32", (Size.of("N"), Size.of("D")))
    value = table("f32", (), e=[[1.0, 2.0]])
    check_state(State({"h": value}), [info], {"D": 2}, 100)
    assert "[1, 2], declared [N, D]" in wrong(
        "OI0551", check_state, State({"h": value}), [info], {"D": 3}, 100
    )


def test_a_matrix_that_does_not_fit_the_sizes_of_a_step() -> None:
    text = """
    dynamic { x: f32[N]; }
    persistent { A(i): f32[N] @auto_dim(i) @fixed(i=1); }
    block entry { assign t: f32[_]; cache.read A[0] >> t; return t; }
    """
    ex = executor(text)
    ex.restore(State({"A": table("f32", (), e=[1.0, 2, 3])}))
    np.testing.assert_array_equal(cast(Any, ex.fetch("A")), [1, 2, 3])
    wrong("OI0608", lambda: ex.run(x=np.zeros(4, np.float32)))
    wrong("OI0608", lambda: ex.run(x=np.zeros(1, np.float32)))
    assert len(cast(Any, ex.run(x=np.zeros(2, np.float32))["t"])) == 3


def test_a_snapshot_beyond_the_limit() -> None:
    state = used().snapshot()
    ex = executor(max_state_bytes=64)
    assert "more than max_state_bytes = 64" in wrong("OI0551", ex.restore, state)
    sparse = replaced(state, K=table("f16", (1000, 1000), e00=[1, 2]))
    assert "takes 4000" in wrong("OI0551", executor(max_state_bytes=10**6).restore, sparse)


# Files


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "state.safetensors"
    used().snapshot().save(path)
    return path


def test_files_are_stable_and_safetensors(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.safetensors"
    State.load(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()
    with cast(Any, safe_open(saved, framework="numpy")) as file:
        assert set(file.keys()) == {f"{n}.bytes" for n in ("n", "h", "K", "F", "A", "C", "flag")}
        assert file.metadata()["openinfer.state"] == "1"
        rows = json.loads(file.metadata()["variables"])
        assert rows["K"] == {
            "dtype": "f16",
            "extents": [2, 2],
            "present": [[2, 4]],
            "shapes": [[2]],
        }
        assert rows["C"]["shapes"] == [[1], [2]]
        assert file.get_tensor("n.bytes").tolist() == [5, 0, 0, 0]
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".tmp"]


def test_an_empty_state_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    State({}).save(path)
    assert State.load(path) == State({})
    executor("block entry { return; }").restore(path)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_dtype_survives_a_file(dtype: str, tmp_path: Path) -> None:
    values = {"t1": [-1, 1, 1], "i1": [0, -1, 0]}.get(dtype, [0, 1, 1])
    entries = {(2, 0): Tensor.from_values(dtype, values), (0, 1): Tensor.from_values(dtype, values)}
    state = State({"K": StateValue(DTYPES[dtype], (3, 2), entries)})
    state.save(tmp_path / "s")
    assert State.load(tmp_path / "s") == state


def test_a_failing_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in wrong("OI0811", State({}).save, saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_places_that_hold_no_snapshot(tmp_path: Path) -> None:
    assert "cannot be opened" in wrong("OI0811", State.load, tmp_path / "missing")
    assert "not a regular file" in wrong("OI0811", State.load, tmp_path)
    (tmp_path / "nothing").write_bytes(b"")
    assert "empty" in wrong("OI0811", State.load, tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in wrong("OI0811", State.load, tmp_path / "pipe")
    wrong("OI0811", State({}).save, tmp_path / "no" / "folder")
    for path in (5, None, "a\0b"):
        wrong("OI0811", State.load, path)
        wrong("OI0811", State({}).save, path)
    wrong("OI0811", State({}).save, "")
    ex = used()
    before = ex.snapshot()
    wrong("OI0811", ex.restore, tmp_path / "missing")
    assert ex.snapshot() == before


def rewritten(path: Path, change: Any) -> Path:
    """A copy of a snapshot whose header and rows a function has changed."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    rows = json.loads(header["__metadata__"]["variables"])
    body = change(header, rows, data[8 + length :])
    header["__metadata__"] = header.get("__metadata__") and {
        **header["__metadata__"],
        **({"variables": json.dumps(rows)} if "variables" in header["__metadata__"] else {}),
    }
    if header["__metadata__"] is None:
        del header["__metadata__"]
    text = json.dumps(header).encode()
    target = path.with_name("changed")
    target.write_bytes(len(text).to_bytes(8, "little") + text + (body or data[8 + length :]))
    return target


def header_change(**changes: Any) -> Any:
    def change(header: Any, rows: Any, body: bytes) -> bytes:
        for name, fields in changes.items():
            header[f"{name}.bytes"] = {**header[f"{name}.bytes"], **fields}
        return body

    return change


def row_change(name: str, **fields: Any) -> Any:
    def change(header: Any, rows: Any, body: bytes) -> bytes:
        rows[name] = {**rows[name], **fields}
        return body

    return change


def poked(header: Any, name: str, body: bytes) -> bytes:
    """The data with a 2 as the first byte of a variable."""
    place = header[f"{name}.bytes"]["data_offsets"][0]
    return body[:place] + b"\x02" + body[place + 1 :]


def without(*path: str) -> Any:
    def change(header: Any, rows: Any, body: bytes) -> bytes:
        place = {"header": header, "rows": rows}[path[0]]
        for key in path[1:-1]:
            place = place[key]
        del place[path[-1]]
        return body

    return change


def set_to(key: str, value: Any) -> Any:
    def change(header: Any, rows: Any, body: bytes) -> bytes:
        header[key] = value
        return body

    return change


HUGE = 2**62


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (without("header", "__metadata__"), "it is none"),
        (set_to("__metadata__", {"openinfer.state": "2"}), "it has version '2'"),
        (set_to("__metadata__", {"openinfer.state": "1"}), "the list of variables"),
        (set_to("more.bytes", {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}), "are not"),
        (without("rows", "K"), "the variables are not those of the tensors"),
        (without("header", "K.bytes"), "the variables are not those of the tensors"),
        (header_change(K={"dtype": "F16"}), "tensor 'K.bytes' is not raw bytes"),
        (header_change(K={"shape": [7]}), "another shape than length"),
        (header_change(K={"data_offsets": [8, 0]}), "is not raw bytes"),
        (header_change(K={"data_offsets": [0, HUGE], "shape": [HUGE]}), "do not fill"),
        (set_to("K.bytes", 7), "is not raw bytes"),
        (lambda header, rows, body: body + b"\0", "do not fill"),
        (lambda header, rows, body: body[:-1], "do not fill"),
        (row_change("K", dtype="f17"), "unknown dtype"),
        (row_change("K", dtype=["f16"]), "unknown dtype"),
        (row_change("K", dtype="f64"), "takes 32 bytes, the file has 8"),
        (row_change("K", extents=[2, -1]), "no usable extents"),
        (row_change("K", extents=[1] * 70), "no usable extents"),
        (row_change("K", extents=[1, 1]), "outside of its extents"),
        (row_change("K", present=[[2, 3], [3, 4]]), "outside of its extents"),
        (row_change("K", present=[[3, 2]]), "outside of its extents"),
        (row_change("K", present=[[0, 1, 2]]), "outside of its extents"),
        (row_change("K", present=None), "outside of its extents"),
        (row_change("K", present=[[0, True]]), "outside of its extents"),
        (row_change("K", shapes=[]), "no shape for each entry"),
        (row_change("K", shapes=[[2], [2], [2]]), "no shape for each entry"),
        (row_change("K", shapes=[[2.0]]), "no shape for each entry"),
        (row_change("K", shapes=7), "no shape for each entry"),
        (row_change("K", shapes=[[HUGE, 8]]), "more than 2**63 bytes"),
        (row_change("K", shapes=[[1] * 200]), "dimensions"),
        (row_change("K", shapes=[[4], [0]]), None),
        (
            row_change("K", extents=[HUGE, 2], present=[[0, HUGE]], shapes=[[2]]),
            "bytes, the file has 8",
        ),
        (lambda header, rows, body: rows.__setitem__("K", 5), "unknown dtype"),
        (lambda header, rows, body: poked(header, "flag", body), "neither 0 nor 1"),
    ],
)
def test_damaged_files(saved: Path, change: Any, part: str | None) -> None:
    path = rewritten(saved, change)
    if part is None:
        assert len(State.load(path)["K"].entries) == 2
        return
    message = wrong("OI0811", State.load, path)
    assert part in message
    assert str(path) in message
    ex = used()
    before = ex.snapshot()
    wrong("OI0811", ex.restore, path)
    assert ex.snapshot() == before


def test_entries_without_bytes_are_few(tmp_path: Path) -> None:
    value = StateValue(DTYPES["f32"], (4,), {(1,): Tensor.from_values("f32", np.zeros((0, 3)))})
    path = tmp_path / "s"
    State({"K": value}).save(path)
    assert State.load(path)["K"] == value
    changed = rewritten(path, row_change("K", extents=[HUGE], present=[[0, HUGE]]))
    assert f"{HUGE} entries without bytes" in wrong("OI0811", State.load, changed)


def test_headers_that_are_none(saved: Path) -> None:
    data = saved.read_bytes()
    for damaged, part in (
        (data[:7], "header does not fit"),
        (data[:40], "header does not fit"),
        ((2**63).to_bytes(8, "little") + data[8:], "header does not fit"),
        (data[:8] + b"\xff" + data[9:], "no text"),
        (data[:8] + b"!" + data[9:], "no JSON"),
        ((2).to_bytes(8, "little") + b"[]", "no JSON object"),
        ((60000).to_bytes(8, "little") + b"[" * 60000, "no JSON"),
        ((14).to_bytes(8, "little") + b'{"a":1, "a":2}', "twice"),
    ):
        saved.write_bytes(damaged)
        assert part in wrong("OI0811", State.load, saved), damaged[:60]


def test_every_cut_and_every_changed_byte_of_the_header(saved: Path) -> None:
    """Any file gives a state or an ArtefactError."""
    data = saved.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    for place in range(0, len(data), 7):
        saved.write_bytes(data[:place])
        wrong("OI0811", State.load, saved)
    for place in range(0, header, 3):
        saved.write_bytes(data[:place] + bytes([data[place] ^ 0x11]) + data[place + 1 :])
        try:
            State.load(saved)
        except oi.ArtefactError:
            continue
