"""Trace files and what executors keep: fields, formats, bounds, and hostile files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.errors import Location
from openinfer.runtime.trace import KINDS, Event, EventStore, chrome_trace, plain_json, trace_json
from openinfer.runtime.trace_files import read_trace, trace_text, write_trace

PROGRAM = """\
dynamic { x: f32[B]; }
volatile { y: f32[B]; s: f32; }
block entry {
    assign t: f32[B];
    scope "tail" { op relu(x, clamp_max=inf) >> t; }
    loop twice (i in 0..2) { op sum_axis(t, axes=[0]) >> s; }
    transfer t >> y;
    return y;
}
"""
FIELDS = [
    "block_name", "node_index", "node_uuid", "kind", "params", "output", "micros", "shapes",
    "dtypes", "settings", "op", "text", "nodes", "indices", "places", "kernel", "scope", "calls",
    "location", "step", "start_ns", "lane",
]  # fmt: skip


def events_of(executor: oi.Executor) -> list[Event]:
    executor.run(x=np.arange(3, dtype=np.float32))
    return executor.trace()


@pytest.fixture(params=["simulator", "compiled"])
def executor(request: pytest.FixtureRequest) -> oi.Executor:
    graph = oi.graph(PROGRAM)
    if request.param == "simulator":
        return oi.Simulator(graph).make_executor()
    return oi.compile(graph).make_executor(1, trace=True)


def test_fields_are_filled_by_both(executor: oi.Executor) -> None:
    rows: list[dict[str, Any]] = json.loads(trace_json(events_of(executor)))
    assert all(list(row) == FIELDS for row in rows)
    assert {row["kind"] for row in rows} <= set(KINDS)
    relu = next(row for row in rows if "relu" in row["op"])
    assert relu["params"] == ["x"]
    assert "t" in relu["output"]
    assert relu["shapes"]["x"] == [3]
    assert relu["dtypes"]["x"] == "f32"
    assert "inf" in relu["settings"].values()
    assert relu["scope"] == "tail"
    assert relu["location"].startswith("<graph>:5:")
    assert len(relu["micros"]) == 3
    assert sum(row["micros"][2] for row in rows) > 0
    assert rows[0]["kind"] == "BlockEnter"
    assert rows[-1]["kind"] == "BlockExit"


def test_files_can_be_read_again(executor: oi.Executor, tmp_path: Path) -> None:
    events = events_of(executor)
    executor.save_trace(tmp_path / "t.json")
    again = read_trace((tmp_path / "t.json").read_text())
    assert [e.json() for e in again] == [e.json() for e in events]


def test_steps_are_numbered_and_reset_forgets(executor: oi.Executor) -> None:
    once = len(events_of(executor))
    events = events_of(executor)
    assert [e.step for e in events] == [0] * once + [1] * once
    executor.clear_trace()
    assert executor.trace() == []
    assert {e.step for e in events_of(executor)} == {2}
    executor.reset()
    assert executor.trace() == []
    assert {e.step for e in events_of(executor)} == {0}


def test_tracing_can_be_switched(executor: oi.Executor) -> None:
    executor.tracing = False
    assert not executor.tracing
    assert events_of(executor) == []
    executor.tracing = True
    assert {e.step for e in events_of(executor)} == {1}


def test_without_trace() -> None:
    simulator = oi.Simulator(oi.graph(PROGRAM)).make_executor(trace=False)
    assert events_of(simulator) == []
    simulator.insert(x=np.zeros(2, np.float32))
    # An iteration is asked for.
    assert len(list(simulator.iterate())) == len(simulator.trace()) > 0


def event(number: int) -> Event:
    return Event("Return", "entry", number, f"{number}")


def test_the_store_is_bounded_and_counts() -> None:
    store = EventStore(limit=3)
    for number in range(5):
        store.add(event(number))
    assert [e.node_index for e in store.events()] == [2, 3, 4]
    assert store.dropped == 2
    store.add_later(2, lambda: [event(5), event(6)])
    assert [e.node_index for e in store.events()] == [4, 5, 6]
    assert store.dropped == 4
    store.clear()
    assert (store.events(), store.dropped) == ([], 0)


def test_records_are_read_when_too_many_wait() -> None:
    store, read = EventStore(), [0]

    def records() -> list[Event]:
        read[0] += 1
        return [event(0)]

    for _ in range(4):
        store.add_later(40_000, records)
    assert read[0] == 3
    assert len(store.events()) == 4


def test_settings_become_json() -> None:
    assert plain_json((1, float("inf"), float("nan"), None, "a")) == [1, "inf", "nan", None, "a"]
    assert plain_json(oi.Location("a", 1, 2)) == "a:1:2"


def test_chrome() -> None:
    graph = oi.graph(PROGRAM)
    rows = json.loads(chrome_trace(events_of(oi.Simulator(graph).make_executor())))["traceEvents"]
    assert rows[0] | {"args": {}} == {
        "name": "entry", "cat": "BlockEnter", "ph": "B", "ts": 0.0, "pid": 1, "tid": 1, "args": {},
    }  # fmt: skip
    assert all(row["ts"] >= 0 for row in rows)
    assert [row["ph"] for row in rows if row["cat"] == "OpExecute"] == ["X"] * 3
    assert all("dur" in row for row in rows if row["ph"] == "X")
    assert json.loads(chrome_trace([])) == {"traceEvents": [], "displayTimeUnit": "ns"}


def test_unknown_format_and_path(tmp_path: Path) -> None:
    with pytest.raises(oi.InputError) as caught:
        trace_text([], "xml")
    assert caught.value.code == "OI0554"
    with pytest.raises(oi.InputError) as caught:
        write_trace([], tmp_path / "no" / "folder.json")
    assert caught.value.code == "OI0554"
    assert list(tmp_path.iterdir()) == []


# Reading.

SEVEN: dict[str, Any] = {
    "block_name": "entry", "node_index": 0, "node_uuid": "u", "kind": "OpExecute", "params": [],
    "output": [], "micros": [2, 125, 416],
}  # fmt: skip


def test_a_trace_of_the_original() -> None:
    (found,) = read_trace(json.dumps([SEVEN]))
    assert found.duration_ns == 2_125_416
    assert found.node_uuids == ("u",)
    assert found.location is None


def test_places() -> None:
    row = {**SEVEN, "location": "C:\\a.oi:3:5", "places": ["a:b:1:2"]}
    (found,) = read_trace(json.dumps([row]))
    assert found.location == Location("C:\\a.oi", 3, 5)
    assert found.places == (Location("a:b", 1, 2),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "Boom"}, '[0].kind is "Boom", not one of BlockEnter'),
        ({"kind": None}, "[0].kind is null"),
        ({"node_index": "0"}, '[0].node_index is "0", not a whole number'),
        ({"node_index": -2}, "[0].node_index is -2"),
        ({"node_index": True}, "[0].node_index is true"),
        ({"params": "x"}, '[0].params is "x", not an array of strings'),
        ({"output": [1]}, "[0].output is an array, not an array of strings"),
        ({"micros": [1, 2]}, "[0].micros is an array, not [milliseconds"),
        ({"micros": [1, 2, -3]}, "[0].micros"),
        ({"micros": [1, 2, 2**70]}, "[0].micros"),
        ({"shapes": {"x": [-1]}}, "[0].shapes is an object, not arrays"),
        ({"shapes": []}, "[0].shapes is an array, not an object"),
        ({"dtypes": {"x": 1}}, "[0].dtypes"),
        ({"location": "nowhere"}, '[0].location is "nowhere", not FILE:LINE:COLUMN'),
        ({"location": "a:b:c"}, "[0].location"),
        ({"location": "a:" + "9" * 30 + ":1"}, "[0].location"),
        ({"places": ["x"]}, "[0].places"),
        ({"indices": [None]}, "[0].indices"),
        ({"start_ns": 1.5}, "[0].start_ns is 1.5"),
        ({"lane": "left"}, '[0].lane is "left", not one of host, device'),
    ],
)
def test_bad_entries(change: dict[str, Any], message: str) -> None:
    with pytest.raises(oi.InputError) as caught:
        read_trace(json.dumps([{**SEVEN, **change}]), "t.json")
    assert caught.value.code == "OI0555"
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "is an object, not an array of events"),
        ("3", "is 3, not an array of events"),
        ("[3]", "[0] is 3, not an object"),
        ('[{"kind": "Return"}]', "[0].node_index is missing"),
        ('{"traceEvents": []}', "is a trace for Perfetto"),
    ],
)
def test_bad_files(text: str, message: str) -> None:
    with pytest.raises(oi.InputError, match=message.replace("[", r"\[")):
        read_trace(text)


def test_random_damage() -> None:
    text = trace_json(events_of(oi.Simulator(oi.graph(PROGRAM)).make_executor()))
    chance = random.Random(5)
    for _ in range(300):
        place = chance.randrange(len(text))
        damaged = text[:place] + chance.choice('{}[]",:0-x\\\n') + text[place + 1 :]
        codes: list[str] = []
        try:
            read_trace(damaged)
        except oi.InputError as error:
            codes.append(error.code)
        assert set(codes) <= {"OI0555"}
