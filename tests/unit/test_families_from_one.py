"""Families of tensors whose numbers do not begin at 0, or have gaps: `layer.1.w`, `layer.3.w`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.packages.memory import MemoryPackage
from openinfer.runtime.packages.oinf_writer import OinfContent

HEAD = """
dynamic { x: f32[2, 4]; k: i32; }
constant { w(l): f32[4, 4] @pattern("layer.{l}.w"); b(l, m): f32[4] @pattern("b.{m}.{l}"); }
block entry {
    h = op mul(x, 1.0);
"""
TENSORS = {
    **{f"layer.{n}.w": np.full((4, 4), n, np.float32) for n in (1, 2, 3)},
    **{f"b.{m}.{n}": np.full(4, 10 * m + n, np.float32) for m in (2, 3) for n in (1, 2, 3)},
}
INPUTS = {"x": np.ones((2, 4), np.float32), "k": np.int32(2)}


@pytest.fixture
def model() -> MemoryPackage:
    return MemoryPackage(OinfContent({}, {}, dict(TENSORS)))


def test_both_executors_read_the_members_that_are_there(
    model: MemoryPackage, tmp_path: Path
) -> None:
    text = HEAD + "loop a (l in 1..4) { h = op add(matmul(h, w[l]), b[l, 3]); } return h; }"
    wanted = np.ones((2, 4), np.float32)
    for n in (1, 2, 3):
        wanted = wanted @ TENSORS[f"layer.{n}.w"] + TENSORS[f"b.3.{n}"]
    program = oi.compile(text, model)
    program.save(tmp_path / "p.oip", embed_weights=True)
    for made in (oi.Simulator(text, model), program, oi.load(tmp_path / "p.oip")):
        found = made.make_executor().run(**INPUTS)["h"]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("h = op matmul(h, w[0]);", "l = 0, but the model has w for l in 1..4"),
        ("h = op matmul(h, w[4]);", "l = 4, but the model has w for l in 1..4"),
        ("h = op add(h, b[1, 1]);", "m = 1, but the model has b for m in 2..4"),
        (
            "loop a (l in 0..2) { h = op matmul(h, w[l]); }",
            "l = 0 but the model has w for l in 1..4",
        ),
        ("h = op matmul(h, w[k]);", "the model has w for l in 1..4, and only a step knows l"),
    ],
)
def test_others_are_refused(model: MemoryPackage, body: str, said: str) -> None:
    with pytest.raises(oi.ProgramError, match="OI0327") as caught:
        oi.compile(f"{HEAD}{body} return h; }}", model)
    assert said in str(caught.value)


GAPS = {
    **{f"layer.{n}.w": np.full((4, 4), n + 1, np.float32) for n in (0, 2, 4)},
    **{f"b.{m}.{n}": np.full(4, 10 * m + n, np.float32) for m, n in ((0, 0), (1, 1), (2, 2))},
}


@pytest.mark.parametrize("target", ["one file", "in memory"])
def test_members_between_may_be_missing(tmp_path: Path, target: str) -> None:
    text = HEAD + "loop a (l in 0..3) { h = op add(matmul(h, w[2*l]), b[l, l]); } return h; }"
    model = MemoryPackage(OinfContent({}, {}, dict(GAPS)))
    wanted = np.ones((2, 4), np.float32)
    for n in range(3):
        wanted = wanted @ GAPS[f"layer.{2 * n}.w"] + GAPS[f"b.{n}.{n}"]
    program = oi.compile(text, model)
    if target == "one file":
        program.save(tmp_path / "p.oip", embed_weights=True)
        program = oi.load(tmp_path / "p.oip")
    for made in (oi.Simulator(text, model), program):
        found = made.make_executor().run(**INPUTS)["h"]
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("h = op matmul(h, w[1]);", "w[1] is layer.1.w, which the model does not have"),
        (
            "loop a (l in 0..3) { h = op matmul(h, w[l]); }",
            "w[l]: l = 1 is layer.1.w, which the model does not have",
        ),
        ("h = op matmul(h, w[k]);", "the model has no layer.1.w, and only a step knows"),
        ("loop a (l in 0..2) { h = op add(h, b[0, l]); }", "l = 0, m = 1 is b.1.0, which"),
    ],
)
def test_members_that_are_missing_are_not_read(body: str, said: str) -> None:
    with pytest.raises(oi.ProgramError, match="OI0327") as caught:
        oi.compile(f"{HEAD}{body} return h; }}", GAPS)
    assert said in str(caught.value)


def test_an_index_of_the_step_counts_from_zero(model: MemoryPackage) -> None:
    text = HEAD.replace("layer.{l}.w", "layer.{l + 1}.w") + "h = op matmul(h, w[k]); return h; }"
    for made in (oi.Simulator(text, model), oi.compile(text, model)):
        found = made.make_executor().run(**INPUTS)["h"]
        np.testing.assert_array_equal(np.asarray(found), np.full((2, 4), 12, np.float32))
