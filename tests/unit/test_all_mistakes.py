"""One mistake hides no other one, whether the text alone or the model shows it; and none is told twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi

FIVE = """\
dynamic  { x: f32[4]; q: f33[4]; }
block entry {
  assign y: f32[4];
  assign z: f32[4, 2];
  op add(x, undefined_thing) >> y;
  op no_such_op(x, y) >> y;
  branch nowhere;
  op matmul(x, y) >> z;
  op add(q, y) >> z;
  op relu(undefined_thing) >> z;
  return y;
}
"""


def found(text: str, model: oi.Package | None = None, **sizes: int) -> list[tuple[str, int]]:
    """Codes and lines of all errors, which simulator and compiler must find alike."""
    answers: list[list[tuple[str, int]]] = []
    for run in (oi.Simulator, oi.compile):
        with pytest.raises(oi.ProgramError) as caught:
            run(text, model, sizes=sizes)
        errors = [d for d in caught.value.diagnostics if d.severity == "error"]
        answers.append([(d.code, d.location.line if d.location else 0) for d in errors])
    assert answers[0] == answers[1]
    return answers[0]


@pytest.fixture
def model(tmp_path: Path) -> oi.Package:
    tensors = {"W": np.zeros((4, 3), np.float32), "m": np.zeros(7, np.int32)}
    oi.write_oinf(tensors, tmp_path / "model.oinf")
    return oi.open_model(tmp_path / "model.oinf")


def test_five_kinds_of_mistakes_are_five_errors() -> None:
    expected = [("OI0301", 1), ("OI0210", 5), ("OI0214", 6), ("OI0212", 7), ("OI0322", 8)]
    assert found(FIVE) == expected
    assert found(FIVE.replace("\n", " ")) == [(code, 1) for code, _ in expected]


def test_declarations_are_held_against_the_model_beside_a_mistake_of_the_text(
    model: oi.Package,
) -> None:
    text = """\
dynamic { x: f32[4]; }
constant { W: f32[4, 2]; m: f32[7]; }
block entry { assign y: f32[2]; op matmul(x, nothing) >> y; return y; }
"""
    assert found(text, model) == [("OI0321", 2), ("OI0320", 2), ("OI0210", 3)]


def test_a_syntax_error_hides_no_shape() -> None:
    text = """\
dynamic { x: f32[4]; }
block entry {
  assign y: f32[4];
  assign z: f32[3];
  op add(x, x >> y;
  op add(x, z) >> y;
  return y;
}
"""
    assert [code for code, _ in found(text)][1:] == ["OI0322"]


def test_a_wrong_loop_hides_nothing_in_its_body() -> None:
    text = """\
dynamic { x: f32[4]; }
block entry {
  assign z: f32[3];
  loop l (i in 0..nothing) {
    op add(x, z) >> z;
  }
  return z;
}
"""
    assert ("OI0322", 5) in found(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A size that only a wrong declaration names has its source there.
        (
            "dynamic { q: f33[N]; } volatile { v: f32[N]; }\n"
            "block entry { op add(v, q) >> v; return; }",
            [("OI0301", 1)],
        ),
        # The type of `h` follows from an op that is not known, and that of `k` from `h`.
        (
            "dynamic { x: f32[4]; } volatile { v: f32[3]; }\n"
            "block entry { h = op no_such_op(x); k = op relu(h); op add(k, v) >> v; return; }",
            [("OI0214", 2)],
        ),
        # The dimensions of `t` name a variable that is wrong.
        (
            "persistent { n: f33; } volatile { v: f32[3]; }\n"
            "block entry { assign t: f32[n]; op add(t, t) >> v; return; }",
            [("OI0301", 1)],
        ),
        # The first of two blocks of one name is the one that counts.
        (
            "volatile { v: f32[3]; }\n"
            "block entry { branch a; return; } block a { op relu(v) >> v; return; }\n"
            "block a { op relu(v) >> v; return; }",
            [("OI0202", 3)],
        ),
    ],
)
def test_what_follows_from_a_mistake_is_not_told(
    text: str, expected: list[tuple[str, int]]
) -> None:
    assert found(text) == expected


def test_graph_json_has_all_mistakes_too(model: oi.Package) -> None:
    good = """\
dynamic { x: f32[2, 4]; } constant { W: f32[4, 2]; }
block entry { assign y: f32[2, 2]; op matmul(x, W) >> y; op relu(y) >> y; return y; }
"""
    text = oi.graph(good).to_json().replace('"relu"', '"no_such_op"')
    with pytest.raises(oi.ProgramError) as caught:
        oi.Simulator(oi.graph_json(text), model)
    assert [d.code for d in caught.value.diagnostics] == ["OI0321", "OI0214"]


def test_what_the_sizes_decide_is_said_beside_a_mistake_of_the_text() -> None:
    text = """\
dynamic { x: f32[8 / N]; }
block entry { assign y: f32[2]; op add(x, nothing) >> y; return y; }
"""
    assert found(text, N=0) == [("OI0305", 1), ("OI0210", 2)]
