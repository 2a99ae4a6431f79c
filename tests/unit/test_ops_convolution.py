"""Convolutions: the twins against PyTorch, compiled programs against both, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, Draws, by_program, by_twin, program, to_torch, torch_functions

import openinfer as oi
from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

DRAWS = Draws(7)
RANDOM, normal, pick = DRAWS.random, DRAWS.normal, DRAWS.pick


def drawn_convolution() -> tuple[list[Array], dict[str, Any]]:
    groups = int(RANDOM.choice([1, 1, 2, 3]))
    inputs, outputs = (groups * n for n in pick(1, 3))
    x = normal(*pick(0, 2, 1), inputs, *pick(1, 9))
    w = normal(outputs, inputs // groups, *pick(1, 4))
    settings = {"stride": pick(1, 3), "padding": pick(0, 3), "dilation": pick(1, 2)}
    return [x, w, normal(outputs)], {**settings, "groups": groups}


def test_conv2d_is_pytorchs():
    functions = torch_functions()
    compared = 0
    for _ in range(150):
        arrays, settings = drawn_convolution()
        try:
            expected = functions.conv2d(*map(to_torch, arrays), **settings).numpy()
        except RuntimeError:
            # A kernel that is larger than its input.
            with pytest.raises(ShapeError):
                by_twin("conv2d", arrays, settings)
            continue
        (found,) = by_twin("conv2d", arrays, settings)
        np.testing.assert_allclose(found, expected, atol=1e-11)
        compared += 1
    assert compared > 90


@pytest.mark.filterwarnings("ignore:Using padding")
def test_conv1d_is_pytorchs():
    functions = torch_functions()
    for _ in range(60):
        groups = int(RANDOM.choice([1, 2]))
        x, w = normal(*pick(0, 2, 1), 2 * groups, 11), normal(3 * groups, 2, *pick(1, 4, 1))
        settings: dict[str, Any] = {"stride": 1, "padding": "same", "dilation": pick(1, 3, 1)[0]}
        if RANDOM.random() < 0.7:
            settings["stride"], settings["padding"] = pick(1, 3, 1)[0], pick(0, 3, 1)[0]
        expected = functions.conv1d(to_torch(x), to_torch(w), groups=groups, **settings).numpy()
        (found,) = by_twin("conv1d", [x, w], {**settings, "groups": groups})
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_conv_transpose2d_is_pytorchs():
    functions = torch_functions()
    compared = 0
    for _ in range(150):
        groups = int(RANDOM.choice([1, 1, 2, 3]))
        inputs, outputs = (groups * n for n in pick(1, 3))
        arrays = [normal(2, inputs, *pick(1, 5)), normal(inputs, outputs // groups, *pick(1, 4))]
        arrays.append(normal(outputs))
        stride, dilation = pick(1, 3), pick(1, 2)
        extra = [int(RANDOM.integers(0, max(pair))) for pair in zip(stride, dilation)]
        settings = {"stride": stride, "padding": pick(0, 2), "dilation": dilation}
        settings |= {"output_padding": extra, "groups": groups}
        try:
            expected = functions.conv_transpose2d(*map(to_torch, arrays), **settings).numpy()
        except RuntimeError:
            with pytest.raises(OpError):
                by_twin("conv_transpose2d", arrays, settings)
            continue
        (found,) = by_twin("conv_transpose2d", arrays, settings)
        np.testing.assert_allclose(found, expected, atol=1e-11)
        compared += 1
    assert compared > 90


def test_paddings_of_each_side():
    x, w = normal(2, 3, 6, 7), normal(4, 3, 2, 3)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 0), (2, 3)])
    (expected,) = by_twin("conv2d", [padded, w])
    (found,) = by_twin("conv2d", [x, w], {"padding": [1, 0, 2, 3]})
    np.testing.assert_array_equal(found, expected)
    (line,) = by_twin("conv1d", [x[0, :, 0], w[:, :, 0]], {"padding": [2, 0]})
    (expected,) = by_twin("conv1d", [np.pad(x[0, :, 0], [(0, 0), (2, 0)]), w[:, :, 0]])
    np.testing.assert_array_equal(line, expected)
    same, valid = ({"padding": name} for name in ("same", "valid"))
    assert by_twin("conv2d", [x, w], same)[0].shape == (2, 4, 6, 7)
    np.testing.assert_array_equal(by_twin("conv2d", [x, w], valid)[0], by_twin("conv2d", [x, w])[0])


def test_a_transposed_convolution_is_the_adjoint():
    """<conv(x), y> is <x, conv_transpose(y)> for every x and y."""
    for _ in range(20):
        (x, w, _), settings = drawn_convolution()
        x = normal(1, x.shape[1], 9, 9)
        (forward,) = by_twin("conv2d", [x, w], settings)
        y = normal(*forward.shape)
        rest = [
            9 - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
            for n, s, p, d, k in zip(
                y.shape[2:], *(settings[n] for n in ("stride", "padding", "dilation")), w.shape[2:]
            )
        ]
        if any(r >= max(s, d) for r, s, d in zip(rest, settings["stride"], settings["dilation"])):
            continue
        (back,) = by_twin("conv_transpose2d", [y, w], {**settings, "output_padding": rest})
        assert np.vdot(forward, y) == pytest.approx(np.vdot(x, back), abs=1e-9)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_compiled_convolutions_are_pytorchs(dtype: str):
    functions = torch_functions()
    arrays = [normal(2, 6, 13, 17), normal(8, 3, 3, 5), normal(8)]
    # Numbers that every dtype holds.
    arrays = [np.round(array * 8) / 8 for array in arrays]
    settings = {"stride": [2, 1], "padding": [1, 2], "groups": 2}
    expected = functions.conv2d(*map(to_torch, arrays), **settings).numpy()
    names = {0: ["N", "6", "H", "W"]}
    ((_, found),) = by_program("conv2d", arrays, settings, names=names, dtype=dtype)
    unit = {"f64": 1e-13, "f32": 2e-6, "f16": 2.0**-10, "bf16": 2.0**-7}[dtype]
    np.testing.assert_allclose(found, expected, rtol=unit, atol=unit)
    settings = {"stride": [2, 1], "padding": 1, "output_padding": [1, 0], "groups": 2}
    w = np.swapaxes(arrays[1].reshape(2, 4, 3, 3, 5), 1, 2).reshape(6, 4, 3, 5).copy()
    arrays = [arrays[0], w, arrays[2]]
    expected = functions.conv_transpose2d(*map(to_torch, arrays), **settings).numpy()
    ((_, found),) = by_program("conv_transpose2d", arrays, settings, names=names, dtype=dtype)
    np.testing.assert_allclose(found, expected, rtol=unit, atol=4 * unit)


def test_integers_wrap_or_accumulate_wider():
    x = RANDOM.integers(-128, 128, (1, 3, 5, 6)).astype(np.int8)
    w = RANDOM.integers(-128, 128, (2, 3, 2, 2)).astype(np.int8)
    whole = by_twin("conv2d", [x.astype(np.float64), w.astype(np.float64)])[0].astype(np.int64)
    ((_, wrapped),) = by_program("conv2d", [x, w])
    np.testing.assert_array_equal(wrapped, whole.astype(np.int8))
    ((_, wide),) = by_program("conv2d", [x, w], {"acc": "i32"})
    np.testing.assert_array_equal(wide, whole)


def test_one_program_serves_every_size():
    arrays = [normal(1, 2, 5, 6).astype(np.float32), normal(3, 2, 3, 3).astype(np.float32)]
    settings = {"stride": 2, "padding": 1}
    names = {0: ["N", "2", "H", "W"]}
    text, tensors = program("conv2d", arrays, settings, 1, names)
    graph = oi.graph(text)
    with (
        oi.compile(graph, None).make_executor() as fast,
        oi.Simulator(graph).make_executor() as slow,
    ):
        for shape in ((1, 2, 5, 6), (3, 2, 9, 4), (2, 2, 1, 1), (0, 2, 3, 3), (1, 2, 40, 33)):
            x = normal(*shape).astype(np.float32)
            expected = slow.run(a0=x, a1=tensors["a1"])["r0"]
            found = fast.run(a0=x, a1=tensors["a1"])["r0"]
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_kernel_larger_than_what_a_step_gives_is_an_error_on_both_executors():
    arrays = [normal(1, 2, 5, 6).astype(np.float32), normal(3, 2, 3, 3).astype(np.float32)]
    text, tensors = program("conv2d", arrays, {}, 1, {0: ["N", "2", "H", "W"]})
    graph = oi.graph(text)
    small = normal(1, 2, 2, 6).astype(np.float32)
    for program_ in (oi.Simulator(graph), oi.compile(graph, None)):
        with program_.make_executor() as executor:
            with pytest.raises(oi.OpenInferError):
                executor.run(a0=small, a1=tensors["a1"])
            assert executor.run(**tensors)["r0"].shape == (1, 3, 3, 4)


X, W = TensorSpec.of("f32", [1, 4, 8, 8]), TensorSpec.of("f32", [6, 4, 3, 3])


@pytest.mark.parametrize(
    ("op", "operands", "settings", "error", "message"),
    [
        ("conv2d", [X, W], {"stride": 0}, SettingError, "stride=0 is not positive"),
        ("conv2d", [X, W], {"stride": [1, -1]}, SettingError, "stride=-1 is not positive"),
        ("conv2d", [X, W], {"dilation": 0}, SettingError, "dilation=0 is not positive"),
        ("conv2d", [X, W], {"padding": -1}, SettingError, "padding=-1 is negative"),
        ("conv2d", [X, W], {"padding": [1, 2, 3]}, SettingError, "padding has 3 entries for 2"),
        ("conv2d", [X, W], {"padding": "full"}, SettingError, '"valid" or "same", or a list'),
        ("conv2d", [X, W], {"stride": [1, 2, 3]}, SettingError, "stride has 3 entries"),
        ("conv2d", [X, W], {"stride": 2, "padding": "same"}, SettingError, "needs stride 1"),
        ("conv2d", [X, W], {"groups": 0}, SettingError, "groups=0 is not positive"),
        ("conv2d", [X, W], {"groups": 3}, ShapeError, "4 channels"),
        ("conv2d", [X, W], {"dilation": 4}, ShapeError, "reaches over 9 elements but the height"),
        ("conv2d", [X, TensorSpec.of("f32", [6, 3, 3, 3])], {}, ShapeError, "x [1, 4, 8, 8] has 4"),
        ("conv2d", [X, TensorSpec.of("f32", [5, 2, 3, 3])], {"groups": 2}, ShapeError, "divide by 2"),
        ("conv2d", [X, TensorSpec.of("f32", [6, 4, 0, 3])], {}, ShapeError, "kernel of size 0"),
        ("conv2d", [X, TensorSpec.of("f32", [6, 4, 3])], {}, ShapeError, "w is f32[6, 4, 3]"),
        ("conv2d", [TensorSpec.of("f32", [4]), W], {}, ShapeError, "x is f32[4]"),
        ("conv2d", [X, W, TensorSpec.of("f32", [4])], {}, ShapeError, "6 output channels"),
        ("conv2d", [X, TensorSpec.of("i32", [6, 4, 3, 3])], {}, OpDTypeError, "w is i32"),
        ("conv_transpose2d", [X, TensorSpec.of("f32", [4, 2, 3, 3])], {"output_padding": 1},
         SettingError, "not below stride 1"),
        ("conv_transpose2d", [X, TensorSpec.of("f32", [4, 2, 3, 3])], {"padding": "same"},
         SettingError, "no padding="),
        ("conv_transpose2d", [X, TensorSpec.of("f32", [4, 2, 3, 3])], {"padding": 5},
         ShapeError, "the padding leaves 0"),
        ("conv_transpose2d", [X, TensorSpec.of("f32", [4, 2, 3, 3])], {"groups": 3},
         ShapeError, "do not divide by 3"),
        ("conv_transpose2d", [X, W], {}, ShapeError, "takes 6"),
    ],
)  # fmt: skip
def test_refusals(
    op: str,
    operands: list[TensorSpec],
    settings: dict[str, Any],
    error: type[OpError],
    message: str,
):
    spec = find(op)
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, operands, settings)
    assert message in raised.value.message


def test_a_hint_says_what_fits():
    spec = find("conv2d")
    assert spec is not None
    with pytest.raises(ShapeError) as raised:
        infer_outputs(spec, [X, W], {"dilation": 4})
    assert raised.value.hint == "use a smaller kernel or dilation, or more padding"


def drawn_program() -> tuple[str, dict[str, Array]]:
    """A convolution of known sizes with what often follows it: norm, residual, relu, pooling."""
    groups = int(RANDOM.choice([1, 1, 2]))
    inputs, outputs = (groups * n for n in pick(1, 6))
    height, width = pick(4, 20)
    kernel = pick(1, 3)
    padding = [n // 2 for n in kernel for _ in range(2)]
    arrays = {
        "x": normal(2, inputs, height, width),
        "w": normal(outputs, inputs // groups, *kernel),
        "b": normal(outputs),
        "m": normal(outputs),
        "v": normal(outputs) ** 2 + 0.5,
    }
    rows, columns = (n + 2 * (k // 2) - k + 1 for n, k in zip((height, width), kernel))
    arrays["s"] = normal(2, outputs, rows, columns)
    lines = [f"op conv2d(x, w, b, padding={padding}, groups={groups}) >> y;"]
    norm = "op batch_norm(y, m, v) >> y;"
    relu, residual = "op relu(y) >> y;", "op add(y, s) >> y;"
    pool = "op max_pool2d(y, kernel_size=2) >> z;"
    mean = "op avg_pool2d(y, kernel_size=3, stride=2, padding=1) >> z;"
    endings = [[norm, relu, residual], [residual, relu], [relu, pool], [pool], [norm, relu, mean]]
    lines += endings[int(RANDOM.integers(len(endings)))]
    result = "z" if lines[-1] in (pool, mean) else "y"
    declared = "; ".join(f"{n}: f32{list(a.shape)}" for n, a in arrays.items())
    text = f"dynamic {{ {declared}; }} volatile {{ {result}: f32[2, {outputs}, _, _]; }} "
    temporary = f"assign y: f32[2, {outputs}, {rows}, {columns}]; " if result == "z" else ""
    text += f"block entry {{ {temporary}{' '.join(lines)} return; }}"
    return text, {n: a.astype(np.float32) for n, a in arrays.items()}


@pytest.mark.parametrize("number", range(6))
def test_what_follows_a_convolution_is_computed_on_its_sums(number: int):
    text, arrays = drawn_program()
    graph = oi.graph(text)
    with oi.Simulator(graph).make_executor() as slow:
        expected = slow.run(**arrays)
    program_ = oi.compile(graph, None)
    found: list[Array] = []
    for threads in (1, 2):
        with program_.make_executor(threads=threads) as fast:
            results = fast.run(**arrays)
        for name, value in expected.items():
            np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-4, err_msg=text)
            found.append(np.array(results[name]))
    np.testing.assert_array_equal(found[0], found[-1])


def test_a_nan_is_the_largest_of_pooled_sums():
    text = (
        "dynamic { x: f32[1, 2, 8, 32]; w: f32[3, 2, 3, 3]; } volatile { y: f32[1, 3, 4, 16]; } "
        "block entry { assign h: f32[1, 3, 8, 32]; op conv2d(x, w, padding=1) >> h; "
        "op relu(h) >> h; op max_pool2d(h, kernel_size=2) >> y; return; }"
    )
    graph = oi.graph(text)
    x, w = normal(1, 2, 8, 32).astype(np.float32), normal(3, 2, 3, 3).astype(np.float32)
    x[0, 1, 3, 8], x[0, 0, 6, 30] = np.nan, -np.inf
    with oi.Simulator(graph).make_executor() as slow:
        expected = slow.run(x=x, w=w)["y"]
    with oi.compile(graph, None).make_executor() as fast:
        np.testing.assert_allclose(fast.run(x=x, w=w)["y"], expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(expected).any()


def test_one_program_serves_every_batch():
    text = (
        "dynamic { x: f32[N, 3, 8, 32]; w: f32[5, 3, 3, 3]; b: f32[5]; } "
        "volatile { y: f32[N, 5, 4, 16]; } block entry { assign h: f32[N, 5, 8, 32]; "
        "op conv2d(x, w, b, padding=1) >> h; op max_pool2d(h, kernel_size=2) >> y; return; }"
    )
    graph = oi.graph(text)
    given = {"w": normal(5, 3, 3, 3).astype(np.float32), "b": normal(5).astype(np.float32)}
    with (
        oi.compile(graph, None).make_executor(threads=2) as fast,
        oi.Simulator(graph).make_executor() as slow,
    ):
        for batch in (1, 0, 7, 2):
            given["x"] = normal(batch, 3, 8, 32).astype(np.float32)
            expected = slow.run(**given)["y"]
            np.testing.assert_allclose(fast.run(**given)["y"], expected, rtol=1e-5, atol=1e-5)
