"""stack, tile, roll, tril, triu: twins against PyTorch, compiled against twins, sizes of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.sizes import Size

torch = pytest.importorskip("torch")


def drawn(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def twin(op: str, *arrays: Any, **settings: Any) -> Any:
    return evaluate(op, arrays, ["f32"] * len(arrays), settings)[0]


def infer(op: str, *shapes: Sequence[Any], **settings: Any) -> str:
    spec = find(op)
    assert spec is not None
    operands = [TensorSpec.of("f32", shape) for shape in shapes]
    return str(infer_outputs(spec, operands, settings)[0])


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
def test_stack(axis: int) -> None:
    parts = [drawn(2, 3) + n for n in range(3)]
    expected = torch.stack([torch.from_numpy(p) for p in parts], axis).numpy()
    np.testing.assert_array_equal(twin("stack", *parts, axis=axis), expected)


@pytest.mark.parametrize("repeats", [(2,), (2, 1), (1, 3), (2, 1, 2), (1, 1), (0, 2)])
def test_tile(repeats: tuple[int, ...]) -> None:
    x = drawn(2, 3)
    expected = torch.tile(torch.from_numpy(x), repeats).numpy()
    np.testing.assert_array_equal(twin("tile", x, repeats=repeats), expected)


@pytest.mark.parametrize(
    ("shifts", "axes"),
    [((1,), (0,)), ((-2, 5), (1, -1)), ((7,), None), ((0,), (2,)), ((1, 2), (0, 0))],
)
def test_roll(shifts: tuple[int, ...], axes: tuple[int, ...] | None) -> None:
    x = drawn(2, 3, 4)
    expected = torch.roll(torch.from_numpy(x), shifts, axes).numpy()
    settings = {} if axes is None else {"axes": axes}
    np.testing.assert_array_equal(twin("roll", x, shifts=shifts, **settings), expected)


@pytest.mark.parametrize("diagonal", [0, 1, -1, 3, -9, 9, 2**63 - 1])
@pytest.mark.parametrize("op", ["tril", "triu"])
def test_triangles(op: str, diagonal: int) -> None:
    x = drawn(2, 4, 3)
    x[0, 0] = np.nan
    # Theirs takes no diagonal that far away.
    expected = getattr(torch, op)(torch.from_numpy(x), min(diagonal, 1000)).numpy()
    np.testing.assert_array_equal(twin(op, x, diagonal=diagonal), expected)


WRONG: list[tuple[str, list[tuple[Any, ...]], dict[str, Any], str]] = [
    ("stack", [(2, 3), (3, 2)], {}, "another shape than operand 0"),
    ("stack", [(2, 3), (2, 3)], {"axis": 3}, "axis=3 is out of range"),
    ("tile", [(2,)], {"repeats": [-1]}, "a size is 0 or more"),
    ("tile", [(2,)], {}, "needs the setting repeats"),
    ("roll", [(2, 3)], {"shifts": [1, 2]}, "name the axes"),
    ("roll", [(2, 3)], {"shifts": [1, 2], "axes": [0]}, "2 entries for 1 axes"),
    ("roll", [(2, 3)], {"shifts": [1], "axes": [2]}, "axes=2 is out of range"),
    ("tril", [(3,)], {}, "no matrix"),
]


@pytest.mark.parametrize(("op", "shapes", "settings", "message"), WRONG)
def test_refused(
    op: str, shapes: list[tuple[Any, ...]], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, *shapes, **settings)
    assert message in str(caught.value) + str(caught.value.hint)


def test_symbolic_shapes() -> None:
    assert infer("tile", ("N", 4), repeats=[Size.name("R"), 1, 2]) == "f32[R, N, 8]"
    assert infer("stack", ("N", 4), ("N", 4), axis=-1) == "f32[N, 4, 2]"


@pytest.mark.parametrize(("count", "other"), [(5, 3), (1, 1), (0, 2), (4, 0)])
def test_run_time_sizes(count: int, other: int) -> None:
    graph = oi.graph("""
    dynamic { x: f32[N, 3]; e: f32[M]; }
    block entry {
      a = op tile(x, repeats=[M, 2]); b = op roll(x, shifts=[M, -1], axes=[0, 1]);
      c = op roll(x, shifts=[-7]); d = op stack(x, x, axis=1);
      t = op tril(x, diagonal=M); u = op triu(x, diagonal=-1);
      return a, b, c, d, t, u;
    }""")
    inputs = {"x": drawn(count, 3), "e": drawn(other)}
    expected = oi.Simulator(graph).make_executor().run(**inputs)
    with oi.compile(graph).make_executor() as executor:
        found = executor.run(**inputs)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    np.testing.assert_array_equal(expected["a"], np.tile(inputs["x"], (other, 2)))
    np.testing.assert_array_equal(expected["b"], np.roll(inputs["x"], (other, -1), (0, 1)))
    np.testing.assert_array_equal(expected["t"], np.tril(inputs["x"], other))


def test_numbers_of_the_step() -> None:
    """Loop indices and variables say how far, how often, and up to which diagonal."""
    graph = oi.graph("""
    dynamic { x: f32[4, 6]; n: i32; }
    volatile { y: f32[4, 6]; z: f32[4, 6]; }
    block entry {
      op fill(z, value=0) >> z;
      transfer x >> y;
      loop steps (i in 0..3) {
        op roll(y, shifts=[i], axes=[1]) >> y;
        t = op tril(y, diagonal=i);
        op add(z, t) >> z;
      }
      w = op triu(x, diagonal=n);
      r = op tile(x, repeats=[n, 1]);
      s = op roll(x, shifts=[n - 9]);
      return y, z, w, r, s;
    }""")
    inputs = {"x": drawn(4, 6), "n": np.array(2, np.int32)}
    expected = oi.Simulator(graph).make_executor().run(**inputs)
    with oi.compile(graph).make_executor() as executor:
        found = executor.run(**inputs)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert executor.run(x=inputs["x"], n=np.array(0, np.int32))["r"].shape == (0, 6)
        with pytest.raises(oi.StepError, match="OI0603"):
            executor.run(x=inputs["x"], n=np.array(-1, np.int32))
    np.testing.assert_array_equal(expected["y"], np.roll(inputs["x"], 3, 1))
    np.testing.assert_array_equal(expected["s"], np.roll(inputs["x"], -7))
