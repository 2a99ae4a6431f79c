"""pad and flip: twins against PyTorch, compiled against twins, sizes that only the run knows."""

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


def twin(op: str, x: Any, **settings: Any) -> Any:
    return evaluate(op, [x], ["f32"], settings)[0]


def infer(op: str, shape: Sequence[Any], dtype: str = "f32", **settings: Any) -> str:
    spec = find(op)
    assert spec is not None
    return str(infer_outputs(spec, [TensorSpec.of(dtype, shape)], settings)[0])


@pytest.mark.parametrize(("mode", "theirs"), [("edge", "replicate"), ("reflect", "reflect")])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 2, 3, 0), (3, 4, 2, 1)])
def test_pad_by_copies(mode: str, theirs: str, pads: tuple[int, ...]) -> None:
    x = drawn(1, 2, 5, 6)
    top, left, bottom, right = pads
    wide = (left, right, top, bottom)
    expected = torch.nn.functional.pad(torch.from_numpy(x), wide, mode=theirs)
    found = twin("pad", x, pads=(0, 0, top, left, 0, 0, bottom, right), mode=mode)
    np.testing.assert_array_equal(found, expected.numpy())
    found = twin("pad", x, pads=(top, left, bottom, right), axes=(2, -1), mode=mode)
    np.testing.assert_array_equal(found, expected.numpy())


def test_pad_by_a_value() -> None:
    x = drawn(3, 4)
    expected = torch.nn.functional.pad(torch.from_numpy(x), (2, 1, 0, 3), value=-2.5)
    found = twin("pad", x, pads=(0, 2, 3, 1), value=-2.5)
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("axes", [(0,), (1,), (0, -1), (0, 1, 2)])
def test_flip(axes: tuple[int, ...]) -> None:
    x = drawn(2, 3, 4)
    expected = torch.flip(torch.from_numpy(x), axes).numpy()
    np.testing.assert_array_equal(twin("flip", x, axes=axes), expected)
    np.testing.assert_array_equal(twin("flip", x), torch.flip(torch.from_numpy(x), (0, 1, 2)))


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("pad", (3, 4), {"pads": [1, 1]}, "2 entries for 2 axes"),
    ("pad", (3, 4), {"pads": [1, 1], "axes": [2]}, "axes=2 is out of range"),
    ("pad", (3, 4), {"pads": [1, 1, 0, 0], "axes": [0, -2]}, "one axis twice"),
    ("pad", (3,), {"pads": [-1, 1]}, "use `slice` to cut"),
    ("pad", (3,), {"pads": [3, 0], "mode": "reflect"}, "too few elements for a border of 3"),
    ("pad", (0,), {"pads": [1, 0], "mode": "edge"}, "too few elements"),
    ("pad", (3,), {"pads": [1, 0], "mode": "wrap"}, '"constant" or "edge" or "reflect"'),
    ("pad", (3,), {}, "needs the setting pads"),
    ("flip", (3,), {"axes": [1]}, "axes=1 is out of range"),
]


@pytest.mark.parametrize(("op", "shape", "settings", "message"), WRONG)
def test_refused(op: str, shape: tuple[Any, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(OpError) as caught:
        infer(op, shape, **settings)
    assert message in str(caught.value) + str(caught.value.hint)


def test_values_that_do_not_fit() -> None:
    for value, dtype in ((1.5, "i8"), (300, "u8"), (-1, "u8")):
        with pytest.raises(OpError, match="value="):
            infer("pad", (3,), dtype, pads=[1, 1], value=value)


def test_symbolic_shapes() -> None:
    assert infer("pad", ("N", 4), pads=[Size.name("P"), 0, 1, 2]) == "f32[N + P + 1, 6]"
    assert infer("flip", ("N", "2*M")) == "f32[N, 2*M]"


MODES = """dynamic {{ x: f32[N, 3]; e: f32[P]; }}
    volatile {{ y: f32[N + 2*P, 3]; z: f32[N, 3]; }}
    block entry {{
      op pad(x, pads=[P, P], axes=[0], mode="{mode}") >> y; op flip(x) >> z;
      return;
    }}"""


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize(("count", "pad"), [(5, 0), (5, 3), (1, 0), (4, 1)])
def test_run_time_sizes(mode: str, count: int, pad: int) -> None:
    graph = oi.graph(MODES.format(mode=mode))
    inputs = {"x": drawn(count, 3), "e": drawn(pad)}
    expected = oi.Simulator(graph).make_executor().run(**inputs)
    found = oi.compile(graph).make_executor().run(**inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize(
    ("mode", "count", "pad"), [("reflect", 3, 3), ("reflect", 0, 1), ("edge", 0, 1)]
)
def test_a_border_of_nothing_fails_the_step(mode: str, count: int, pad: int) -> None:
    graph = oi.graph(MODES.format(mode=mode))
    for maker in (oi.Simulator(graph), oi.compile(graph)):
        executor = maker.make_executor()
        with pytest.raises(oi.StepError):
            executor.run(x=drawn(count, 3), e=drawn(pad))
        assert executor.run(x=drawn(5, 3), e=drawn(1))["y"].shape == (7, 3)


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_no_border_of_nothing(mode: str) -> None:
    """Nothing is needed to make a border of size 0."""
    graph = oi.graph(MODES.format(mode=mode))
    for maker in (oi.Simulator(graph), oi.compile(graph)):
        found = maker.make_executor().run(x=drawn(0, 3), e=drawn(0))
        assert found["y"].shape == (0, 3)
