"""The rule by which disturbed measurements are made again, on made-up times, and what peers tell of
their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from benchmarks import memory, processors, tables
from benchmarks.processors import Watch, missing, settle
from benchmarks.rounds import LIMITS, MISSING, Round, choose, collect, slowness, spread

PEERS = ["ours", "second", "third", "fourth"]
Factor = Callable[[str, int], float]
"""How many times as long a runtime takes the nth time that it is asked."""


class Machine:
    """Answers as workers do."""

    def __init__(self, factor: Factor, gone: Factor = lambda name, turn: 0.0) -> None:
        self.asked: list[str] = []
        self._factor = factor
        self._gone = gone

    def __call__(self, name: str) -> Mapping[str, Any]:
        turn = self.asked.count(name)
        self.asked.append(name)
        factor, gone = self._factor(name, turn), self._gone(name, turn)
        if name == LIMITS:
            return {"rates": {"fma": 1e9 / factor}, "missing": gone}
        return {"times": [1e-3 * factor] * 3, "missing": gone}


def quiet(name: str, turn: int) -> float:
    del name, turn
    return 1.0


def test_a_quiet_machine_is_asked_no_more_than_wanted() -> None:
    machine = Machine(quiet)
    found = collect(machine, PEERS, 7, PEERS, "row")
    assert (found.turns, found.dropped, found.disturbed) == (0, 0, 0)
    assert len(found.kept) == 7
    assert len(machine.asked) == 7 * 5
    rounds = [machine.asked[i : i + 5] for i in range(0, 35, 5)]
    assert all(sorted(names) == sorted([LIMITS, *PEERS]) for names in rounds)
    assert len({tuple(names) for names in rounds}) > 1


def test_a_round_that_is_slow_for_most_is_replaced() -> None:
    def slow(name: str, turn: int) -> float:
        return 1.8 if turn in (1, 4) and name != "fourth" else 1.0

    found = collect(Machine(slow), PEERS, 7, PEERS, "row")
    assert (found.turns, found.dropped, found.disturbed) == (0, 2, 0)
    assert [each.times["ours"][0] for each in found.kept] == [1e-3] * 7


@pytest.mark.parametrize("name", PEERS)
def test_a_round_that_is_slow_for_one_alone_counts(name: str) -> None:
    def slow(which: str, turn: int) -> float:
        return 2.0 if which == name and turn % 2 else 1.0

    found = collect(Machine(slow), PEERS, 7, PEERS, "row")
    assert (found.dropped, found.disturbed) == (0, 0)
    assert [each.times[name][0] for each in found.kept[:7]].count(2e-3) == 3


@pytest.mark.parametrize(
    ("name", "more"), [("ours", 4), ("second", 4), ("third", 0), ("rounding", 0)]
)
def test_times_that_spread_get_more_rounds_and_all_count(name: str, more: int) -> None:
    level = {"ours": 1.5, "second": 1.0, "third": 3.0, "rounding": 0.8}

    def factor(which: str, turn: int) -> float:
        return level.get(which, 1.0) * (1.4 if which == name and turn % 2 else 1.0)

    found = collect(Machine(factor), [*level], 7, ["ours", "second", "third"], "row")
    assert (found.dropped, found.disturbed, found.more) == (0, 0, more)
    assert len(found.kept) == 7 + more


def test_spread_is_that_of_us_and_of_the_quickest() -> None:
    rounds = [
        Round({}, {"ours": [1.0], "a": [3.0], "b": [2.0]}),
        Round({}, {"ours": [1.0], "a": [9.0], "b": [2.0, 6.0, 6.0]}),
    ]
    assert spread(rounds, ["ours", "a", "b"]) == pytest.approx(0.5)
    assert spread(rounds[:1], ["ours", "a", "b"]) == 0
    assert spread(rounds, ["ours"]) == 0
    assert spread(rounds, ["absent"]) == 0


def test_a_machine_that_stays_slow_is_given_up_and_said_so() -> None:
    def slow(name: str, turn: int) -> float:
        del name
        return 1.0 if turn == 2 else 1.5 + 0.01 * turn

    machine = Machine(slow)
    found = collect(machine, PEERS, 7, PEERS, "row")
    assert (found.dropped, found.disturbed) == (7, 6)
    assert len(machine.asked) == 2 * 7 * 5
    assert [round(each.times["ours"][0] * 1e3, 2) for each in found.kept] == [
        *(1.5, 1.51, 1.0, 1.53, 1.54, 1.55, 1.56)
    ]


def test_a_turn_without_a_core_is_made_again_at_once() -> None:
    def gone(name: str, turn: int) -> float:
        return {1: 0.9, 2: 0.3, 3: 0.5}.get(turn, 0.0) if name == "second" else MISSING / 2

    def factor(name: str, turn: int) -> float:
        return 1 + turn / 100 if name == "second" else 1.0

    machine = Machine(factor, gone)
    found = collect(machine, PEERS, 3, PEERS, "row")
    assert (found.turns, found.dropped) == (2, 0)
    assert machine.asked.count("second") == 5
    # Three tries, the one with most of its cores counts.
    assert [each.times["second"][0] for each in found.kept] == pytest.approx(
        [1e-3, 1.02e-3, 1.04e-3]
    )


def test_turns_and_rounds_share_one_budget() -> None:
    machine = Machine(quiet, lambda name, turn: 1.0)
    found = collect(machine, PEERS, 4, PEERS, "row")
    assert found.turns == 4 * 5
    assert len(machine.asked) == 2 * 4 * 5


def test_a_system_that_tells_nothing_repeats_nothing() -> None:
    def silent(name: str) -> Mapping[str, Any]:
        return {**Machine(quiet)(name), "missing": None}

    assert collect(silent, PEERS, 3, PEERS, "row").turns == 0


def test_hopeless_peers_leave_and_keep_what_they_have() -> None:
    def slow(name: str, turn: int) -> float:
        late = 1.5 if turn < 3 else 1.0
        return 100.0 if name == "fourth" else late

    machine = Machine(slow)
    found = collect(machine, PEERS, 4, PEERS, "row")
    assert machine.asked.count("fourth") == 3
    assert found.dropped == 3
    assert len(found.of("ours")) == 4
    assert len(found.of("fourth")) == 3


def test_slowness_is_the_median_against_the_quickest_round() -> None:
    rounds = [
        Round({"fma": 2.0}, {"a": [1.0, 5.0, 1.0], "b": [2.0]}),
        Round({"fma": 1.0}, {"a": [3.0], "b": [2.0]}),
        Round({"fma": 2.0}, {"b": [8.0]}),
    ]
    assert slowness(rounds) == pytest.approx([1.0, 2.0, 2.5])
    assert choose([1.0, 2.0, 1.2, 1.1, 1.4], 3) == [0, 2, 3]
    assert choose([1.0, 2.0, 1.2, 1.1, 1.4], 4) == [0, 2, 3, 4]


def test_a_core_is_missing_where_others_have_more_than_is_left_free() -> None:
    # One second on two processors, both used by two threads, half of one gone, all idle otherwise.
    assert missing(1.0, 2.0, 0.0, 2, 2) == 0
    assert missing(1.0, 1.5, 0.0, 2, 2) == pytest.approx(0.48)
    assert missing(1.0, 0.5, 1.5, 2, 2) == 0
    # One thread leaves a processor to others.
    assert missing(1.0, 1.0, 0.0, 1, 2) == 0
    assert missing(1.0, 0.5, 0.0, 1, 2) == pytest.approx(0.48)
    # What the clock of idle processors cannot resolve does not count.
    assert missing(0.001, 0.0, 0.0, 2, 2) == 0
    watch = Watch(1)
    watch.start()
    assert (watch.missing() or 0.0) >= 0


def test_what_was_repeated_is_said() -> None:
    def row(turns: int, rounds: int, disturbed: int, more: int = 0) -> dict[str, Any]:
        found = {"turns": turns, "rounds": rounds, "more": more, "disturbed": disturbed}
        return {"title": "t", "again": found}

    rows = [row(0, 0, 0), row(1, 0, 0), row(3, 2, 0, 7), row(0, 7, 6), {"title": "older"}]
    assert list(tables.again(rows)) == [
        "t: 1 turn without a core",
        "t: 2 rounds in which most were slow, 3 turns without a core, 7 rounds more for times that "
        "spread",
        "t: 7 rounds in which most were slow; 6 of the rounds that count are disturbed",
    ]


def event(used: int, delta: int, peak: int) -> dict[str, Any]:
    """As ONNX Runtime's profiler writes it."""
    found = {"mem_bytes_in_use": used, "mem_in_use_delta": delta, "mem_in_use_peak": peak}
    return {"args": {name: str(value) for name, value in found.items()}}


def test_onnx_runtimes_events_give_what_a_call_adds_to_the_weights() -> None:
    calls = [{"name": "model_run"}, event(1100, 100, 1100), event(1150, 50, 1180)]
    assert memory.of_events([*calls, event(1160, 0, 1180)]) == 180
    # Loading took more than any call: what was in use behind the nodes is all that is known.
    assert memory.of_events([event(1100, 100, 1500), event(1150, 50, 1500)]) == 150
    with pytest.raises(RuntimeError, match="says nothing about memory"):
        memory.of_events([{"args": {}}])


def test_llama_cpps_log_gives_its_buffers() -> None:
    lines = [
        "llama_kv_cache:        CPU KV buffer size =     4.50 MiB\n",
        "llama_context:        CPU  output buffer size =     0.25 MiB\n",
        "sched_reserve:        CPU compute buffer size =     1.50 MiB\n",
        "~llama_context:        CPU compute buffer size is   1.5000 MiB, matches expectation\n",
    ]
    assert memory.of_log(lines) == 1835008
    with pytest.raises(RuntimeError, match="names no buffers"):
        memory.of_log(lines[:1])


class Busy:
    """A clock, and threads of this process that work until it says `end`."""

    def __init__(self, end: float) -> None:
        self.end, self.now, self.used = end, 0.0, 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used

    def sleep(self, seconds: float) -> None:
        self.used += max(0.0, min(seconds, self.end - self.now))
        self.now += seconds


@pytest.mark.parametrize(("end", "settled"), [(0.0, 0.01), (0.15, 0.16), (9.0, 0.5)])
def test_a_turn_ends_when_its_threads_rest(
    end: float, settled: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or when they will not. Real threads would rest whenever others have the processors."""
    clock = Busy(end)
    monkeypatch.setattr(processors, "time", clock)
    settle()
    assert clock.now == pytest.approx(settled, abs=0.011)
