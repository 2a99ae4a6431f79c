"""var, std, logsumexp, any, all: twins against PyTorch, compiled against twins, sizes of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.opset import OpError
from openinfer.lowering.reference.twins import evaluate

torch = pytest.importorskip("torch")


def drawn(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def twin(op: str, x: Any, dtype: str = "f32", **settings: Any) -> Any:
    return evaluate(op, [x], [dtype], settings)[0]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(0,), (-1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["var", "std", "logsumexp"])
def test_floats(op: str, axes: tuple[int, ...], keepdims: bool) -> None:
    x = drawn(3, 4, 5)
    expected = getattr(torch, op)(torch.from_numpy(x), dim=axes, keepdim=keepdims).numpy()
    found = twin(op, x, axes=axes, keepdims=keepdims)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("correction", [0, 1, 2, 7])
@pytest.mark.parametrize("op", ["var", "std"])
def test_correction(op: str, correction: int, count: int) -> None:
    x = drawn(3, count)
    expected = getattr(torch, op)(torch.from_numpy(x), dim=1, correction=correction).numpy()
    np.testing.assert_allclose(twin(op, x, axes=(1,), correction=correction), expected, rtol=1e-6)
    text = f"""dynamic {{ x: f32[3, {count}]; }}
    block entry {{ y = op {op}(x, axes=[1], correction={correction}); return y; }}"""
    with oi.compile(text).make_executor() as executor:
        np.testing.assert_allclose(np.asarray(executor.run(x=x)["y"]), expected, rtol=1e-6)
    assert np.isnan(twin(op, x[:, :0], axes=(1,))).all()


def test_far_from_zero_nothing_cancels() -> None:
    x = (drawn(4, 1000) + 10000).astype(np.float32)
    text = "dynamic { x: f32[4, 1000]; } block entry { y = op var(x, axes=[1]); return y; }"
    with oi.compile(text).make_executor() as executor:
        found = np.asarray(executor.run(x=x)["y"])
    np.testing.assert_allclose(found, x.astype(np.float64).var(1, ddof=1), rtol=1e-5)


def test_logsumexp_at_the_limits() -> None:
    inf, nan = np.inf, np.nan
    rows = [[-inf, -inf], [inf, 1], [inf, -inf], [nan, 1], [inf, nan], [1e30, 1e30], [-1e30, -inf]]
    x = np.array(rows, np.float32)
    expected = torch.logsumexp(torch.from_numpy(x), 1).numpy()
    np.testing.assert_allclose(twin("logsumexp", x, axes=(1,)), expected, rtol=1e-6)
    text = "dynamic { x: f32[7, 2]; } block entry { y = op logsumexp(x, axes=[1]); return y; }"
    with oi.compile(text).make_executor() as executor:
        np.testing.assert_allclose(np.asarray(executor.run(x=x)["y"]), expected, rtol=1e-6)
    assert (twin("logsumexp", x[:, :0], axes=(1,)) == -inf).all()


@pytest.mark.parametrize("axes", [(0,), (-1,), (0, 1)])
@pytest.mark.parametrize("op", ["any", "all"])
def test_truths(op: str, axes: tuple[int, ...]) -> None:
    for x, dtype in (
        (np.array([[0.0, -0.0, np.nan], [1, 0, -np.inf]], np.float32), "f32"),
        (np.array([[0, 1, 2], [0, -3, 0]], np.int8), "i8"),
        (np.array([[True, True, False], [True, False, False]]), "bool"),
    ):
        expected = getattr(torch, op)(torch.from_numpy(x), dim=axes).numpy()
        np.testing.assert_array_equal(twin(op, x, dtype, axes=axes), expected)
        text = f"""dynamic {{ x: {dtype}[2, 3]; }}
        block entry {{ y = op {op}(x, axes={list(axes)}); return y; }}"""
        with oi.compile(text).make_executor() as executor:
            np.testing.assert_array_equal(np.asarray(executor.run(x=x)["y"]), expected)
        for extent in (0, 1):
            # Of nothing none is true, and all are.
            empty = twin(op, x[:, :0] if extent else x[:0], dtype, axes=(extent,))
            assert (empty == (op == "all")).all()


@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_run_time_sizes(count: int) -> None:
    graph = oi.graph("""
    dynamic { x: f32[N, 3]; }
    block entry {
      a = op var(x, axes=[0]); b = op std(x, axes=[0, 1], correction=2, keepdims=true);
      c = op logsumexp(x, axes=[0]); d = op any(x, axes=[0]); e = op all(x, axes=[0, 1]);
      return a, b, c, d, e;
    }""")
    x = drawn(count, 3)
    expected = oi.Simulator(graph).make_executor().run(x=x)
    with oi.compile(graph).make_executor() as executor:
        found = executor.run(x=x)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


def test_refused() -> None:
    wrong: list[dict[str, Any]] = [{"axes": ()}, {"axes": (2,)}]
    for settings in wrong:
        with pytest.raises(OpError, match="axes"):
            twin("var", drawn(3, 4), **settings)
    with pytest.raises(OpError, match="does not take i32"):
        twin("std", np.zeros(3, np.int32), "i32", axes=(0,))
    with pytest.raises(OpError, match="correction"):
        twin("var", drawn(3, 4), axes=(0,), correction=0.5)
