"""Pooling and upsampling: the twins against PyTorch, compiled programs, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, Draws, by_program, by_twin, to_torch, torch_functions

from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

DRAWS = Draws(11)
RANDOM, normal, pick = DRAWS.random, DRAWS.normal, DRAWS.pick


def drawn_pool() -> tuple[Array, dict[str, Any]]:
    x = normal(*pick(1, 2, 1), 2, *pick(1, 9))
    settings: dict[str, Any] = {"kernel_size": pick(1, 4), "stride": pick(1, 3)}
    settings["padding"] = [n // 2 if RANDOM.random() < 0.5 else 0 for n in settings["kernel_size"]]
    settings["ceil_mode"] = bool(RANDOM.random() < 0.5)
    return x, settings


def compare(op: str, function: Any, x: Array, settings: dict[str, Any]) -> bool:
    """Whether PyTorch takes the settings; then the twin agrees, else it refuses them."""
    try:
        expected = function(to_torch(x), **settings).numpy()
    except RuntimeError:
        with pytest.raises(OpError):
            by_twin(op, [x], settings)
        return False
    (found,) = by_twin(op, [x], settings)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    return True


def test_max_pool2d_is_pytorchs():
    function = torch_functions().max_pool2d
    done = 0
    for _ in range(150):
        x, settings = drawn_pool()
        settings["dilation"] = pick(1, 2)
        if RANDOM.random() < 0.3:
            x[0, 0, 0, 0] = np.nan
        done += compare("max_pool2d", function, x, settings)
    assert done > 80


def test_avg_pool2d_is_pytorchs():
    function = torch_functions().avg_pool2d
    done = 0
    for _ in range(150):
        x, settings = drawn_pool()
        settings["count_include_pad"] = bool(RANDOM.random() < 0.5)
        if RANDOM.random() < 0.3:
            settings["divisor_override"] = 3
        done += compare("avg_pool2d", function, x, settings)
    assert done > 80


def test_upsample2d_is_pytorchs():
    function = torch_functions().interpolate
    for _ in range(100):
        x = normal(2, 3, *pick(1, 7))
        factors = [float(n) for n in RANDOM.choice([0.5, 1, 1.5, 2, 3, 2.5, 0.75], 2)]
        sized: dict[str, Any] = {"size": pick(1, 12)}
        requests = [(sized, sized)]
        if all(int(extent * factor) for extent, factor in zip(x.shape[2:], factors)):
            requests.append(({"scale_factor": factors}, {"scale": factors}))
        for theirs, ours in requests:
            for rest in ({}, {"align_corners": False}, {"align_corners": True}):
                mode = {"mode": "bilinear" if rest else "nearest"}
                expected = function(to_torch(x), **theirs, **mode, **rest).numpy()
                (found,) = by_twin("upsample2d", [x], {**ours, **mode, **rest})
                np.testing.assert_allclose(found, expected, atol=1e-12)


def test_nearest_never_hangs_on_a_rounding():
    """Element floor(i * H / OH), in integers: a ratio like 1/49 rounded to f32 reads a neighbour."""
    for extent, result in ((7, 49), (49, 7), (3, 33), (41, 123), (10, 70)):
        x = np.arange(float(extent))[None, None, :, None]
        for settings in ({"size": [result, 1]}, {"scale": [result / extent, 1]}):
            expected = [i * extent // result for i in range(result)]
            (found,) = by_twin("upsample2d", [x], settings)
            assert found[0, 0, :, 0].tolist() == expected
            ((_, compiled),) = by_program("upsample2d", [x], settings)
            assert compiled[0, 0, :, 0].tolist() == expected


def test_compiled_pools_are_pytorchs():
    functions = torch_functions()
    x = normal(2, 3, 11, 14).astype(np.float32)
    x[0, 0, 3, 3] = np.nan
    settings = {"kernel_size": [3, 2], "stride": [2, 3], "padding": [1, 0], "ceil_mode": True}
    names = {0: ["N", "3", "H", "W"]}
    for op in ("max_pool2d", "avg_pool2d"):
        expected = getattr(functions, op)(to_torch(x), **settings).numpy()
        ((_, found),) = by_program(op, [x], settings, names=names)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    expected = functions.interpolate(
        to_torch(x), scale_factor=[1.5, 2.0], mode="bilinear", align_corners=False
    ).numpy()
    settings = {"scale": [1.5, 2], "mode": "bilinear"}
    ((_, found),) = by_program("upsample2d", [x], settings, names=names)
    # PyTorch has the places in f32.
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_unsigned_integers_are_compared_as_such():
    x = RANDOM.integers(0, 256, (1, 2, 6, 6)).astype(np.uint8)
    ((simulated, compiled),) = by_program("max_pool2d", [x], {"kernel_size": 3, "padding": 1})
    np.testing.assert_array_equal(simulated, compiled)
    assert compiled.max() == x[:, :, :5, :5].max()


X = TensorSpec.of("f32", [1, 4, 8, 8])


@pytest.mark.parametrize(
    ("op", "x", "settings", "error", "message"),
    [
        ("max_pool2d", X, {"kernel_size": 0}, SettingError, "kernel_size=0 is not positive"),
        ("max_pool2d", X, {"kernel_size": 2, "stride": 0}, SettingError, "stride=0"),
        ("max_pool2d", X, {"kernel_size": 9}, ShapeError, "reaches over 9 elements"),
        ("max_pool2d", X, {"kernel_size": 3, "padding": 2}, SettingError, "more than half"),
        ("max_pool2d", X, {}, SettingError, "needs the setting kernel_size"),
        ("max_pool2d", X, {"kernel_size": [1, 2, 3]}, SettingError, "3 entries for 2"),
        ("max_pool2d", X, {"kernel_size": 2, "padding": "same"}, SettingError, "needs stride 1"),
        ("max_pool2d", TensorSpec.of("f32", [4, 0, 8]), {"kernel_size": 1}, ShapeError, "is 0"),
        ("max_pool2d", TensorSpec.of("f32", [8, 8]), {"kernel_size": 1}, ShapeError, "x is f32"),
        ("avg_pool2d", TensorSpec.of("i32", [1, 4, 8, 8]), {"kernel_size": 2}, OpDTypeError, "i32"),
        ("avg_pool2d", X, {"kernel_size": 2, "divisor_override": 0}, SettingError, "by zero"),
        ("upsample2d", X, {}, SettingError, "one of scale and size"),
        ("upsample2d", X, {"scale": 2, "size": 4}, SettingError, "one of scale and size"),
        ("upsample2d", X, {"scale": 0}, SettingError, "not positive"),
        ("upsample2d", X, {"scale": float("nan")}, SettingError, "not positive and finite"),
        ("upsample2d", X, {"scale": 0.1}, SettingError, "leaves nothing of 8"),
        ("upsample2d", X, {"scale": [1, 2, 3]}, SettingError, "3 entries"),
        ("upsample2d", X, {"size": 0}, SettingError, "size=0 is not positive"),
        ("upsample2d", X, {"scale": 2, "mode": "cubic"}, SettingError, '"nearest" or "bilinear"'),
        ("upsample2d", X, {"scale": 2, "align_corners": True}, SettingError, "bilinear"),
        ("upsample2d", TensorSpec.of("u8", [1, 4, 8, 8]), {"scale": 2, "mode": "bilinear"},
         OpDTypeError, "u8"),
    ],
)  # fmt: skip
def test_refusals(
    op: str, x: TensorSpec, settings: dict[str, Any], error: type[OpError], message: str
):
    spec = find(op)
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, [x], settings)
    assert message in raised.value.message


def drawn_wide_pool() -> tuple[str, Array, dict[str, Any]]:
    """Lines long enough for vectors of windows."""
    settings: dict[str, Any] = {"kernel_size": pick(1, 4), "stride": [pick(1, 3)[0], pick(1, 2)[0]]}
    settings["padding"] = [n // 2 if RANDOM.random() < 0.5 else 0 for n in settings["kernel_size"]]
    settings["ceil_mode"] = bool(RANDOM.random() < 0.5)
    op = str(RANDOM.choice(["max_pool2d", "avg_pool2d"]))
    if op == "max_pool2d":
        settings["dilation"] = pick(1, 2)
    else:
        settings["count_include_pad"] = bool(RANDOM.random() < 0.5)
    x = normal(1, 2, *pick(7, 9, 1), *pick(17, 80, 1))
    return op, x, settings


@pytest.mark.parametrize("known", [True, False])
def test_windows_side_by_side(known: bool):
    names = {} if known else {0: ["N", "2", "H", "W"]}
    for dtype in ("f32", "f32", "f64", "f16", "bf16", "f32"):
        op, x, settings = drawn_wide_pool()
        x = np.round(x * 8) / 8
        if op == "max_pool2d":
            x[0, 0, 3, 5:9] = np.nan
        ((simulated, compiled),) = by_program(op, [x], settings, names=names, dtype=dtype)
        unit = {"f64": 1e-13, "f32": 1e-6, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
        np.testing.assert_allclose(compiled, simulated, rtol=unit, atol=unit)


def test_integers_side_by_side():
    for low, high, dtype in ((-128, 128, np.int8), (0, 256, np.uint8), (-9999, 9999, np.int32)):
        x = RANDOM.integers(low, high, (1, 2, 8, 45)).astype(dtype)
        settings = {"kernel_size": 3, "stride": 2, "padding": 1}
        ((simulated, compiled),) = by_program("max_pool2d", [x], settings)
        np.testing.assert_array_equal(compiled, simulated)
