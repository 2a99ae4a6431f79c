"""`yield` and `await`: programs that are right, with the order of consumers forced both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program

MEMORY = """
dynamic { x: f32[B]; n: i32; }
volatile { y: f32[B]; z: f32[B]; w: f32[B]; u: f32[B]; }
persistent { p: f32[B]; c: i64; T(i): f32[B] @table; F(i): f32[B] @table @fixed(i=4);
             A(i, j): f32[B, B] @auto_dim(i, j); }
"""
READ_Y = "await y; op exp(y) >> u; yield y;"
WRITE_Y = "await y; op exp(y) >> y; yield y;"
KEEP_Y = "await y; yield y;"


def program(entry: str, **blocks: str) -> str:
    others = "".join(f"block {name} {{ {body} }}\n" for name, body in blocks.items())
    return f"{MEMORY}block entry {{ {entry} return y, z, w, u; }}\n{others}"


GOOD = {
    "one consumer": program("yield y; op relu(x) >> z; await y;", a=WRITE_Y),
    "a writer and a reader": program("yield y; await y;", a=WRITE_Y, b=READ_Y),
    "two values": program(
        "yield y, z; await y, z;",
        a="await y, z; op add(y, z) >> y; yield y, z;",
        b="await z; op neg(z) >> w; op mul(z, w) >> z; yield z;",
    ),
    "one after the other": program(
        "yield y; yield z; await y; op relu(y) >> w; await z;",
        a="await y, z; op add(y, z) >> u; yield z, y;",
        b=KEEP_Y,
    ),
    "twice": program("yield y; await y; op relu(y) >> y; yield y; await y;", a=WRITE_Y),
    "in a loop": program(
        "loop k (i in 0..n) { yield y; op add(w, x) >> w; await y; }", a=WRITE_Y, b=READ_Y
    ),
    "over a loop": program(
        "yield y; loop k (i in 0..n) { op add(w, x) >> w; } await y;", a=WRITE_Y
    ),
    "across loops": program(
        "loop k (i in 0..2) { loop m (j in i..2) { yield y; await y; } yield z; await z; }",
        a=WRITE_Y,
        b="await z; op neg(z) >> z; yield z;",
    ),
    "calls": program(
        "yield y; branch more; await y; branch more;",
        a="await y; branch change; yield y;",
        more="op add(w, x) >> w; return;",
        change="op exp(y) >> y; return;",
    ),
    "a call on a condition": program(
        "yield y; branch n more less; await y;",
        a=WRITE_Y,
        more="op add(w, x) >> w; return;",
        less="op sub(w, x) >> w; return;",
    ),
    "in a scope": program(
        'scope "s" { yield y; } scope "t" { await y; }', a='await y; scope "u" { yield y; }'
    ),
    "an input": program(
        "yield x; op relu(z) >> z; await x;", a="await x; op exp(x) >> y; yield x;"
    ),
    "caches apart": program(
        "yield y; cache.write x >> T[0]; await y;",
        a="await y; cache.increment c; cache.write y >> p; yield y;",
    ),
    "readers of a growing table": program(
        "yield y; cache.read T[0] >> w; await y;", a="await y; cache.read T[1] >> u; yield y;"
    ),
    "readers of a whole table": program(
        "assign all: f32[_, B]; yield y; cache.read T[] >> all; await y;",
        a="await y; assign own: f32[_, B]; cache.read T[..] >> own; yield y;",
    ),
    "readers of a fixed table": program(
        "assign all: f32[_, B]; yield y; cache.read F[] >> all; await y;",
        a="await y; cache.read F[1] >> u; yield y;",
    ),
    "shared inputs": program(
        "yield y; op relu(x) >> z; await y;", a="await y; op add(x, y) >> u; yield y;"
    ),
    "after the await": program(
        "yield y; await y; op relu(u) >> w; op relu(y) >> y; cache.read p >> u;",
        a="await y; op exp(y) >> u; cache.write y >> p; yield y;",
    ),
    "a return before the end": program(
        "loop k (i in 0..n) { yield y; await y; return y, z, w, u; }", a=WRITE_Y
    ),
    "own temporaries": program(
        "yield y; await y;",
        a="await y; assign s: f32[B]; op exp(y) >> s; op add(s, y) >> y; yield y;",
        b="await y; assign t: f32[B]; op neg(y) >> t; op abs(t) >> u; yield y;",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good(name: str) -> None:
    result = parse_text(GOOD[name])
    assert result.module is not None, result.render()
    assert not result.diagnostics, result.render()
    again = parse_program(print_program(result.module))
    assert again.is_structurally_equivalent(result.module)


@pytest.mark.parametrize("name", GOOD)
def test_no_order_changes_a_result(name: str) -> None:
    """The simulator's two extreme orders: consumers first, entry first."""
    simulator = oi.Simulator(GOOD[name])
    found: list[dict[str, np.ndarray]] = []
    for first in (True, False):
        executor = simulator.make_executor()
        interpreter: object = executor
        setattr(  # noqa: B010
            interpreter,
            "consumer_order",
            lambda ready, first=first: sorted(ready, key=lambda name: (name == "entry") == first)[
                0
            ],
        )
        outputs: dict[str, Any] = {}
        for _ in range(2):
            outputs = dict(executor.run(x=np.array([1, -2], np.float32), n=2))
        found.append({key: np.array(value) for key, value in outputs.items()})
    for key, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][key], err_msg=key)


def test_return_awaits_the_rest() -> None:
    text = program("yield y, z; await z; loop k (i in 0..n) { return; }", a=WRITE_Y).replace(
        "return y, z, w, u;", "return;"
    )
    result = parse_text(text)
    assert result.module is not None, result.render()
    assert {d.code for d in result.diagnostics} == {"OI0266", "OI0268"}
    printed = print_program(result.module)
    assert printed.count("await y;\n") == 3  # two in entry, one in the consumer
    again = parse_program(printed)
    assert again.is_structurally_equivalent(result.module)


BAD = {
    "entry writes": (program("yield y; op relu(x) >> y; await y;", a=KEEP_Y), "OI0249"),
    "entry reads": (program("yield y; op relu(y) >> w; await y;", a=KEEP_Y), "OI0249"),
    "entry indexes": (
        f"{MEMORY}volatile {{ k: i32; }} block entry {{ yield k; cache.write x >> T[k];"
        "await k; return; } block a { await k; yield k; }",
        "OI0249",
    ),
    "entry loops over it": (
        f"{MEMORY}volatile {{ k: i32; }} block entry {{ yield k;"
        "loop q (i in 0..k) { barrier; } await k; return; } block a { await k; yield k; }",
        "OI0249",
    ),
    "entry uses what has its size": (
        f"{MEMORY}volatile {{ k: i32; }} persistent {{ K: f32[k + 1]; }} block entry {{ yield k;"
        "cache.reset K; await k; return; } block a { await k; yield k; }",
        "OI0249",
    ),
    "a consumer writes the size of what another one uses": (
        f"{MEMORY}volatile {{ v: f32[c]; }} block entry {{ yield y, z; await y, z; return; }}"
        "block a { await y; cache.increment c; yield y; }"
        "block b { await z; op neg(v) >> v; yield z; }",
        "OI0264",
    ),
    "entry sets with it": (
        f"{MEMORY}volatile {{ f: f32; }} block entry {{ yield f; op fill(y, value=f) >> y;"
        "await f; return; } block a { await f; yield f; }",
        "OI0249",
    ),
    "entry returns it": (
        MEMORY + "block entry { yield y; return y; } block a { await y; yield y; }",
        "OI0249",
    ),
    "entry assigns it": (
        MEMORY + "block entry { assign t: f32[B]; yield t; branch b; await t; return; }"
        "block b { assign t: f32[B]; return; } block a { await t; yield t; }",
        "OI0249",
    ),
    "a call of a call": (
        program(
            "yield y; branch b; await y;",
            a=KEEP_Y,
            b="branch d; return;",
            d="op relu(y) >> w; return;",
        ),
        "OI0249",
    ),
    "twice in a loop": (program("loop k (i in 0..2) { yield y; }", a=KEEP_Y), "OI0261"),
    "next round": (
        program("yield y; loop k (i in 0..2) { await y; yield y; yield y; }", a=KEEP_Y),
        "OI0261",
    ),
    "await first": (program("await y; yield y; await y;", a=KEEP_Y), "OI0262"),
    "await in one round": (program("yield y; loop k (i in 0..2) { await y; }", a=KEEP_Y), "OI0262"),
    "two writers by a call": (
        program(
            "yield y; await y;",
            a=WRITE_Y,
            b="await y; branch d; yield y;",
            d="op relu(x) >> y; return;",
        ),
        "OI0263",
    ),
    "entry counts a cache": (
        program(
            "yield y; cache.increment c; await y;", a="await y; cache.write x >> T[c]; yield y;"
        ),
        "OI0264",
    ),
    "two consumers write a cache": (
        program(
            "yield y; await y;",
            a="await y; cache.write y >> T[0]; yield y;",
            b="await y; cache.write y >> T[1]; yield y;",
        ),
        "OI0264",
    ),
    "two matrices": (
        program(
            "assign m: f32[_, _]; yield y; cache.read A[1, 1] >> m; await y;",
            a="await y; assign o: f32[_, _]; cache.read A[2, 2] >> o; yield y;",
        ),
        "OI0264",
    ),
    "grow and measure": (
        program(
            "assign all: f32[_, B]; yield y; cache.read T[..-1] >> all; await y;",
            a="await y; cache.read T[5] >> u; yield y;",
        ),
        "OI0264",
    ),
    "a shared temporary": (
        program(
            "yield y; await y;",
            a="await y; assign t: f32[B]; op exp(y) >> t; yield y;",
            b="await y; assign t: f32[B]; op neg(y) >> t; yield y;",
        ),
        "OI0264",
    ),
    "unawaited": (
        program("yield y, z; await y, z;", a="await y; op relu(y) >> z; yield y;"),
        "OI0264",
    ),
    "never together": (
        program("yield y; await y; yield z; await z;", a="await y, z; yield y, z;"),
        "OI0265",
    ),
    "nothing is yielded": (program("barrier;", a=KEEP_Y), "OI0265"),
    "persistent": (program("yield p; await p;", a="await p; yield p;"), "OI0267"),
    "another list": (program("yield y, z; await y, z;", a="await y, z; yield y;"), "OI0269"),
    "no end": (program("yield y; await y;", a="await y; op relu(y) >> w;"), "OI0240"),
    "index of the loop": (
        program(
            "loop k (i in 0..2) { yield y; await y; }", a="await y; cache.write y >> T[i]; yield y;"
        ),
        "OI0260",
    ),
    "an unknown value": (program("yield nothing; await nothing;", a=KEEP_Y), "OI0210"),
    "a value twice": (program("yield y, y; await y;", a=KEEP_Y), "OI0246"),
    "yield in a called block": (program("branch b;", b="yield y;"), "OI0247"),
    "await in a called block": (program("branch b;", b="barrier; await y; return;"), "OI0247"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(name: str) -> None:
    text, code = BAD[name]
    result = parse_text(text)
    assert code in [d.code for d in result.errors], result.render()
    assert all(d.hint and d.location is not None for d in result.errors)


def test_deep_loops_are_quick() -> None:
    inner = "yield y; await y;"
    for depth in range(30):
        inner = f"loop k{depth} (i{depth} in 0..2) {{ {inner} }}"
    assert not parse_text(program(inner, a=KEEP_Y)).diagnostics


def test_many_consumers_are_quick() -> None:
    blocks = {f"b{number}": f"await y; op exp(y) >> o{number}; yield y;" for number in range(120)}
    memory = "".join(f"o{number}: f32[B]; " for number in range(120))
    text = f"volatile {{ {memory} }}" + program("yield y; await y;", **blocks)
    assert not parse_text(text).diagnostics
