"""Families of which a package has few members, far from each other: what is listed stays small."""

from __future__ import annotations

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from tests.unit import gguf_files


@contextmanager
def little_memory() -> Generator[None]:
    """So that a list of all places is an error of its test, and not the end of all tests."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def three_layers(folder: Path, last: int) -> Path:
    """A small file with the tensors of layers 0 and 1, and of a last one."""
    names = [f"blk.{n}.attn_norm.weight" for n in (0, 1, last)]
    tensors = [gguf_files.tensor(name, (4,), 0, 32 * n) for n, name in enumerate(names)]
    data = b"".join(np.full(4, n + 1, np.float32).tobytes() + bytes(16) for n in range(3))
    return gguf_files.write(folder / "layers.gguf", [], tensors, data)


TEXT = """
dynamic { x: f32[4]; }
constant { norm(l): f32[4] @pattern("blk.{l}.attn_norm.weight"); }
block entry { h = op mul(x, norm[0]); h = op mul(h, norm[1]); return h; }
"""


@pytest.mark.parametrize("last", [1 << 16, 999_999_999])
@pytest.mark.parametrize("declared", ["f32[4]", "f32[D]", "_"])
@pytest.mark.parametrize("make", [oi.Simulator, oi.compile])
def test_a_tensor_far_behind_the_others_is_refused(
    tmp_path: Path, last: int, declared: str, make: type[oi.Simulator]
) -> None:
    text = TEXT.replace("norm(l): f32[4]", f"norm(l): {declared}")
    with oi.open_model(three_layers(tmp_path, last)) as model, little_memory():
        with pytest.raises(oi.ProgramError) as caught:
            make(text, model)
    (found,) = caught.value.diagnostics
    assert found.code == "OI0327"
    assert found.location is not None
    assert found.location.line == 3
    assert f"3 of the {last + 1} members of norm for l in 0..{last + 1}" in found.message
    assert f"'blk.{last}.attn_norm.weight' reaches farthest" in found.message
    assert found.hint is not None


def test_places_of_several_indices_are_counted_together() -> None:
    text = TEXT.replace("norm(l)", "norm(l, m)").replace("blk.{l}", "blk.{l}.{m}")
    text = text.replace("norm[0]", "norm[0, 0]").replace("norm[1]", "norm[1, 1]")
    one = np.ones(4, np.float32)
    for count, refused in ((256, False), (300, True)):
        model = {f"blk.{n}.{n}.attn_norm.weight": one for n in range(count)}
        for make in (oi.Simulator, oi.compile):
            if not refused:
                make(text, model)
                continue
            with pytest.raises(oi.ProgramError, match=r"OI0327.* 300 of the 90000 members"):
                make(text, model)


def test_a_tensor_at_some_distance_is_read(tmp_path: Path) -> None:
    text = TEXT.replace("norm[1]", "norm[900]")
    for make in (oi.Simulator, oi.compile):
        with oi.open_model(three_layers(tmp_path, 900)) as model:
            found = make(text, model).make_executor().run(x=np.ones(4, np.float32))["h"]
        np.testing.assert_array_equal(np.asarray(found), np.full(4, 3, np.float32))


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ("l in 3..1000000000000) { h = op mul(h, norm[l]);", "l = 999999999999 but the model has"),
        (
            "l in 0..1000000000000) { h = op mul(h, norm[l / 300000000000]);",
            "1000000000000 turns of the loops are too many",
        ),
    ],
)
def test_turns_of_a_long_loop_are_not_tried(loop: str, said: str) -> None:
    model = {f"blk.{n}.attn_norm.weight": np.ones(4, np.float32) for n in (0, 1, 3)}
    text = TEXT.replace("return", f"loop layers ({loop} }} return")
    with little_memory(), pytest.raises(oi.ProgramError, match="OI0327") as caught:
        oi.compile(text, model)
    assert said in str(caught.value)


SWINGING = """
dynamic { x: f32[4]; }
constant { W(l): f32[4] @pattern("w.{l}"); }
block entry { h = op mul(x, 1.0); loop l (l in 0..5) { h = op mul(h, W[INDEX]); } return h; }
"""


@pytest.mark.parametrize(
    ("index", "turns"),
    [
        ("l - l / 2 * 2", [0, 1, 0, 1, 0]),
        ("l * l - 4 * l + 4", [4, 1, 0, 1, 4]),
        ("2 - l / 3 - l / 4 + l / 2", [2, 2, 3, 2, 2]),
    ],
)
def test_an_index_that_swings_in_its_loop_is_checked_at_each_turn(
    index: str, turns: list[int]
) -> None:
    """At both ends it is smaller than between them, or larger."""
    text = SWINGING.replace("INDEX", index)
    weights = {f"w.{n}": np.full(4, n + 2, np.float32) for n in range(max(turns) + 1)}
    x = np.ones(4, np.float32)
    expected = np.full(4, np.prod([float(turn + 2) for turn in turns]), np.float32)
    for make in (oi.Simulator, oi.compile):
        np.testing.assert_array_equal(make(text, weights).make_executor().run(x=x)["h"], expected)
    del weights[f"w.{max(turns)}"]
    with pytest.raises(oi.ProgramError, match="OI0327"):
        oi.compile(text, weights)
