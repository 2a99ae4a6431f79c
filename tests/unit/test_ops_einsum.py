"""einsum: against PyTorch, as programs with sizes of a step, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import Draws, by_program, by_twin, to_torch

from openinfer.dialects.ops.base import OpDTypeError, OpError, SettingError, ShapeError
from openinfer.dialects.opset import TensorSpec, find, infer_outputs

normal = Draws(5).normal

EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("bld,hd->blh", ((2, 3, 4), (5, 4))),
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ii->i", ((3, 3),)),
    ("iijj->j", ((3, 3, 2, 2),)),
    ("iii", ((3, 3, 3),)),
    ("ij, jk, kl -> li", ((2, 3), (3, 4), (4, 5))),
    ("i,j->ij", ((2,), (3,))),
    ("ij,ij->i", ((2, 3), (2, 3))),
    ("ij,ji->ij", ((2, 3), (3, 2))),
    ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("b...d,hd->b...h", ((2, 3, 4, 5), (6, 5))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (6, 4, 5))),
    ("i...,i...->...", ((2, 3), (2, 1))),
    ("zB,Ba", ((2, 3), (3, 4))),
    ("dba,cab->dc", ((2, 3, 4), (5, 4, 3))),
    ("kbi,bjk->bij", ((4, 2, 3), (2, 5, 4))),
    ("n,ij->j", ((2,), (3, 4))),
    ("ab,ab,ab->", ((2, 3), (2, 3), (2, 3))),
    ("ij,jk->ik", ((2, 0), (0, 3))),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_sums_are_pytorchs(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    torch = pytest.importorskip("torch")
    operands = [normal(*shape) for shape in shapes]
    expected = torch.einsum(equation, *map(to_torch, operands)).numpy()
    ((simulated, compiled),) = by_program("einsum", operands, {"equation": equation})
    np.testing.assert_allclose(simulated, expected, atol=1e-12)
    np.testing.assert_allclose(compiled, expected, atol=1e-12)


def test_one_program_serves_every_size() -> None:
    x, y = normal(2, 3, 3, 4), normal(4, 3)
    settings = {"equation": "biid,di->bd"}
    names = {0: ["B", "I", "I", "D"], 1: ["D", "I"]}
    ((simulated, compiled),) = by_program("einsum", [x, y], settings, names=names)
    np.testing.assert_allclose(compiled, simulated, atol=1e-12)


def test_only_the_diagonal_counts() -> None:
    x = np.full((3, 3), np.nan)
    np.fill_diagonal(x, [1, 2, 3])
    for found in by_program("einsum", [x], {"equation": "ii->"})[0]:
        assert found == 6


def test_narrow_floats_add_up_in_f32_and_integers_wrap() -> None:
    x, y = np.full((1, 4000), 0.5, np.float16), np.full(4000, 0.25, np.float16)
    for found in by_program("einsum", [x, y], {"equation": "ij,j->i"})[0]:
        assert found == [500]
    x, y = np.full((1, 3), 100, np.int8), np.full(3, 2, np.int8)
    for found in by_program("einsum", [x, y], {"equation": "ij,j->i"})[0]:
        assert found == [600 - 512]


def test_mixed_floats_meet() -> None:
    x, y = normal(2, 3).astype(np.float16), normal(3, 2).astype(np.float32)
    (found,) = by_twin("einsum", [x, y], {"equation": "ij,jk->ik"})
    assert found.dtype == np.float32


F = "f32"


@pytest.mark.parametrize(
    ("equation", "operands", "error", "message"),
    [
        ("ij,jk->ik", [(F, 2, 3), (F, 4, 5)], ShapeError, "axis j is 3 in one operand and 4"),
        ("ii->i", [(F, 2, 3)], ShapeError, "axis i is 2 in one operand and 3"),
        ("...i->...i", [(F,)], SettingError, "names 1 axes of operand 0, which has 0"),
        ("ij", [(F, 2)], SettingError, "names 2 axes of operand 0, which has 1"),
        ("i->i", [(F, 2, 3)], SettingError, "names 1 axes of operand 0, which has 2"),
        ("ij,jk->ik", [(F, 2, 3)], SettingError, "is for 2 operands, got 1"),
        ("i->j", [(F, 2)], SettingError, "no operand has the axis j"),
        ("ij->ii", [(F, 2, 3)], SettingError, "names the axis i twice"),
        ("...i->i", [(F, 2, 3)], SettingError, "lacks the axes of `...`"),
        ("...i...->i", [(F, 2, 3)], SettingError, "no list of axes"),
        ("i1->i", [(F, 2, 3)], SettingError, "no list of axes"),
        ("i->i->i", [(F, 2)], SettingError, "no list of axes"),
        ("...i,...i->...i", [(F, 2, 3), (F, 4, 3)], ShapeError, "an axis of `...` is 2"),
        ("i,i->i", [(F, 2), ("i8", 2)], OpDTypeError, "operand 1 is i8"),
        ("i->i", [("bool", 2)], OpDTypeError, "does not take bool"),
    ],
)  # fmt: skip
def test_refusals(
    equation: str, operands: list[tuple[Any, ...]], error: type[OpError], message: str
) -> None:
    spec = find("einsum")
    assert spec is not None
    with pytest.raises(error) as raised:
        infer_outputs(
            spec, [TensorSpec.of(d, dims) for d, *dims in operands], {"equation": equation}
        )
    assert message in raised.value.message
