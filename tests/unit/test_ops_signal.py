"""Fourier transforms against numpy.fft, SciPy and PyTorch, in every length, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, by_program, by_twin, program

import openinfer as oi
from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs
from openinfer.lowering.cpu.schedules.butterflies import radices

RANDOM = np.random.default_rng(2)


def normal(*shape: int) -> Array:
    return RANDOM.normal(size=shape)


def pairs(spectrum: Any) -> Array:
    """Complex numbers as real and imaginary part in a last axis."""
    return np.stack([spectrum.real, spectrum.imag], axis=-1)


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho"])
def test_twins_are_those_of_scipy_and_pytorch(norm: str):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    fft = pytest.importorskip("scipy.fft", reason="SciPy is not installed")
    for count in range(1, 20):
        x, bins = normal(2, 3, count), normal(2, count, 2)
        for n in (None, 1, 4, 7, 20):
            settings: dict[str, Any] = {"norm": norm} if n is None else {"norm": norm, "n": n}
            (found,) = by_twin("rfft", [x], settings)
            np.testing.assert_allclose(found, pairs(fft.rfft(x, n, norm=norm)), atol=1e-12)
            theirs = torch.fft.rfft(torch.from_numpy(x), n=n, norm=norm)
            np.testing.assert_allclose(found, torch.view_as_real(theirs).numpy(), atol=1e-12)
            if n is None and count == 1:
                continue
            (found,) = by_twin("irfft", [bins], settings)
            spectrum = bins[..., 0] + 1j * bins[..., 1]
            np.testing.assert_allclose(found, fft.irfft(spectrum, n, norm=norm), atol=1e-12)
            theirs = torch.fft.irfft(torch.from_numpy(spectrum), n=n, norm=norm)
            np.testing.assert_allclose(found, theirs.numpy(), atol=1e-12)


# Powers of two and three, products of all radices, primes with and without a written-out sum.
LENGTHS = (16, 27, 60, 105, 128, 11, 97, 143, 210, 400, 1024)


@pytest.mark.parametrize("length", LENGTHS)
def test_compiled_transforms_of_a_known_length(length: int):
    x = normal(3, length)
    expected = np.fft.rfft(x, axis=-1)
    for dtype, unit in (("f64", 2.0**-52), ("f32", 2.0**-23)):
        # An element's error grows with the root of what is added, and slower than that.
        limit = 8 * unit * np.sqrt(length)
        values = x if dtype == "f64" else x.astype(np.float32).astype(np.float64)
        ((_, found),) = by_program("rfft", [values], dtype=dtype)
        np.testing.assert_allclose(found, pairs(np.fft.rfft(values)), atol=limit)
        ((_, back),) = by_program("irfft", [pairs(expected)], {"n": length}, dtype=dtype)
        np.testing.assert_allclose(back, x, atol=limit)


def test_one_program_serves_every_length():
    text, _ = program("rfft", [normal(2, 8).astype(np.float32)], {}, 1, {0: ["R", "N"]})
    inverse, _ = program("irfft", [normal(2, 5, 2).astype(np.float32)], {}, 1, {0: ["R", "M", "2"]})
    with oi.compile(oi.graph(text), None).make_executor() as forward:
        with oi.compile(oi.graph(inverse), None).make_executor() as backward:
            for rows, length in ((1, 1), (2, 8), (3, 31), (1, 100), (0, 4)):
                x = normal(rows, length).astype(np.float32)
                bins = np.asarray(forward.run(a0=x)["r0"])
                np.testing.assert_allclose(bins, pairs(np.fft.rfft(x)), atol=1e-4)
                if length % 2 == 0:
                    back = np.asarray(backward.run(a0=bins)["r0"])
                    np.testing.assert_allclose(back, x, atol=1e-5)


def test_a_round_trip_gives_the_signal_back():
    for length in range(1, 40):
        x = normal(length)
        (bins,) = by_twin("rfft", [x], {"norm": "ortho"})
        (back,) = by_twin("irfft", [bins], {"norm": "ortho", "n": length})
        np.testing.assert_allclose(back, x, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("names", [None, {0: ["R", "N"]}])
def test_a_row_that_is_not_finite_is_nan_throughout(bad: float, names: Any):
    x = normal(3, 12).astype(np.float32)
    x[1, 5] = bad
    ((simulated, compiled),) = by_program("rfft", [x], names=names)
    for found in (simulated, compiled):
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[[0, 2]]).all()
    # What is cut away does not matter.
    ((simulated, compiled),) = by_program("rfft", [x], {"n": 5}, names=names)
    assert np.isfinite(simulated).all()
    assert np.isfinite(compiled).all()


def test_radices_multiply_to_the_length():
    for length in range(1, 500):
        assert int(np.prod(radices(length))) == length
    assert radices(1) == []
    assert radices(64) == [4, 4, 4]
    assert radices(2 * 3 * 7 * 11 * 13) == [2, 3, 7, 11, 13]
    assert radices(10007) == [10007]


@pytest.mark.parametrize(
    ("op", "x", "settings", "error", "message"),
    [
        ("rfft", TensorSpec.of("f32", [3, 0]), {}, ShapeError, "a signal of 0 samples"),
        ("rfft", TensorSpec.of("f32", []), {}, ShapeError, "x is f32[]"),
        ("rfft", TensorSpec.of("f32", [3, 4]), {"n": 0}, SettingError, "n=0 is no length"),
        ("rfft", TensorSpec.of("f32", [3, 4]), {"norm": "both"}, SettingError, '"backward" or'),
        ("rfft", TensorSpec.of("i32", [3, 4]), {}, OpDTypeError, "does not take i32"),
        ("irfft", TensorSpec.of("f32", [3, 1, 2]), {}, ShapeError, "a signal of 0 samples"),
        ("irfft", TensorSpec.of("f32", [3, 4]), {}, ShapeError, "[..., M, 2]"),
        ("irfft", TensorSpec.of("f32", [2]), {}, ShapeError, "x is f32[2]"),
    ],
)  # fmt: skip
def test_refusals(
    op: str, x: TensorSpec, settings: dict[str, Any], error: type[OpError], message: str
):
    spec = find(op)
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, [x], settings)
    assert message in f"{raised.value.message} {raised.value.hint}"
