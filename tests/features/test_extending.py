"""What `docs/add-an-op.md` promises, row 94: an elementwise op is three rows, and all parts have it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from both import Make, refused
from xdsl.ir import SSAValue

import openinfer as oi
from openinfer.compiler.ops_page import ops_page
from openinfer.dialects import opset
from openinfer.lowering.linalg.scalar_emitter import Scalar
from openinfer.lowering.linalg.scalar_functions import FUNCTIONS
from openinfer.lowering.reference import twins
from openinfer.runtime.storage import AnyArray

TEXT = """
dynamic { x: f32[N, 3]; h: f16[5]; }
block entry {
    assign y: f32[N, 3]; assign z: f16[5];
    op add(x, x) >> y;
    op my_mish(y) >> y;
    op neg(y) >> y;
    op my_mish(h) >> z;
    return y, z;
}
"""


def _mish(x: AnyArray) -> AnyArray:
    return x * np.tanh(np.logaddexp(0, x))


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three rows of the page, for as long as a test runs."""
    similar = opset.find("softplus")
    assert similar is not None
    row = replace(similar, name="my_mish", doc="`x * tanh(softplus(x))`.", aliases=("softmish",))
    twins.twin_names()
    monkeypatch.setitem(vars(opset)["_SPECS"], "my_mish", row)
    monkeypatch.setitem(vars(opset)["_ALIASES"], "softmish", "my_mish")
    monkeypatch.setitem(vars(twins)["_TWINS"], "my_mish", lambda call: _mish(call.exact()))

    def scalar(s: Scalar, args: list[SSAValue]) -> SSAValue:
        s.require_float()
        (x,) = s.computed(args)
        return s.f("mulf", x, s.f("tanh", FUNCTIONS["softplus"](s, [x])))

    monkeypatch.setitem(FUNCTIONS, "my_mish", scalar)


def test_an_unknown_op_is_refused() -> None:
    assert "my_mish" in refused(TEXT, "OI0214").message


@pytest.mark.usefixtures("extended")
def test_three_rows_make_an_op(make: Make) -> None:
    executor = make(TEXT)
    h = np.array([-3, -0.5, 0, 0.5, 8], np.float16)
    for rows in (1, 7):
        x = np.linspace(-9, 9, 3 * rows, dtype=np.float32).reshape(rows, 3)
        found = executor.run(x=x, h=h)
        np.testing.assert_allclose(found["y"], -_mish(2 * x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["z"], _mish(h.astype(np.float64)), rtol=2e-3)


@pytest.mark.usefixtures("extended")
def test_every_part_reads_them() -> None:
    """Aliases, the type rules, graph JSON, and the page of the ops."""
    graph = oi.graph(TEXT.replace("my_mish(h)", "softmish(h)"))
    assert graph.check() == []
    assert oi.graph_json(graph.to_json()).check() == []
    with pytest.raises(oi.ProgramError, match="my_mish gives"):
        oi.Simulator(TEXT.replace("z: f16[5]", "z: f16[4]"))
    assert "slope" in refused(TEXT.replace("my_mish(h)", "my_mish(h, slope=1.0)"), "OI0215").message
    assert "`x * tanh(softplus(x))`" in ops_page()
