"""Rotary embedding against the two forms that models use, written with PyTorch, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Array, by_program, by_twin

from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

RANDOM = np.random.default_rng(4)


def normal(*shape: int) -> Array:
    return RANDOM.normal(size=shape)


def half_split(torch: Any, x: Any, positions: Any, base: float) -> Any:
    """As Llama's weights on the hub are used: the second half stands beside the first."""
    size = x.shape[-1]
    frequencies = 1.0 / base ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(positions.double(), frequencies)
    angles = torch.cat([angles, angles], dim=-1)
    turned = torch.cat([-x[..., size // 2 :], x[..., : size // 2]], dim=-1)
    return x * angles.cos() + turned * angles.sin()


def interleaved(torch: Any, x: Any, positions: Any, base: float) -> Any:
    """As Llama was published: neighbours are a complex number."""
    size = x.shape[-1]
    frequencies = 1.0 / base ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(positions.double(), frequencies)
    phases = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * phases).flatten(-2)


@pytest.mark.parametrize("pairing", [False, True])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_both_forms(pairing: bool, base: float):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, positions = normal(2, 3, 7, 16), np.arange(5, 12)
    form = interleaved if pairing else half_split
    expected = form(torch, torch.from_numpy(x), torch.from_numpy(positions), base).numpy()
    settings = {"base": base, "interleaved": pairing}
    (found,) = by_twin("rope", [x, positions], settings)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    names = {0: ["B", "3", "T", "16"], 1: ["T"]}
    ((_, compiled),) = by_program("rope", [x, positions], settings, names=names)
    np.testing.assert_allclose(compiled, expected, atol=1e-12)
    # The same with heads behind positions, and as part of larger heads.
    moved = np.swapaxes(x, 1, 2).copy()
    (found,) = by_twin("rope", [moved, positions], {**settings, "layout": "blhd"})
    np.testing.assert_allclose(np.swapaxes(found, 1, 2), expected, atol=1e-12)
    wide = np.concatenate([x, normal(2, 3, 7, 4)], axis=-1)
    (found,) = by_twin("rope", [wide, positions], {**settings, "dims": 16})
    np.testing.assert_allclose(found[..., :16], expected, atol=1e-12)
    np.testing.assert_array_equal(found[..., 16:], wide[..., 16:])


def test_products_depend_on_distances_only():
    q, k = normal(1, 8), normal(1, 8)
    found: list[float] = []
    for shift in (0, 3, 1000):
        (a,) = by_twin("rope", [q, np.array([shift + 5])])
        (b,) = by_twin("rope", [k, np.array([shift + 2])])
        found.append(float(np.vdot(a, b)))
    assert found[1:] == pytest.approx([found[0]] * 2, abs=1e-10)


def test_positions_start_at_zero_and_may_differ_by_batch():
    x = normal(2, 3, 4, 8)
    (default,) = by_twin("rope", [x])
    (given,) = by_twin("rope", [x, np.arange(4)])
    np.testing.assert_array_equal(default, given)
    positions = np.array([[0, 1, 2, 3], [7, 8, 9, 10]])
    (both,) = by_twin("rope", [x, positions])
    for row in range(2):
        (one,) = by_twin("rope", [x[row : row + 1], positions[row]])
        np.testing.assert_array_equal(both[row], one[0])


def test_far_positions_keep_their_angle():
    """The angle is made in f64: in f32 position 100003 is off by several thousandths."""
    x = normal(1, 2, 8).astype(np.float32)
    positions = np.array([100003, 1000003])
    ((simulated, compiled),) = by_program("rope", [x, positions])
    np.testing.assert_allclose(compiled, simulated, atol=3e-7)


X = TensorSpec.of("f32", [2, 3, 5, 8])


@pytest.mark.parametrize(
    ("operands", "settings", "error", "message"),
    [
        ([X], {"dims": 3}, SettingError, "3 elements cannot be rotated"),
        ([X], {"dims": 10}, SettingError, "10 elements cannot be rotated"),
        ([X], {"base": 0.0}, SettingError, "not positive"),
        ([X], {"layout": "hd"}, SettingError, '"bhld" or "blhd"'),
        ([TensorSpec.of("f32", [5, 7])], {}, SettingError, "7 elements"),
        ([TensorSpec.of("f32", [8])], {}, ShapeError, "x is f32[8]"),
        ([TensorSpec.of("f32", [5, 8])], {"layout": "blhd"}, ShapeError, "x is f32[5, 8]"),
        ([X, TensorSpec.of("i64", [4])], {}, ShapeError, "[4] do not broadcast to [2, 5]"),
        ([X, TensorSpec.of("i64", [3, 5])], {}, ShapeError, "do not broadcast"),
        ([X, TensorSpec.of("f32", [5])], {}, OpDTypeError, "positions are f32"),
    ],
)  # fmt: skip
def test_refusals(
    operands: list[TensorSpec], settings: dict[str, Any], error: type[OpError], message: str
):
    spec = find("rope")
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(spec, operands, settings)
    assert message in raised.value.message
