"""Programs built from Python: their text is the canonical one, and means what was built."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.runtime.sizes import Size


def canonical(g: oi.GraphBuilder) -> str:
    """The text, which parsing and printing leaves as it is but for the types of temporaries."""
    graph = g.graph()
    printed = print_program(graph.module)
    assert without_types(printed) == without_types(str(graph))
    assert str(graph) == str(g)
    assert print_program(oi.graph(printed).module) == printed
    return str(g)


def without_types(text: str) -> str:
    return re.sub(r"(assign \w+): .*;", r"\1: _;", text)


def test_a_short_program() -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[B, K]")
    w = g.constant("w", "f32[K, N]")
    g.return_(g.op("relu", g.op("matmul", x, w)))
    assert canonical(g) == (
        "dynamic {\n    x: f32[B, K];\n}\n\nconstant {\n    w: f32[K, N];\n}\n\n"
        "block entry {\n    assign matmul: _;\n    op matmul(x, w) >> matmul;\n"
        "    assign relu: _;\n    op relu(matmul) >> relu;\n    return relu;\n}\n"
    )
    given = {"w": np.array([[1.0, -1.0], [2.0, -3.0]], np.float32)}
    array = np.array([[1.0, 2.0]], np.float32)
    for made in (oi.compile(g.graph(), given), oi.Simulator(g.graph(), given)):
        with made.make_executor() as executor:
            assert np.asarray(executor.run(x=array)["relu"]).tolist() == [[5.0, 0.0]]


def test_every_kind_of_declaration() -> None:
    g = oi.GraphBuilder()
    g.dynamic("x", "f32[B,2*D]")
    g.volatile("y", "f32[max(B, 2), 1]")
    g.constant("W", "f8e5m2[D]", indices=["l"], pattern='w.{l}."q"', dtype="f8e4m3")
    g.constant("eps", "f32", init=1e-5, ref="norm.eps")
    g.constant("b", init=None, layout=["rows", 4])
    g.persistent("step", "i32", init=0)
    g.persistent("K", "f16[D]", indices=("l", "t"), table=True, fixed={"l": 4}, init=-np.inf)
    g.persistent("A", "f32[D, 0]", indices=["i", "j"], auto_dim=["i", "j"])
    text = canonical(g)
    for line in (
        "x: f32[B, 2*D];",
        "y: f32[max(B, 2), 1];",
        'W(l): f8[D] @pattern("w.{l}.\\"q\\"") @dtype(f8e4m3);',
        'eps: f32 @init(1e-05) @ref("norm.eps");',
        'b: _ @layout("rows", 4);',
        "step: i32 @init(0);",
        "K(l, t): f16[D] @table @fixed(l=4) @init(-inf);",
        "A(i, j): f32[D, 0] @auto_dim(i, j);",
    ):
        assert f"    {line}\n" in text


def test_settings_loops_caches_and_branches() -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[4]")
    w = g.constant("W", "f32[4]", indices=["l"], pattern="w.{l}")
    step = g.persistent("step", "i32")
    k = g.persistent("K", "f32[4]", indices=["l", "t"], table=True)
    h = g.assign("h", "f32[4]")
    total = g.assign("total", "f32[4]")
    g.transfer(x, h)
    with (
        g.scope('round "1"'),
        g.loop(0, g.size("layers"), name="layers", hints={"fuse": False}) as layer,
    ):
        g.op("add", h, w[layer], out=h)
        g.cache_write(h, k[layer, step.text])
        seen = g.cache_read(k[layer, : Size.name("step") + 1])
        g.op("sum_axis", seen, axes=[0], out=total, hints={"placement": "cpu"})
    whole = g.op("cast", total, to="f64")
    left, right = g.op("split", total, axis=0, outputs=2)
    low = g.op("clamp", left, min=-np.inf, max=np.float32(1.5))
    fine = g.op("is_finite", right, out="fine")
    g.barrier()
    g.dep("cache.read", "clamp")
    g.branch(fine, "good", "bad")
    g.cache_increment(step)
    g.return_(whole, low, total)
    with g.block("good"):
        g.op("mul", total, total, out=total)
    with g.block("bad"):
        g.cache_reset(k[0])
        g.cache_reset(k[()])
        g.cache_increment(step, -2)
    text = canonical(g)
    for line in (
        'scope "round \\"1\\"" {',
        "loop layers (i in 0..layers) with { fuse = false } {",
        "cache.write h >> K[i, step];",
        "cache.read K[i, ..step + 1] >> k;",
        'op sum_axis(k, axes=[0]) >> total with { placement = "cpu" };',
        "op cast(total, to=f64) >> cast;",
        "op split(total, axis=0) >> split, split_1;",
        "op clamp(split, min=-inf, max=1.5) >> clamp;",
        "branch fine good bad;",
        "cache.decrement 2 step;",
        "cache.reset K[];",
    ):
        assert f" {line}\n" in text, line
    assert text.count("    return;\n}") == 2
    model = {f"w.{n}": np.full(4, n + 1, np.float32) for n in range(2)}
    given: Any = {**model, "layers": 2}
    for made in (oi.compile(g.graph(), given), oi.Simulator(g.graph(), given)):
        with made.make_executor() as executor:
            found = executor.run(x=np.arange(4, dtype=np.float32))
            assert list(found) == ["cast", "clamp", "total"]
            np.testing.assert_array_equal(found["total"], (np.arange(4) + 3.0) ** 2)
            assert executor.fetch("step") == 1


def test_mistakes_of_programs_have_their_place() -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[B]")
    g.return_(g.op("rleu", x))
    with pytest.raises(oi.ProgramError, match=r"<built>:7:8: error\[OI0214\]"):
        g.graph().check()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, x: g.dynamic("x", "f32"), "the name x is taken"),
        (lambda g, x: g.dynamic("a b", "f32"), "'a b' is no name"),
        (lambda g, x: g.dynamic("a", "f32]; }"), "is no type"),
        (lambda g, x: g.dynamic("a", "f32[B;]"), "is no type"),
        (lambda g, x: g.dynamic("a", "f32[B +]"), "is no size"),
        (lambda g, x: g.constant("a", ref={1: 2}), "1 is no name"),
        (lambda g, x: g.op("mul", x, [0.5]), r"an operand is \[0.5\]"),
        (lambda g, x: g.op("relu", oi.GraphBuilder().dynamic("x", "f32")), "of another builder"),
        (lambda g, x: g.op("relu(x); op", x), "is no name"),
        (lambda g, x: g.op("relu", x, out=[]), "writes nothing"),
        (lambda g, x: g.op("cast", x, to="f32) >> y; op relu(x"), "is no name"),
        (lambda g, x: g.op("clamp", x, min=object()), "is no value of a setting"),
        (lambda g, x: x[0:2:1], "a slice with a step"),
        (lambda g, x: x[1.5], "is no size"),
        (lambda g, x: x["n]"], "is no size"),
        (lambda g, x: g.cache_increment(x, 0), "nothing to count by"),
        (lambda g, x: g.branch(x, "a"), "a branch takes"),
        (lambda g, x: g.size("3 +"), "is no size"),
        (lambda g, x: g.block("entry").__enter__(), "cannot begin here"),
    ],
)
def test_what_no_text_holds(call: Callable[[Any, Any], object], message: str) -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[B]")
    with pytest.raises(oi.InputError, match=message) as caught:
        call(g, x)
    assert caught.value.code == "OI0533"


def test_no_program_is_lost_by_a_failing_block() -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[B]")
    with pytest.raises(RuntimeError), g.loop(0, 2):
        raise RuntimeError
    g.return_(g.op("neg", x))
    assert "    op neg(x) >> neg;\n" in canonical(g)
