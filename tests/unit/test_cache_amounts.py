"""`cache.increment` and `cache.decrement` by sizes, scalars and expressions."""

from __future__ import annotations

import numpy as np
import pytest
from both_executors import agree, tensor

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program

PROGRAM = """\
dynamic {
    x: f32[T];
    k: i32;
}

persistent {
    step: i64 @init(10);
    f: f16;
    u: u8;
}

block entry {
    cache.increment T step;
    cache.decrement T + k - 1 f;
    cache.increment (1 - k) u;
    cache.increment k step;
    cache.decrement 300 u;
    cache.increment step step;
    return step, f, u;
}
"""


def test_amounts_are_evaluated_where_they_stand() -> None:
    for make in (oi.Simulator, oi.compile):
        with make(PROGRAM).make_executor() as executor:
            for wanted in ((30, -4, 211), (70, -8, 166)):
                found = executor.run(x=np.zeros(3, np.float32), k=np.int32(2))
                assert [float(np.asarray(found[name])) for name in ("step", "f", "u")] == [*wanted]


def test_executors_agree_also_where_amounts_are_negative() -> None:
    steps = [
        {"x": tensor("f32", [n], [0.0] * n), "k": tensor("i32", [], [k])}
        for n, k in ((3, 2), (0, -7), (5, 100))
    ]
    agree(PROGRAM, steps)


def test_the_device_counts_by_sizes(everything_on_vulkan: None) -> None:
    with oi.compile(PROGRAM, device="vulkan").make_executor() as executor:
        found = executor.run(x=np.zeros(3, np.float32), k=np.int32(2))
    assert int(np.asarray(found["step"])) == 30


def test_text_and_json_keep_amounts() -> None:
    module = parse_program(PROGRAM)
    assert print_program(module) == PROGRAM.replace("(1 - k) u", "(-k + 1) u")
    text = oi.graph(PROGRAM).to_json()
    assert '"amount": "T + k - 1"' in text
    assert print_program(oi.graph_json(text).module) == print_program(module)


def test_events_say_the_amount() -> None:
    for made in (oi.Simulator(PROGRAM).make_executor(), oi.compile(PROGRAM).make_executor()):
        with made as executor:
            executor.insert(x=np.zeros(3, np.float32), k=np.int32(2))
            events = [node.event for node in executor.iterate()]
        kinds = [e.kind for e in events if e.kind.startswith("Cache")]
        assert kinds.count("CacheDecrement") == 2
        assert any(e.description == "cache.decrement T + k - 1 f" for e in events)


def test_the_builder_counts_by_sizes() -> None:
    g = oi.GraphBuilder()
    n = g.persistent("n", "i32")
    g.cache_increment(n, g.size("T") + 1)
    g.cache_increment(n, -2)
    g.cache_increment(n, "-T")
    assert "cache.increment T + 1 n;" in str(g)
    assert "cache.decrement 2 n;" in str(g)
    assert "cache.increment (-T) n;" in str(g)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("cache.increment -1 n;", "OI0110"),
        ("cache.increment n 2;", "OI0282"),
        ("cache.increment n - 1;", "OI0282"),
        ("cache.increment 2;", "OI0282"),
        ("cache.increment x n;", "OI0306"),
        ("cache.increment 0.5 n;", "OI0110"),
        ("cache.increment n\nbarrier;", "OI0111"),
        ("cache.increment n\nh = op relu(x);", "OI0111"),
    ],
)
def test_amounts_that_are_none(statement: str, code: str) -> None:
    text = (
        f"dynamic {{ x: f32[3]; }} persistent {{ n: i32; }} block entry {{ {statement} return; }}"
    )
    assert [d.code for d in parse_text(text).errors] == [code]


def test_the_variable_may_stand_on_the_next_line() -> None:
    text = "persistent { n: i32; } block entry { cache.increment 2 // two\n n; return; }"
    assert parse_text(text).errors == []
    module = parse_text(text).module
    assert module is not None
    assert "cache.increment 2 n;" in print_program(module)
