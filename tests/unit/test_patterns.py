"""Patterns of families: which tensors they mean, and that all who read them mean the same."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.lowering.program.sources import family_extents, member_indices, member_name
from openinfer.runtime.errors import ProgramError

TEXT = """
dynamic { x: f32[B, 4]; }
constant {
    W(l): f32[4, 4] @pattern("w.{l + 1}.a");
    U(l): _ @pattern("w.{l+1}.a");
    s(l): f32 @pattern("s.{l + 3}.{l}");
}
block entry {
    h = op mul(x, 1.0);
    loop layers (l in 0..2) {
        h = op matmul(h, W[l]);
        h = op matmul(h, U[l]);
        h = op add(h, s[l]);
    }
    return h;
}
"""


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("w.{l}", "w.7", {"l": 7}),
        ("w.{l + 2}", "w.7", {"l": 5}),
        ("w.{l + 2}", "w.1", None),
        ("w.{l}", "w.07", None),
        ("w.{l}.{l + 1}", "w.3.4", {"l": 3}),
        ("w.{l}.{l + 1}", "w.3.3", None),
        ("{h}.{l}(", "2.3(", {"h": 2, "l": 3}),
        ("w.{l - 1}", "w.{l - 1}", {}),
    ],
)
def test_which_tensor_is_which_member(
    pattern: str, name: str, found: dict[str, int] | None
) -> None:
    assert member_indices(pattern, name) == found
    if found is not None:
        assert member_name(pattern, found) == name


def test_a_family_reaches_to_its_last_tensor() -> None:
    names = ["w.0.a", "w.3.a", "v.9.a", "w.11.b"]
    assert family_extents("w.{l}.a", ["l"], names) == [4]
    assert family_extents("w.{l + 1}.a", ["l"], names) == [3]
    assert family_extents("w.{l + 5}.a", ["l"], names) == [0]


def test_a_family_begins_behind_tensors_of_another_shape() -> None:
    rng = np.random.default_rng(0)
    w = [rng.standard_normal((4 if i else 3, 4), dtype=np.float32) for i in range(3)]
    model = {f"w.{i}.a": one for i, one in enumerate(w)}
    model |= {f"s.{i + 3}.{i}": np.full((), i, np.float32) for i in range(2)}
    x = rng.standard_normal((2, 4), dtype=np.float32)
    want = x
    for i in range(2):
        want = want @ w[i + 1] @ w[i + 1] + i
    graph = oi.graph(TEXT)
    for made in (oi.Simulator(graph, model), oi.compile(graph, model)):
        np.testing.assert_allclose(made.make_executor().run(x=x)["h"], want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ProgramError, match=r"W is declared \[4, 4\], but tensor 'w.0.a'"):
        oi.Simulator(oi.graph(TEXT.replace("{l + 1}", "{l}")), model)


def test_an_offset_of_no_index_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"`\{k\}` in the pattern is no index of `W`"):
        oi.graph(TEXT.replace("l + 1", "k + 1")).check()
    with pytest.raises(ProgramError, match=r"`\{l \* 2\}` in the pattern is no index"):
        oi.graph(TEXT.replace("l + 1", "l * 2")).check()
