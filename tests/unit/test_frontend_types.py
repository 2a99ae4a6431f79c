"""Types that are left open: what fills them in, when, and what cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_program, print_program
from openinfer.dialects import graph
from openinfer.lowering.graph.infer_types import has_open_types, with_types
from openinfer.runtime.packages.oinf_writer import OinfContent


def model(folder: Path, **content: Any) -> oi.Package:
    path = folder / "model.oinf"
    oi.write_oinf(OinfContent(**content), path)
    return oi.open_model(path)


def types(module: Any) -> dict[str, str]:
    """The type of every variable and temporary, as the IR prints it."""
    return {
        op.variable.data: f"{op.dtype.data}[{', '.join(map(str, op.sizes))}]"
        for op in module.walk()
        if isinstance(op, graph.VariableOp | graph.AssignOp)
    }


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("op matmul(x, w) >> t;", "f32[B, 3]"),
        ("op gt(x, x) >> t;", "bool[B, D]"),
        ("op sum_axis(x, axes=[0]) >> t;", "f32[D]"),
        ("op argmax_axis(x, axis=1) >> t;", "i64[B]"),
        ("op cast(x, to=f16) >> t;", "f16[B, D]"),
        ("op reshape(x, shape=[D, B]) >> t;", "f32[D, B]"),
        ("transfer w >> t;", "f32[D, 3]"),
        ("transfer W[1] >> t;", "f16[D]"),
        ("cache.read p >> t;", "f64[D]"),
        ("cache.read K[0, 1] >> t;", "f32[D, D]"),
        ("cache.read K[0] >> t;", "f32[_, D, D]"),
        ("cache.read K[] >> t;", "f32[_, _, D, D]"),
        ("cache.read A[1, 1] >> t;", "f32[_, _]"),
        ("cache.read A[1, ] >> t;", "f32[_]"),
        ("cache.read A[] >> t;", "f32[_, _]"),
        ("cache.read C[0..2, 1, 1] >> t;", "f32[2, _, _]"),
        ("cache.read C[0] >> t;", "f32[_, _]"),
        ("loop k (i in 0..2) { op relu(x) >> t; }", "f32[B, D]"),
        ("op split(x, axis=0) >> t, u;", "f32[B/2, D]"),
        ("branch b;", "f32[B, D]"),
        ("assign u: _; op relu(x) >> u; op relu(u) >> t;", "f32[B, D]"),
    ],
)
def test_a_temporary_takes_its_first_value(statement: str, wanted: str) -> None:
    module = parse_program(
        'dynamic { x: f32[B, D]; w: f32[D, 3]; } constant { W(l): f16[D] @pattern("w.{l}"); }'
        "persistent { p: f64[D]; K(l, t): f32[D, D] @table; A(i, j): f32[D, D] @auto_dim(i, j);"
        "C(l, i, j): f32[D, D] @table @auto_dim(i, j); }"
        f"block entry {{ assign t: _; {'assign u: f32[B/2, D];' if 'split' in statement else ''}"
        f"{statement} return; }} block b {{ op relu(x) >> t; return; }}"
    )
    found = types(module)["t"]
    assert found == wanted
    assert not has_open_types(module)
    assert parse_program(print_program(module)).is_structurally_equivalent(module)


def test_the_package_decides(tmp_path: Path) -> None:
    text = (
        'constant { w: _; e: _ @ref("norm.eps"); W(l): _ @pattern("l.{l}.w"); n: _; list: _; }'
        "volatile { v: _; } dynamic { x: f32[B, D]; } block entry { assign t: _; assign u: _;"
        "op matmul(x, w) >> t; op mul(t, e) >> u; op matmul(u, W[n]) >> u; return t, u; }"
    )
    module = parse_program(text)
    assert has_open_types(module)
    assert parse_program(print_program(module)).is_structurally_equivalent(module)
    content: dict[str, Any] = {
        "sizevars": {"D": 3, "n": 1},
        "metadata": {"norm.eps": oi.ScalarValue(0.5, "f32"), "list": np.array([1, 2], np.int16)},
        "tensors": {
            "w": np.ones((3, 2), np.float32),
            "l.1.w": np.eye(2, dtype=np.float32),
            "v": np.zeros(4, np.uint8),
        },
    }
    with model(tmp_path, **content) as package:
        closed = with_types(module, package, {})
        assert closed is not module
        assert has_open_types(module), "the program is not changed"
        assert types(closed) == {
            "w": "f32[3, 2]", "e": "f32[]", "W": "f32[2, 2]", "n": "i64[]", "list": "i16[2]",
            "v": "u8[4]", "x": "f32[B, D]", "t": "f32[B, 2]", "u": "f32[B, 2]",
        }  # fmt: skip
        graph_text = oi.graph(text)
        found = oi.Simulator(graph_text, package).make_executor().run(x=np.ones((2, 3), np.float32))
        np.testing.assert_array_equal(found["t"], np.full((2, 2), 3))
    # One program with another package.
    other = tmp_path / "other"
    other.mkdir()
    content["tensors"] = {
        "w": np.ones((3, 4), np.float32), "l.1.w": np.eye(4, dtype=np.float32), "v": np.zeros(4, np.uint8),
    }  # fmt: skip
    with model(other, **content) as package:
        assert types(with_types(module, package, {}))["t"] == "f32[B, 4]"
        executor = oi.Simulator(graph_text, package).make_executor()
        assert np.asarray(executor.run(x=np.ones((1, 3), np.float32))["t"]).shape == (1, 4)


def test_sizes_that_are_equal_in_value(tmp_path: Path) -> None:
    """The rule of an op wants provably equal sizes; with the values of a package they may be."""
    text = (
        "dynamic { x: f32[B, D]; } constant { w: f32[E, D]; }"
        "block entry { assign t: _; op matmul(x, w) >> t; return t; }"
    )
    module = parse_program(text)
    assert types(module)["t"] == "_[]"
    with model(
        tmp_path, sizevars={"D": 3, "E": 3}, tensors={"w": np.eye(3, dtype=np.float32)}
    ) as p:
        assert types(with_types(module, p, {}))["t"] == "f32[B, 3]"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("constant { w: _; } block entry { return w; }", "OI0325", "'w'"),
        ('constant { W(l): _ @pattern("w.{l}"); } block entry { return; }', "OI0326", "w.{l}"),
        ('constant { s: _ @ref("mode"); } block entry { return s; }', "OI0325", "no number"),
        ("block entry { assign t: _; return t; }", "OI0329", "does not follow"),
        (
            "block entry { assign t: _; assign u: _; transfer t >> u; transfer u >> t; return; }",
            "OI0329",
            "does not follow",
        ),
        (
            "dynamic { x: f32[B, D]; } block entry { assign t: _; op matmul(x, x) >> t; return t; }",
            "OI0329",
            "inner dimensions differ",
        ),
    ],
)
def test_what_cannot_be_known(text: str, code: str, message: str, tmp_path: Path) -> None:
    with model(tmp_path, metadata={"mode": "fast"}) as package:
        for given in (package, None):
            if given is None and "mode" in text:
                continue
            with pytest.raises(oi.ProgramError) as caught:
                oi.Simulator(text, given)
            assert caught.value.code == code
            assert message in caught.value.message
            assert caught.value.diagnostics[0].location is not None
            with pytest.raises(oi.ProgramError) as compiled:
                oi.compile(text, given)
            assert compiled.value.code in (code, "OI0326")


def test_a_second_shape_of_a_name_is_named_where_an_op_stumbles_over_it() -> None:
    """The op that cannot work on h is right; the mistake is the line before, which h does not follow."""
    text = (
        "dynamic { x: f32[B, 2, 2]; } constant { w: f32[3, 4]; } block entry {\n"
        "h = op relu(x);\nh = op reshape(h, shape=[B, 4]);\ny = op linear(h, w);\nreturn y; }"
    )
    with pytest.raises(oi.ProgramError) as caught:
        oi.compile(text, {"w": np.ones((3, 4), np.float32)})
    (found,) = caught.value.diagnostics
    assert found.code == "OI0329"
    assert found.location is not None
    assert found.location.line == 4
    (note,) = found.notes
    assert note.message == (
        "reshape gives f32[B, 4] here, but h stays f32[B, 2, 2]: take another name"
    )
    assert note.location is not None
    assert note.location.line == 3
    alone = text.replace("w: f32[3, 4]", "w: f32[3, 5]").replace("h = op reshape", "g = op reshape")
    with pytest.raises(oi.ProgramError) as caught:
        oi.compile(alone, {"w": np.ones((3, 5), np.float32)})
    assert [one.notes for one in caught.value.diagnostics] == [()]


def test_open_dimensions_of_constants(tmp_path: Path) -> None:
    text = "constant { w: f32[_, 3]; } block entry { assign t: _; op neg(w) >> t; return t; }"
    with model(tmp_path, tensors={"w": np.ones((5, 3), np.float32)}) as package:
        assert oi.Simulator(text, package).make_executor().run()["t"].shape == (5, 3)


@pytest.mark.parametrize("executor", ["simulator", "compiled"])
def test_open_dimensions_of_inputs(executor: str) -> None:
    """Each is a size of its own: two inputs need not agree, and every step may differ."""
    text = (
        "dynamic { x: f32[_, 2]; z: f32[_]; } volatile { v: f32[_]; } block entry { assign t: _;"
        "assign u: f32[_]; op neg(x) >> t; op neg(z) >> u; op abs(u) >> v; return t, u, v; }"
    )
    made = oi.Simulator(text) if executor == "simulator" else oi.compile(text)
    running = made.make_executor()
    for rows, count in ((3, 5), (1, 2)):
        found = running.run(x=np.ones((rows, 2), np.float32), z=np.ones(count, np.float32))
        assert np.asarray(found["t"]).shape == (rows, 2)
        assert np.asarray(found["u"]).shape == np.asarray(found["v"]).shape == (count,)


def test_nothing_open_costs_nothing() -> None:
    module = parse_program("volatile { y: f32[B]; } block entry { return; }")
    assert with_types(module, None, {}) is module
