"""Bounds of sizes, `size 1 <= L <= 512;`: read, printed, checked by every executor and by the compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import Graph
from openinfer.compiler.frontend import parse_program, print_program
from openinfer.compiler.frontend.layout import formatted
from openinfer.lowering.program.size_bounds import never_negative
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.sizes import Size

PROGRAM = """\
size half = D/2;
size 2 <= L <= 6;
size half <= most;
size 2*B <= L;

dynamic {
    x: f32[B, L, D];
}

volatile {
    y: f32[B, L, D];
}

block entry {
    op relu(x) >> y;
    return y;
}
"""
SIZES = {"most": 4}
GOOD = [(1, 2, 8), (3, 6, 2)]
BAD = [
    ((0, 1, 2), "p.oi:2:1: size `L` is 1, but `2 <= L <= 6` is declared"),
    ((1, 7, 2), "p.oi:2:1: size `L` is 7, but `2 <= L <= 6` is declared"),
    (
        (1, 2, 10),
        r"p.oi:3:1: size `half` is 5, but `half <= most` is declared \(D = 10, most = 4\)",
    ),
    ((2, 3, 2), r"p.oi:4:1: size `L` is 3, but `2\*B <= L` is declared \(B = 2\)"),
]


@pytest.fixture(scope="module")
def program() -> oi.Program:
    return oi.compile(Graph(PROGRAM, "p.oi"), sizes=SIZES)


@pytest.fixture(scope="module")
def makers(
    program: oi.Program, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Callable[[], BaseExecutor]]:
    folder = tmp_path_factory.mktemp("bounds")
    program.save(folder / "p.oip")
    graph = Graph(PROGRAM, "p.oi")
    return {
        "simulator": oi.Simulator(graph, sizes=SIZES).make_executor,
        "cpu": program.make_executor,
        "oip": oi.load(folder / "p.oip").make_executor,
        "json": oi.Simulator(oi.graph_json(graph.to_json()), sizes=SIZES).make_executor,
    }


@pytest.mark.parametrize("name", ["simulator", "cpu", "oip", "json"])
def test_steps(name: str, makers: dict[str, Callable[[], BaseExecutor]]) -> None:
    with makers[name]() as executor:
        for shape in GOOD:
            assert executor.run(x=np.ones(shape, np.float32))["y"].shape == shape
        for shape, message in BAD:
            with pytest.raises(oi.StepError, match="OI0612") as caught:
                executor.run(x=np.ones(shape, np.float32))
            if name != "json":
                assert caught.match(message)
        assert executor.run(x=np.ones(GOOD[0], np.float32))["y"].shape == GOOD[0]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"most": 4, "L": 9}, "p.oi:2:1: .*OI0612.*size `L` is 9, but `2 <= L <= 6`"),
        ({"most": 4, "D": 10}, "OI0612.*size `half` is 5"),
        ({"most": 4, "D": 8, "L": 3, "B": 1}, None),
        ({}, "OI0290.*`most` in the bound `half <= most` is no size of the model or of an input"),
    ],
)
def test_known_sizes(sizes: dict[str, int], message: str | None) -> None:
    for make in (oi.Simulator, oi.compile):
        if message is None:
            make(Graph(PROGRAM, "p.oi"), sizes=sizes)
            continue
        with pytest.raises(oi.ProgramError, match=message):
            make(Graph(PROGRAM, "p.oi"), sizes=sizes)


def test_a_model_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    oi.write_oinf({"context": 64}, path)
    text = "size context <= 32;\ndynamic { x: f32[context]; }\nblock entry { return x; }\n"
    with pytest.raises(oi.ProgramError, match=r"OI0612.*size `context` is 64"):
        oi.compile(text, oi.open_model(path))


@pytest.mark.parametrize("phase", ["graph", "linalg", "llvm"])
def test_levels_keep_bounds(phase: str, program: oi.Program) -> None:
    with oi.load_level(program.show(phase)).make_executor() as executor:
        with pytest.raises(oi.StepError, match=r"OI0612.*p\.oi:2:1: size `L` is 7"):
            executor.run(x=np.ones((1, 7, 2), np.float32))


def test_texts_keep_bounds(program: oi.Program) -> None:
    assert print_program(parse_program(PROGRAM)) == PROGRAM
    assert formatted(PROGRAM, "p.oi") == PROGRAM
    assert formatted("size 2<=L<=max(a,b) , B<=- 1+L;", "p.oi") == (
        "size 2 <= L <= max(a, b), B <= -1 + L;\n"
    )
    assert print_program(oi.graph_json(oi.graph(PROGRAM).to_json()).module) == PROGRAM
    assert "L     2 <= L <= 6, 2*B <= L  inputs" in program.summary()
    assert {row.name: row.bounds for row in program.sizes}["D"] == ("half <= most",)
    assert "L = 6" in program.summary()  # of the working memory, which 128 would overstate


def test_the_builder() -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[L, 4]")
    g.bound_size("L", 1, g.size("top") - 1)
    g.bound_size("top", most=9)
    g.return_(g.op("relu", x))
    assert str(g).startswith("size 1 <= L <= top - 1;\nsize top <= 9;\n")
    with pytest.raises(oi.InputError, match=r"OI0533.*no limit"):
        g.bound_size("L")


def test_a_bound_saves_the_check_that_it_implies() -> None:
    text = """
    {bound}
    dynamic {{ x: f32[L, 4]; }}
    constant {{ table: f32[64, 4] @init(1); }}
    block entry {{ y = op add(x, slice(table, axis=0, start=0, stop=L)); return y; }}
    """
    free, bounded = (oi.compile(text.format(bound=b)) for b in ("", "size L <= 64;"))
    assert [row.kind for row in free.manifest.requires] == ["bound"]
    assert not bounded.manifest.requires
    with bounded.make_executor() as executor:
        with pytest.raises(oi.StepError, match="OI0612"):
            executor.run(x=np.ones((65, 4), np.float32))
        found = executor.run(x=np.ones((64, 4), np.float32))["y"]
        assert np.asarray(found).min() == 2


@pytest.mark.parametrize(
    ("size", "holds"),
    [
        ("64 - L", True),
        ("63 - L", False),
        ("L - 2", True),
        ("L - 3", False),
        ("128 - 2*L + B", True),
        ("B*L", True),
        ("64 - L - B", False),
        ("B*L - 1", False),
        ("70 - B", False),
        ("1 + L/2", True),
        ("L/2 - 1", False),
    ],
)
def test_what_follows_from_bounds(size: str, holds: bool) -> None:
    assert never_negative(Size.of(size), {"L": (2, 64)}) is holds
