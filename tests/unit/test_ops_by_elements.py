"""gather_elements, scatter_elements, argsort, instance_norm: against PyTorch, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Draws, by_program, by_twin, to_torch, torch_functions

import openinfer as oi
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs

DRAWS = Draws(14)
RANDOM = DRAWS.random


def indices(bound: int, *shape: int) -> Any:
    return RANDOM.integers(0, bound, shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_is_pytorchs(axis: int) -> None:
    x, at = DRAWS.normal(4, 5, 6), indices(4, 3, 2, 5)
    expected = to_torch(x).gather(axis, to_torch(at)).numpy()
    np.testing.assert_array_equal(by_twin("gather_elements", [x, at], {"axis": axis})[0], expected)
    ((simulated, compiled),) = by_program(
        "gather_elements", [x, at], {"axis": axis}, names={0: "ABC", 1: "IJK"}
    )
    np.testing.assert_array_equal(simulated, expected)
    np.testing.assert_array_equal(compiled, expected)


def test_gather_of_whole_lines_is_numpys() -> None:
    x, at = DRAWS.normal(4, 5), indices(4, 9, 5)
    (found,) = by_twin("gather_elements", [x, at])
    np.testing.assert_array_equal(found, np.take_along_axis(x, at, 0))


@pytest.mark.parametrize(
    ("how", "torchs"), [("add", "sum"), ("mul", "prod"), ("min", "amin"), ("max", "amax")]
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_is_pytorchs(axis: int, how: str, torchs: str) -> None:
    x, at = DRAWS.normal(4, 5, 6), indices(4, 3, 4, 5)
    updates = DRAWS.normal(*at.shape)
    operands = (axis, to_torch(at), to_torch(updates), torchs)
    expected = to_torch(x).scatter_reduce(*operands).numpy()
    settings = {"axis": axis, "reduction": how}
    ((simulated, compiled),) = by_program("scatter_elements", [x, at, updates], settings)
    np.testing.assert_allclose(simulated, expected, rtol=1e-12)
    np.testing.assert_array_equal(compiled, simulated)


def test_of_equal_indices_the_last_one_stays() -> None:
    x, at = np.zeros((2, 3)), np.array([[1, 1, 1, 0], [2, 2, 0, 0]])
    updates = np.arange(1.0, 9).reshape(2, 4)
    for found in by_program("scatter_elements", [x, at, updates], {"axis": 1})[0]:
        np.testing.assert_array_equal(found, [[4, 3, 0], [8, 0, 6]])


TEXT = """dynamic {{ x: f32[N, 3]; i: {dtype}[M, 3]; u: f32[M, 3]; }}
    volatile {{ y: f32[N, 3]; }}
    block entry {{ {op} return; }}"""
GATHER = "assign g: f32[M, 3]; op gather_elements(x, i) >> g; op scatter_elements(x, i, g) >> y;"
SCATTER = 'op scatter_elements(x, i, u, reduction="add") >> y;'


@pytest.mark.parametrize("op", [GATHER, SCATTER])
@pytest.mark.parametrize(("dtype", "wrong"), [("i64", -1), ("i64", 2**40), ("u8", 4)])
def test_a_wrong_index_is_an_error_and_said_alike(dtype: str, wrong: int, op: str) -> None:
    text = TEXT.format(dtype=dtype, op=op)
    inputs = {"x": np.ones((4, 3), np.float32), "u": np.ones((2, 3), np.float32)}
    good = np.array([[0, 1, 2], [3, 0, 1]], {"i64": np.int64, "u8": np.uint8}[dtype])
    bad = good.copy()
    bad[1, 1:] = wrong
    for maker in (oi.Simulator(text), oi.compile(text)):
        with maker.make_executor() as executor:
            with pytest.raises(oi.StepError) as caught:
                executor.run(**inputs, i=bad)
            assert caught.value.code == "OI0601"
            said = f"index {wrong} at position [1, 1] of the indices is outside 0..4"
            assert said in str(caught.value)
            # The executor stays usable.
            assert executor.run(**inputs, i=good)["y"].shape == (4, 3)


def test_more_lines_of_indices_than_of_x_fail_the_step() -> None:
    text = """dynamic { x: f32[N, 3]; i: i64[M, 3]; } volatile { y: f32[M, 3]; }
        block entry { op gather_elements(x, i, axis=1) >> y; return; }"""
    for maker in (oi.Simulator(text), oi.compile(text)):
        with maker.make_executor() as executor, pytest.raises(oi.OpenInferError):
            executor.run(x=np.zeros((2, 3), np.float32), i=np.zeros((3, 3), np.int64))


def test_threads_change_nothing() -> None:
    x, at = DRAWS.normal(50, 40).astype(np.float32), indices(50, 90, 40)
    updates = DRAWS.normal(90, 40).astype(np.float32)
    text = """dynamic { x: f32[N, 40]; i: i64[M, 40]; u: f32[M, 40]; } volatile { y: f32[N, 40]; }
        block entry { op scatter_elements(x, i, u, reduction="add") >> y; return; }"""
    program = oi.compile(text)
    found = []
    for threads in (1, 3):
        with program.make_executor(threads=threads) as executor:
            found.append(np.asarray(executor.run(x=x, i=at, u=updates)["y"]))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_argsort_is_pytorchs(axis: int, descending: bool) -> None:
    x = RANDOM.integers(0, 5, (7, 9)).astype(np.float32)
    x[x == 4] = np.nan
    settings = {"axis": axis, "descending": descending}
    expected = to_torch(x).argsort(dim=axis, descending=descending, stable=True).numpy()
    for found in by_program("argsort", [x], settings, names={0: ["N", "M"]})[0]:
        np.testing.assert_array_equal(found, expected)


def test_instance_norm_is_pytorchs() -> None:
    functions = torch_functions()
    x, weight, bias = DRAWS.normal(2, 6, 5, 7), DRAWS.normal(6), DRAWS.normal(6)
    expected = functions.instance_norm(
        to_torch(x), weight=to_torch(weight), bias=to_torch(bias), eps=1e-3
    ).numpy()
    operands, settings = [x, weight, bias], {"eps": 1e-3}
    for found in by_program("instance_norm", operands, settings, names={0: "NCHW", 1: "C", 2: "C"})[
        0
    ]:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    plain = functions.instance_norm(to_torch(x)).numpy()
    np.testing.assert_allclose(by_twin("instance_norm", [x])[0], plain, atol=1e-12)


WRONG: list[tuple[str, tuple[tuple[Any, ...], ...], dict[str, Any], str]] = [
    ("gather_elements", (("f32", 4, 3), ("f32", 4, 3)), {}, "indices are f32"),
    ("gather_elements", (("f32", 4, 3), ("i64", 4)), {}, "the indices have the rank of x"),
    ("gather_elements", (("f32", 4, 3), ("i64", 4, 5)), {}, "only axis 0 may be longer"),
    ("gather_elements", (("f32",), ("i64",)), {}, "axis=0 is out of range"),
    ("scatter_elements", (("f32", 4), ("i64", 2), ("f32", 3)), {}, "one update for each index"),
    ("scatter_elements", (("f32", 4), ("i64", 2), ("i8", 2)), {}, "x is f32 but updates is i8"),
    ("scatter_elements", (("bool", 4), ("i64", 2), ("bool", 2)), {"reduction": "add"},
     "does not take bool"),
    ("scatter_elements", (("f32", 4), ("i64", 2), ("f32", 2)), {"reduction": "mean"}, '"none" or'),
    ("argsort", (("f32", 4),), {"axis": 1}, "axis=1 is out of range"),
    ("argsort", (("bool", 4),), {}, "does not take bool"),
    ("instance_norm", (("f32", 4, 3),), {}, "at least one axis behind the channels"),
    ("instance_norm", (("f32", 4, 3, 2), ("f32", 4)), {}, "declare weight with the shape [3]"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "settings", "message"), WRONG)
def test_refused(
    op: str, operands: tuple[tuple[Any, ...], ...], settings: dict[str, Any], message: str
) -> None:
    spec = find(op)
    assert spec is not None
    with pytest.raises(OpError) as caught:
        infer_outputs(spec, [TensorSpec.of(d, dims) for d, *dims in operands], settings)
    assert message in str(caught.value) + str(caught.value.hint)
