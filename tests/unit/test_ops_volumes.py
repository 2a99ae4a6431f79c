"""Pooling and convolution over one and three axes, p-norms and adaptive pools: against PyTorch, and what
is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Draws, by_program, by_twin, to_torch, torch_functions

import openinfer as oi
from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

DRAWS = Draws(22)
RANDOM, normal, pick = DRAWS.random, DRAWS.normal, DRAWS.pick


def drawn(axes: int) -> tuple[Any, dict[str, Any]]:
    x = normal(*pick(1, 2, 1), 2, *pick(3, 7, axes))
    settings: dict[str, Any] = {"kernel_size": pick(1, 3, axes), "stride": pick(1, 3, axes)}
    settings["padding"] = [n // 2 if RANDOM.random() < 0.5 else 0 for n in settings["kernel_size"]]
    settings["ceil_mode"] = bool(RANDOM.random() < 0.5)
    return x, settings


@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_pools_are_pytorchs(kind: str, axes: int) -> None:
    op = f"{kind}_pool{axes}d"
    function = getattr(torch_functions(), op)
    for _ in range(40):
        x, settings = drawn(axes)
        if kind == "max":
            settings["dilation"] = 1
            if RANDOM.random() < 0.3:
                x.flat[0] = np.nan
        else:
            settings["count_include_pad"] = bool(RANDOM.random() < 0.5)
        expected = function(to_torch(x), **settings).numpy()
        np.testing.assert_allclose(by_twin(op, [x], settings)[0], expected, atol=1e-12)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_p_norms_are_pytorchs(p: float, axes: int) -> None:
    function = getattr(torch_functions(), f"lp_pool{axes}d")
    # Without padding, which PyTorch does not have here, and of numbers that are not negative.
    x, kernel = np.abs(normal(2, 3, *pick(5, 8, axes))), pick(1, 3, axes)
    expected = function(to_torch(x), p, kernel if axes > 1 else kernel[0]).numpy()
    ((simulated, compiled),) = by_program(f"lp_pool{axes}d", [-x], {"p": p, "kernel_size": kernel})
    np.testing.assert_allclose(simulated, expected, rtol=1e-12)
    np.testing.assert_allclose(compiled, expected, rtol=1e-10)


def test_conv3d_is_pytorchs() -> None:
    function = torch_functions().conv3d
    for _ in range(25):
        groups = int(RANDOM.choice([1, 2]))
        x = normal(*pick(0, 2, 1), 2 * groups, *pick(4, 6, 3))
        w, bias = normal(3 * groups, 2, *pick(1, 3, 3)), normal(3 * groups)
        settings: dict[str, Any] = {"stride": pick(1, 2, 3), "padding": pick(0, 1, 3)}
        settings |= {"dilation": pick(1, 2, 3), "groups": groups}
        try:
            expected = function(*map(to_torch, (x, w, bias)), **settings).numpy()
        except RuntimeError:
            with pytest.raises(OpError):
                by_twin("conv3d", [x, w, bias], settings)
            continue
        np.testing.assert_allclose(
            by_twin("conv3d", [x, w, bias], settings)[0], expected, atol=1e-11
        )


ADAPTIVE = [
    *(("adaptive_max_pool1d", size) for size in ([1], [4], [13])),
    *(("adaptive_avg_pool1d", size) for size in ([3], [5])),
    *(("adaptive_max_pool2d", size) for size in ([2, 3], [5, 1])),
    *(("adaptive_avg_pool2d", size) for size in ([2, 3], [7, 4])),
    *(("adaptive_avg_pool3d", size) for size in ([2, 3, 4], [1, 1, 1])),
    ("adaptive_max_pool3d", [2, 5, 4]),
]


@pytest.mark.parametrize(("op", "size"), ADAPTIVE)
def test_adaptive_pools_are_pytorchs(op: str, size: list[int]) -> None:
    functions = torch_functions()
    x = normal(2, 3, *(12, 9, 6)[: len(size)])
    x.flat[5] = np.inf
    expected = getattr(functions, op)(to_torch(x), size if len(size) > 1 else size[0]).numpy()
    (found,) = by_twin(op, [x], {"output_size": size})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_compiled_programs_are_pytorchs() -> None:
    """One program serves every size."""
    functions = torch_functions()
    x, w = normal(2, 3, 5, 7, 6), normal(4, 3, 2, 3, 2)
    x[0, 0, 1, 1] = np.nan
    names = {0: ["N", "3", "D", "H", "W"]}
    windows: dict[str, Any] = {"kernel_size": [2, 3, 2], "stride": [1, 2, 2], "padding": [1, 1, 0]}
    cases: list[tuple[str, list[Any], dict[str, Any], Any]] = [
        (op, [x], windows, getattr(functions, op)(to_torch(x), **windows))
        for op in ("max_pool3d", "avg_pool3d")
    ]
    strides = {"stride": [2, 1, 1], "padding": [1, 0, 1], "dilation": [2, 1, 1]}
    expected = functions.conv3d(to_torch(x), to_torch(w), **strides)
    cases.append(("conv3d", [x, w], strides, expected))
    for op in ("adaptive_avg_pool3d", "adaptive_max_pool3d"):
        expected = getattr(functions, op)(to_torch(x), [3, 4, 6])
        cases.append((op, [x], {"output_size": [3, 4, 6]}, expected))
    expected = functions.lp_pool3d(to_torch(x[1:]), 4, kernel_size=2)
    cases.append(("lp_pool3d", [x[1:]], {"p": 4, "kernel_size": 2}, expected))
    for op, operands, settings, wanted in cases:
        ((_, found),) = by_program(op, operands, settings, names=names)
        np.testing.assert_allclose(found, wanted.numpy(), atol=1e-12, err_msg=op)


def test_the_number_of_windows_may_be_a_variable() -> None:
    text = """dynamic { x: f32[2, L]; n: i32; } block entry {
        assign y: f32[2, _]; op adaptive_max_pool1d(x, output_size=n) >> y; return y; }"""
    x = normal(2, 9).astype(np.float32)
    for maker in (oi.Simulator(text), oi.compile(text)):
        with maker.make_executor() as executor:
            assert executor.run(x=x, n=np.int32(3))["y"].shape == (2, 3)
            found = executor.run(x=x, n=np.int32(2))["y"]
            np.testing.assert_array_equal(found, np.stack([x[:, :5].max(1), x[:, 4:].max(1)], 1))
            with pytest.raises(oi.StepError):
                executor.run(x=x, n=np.int32(0))


X = TensorSpec.of("f32", [1, 4, 8, 8])
VOLUME = TensorSpec.of("f32", [1, 4, 8, 8, 8])


@pytest.mark.parametrize(
    ("op", "operands", "settings", "error", "message"),
    [
        ("max_pool3d", [TensorSpec.of("f32", [8, 8])], {"kernel_size": 1}, ShapeError, "x is f32"),
        ("max_pool1d", [X], {"kernel_size": 1}, ShapeError, "x is f32"),
        ("max_pool3d", [VOLUME], {"kernel_size": [1, 2]}, SettingError, "2 entries for 3"),
        ("avg_pool3d", [VOLUME], {"kernel_size": 9}, ShapeError, "the depth of x has 8"),
        ("lp_pool2d", [X], {"kernel_size": 2, "p": 0}, SettingError, "not positive and finite"),
        ("lp_pool2d", [TensorSpec.of("i8", [1, 4, 8, 8])], {"kernel_size": 2}, OpDTypeError, "i8"),
        ("adaptive_avg_pool2d", [X], {}, SettingError, "needs the setting output_size"),
        ("adaptive_avg_pool2d", [X], {"output_size": 0}, SettingError, "output_size=0"),
        ("adaptive_max_pool1d", [X], {"output_size": 2}, ShapeError, "x is f32"),
        ("adaptive_max_pool1d", [TensorSpec.of("f32", [4, 0])], {"output_size": 2}, ShapeError, "0"),
        ("conv3d", [VOLUME, TensorSpec.of("f32", [2, 4, 3, 3])], {}, ShapeError, "w is f32"),
    ],
)  # fmt: skip
def test_refusals(
    op: str,
    operands: list[TensorSpec],
    settings: dict[str, Any],
    error: type[OpError],
    message: str,
) -> None:
    spec = find(op)
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, operands, settings)
    assert message in raised.value.message
