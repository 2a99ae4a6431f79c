"""What `graph-to-nn` relies on: families of tensors, sizes by shape, liveness of variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openinfer.compiler.frontend import parse_text
from openinfer.dialects.graph import BlockOp
from openinfer.lowering.program.liveness import Flow, nodes_of
from openinfer.lowering.program.sources import family_extents, member_name, solve_dims
from openinfer.runtime.sizes import Size

DECLARED = """\
dynamic { a: f32[4]; b: f32[4]; c: bool; }
volatile { x: f32[4]; y: f32[4]; z: f32[4]; }
"""


def blocks_of(text: str) -> dict[str, BlockOp]:
    module = parse_text(DECLARED + text, "t.oi").module
    assert module is not None
    return {op.block_name.data: op for op in module.body.ops if isinstance(op, BlockOp)}


def live(text: str, *after: str) -> list[str]:
    """What is needed before entry when `after` is read behind it."""
    blocks = blocks_of(text)
    outside = frozenset(after)
    return sorted(Flow(blocks).live_before(nodes_of(blocks["entry"]), outside, outside))


@pytest.mark.parametrize(
    ("body", "after", "expected"),
    [
        ("op add(a, b) >> x; return;", ["x"], ["a", "b"]),
        ("op add(a, b) >> x; return;", ["x", "y"], ["a", "b", "y"]),
        ("op add(x, b) >> x; return;", ["x"], ["b", "x"]),
        ("transfer a >> x; transfer x >> y; return;", ["y"], ["a"]),
        # A loop may run not at all, or again.
        ("loop l (i in 0..3) { transfer a >> x; } return;", ["x"], ["a", "x"]),
        (
            "loop l (i in 0..3) { transfer y >> x; transfer a >> y; } return;",
            ["x"],
            ["a", "x", "y"],
        ),
        (
            "loop l (i in 0..3) { transfer z >> x; transfer y >> z; transfer a >> y; } return;",
            ["x"],
            ["a", "x", "y", "z"],
        ),
        # What is named as a result of the step is needed where it returns.
        ("transfer a >> x; return x, y;", [], ["a", "y"]),
    ],
)
def test_liveness(body: str, after: list[str], expected: list[str]) -> None:
    assert live(f"block entry {{ {body} }}", *after) == expected


def test_liveness_through_a_branch() -> None:
    text = """\
block entry { branch c one two; return; }
block one { transfer a >> x; return; }
block two { transfer b >> y; return; }
"""
    # Either side may leave what the other one writes as it was.
    assert live(text, "x", "y") == ["a", "b", "c", "x", "y"]
    assert live(text, "x") == ["a", "b", "c", "x"]


def test_written_in_order_of_the_first_write() -> None:
    text = """\
block entry { op add(a, b) >> y; branch c one two; loop l (i in 0..2) { transfer a >> z; } return; }
block one { transfer a >> x; return; }
block two { transfer b >> y; return; }
"""
    blocks = blocks_of(text)
    assert list(Flow(blocks).written(nodes_of(blocks["entry"]))) == ["y", "x", "z"]


@pytest.mark.parametrize(
    ("pattern", "order", "names", "extents"),
    [
        ("W.{l}", ["l"], ["W.0", "W.1", "W.10"], [11]),
        ("W.{l}", ["l"], ["W.a", "W.", "W.01", "xW.0", "W.0x"], [0]),
        ("b{i}.{j}.w", ["i", "j"], ["b0.0.w", "b1.4.w"], [2, 5]),
        ("b{i}.{j}.w", ["j", "i"], ["b0.0.w", "b1.4.w"], [5, 2]),
        ("a{i}.b{i}", ["i"], ["a1.b1", "a2.b3"], [2]),
        ("W({l})+", ["l"], ["W(3)+"], [4]),
    ],
)
def test_family_extents(
    pattern: str, order: list[str], names: list[str], extents: list[int]
) -> None:
    assert family_extents(pattern, order, names) == extents


def test_member_names() -> None:
    assert member_name("a{i}.b{j}.{i}", {"i": 2, "j": 0}) == "a2.b0.2"


def test_sizes_that_a_shape_fixes() -> None:
    dims = tuple(Size.of(d) for d in ("N", "2*N", "M", "N", 4))
    assert solve_dims(dims, (3, 6, 5, 7, 4), {}) == {"N": 3, "M": 5}
    assert solve_dims(dims, (3, 6, 5, 7, 4), {"N": 9}) == {"M": 5}


COUNTED = """
dynamic { x: f32[2]; }
persistent { C(i, j): f32[1, 2] @auto_dim(i, j); }
block entry { assign y: f32[_, 2]; cache.read C[0..i + j, 0..2] >> y; return y; }
"""


def test_counts_of_one_slot_stand_in_the_order_of_the_axes(tmp_path: Path) -> None:
    # Sets of names have another order in another process; what is lowered must not.
    program = tmp_path / "counted.oi"
    program.write_text(COUNTED)
    tool = [sys.executable, "-m", "openinfer.compiler.tools.openinfer_opt", str(program)]
    texts = [
        subprocess.run(
            [*tool, "-p", "bind-model,graph-to-nn", "--target-cpu", "avx2"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    assert texts[0] == texts[1]
    first, second = (
        texts[0].index('nn.extent "C"[] axis 0'),
        texts[0].index('nn.extent "C"[] axis 1'),
    )
    assert first < second
