"""Indices that a Vulkan device computes, and looks at itself: errors, the state behind them, submissions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer_opt import main as optimise
from openinfer.runtime.devices.vulkan.commands import CommandPool, Recording
from openinfer.runtime.devices.vulkan.record import TO_HOST
from openinfer.runtime.devices.vulkan.residence import words_of
from openinfer.runtime.devices.vulkan.step_clock import StepClock
from openinfer.runtime.options import TIERS
from tests.unit.test_spirv_deserialize import complaint

STEP = """
dynamic {{ k: i64[N]; at: i32; u: f32[N, 4]; t: f32[9, 4]; }}
persistent {{
    rows(i): f32[4] @table; last: f32[N, 4]; half: f16[N, 4]; narrow: bf16[N, 4]; bytes: i8[N, 4];
    one: f32; n: i32;
}}
block entry {{
    assign twice: i64[N]; assign y: f32[N, 4]; assign first: f32[1, 4]; assign row: f32[4];
    assign all: f32[at + 1, 4]; assign h: f16[N, 4]; assign b: bf16[N, 4]; assign i: i8[N, 4];
    assign s: f32; assign z: f32[{shape}];
    op add(last, u) >> y;
    cache.write y >> last;
    op slice(y, start=0, stop=1) >> first; op reshape(first, shape=[4]) >> row;
    cache.write row >> rows[at];
    op cast(y, to=f16) >> h; op cast(y, to=bf16) >> b; op cast(y, to=i8) >> i;
    op sum_axis(y, axes=[0, 1]) >> s;
    cache.write h >> half; cache.write b >> narrow; cache.write i >> bytes; cache.write s >> one;
    op add(k, k) >> twice;
    op {op} >> z;
    cache.read rows[0..at + 1] >> all;
    op add(all, all) >> all;
    cache.increment n;
    return z, all;
}}
"""
OPS = {
    "gather": ("gather(t, twice)", "N, 4"),
    "scatter": ('scatter(t, twice, u, axis=0, mode="add")', "9, 4"),
    "one_hot": ("one_hot(twice, depth=9)", "N, 9"),
}
STATE = ("rows", "last", "half", "narrow", "bytes", "one", "n")


def step_of(op: str) -> str:
    text, shape = OPS[op]
    return STEP.format(op=text, shape=shape)


def inputs_of(k: Any, at: int, seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "k": k,
        "at": np.int32(at),
        "u": draw.integers(-3, 4, (len(k), 4)).astype(np.float32),
        "t": draw.integers(-3, 4, (9, 4)).astype(np.float32),
    }


def outcome(executor: Any, inputs: dict[str, Any]) -> Any:
    """The results of a step, or what its error says."""
    try:
        return {name: np.asarray(value) for name, value in executor.run(**inputs).items()}
    except oi.StepError as error:
        return str(error)


def state_of(executor: Any, names: tuple[str, ...] = STATE) -> list[Any]:
    return [np.asarray(executor.fetch(name)).astype(np.float64) for name in names]


def same(found: Any, wanted: Any) -> None:
    """Two outcomes, or two states."""
    if isinstance(wanted, str):
        assert found == wanted
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, name)
    else:
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def first_words(said: str) -> str:
    """What the simulator says, too: it goes on with the axis."""
    return said.splitlines()[0]


@pytest.mark.parametrize(
    ("op", "count", "tier"),
    [
        ("gather", 5, "subgroup"),
        ("gather", 700, "subgroup"),
        ("gather", 700, "scalar"),
        ("scatter", 5, "scalar"),
        ("scatter", 700, "subgroup"),
        ("one_hot", 5, "subgroup"),
    ],
)
def test_an_index_outside_fails_the_step_at_its_end(
    op: str,
    count: int,
    tier: str,
    everything_on_vulkan: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First, last or in the middle, alone or before others: state, code and text are those of the CPU; the
    state is that of the simulator."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    text = step_of(op)
    there: Any = oi.compile(text, device="vulkan").make_executor()
    here: Any = oi.compile(text).make_executor()
    simulated: Any = oi.Simulator(text).make_executor()
    wrong: dict[int, dict[int, int]] = {
        1: {0: 5}, 2: {count // 2: -1}, 4: {count - 1: 2**40}, 5: {3: 7, 4: 5}, 7: {1: 2**62, 2: -9},
    }  # fmt: skip
    for number in range(9):
        k = np.arange(count) % 5
        for place, value in wrong.get(number, {}).items():
            k[place] = value
        inputs = inputs_of(k, number, number)
        found = outcome(there, inputs)
        assert isinstance(found, str) == (number in wrong)
        same(found, outcome(here, inputs))
        said = outcome(simulated, inputs)
        if isinstance(found, str):
            assert first_words(said).startswith(first_words(found))
        else:
            same(found, said)
        same(state_of(there), state_of(here))
        same(state_of(there), state_of(simulated))


WIDTH = """
dynamic { t: f32[9, 4]; k: %s[N]; }
block entry {
    assign d: %s[N]; assign y: f32[N, 4];
    op add(k, k) >> d; op gather(t, d) >> y;
    return y;
}
"""


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u32", "u64"])
def test_indices_of_every_width(dtype: str, everything_on_vulkan: None) -> None:
    """Those without a sign, and those whose lower bits would be inside."""
    text = WIDTH % (dtype, dtype)
    there: Any = oi.compile(text, device="vulkan").make_executor()
    here: Any = oi.compile(text).make_executor()
    kind = np.dtype(dtype.replace("i", "int").replace("u", "uint"))
    bits = kind.itemsize * 8
    for value in (4, 5, 2 ** (bits - 2), 2 ** (bits - 1) - 1, 4):
        inputs = {"t": np.ones((9, 4), np.float32), "k": np.array([0, value, value], kind)}
        found = outcome(there, inputs)
        assert isinstance(found, str) == (value > 4)
        same(found, outcome(here, inputs))


# What is asked of the device

NEXT = """
dynamic { noise: f32[1, 40]; }
constant { table: f32[%d, 64] @init(0.5); w: f32[64, 40] @init(0.25); }
persistent { token: i64[1]; }
block entry {
    assign e: f32[1, 64]; assign s: f32[1, 40]; assign best: i64[1];
    op gather(table, token) >> e;
    op matmul(e, w) >> s; op add(s, noise) >> s;
    op argmax_axis(s, axis=1) >> best;
    cache.write best >> token;
    return best;
}
"""


def test_a_token_that_the_device_chose_stays_there(everything_on_vulkan: None) -> None:
    """One submission a step; the host sees results and the record of errors, and no index that is read."""
    text = NEXT % 20
    program = oi.compile(text, device="vulkan", fallback=False)
    fetched = [row.buffers for row in program.manifest.calls if row.kernel == TO_HOST]
    assert fetched == [["token"], ["device_errors"]]
    assert next(row for row in program.manifest.states if row.name == "token").device
    wanted: Any = oi.Simulator(text).make_executor()
    draw = np.random.default_rng(3)
    with StepClock() as clock, program.make_executor() as found:
        for number in range(8):
            noise = draw.standard_normal((1, 40)).astype(np.float32)
            noise[0, 20:] -= 100 * (number != 4)
            noise[0, 33] += 200 * (number == 4)
            # What is chosen in step 4 has no row: the step behind it fails, and again, and changes nothing.
            if number > 4:
                for executor in (found, wanted):
                    with pytest.raises(oi.StepError, match=r"index 33 .* is outside 0\.\.20"):
                        executor.run(noise=noise)
            else:
                same(found.run(noise=noise), wanted.run(noise=noise))
                assert clock.submissions == 1
            same(state_of(found, ("token",)), state_of(wanted, ("token",)))


def test_indices_of_the_host_stay_with_it(everything_on_vulkan: None) -> None:
    text = """
dynamic { t: f32[9, 4]; k: i64[M]; }
block entry { assign y: f32[M, 4]; op gather(t, k) >> y; return y; }
"""
    program = oi.compile(text, device="vulkan", fallback=False)
    assert [row.kernel for row in program.manifest.calls if "check" in row.kernel] == []
    moved = [name for row in program.manifest.calls for name in row.buffers]
    assert "device_errors" not in moved


# Several errors in one step

SEVERAL = """
dynamic {{ t: f32[9, 4]; a: i64[M]; b: i64[M]; c: i64[M]; p: i32; }}
persistent {{ rows(i): f32[4] @table; }}
block entry {{
    assign d: i64[M]; assign e: i64[M]; assign u: f32[M, 4]; assign v: f32[M, 4]; assign w: f32[M, 4];
    assign row: f32[4];
    op add(a, a) >> d; op add(b, b) >> e;
    {ops}
    return u, v, w;
}}
"""
THERE, HERE, LATER = "op gather(t, d) >> u;", "op gather(t, c) >> v;", "op gather(t, e) >> w;"
LEAVES = "op fill(row, value=1) >> row; cache.read rows[p] >> row; cache.write row >> rows[0];"
GROWS = "op fill(row, value=1) >> row; cache.write row >> rows[p];"


@pytest.mark.parametrize(
    "ops",
    [
        (THERE, HERE, LATER),
        (HERE, LATER, THERE),
        (LATER, THERE, HERE),
        (LEAVES, THERE, HERE, LATER),
        (THERE, LEAVES, HERE, LATER),
        (THERE, GROWS, LATER, HERE),
        (GROWS, THERE, HERE, LATER, LEAVES),
    ],
)
def test_the_first_in_call_order_is_reported(
    ops: tuple[str, ...], everything_on_vulkan: None
) -> None:
    """Of the device, of the host, and where the host leaves the step, or asks for memory, before it looks."""
    text = SEVERAL.format(ops=" ".join(ops))
    there: Any = oi.compile(text, device="vulkan").make_executor()
    here: Any = oi.compile(text).make_executor()
    draw = np.random.default_rng(len(ops))
    failed = 0
    for number in range(40):
        at = number * 50 if draw.random() < 0.5 else -1 if draw.random() < 0.5 else 0
        inputs: dict[str, Any] = {"t": np.ones((9, 4), np.float32), "p": np.int32(at)}
        for name in "abc":
            inputs[name] = np.arange(6) % 4
            if draw.random() < 0.4:
                inputs[name][draw.integers(0, 6)] = draw.integers(9, 99)
        found = outcome(there, inputs)
        failed += isinstance(found, str)
        same(found, outcome(here, inputs))
        same(state_of(there, ("rows",)), state_of(here, ("rows",)))
    assert 5 < failed < 40


FLOW = """
dynamic { t: f32[9, 4]; x: f32[6, 12]; go: bool; }
persistent { n: i64[6]; sum: f32[6, 4]; }
volatile { y: f32[6, 4]; }
block entry {
    assign k: i64[6]; assign m: i64[6]; assign z: f32[6, 4];
    op argmax_axis(x, axis=1) >> k;
    op add(n, k) >> m;
    branch go some none;
    loop turns (l in 0..3) {
        op gather(t, k) >> z;
        op add(y, z) >> y;
        op add(k, k) >> k;
    }
    op add(sum, y) >> y;
    cache.write y >> sum;
    cache.write m >> n;
    return y;
}
block some { assign k: i64[6]; op argmax_axis(x, axis=1) >> k; op gather(t, k) >> y; return; }
block none { return; }
"""


def test_branches_and_loops(everything_on_vulkan: None) -> None:
    there: Any = oi.compile(FLOW, device="vulkan").make_executor()
    here: Any = oi.compile(FLOW).make_executor()
    draw = np.random.default_rng(5)
    failed = 0
    for number in range(30):
        x = draw.random((6, 12)).astype(np.float32)
        # An index of 3 and more doubles beyond the table in a later turn.
        x[:, 3 if number % 3 else 9 if number % 2 else 12 :] = -1
        inputs = {
            "t": draw.random((9, 4)).astype(np.float32), "x": x, "go": np.bool_(number % 4 == 0),
        }  # fmt: skip
        found = outcome(there, inputs)
        failed += isinstance(found, str)
        same(found, outcome(here, inputs))
        same(state_of(there, ("n", "sum")), state_of(here, ("n", "sum")))
    assert 3 < failed < 20


HISTORY = """
dynamic { x: f32[2, 12]; t: f32[7, 4]; at: i32; p: i4[6]; }
persistent { ids(i): i64[2] @table; m(i, j): i32[2] @table; }
block entry {
    assign k: i64[2]; assign all: i64[at + 1, 2]; assign y: f32[at + 1, 2, 4]; assign c: i32[2];
    assign column: i32[at + 1, 2]; assign z: f32[at + 1, 2, 4]; assign q: i4[6]; assign w: f32[6, 4];
    op add(p, p) >> q; op gather(t, q) >> w;
    op argmax_axis(x, axis=1) >> k; op cast(k, to=i32) >> c;
    cache.write k >> ids[at]; cache.write c >> m[at, 0];
    cache.read ids[0..at + 1] >> all; cache.read m[0..at + 1, 0] >> column;
    op gather(t, all) >> y; op gather(t, column) >> z;
    return y, z, w;
}
"""


def test_indices_in_tables_and_of_four_bits(everything_on_vulkan: None) -> None:
    """What a step that fails has appended is gone; indices are read where the table has them."""
    program = oi.compile(HISTORY, device="vulkan", fallback=False)
    fetched = [
        name for row in program.manifest.calls if row.kernel == TO_HOST for name in row.buffers
    ]
    assert sorted(fetched) == ["device_errors", "w", "y", "z"]
    there: Any = program.make_executor()
    here: Any = oi.compile(HISTORY).make_executor()
    draw = np.random.default_rng(0)
    at = 0
    for _ in range(40):
        x = draw.random((2, 12)).astype(np.float32)
        x[:, 7 if draw.random() < 0.7 else 12 :] = -1
        inputs = {
            "x": x, "t": draw.random((7, 4)).astype(np.float32), "at": np.int32(at),
            "p": draw.integers(0, 4 + (draw.random() < 0.2), 6).astype(np.int8),
        }  # fmt: skip
        found = outcome(there, inputs)
        same(found, outcome(here, inputs))
        at += isinstance(found, dict)
        if at:
            same(state_of(there, ("ids", "m")), state_of(here, ("ids", "m")))
    assert 10 < at < 35


def test_indices_are_looked_at_once(everything_on_vulkan: None) -> None:
    """For one bound, until they change; a failing step names the first node all the same."""
    text = """
dynamic { t: f32[9, 4]; u: f32[9, 2]; v: f32[8, 2]; k: i64[5]; }
block entry {
    assign d: i64[5]; assign x: f32[5, 4]; assign y: f32[5, 2]; assign z: f32[5, 2]; assign w: f32[5, 2];
    op add(k, k) >> d;
    op gather(t, d) >> x; op gather(u, d) >> y; op gather(v, d) >> z;
    op add(d, k) >> d;
    op gather(u, d) >> w;
    return x, y, z, w;
}
"""
    program = oi.compile(text, device="vulkan", fallback=False)
    asked = [row for row in program.manifest.calls if row.kernel.startswith("check_indices")]
    assert len(asked) == 3
    there: Any = program.make_executor()
    here: Any = oi.compile(text).make_executor()
    for value in range(6):
        inputs: dict[str, Any] = {
            name: np.ones(shape, np.float32)
            for name, shape in (("t", (9, 4)), ("u", (9, 2)), ("v", (8, 2)))
        }
        inputs["k"] = np.array([0, value, 0, value, 1])
        same(outcome(there, inputs), outcome(here, inputs))


CONSUMERS = """
dynamic { t: f32[4, 4]; k: i64[6]; a: i64[6]; b: i64[6]; }
volatile { p: f32[6, 4]; q: f32[6, 4]; r: f32[6, 4]; z: f32[6, 4]; }
persistent { steps: i32; highest: f32[6, 4]; }
block entry {
    assign h: i64[6]; assign i: i64[6];
    op add(k, k) >> h;
    yield h;
    op add(b, b) >> i; op gather(t, i) >> z;
    await h;
    op gather(t, h) >> r;
    cache.increment steps;
    return p, q, r, z;
}
block one { await h; assign m: i64[6]; op add(h, a) >> m; op gather(t, m) >> p; yield h; }
block two {
    await h;
    assign n: i64[6]; assign o: f32[6, 4];
    op sub(h, a) >> n; op gather(t, n) >> q;
    cache.read highest >> o; op add(o, q) >> o; cache.write o >> highest;
    yield h;
}
block three { await h; assign s: f32[6, 4]; op gather(t, b) >> s; yield h; }
"""


def test_consumers_of_a_value(everything_on_vulkan: None) -> None:
    """Each has checks, of the device and of the host: the first one in the order of the text is reported."""
    there: Any = oi.compile(CONSUMERS, device="vulkan").make_executor()
    here: Any = oi.compile(CONSUMERS).make_executor()
    draw = np.random.default_rng(2)
    said: set[str] = set()
    for _ in range(60):
        inputs: dict[str, Any] = {"t": draw.random((4, 4)).astype(np.float32)}
        for name in "kab":
            inputs[name] = np.zeros(6, np.int64)
            if draw.random() < 0.35:
                inputs[name][draw.integers(0, 6)] = draw.integers(1, 4)
        found = outcome(there, inputs)
        if isinstance(found, str):
            said.add(found.split(">>")[1][:2])
        same(found, outcome(here, inputs))
        same(state_of(there, ("steps", "highest")), state_of(here, ("steps", "highest")))
    assert len(said) >= 3


# Other ways to run a program


@pytest.mark.parametrize("tier", TIERS[:2])
def test_the_validator_takes_the_kernels(
    tier: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    kernels: dict[str, bytes] = {}
    for text in (step_of("gather"), NEXT % 20):
        program = oi.compile(text, device="vulkan")
        kernels |= {one.name: one.words for one in words_of(program)}
        assert any(one.startswith("check_indices") for one in kernels)
        for name, words in kernels.items():
            assert complaint(words) == "", name


def test_watched_and_traced_steps_fail_alike(everything_on_vulkan: None) -> None:
    text = step_of("gather")
    program = oi.compile(text, device="vulkan")
    good, bad = inputs_of(np.arange(5), 0), inputs_of(np.array([1, 2, 5, 3, 77]), 0)
    here: Any = oi.compile(text).make_executor()
    wanted = outcome(here, bad)
    assert "index 10 at position [2]" in wanted
    same(outcome(program.make_executor(trace=True), bad), wanted)
    with program.make_executor() as executor:
        executor.insert(**bad)
        with pytest.raises(oi.StepError) as raised:
            list(executor.iterate())
        assert str(raised.value) == wanted
        same(outcome(executor, good), outcome(here, good))
        same(state_of(executor), state_of(here))


def test_a_saved_program_and_one_of_every_level(everything_on_vulkan: None, tmp_path: Path) -> None:
    text = NEXT % 20
    oi.compile(text, device="vulkan").save(tmp_path / "step.oip")
    there: Any = oi.load(tmp_path / "step.oip").make_executor()
    here: Any = oi.compile(text).make_executor()
    noise = np.zeros((1, 40), np.float32)
    noise[0, 33] = 9
    for _ in range(3):
        same(outcome(there, {"noise": noise}), outcome(here, {"noise": noise}))
    path, final = tmp_path / "step.oi", tmp_path / "final.mlir"
    path.write_text(text)
    given = ["--pipeline", "vulkan"]
    assert optimise([str(path), *given, "--dump-dir", str(tmp_path), "-o", str(final)]) == 0
    levels = sorted(tmp_path.glob("0*.mlir"))
    assert len(levels) == 7
    for level in levels:
        again = tmp_path / "again.mlir"
        start = level.stem.split("-")[1]
        assert optimise([str(level), *given, "--from", start, "-o", str(again)]) == 0
        assert again.read_text() == final.read_text(), start


@pytest.mark.parametrize("behind", [False, True])
def test_a_step_that_is_interrupted_leaves_no_error_behind(
    behind: bool, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In front of the commands of a step that fails, or behind them: the next one begins anew."""
    text = step_of("gather")
    here: Any = oi.compile(text).make_executor()
    there: Any = oi.compile(text, device="vulkan").make_executor()
    run = CommandPool.run
    stops = False

    def stopped(pool: CommandPool, recordings: list[Recording]) -> None:
        if not stops:
            return run(pool, recordings)
        if behind:
            run(pool, recordings)
        raise KeyboardInterrupt

    monkeypatch.setattr(CommandPool, "run", stopped)
    for number in range(6):
        bad = inputs_of(np.array([1, 2, 5, 3, 77]), number)
        if number % 2:
            stops = True
            with pytest.raises(KeyboardInterrupt):
                there.run(**bad)
            stops = False
        else:
            same(outcome(there, bad), outcome(here, bad))
        good = inputs_of(np.arange(5), number, number)
        same(outcome(there, good), outcome(here, good))
        same(state_of(there), state_of(here))


def test_the_layer_says_nothing(vulkan: None, tmp_path: Path) -> None:
    """Of barriers between what notes an error, what looks at it, and the host, in steps that fail, too."""
    path = tmp_path / "run.py"
    path.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.unit import test_vulkan_slots as slots\n"
        "import numpy as np, openinfer as oi\n"
        "from openinfer.lowering.linalg import choose_places\n"
        "choose_places.MOST_ELEMENTS = 0\n"
        "for op in slots.OPS:\n"
        "    there = oi.compile(slots.step_of(op), device='vulkan').make_executor()\n"
        "    for number in range(6):\n"
        "        k = np.arange(5)\n"
        "        k[number % 5] += 5 * (number % 2)\n"
        "        said = slots.outcome(there, slots.inputs_of(k, number))\n"
        "        assert isinstance(said, str) == bool(number % 2), said\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENINFER_VULKAN_VALIDATE": "sync", "OPENINFER_CACHE": "off"},
        check=False,
    )
    if "a layer is not present" in done.stdout + done.stderr:
        pytest.skip("the Khronos validation layer is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VUID" not in done.stdout + done.stderr
    assert "SYNC-" not in done.stdout + done.stderr
