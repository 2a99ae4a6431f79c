"""What an executor says when there is nothing to give: the simulator and compiled code alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

F32 = np.float32


def both(text: str, **options: Any) -> list[oi.Executor]:
    graph = oi.graph(text)
    return [make(graph).make_executor(**options) for make in (oi.Simulator, oi.compile)]


def code_of(error: oi.OpenInferError) -> str:
    return error.code


def said(executor: oi.Executor, name: str) -> Any:
    """The value of a variable as a list, or the code and message of the error."""
    try:
        return np.asarray(executor.fetch(name)).tolist()
    except oi.InputError as error:
        return code_of(error), error.message


# Sizes that change


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("cache.write x >> h;", "h: f32[N] is [4] in this step, but holds values for [2]"),
        ("cache.write x >> K[0];", "K: f32[N] is [4] in this step, but holds values for [2]"),
        ("assign a: f32[_]; cache.read A[1] >> a;", "A: f32[2*N] is [8] in this step"),
        ("assign a: f32[_]; cache.read C[0, 1] >> a;", "C: f32[N] is [4] in this step"),
    ],
)
def test_the_message_of_another_size(body: str, message: str) -> None:
    text = f"""dynamic {{ x: f32[N]; }}
        persistent {{ h: f32[N]; K(i): f32[N] @table; A(i): f32[2*N] @auto_dim(i);
                      C(l, i): f32[N] @table @auto_dim(i); }}
        block entry {{ {body} return; }}"""
    found: list[str] = []
    for executor in both(text):
        executor.run(x=np.ones(2, F32))
        with pytest.raises(oi.StepError) as caught:
            executor.run(x=np.ones(4, F32))
        assert code_of(caught.value) == "OI0608"
        found.append(caught.value.message)
    assert found[0] == found[1]
    assert message in found[0]


# Fetching

MANY = """dynamic { x: f32[N]; }
    persistent { C(l, i): f32[N] @table @auto_dim(i); K(i): f32[2*N] @table @init(3); }
    volatile { z: f32[N]; y: f32[2] @init(4); o: f32[_]; }
    block entry {
      assign a: f32[_]; cache.read C[1, 2] >> a;
      assign b: f32[_]; cache.read K[1] >> b;
      op fill(y, value=5) >> y;
      assign t: f32[N]; op relu(x) >> t;
      return t, y;
    }"""


def test_matrices_of_different_shapes() -> None:
    for executor in both(MANY):
        executor.run(x=np.ones(2, F32))
        assert said(executor, "C[1]") == [0] * 4
        assert said(executor, "C")[0] == "OI0548"


def test_a_snapshot_says_shapes_that_only_a_step_knows() -> None:
    first = both(MANY)
    for executor in first:
        executor.run(x=np.ones(2, F32))
    for saved in [executor.snapshot() for executor in first]:
        results: list[dict[str, Any]] = []
        for executor in both(MANY):
            executor.restore(saved)
            names = ("C", "C[0]", "C[1]", "C[2]", "K", "K[0]", "K[1]", "K[5]", "z", "y", "o", "t")
            results.append({name: said(executor, name) for name in names})
            assert executor.snapshot() == saved
        for name, value in results[0].items():
            other = results[1][name]
            assert other == value or (value[0] == other[0] == "OI0547"), name
        assert results[0]["C[1]"] == [0] * 4
        assert results[0]["K[1]"] == [3] * 4
        assert results[0]["K"] == [[3] * 4] * 2


def test_before_a_step_values_are_what_it_would_start_from() -> None:
    results = [
        {name: said(executor, name) for name in ("y", "z", "o", "t", "C", "K")}
        for executor in both(MANY)
    ]
    assert results[0] == results[1]
    assert results[0]["y"] == [4, 4]
    assert {name: value[0] for name, value in results[0].items() if name != "y"} == {
        "z": "OI0508", "o": "OI0506", "t": "OI0506", "C": "OI0508", "K": "OI0508",
    }  # fmt: skip


# Indices of u64

HUGE = [
    ("op gather(t, j) >> z;", "OI0601"),
    ("cache.write v >> K[i];", "OI0611"),
    ("cache.write v >> G[i];", "OI0611"),
    ("cache.read G[0..i] >> o;", "OI0611"),
    ("cache.read A[i] >> o;", "OI0611"),
    ("op slice(x, starts=[0], stops=[i]) >> o;", "OI0611"),
    ("op slice(x, starts=[i], stops=[i]) >> o;", "OI0611"),
    ("assign q: f32[i]; op fill(q, value=1) >> q; op relu(q) >> o;", "OI0611"),
]


@pytest.mark.parametrize("index", [2**63, 2**64 - 1])
@pytest.mark.parametrize(("body", "code"), HUGE)
def test_indices_beyond_63_bits(body: str, code: str, index: int) -> None:
    text = f"""dynamic {{ t: f32[4, 2]; x: f32[3]; v: f32; i: u64; j: u64[2]; }}
        persistent {{ K(i): f32 @table @fixed(i=4); G(i): f32 @table; A(i): f32[3] @auto_dim(i);
                      n: i64; }}
        volatile {{ z: f32[2, 2]; o: f32[_]; }}
        block entry {{ cache.increment n; {body} return; }}"""
    given = {
        "t": np.ones((4, 2), F32), "x": np.ones(3, F32), "v": F32(1),
        "i": np.array(index, np.uint64), "j": np.array([1, index], np.uint64),
    }  # fmt: skip
    for executor in both(text):
        with pytest.raises(oi.StepError) as caught:
            executor.run(**given)
        assert code_of(caught.value) == code
        assert executor.fetch("n") == 0


# Entries without bytes


def test_entries_without_bytes_count_as_one() -> None:
    text = """dynamic { x: f32[N]; i: i64; } persistent { K(i): f32[N] @table; }
        block entry { cache.write x >> K[i]; return; }"""
    for executor in both(text, max_state_bytes=1000):
        executor.run(x=np.ones(0, F32), i=900)
        with pytest.raises(oi.StepError) as caught:
            executor.run(x=np.ones(0, F32), i=1_000_000)
        assert code_of(caught.value) == "OI0609"
        assert executor.fetch("K").shape == (901, 0)


# What only the simulator runs says what to write instead


@pytest.mark.parametrize(
    ("text", "code", "shown", "hint"),
    [
        (
            "dynamic { n: i64; x: f32[n + 1]; } volatile { z: f32; } "
            "block entry { op sum_axis(x, axes=[0]) >> z; return; }",
            "OI0719", "names the scalar variable n", "name a size of its own",
        ),
    ],
)  # fmt: skip
def test_refusals_of_compiled_programs(text: str, code: str, shown: str, hint: str) -> None:
    graph = oi.graph(text)
    oi.Simulator(graph)
    with pytest.raises(oi.ProgramError) as caught:
        oi.compile(graph)
    (problem,) = caught.value.diagnostics
    assert problem.code == code
    assert problem.message.endswith(shown) or shown in problem.message
    assert "n.0" not in problem.message
    assert problem.hint is not None
    assert hint in problem.hint
