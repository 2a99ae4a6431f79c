"""Sizes that a program defines: where they may stand, what they stand for, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program
from openinfer.compiler.frontend.layout import formatted
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.sizes import Size, equal_if_exact

PROGRAM = """\
size heads = 4;
size head = D/heads;
size half = B/2;

dynamic {
    x: f32[B, D];
}

persistent {
    K(t): f32[head] @table @fixed(t=heads);
}

volatile {
    parts: f32[half, 2, D];
}

block entry {
    assign h: f32[B, 4, D/4];
    op reshape(x, shape=[B, heads, head]) >> h;
    assign first: f32[head];
    op slice(x, axes=[0, 1], starts=[0, 0], stops=[1, head]) >> first2;
    op reshape(first2, shape=[head]) >> first;
    op reshape(x, shape=[half, 2, D]) >> parts;
    loop each (i in 0..heads) {
        cache.write first >> K[i];
    }
    op clamp(h, max=heads) >> h;
    assign all: f32[heads, head];
    cache.read K[] >> all;
    return h, all;
}
""".replace("    op slice(", "    assign first2: f32[1, head];\n    op slice(")
EXECUTORS = ("simulator", "cpu")
X = np.arange(48, dtype=np.float32).reshape(4, 12)


def make(
    executor: str, text: str, sizes: dict[str, int] | None = None, model: object = None
) -> BaseExecutor:
    if executor == "simulator":
        return oi.Simulator(text, model, sizes=sizes).make_executor()  # pyright: ignore[reportArgumentType]
    return oi.compile(text, model, sizes=sizes).make_executor()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("sizes", [None, {"D": 12}, {"D": 12, "heads": 4}, {"B": 4, "half": 2}])
def test_sizes_stand_everywhere(executor: str, sizes: dict[str, int] | None) -> None:
    with make(executor, PROGRAM, sizes) as made:
        found = made.run(x=X)
        assert np.array_equal(found["h"], np.minimum(X.reshape(4, 4, 3), 4))
        assert np.array_equal(found["all"], np.tile(X[0, :3], (4, 1)))
        assert np.array_equal(made.fetch("parts"), X.reshape(2, 2, 12))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_step_with_a_remainder_fails_and_the_next_one_runs(executor: str) -> None:
    with make(executor, PROGRAM) as made:
        for wrong in (X[:3], X[:, :10]):
            with pytest.raises(oi.StepError, match=r"OI0603.*remainder"):
                made.run(x=wrong)
        assert made.run(x=X)["all"].shape == (4, 3)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"D": 10}, "OI0288.*D/4 = 10 / 4 leaves a remainder"),
        ({"B": 3}, "OI0288.*`half`: B/2 = 3 / 2 leaves a remainder"),
        ({"heads": 3}, "OI0287.*`heads` is 4 in the program, but 3 was given"),
        ({"D": 12, "head": 4}, r"OI0287.*`head` is D/4 = 3 in the program, but 4 was given"),
        ({"half": 2}, r"OI0287.*`half` is B/2 in the program, but 2 was given"),
    ],
)
def test_sizes_that_contradict(executor: str, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(oi.ProgramError, match=message):
        make(executor, PROGRAM, sizes)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_model_has_a_size_of_the_name(executor: str, tmp_path: Path) -> None:
    for heads, fits in ((4, True), (8, False)):
        path = tmp_path / f"{heads}.oinf"
        oi.write_oinf({"heads": heads}, path)
        package = oi.open_model(path)
        if fits:
            with make(executor, PROGRAM, None, package) as made:
                assert made.run(x=X)["all"].shape == (4, 3)
            continue
        with pytest.raises(
            oi.ProgramError, match=r"OI0287.*is 4 in the program, but 8 in the model"
        ):
            make(executor, PROGRAM, None, package)


def test_text_and_json_keep_definitions() -> None:
    assert print_program(parse_program(PROGRAM)) == PROGRAM
    assert formatted(PROGRAM, "p.oi") == PROGRAM
    text = oi.graph(PROGRAM).to_json(locations=True)
    assert '"fixed": [\n        [\n          "t",\n          "heads"' in text
    assert print_program(oi.graph_json(text).module) == PROGRAM


def test_the_builder_defines_sizes() -> None:
    g = oi.GraphBuilder()
    heads = g.define_size("heads", 4)
    head = g.define_size("head", g.size("D") // heads)
    x = g.dynamic("x", "f32[B, D]")
    g.return_(g.op("reshape", x, shape=[g.size("B"), heads, head]))
    assert str(g).startswith("size heads = 4;\nsize head = D/heads;\n\ndynamic {")
    with oi.Simulator(g.graph()).make_executor() as executor:
        assert executor.run(x=X)["reshape"].shape == (4, 4, 3)
    with pytest.raises(oi.InputError, match=r"OI0533.*the name heads is taken"):
        g.define_size("heads", 3)


def test_types_follow_from_definitions_without_a_model() -> None:
    text = PROGRAM.replace("    assign h: f32[B, 4, D/4];\n    op reshape(x, shape=[B, heads, head]) >> h;\n",
                           "    h = op reshape(x, shape=[B, heads, head]);\n")  # fmt: skip
    assert "assign h: f32[B, 4, D/4];" in print_program(parse_program(text))


def test_chains_of_definitions_stay_small() -> None:
    lines = ["size s0 = (a + b)*(c + d);"]
    lines += [f"size s{n} = s{n - 1}*s{n - 1};" for n in range(1, 30)]
    found = parse_text("\n".join([*lines, "block entry { return; }"]))
    assert {d.code for d in found.errors} == {"OI0121"}


def test_equal_if_divisions_come_out_even() -> None:
    for left, right, equal in [
        ("heads*(D/heads)", "D", True),
        ("B*(D/h)*h*(E/(D/h))", "B*h*E", True),
        ("2*(B/2)*(B/2)*2", "B*B", True),
        ("heads*(D/heads) + 1", "D", False),
        ("(D/3)*2", "D", False),
        ("D/heads", "D/groups", False),
    ]:
        assert equal_if_exact(Size.of(left), Size.of(right)) is equal, (left, right)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_reshape_takes_a_division_on_trust(executor: str) -> None:
    text = """dynamic { x: f32[B, L, hidden]; n: f32[heads]; }
block entry {
    h = op reshape(x, shape=[B, L, heads, hidden/heads]);
    h = op mul(h, 2);
    y = op reshape(h, shape=[B, L, hidden]);
    return h, y;
}
"""
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 12)
    with make(executor, text) as made:
        found = made.run(x=x, n=np.zeros(3, np.float32))
        assert np.array_equal(found["h"], 2 * x.reshape(1, 2, 3, 4))
        assert np.array_equal(found["y"], 2 * x)
        with pytest.raises(oi.StepError):
            made.run(x=x, n=np.zeros(5, np.float32))
    with pytest.raises(oi.ProgramError, match=r"OI03(22|29).*24 elements.*20"):
        make(executor, text, {"B": 1, "L": 2, "hidden": 12, "heads": 5})
