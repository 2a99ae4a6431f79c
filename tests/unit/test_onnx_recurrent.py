"""LSTM and GRU of ONNX, whose gates stand in another order than those of the ops: weights of the file are
stored in the order of the ops, what a run computes is brought into it by ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

Array = np.ndarray[Any, Any]
GATES = {"LSTM": 4, "GRU": 3}
HIDDEN = 5


def weights(op: str, directions: int, prefix: str = "") -> dict[str, Array]:
    """W, R and B of a layer over 3 elements."""
    random = np.random.default_rng(11 + len(prefix))
    rows = GATES[op] * HIDDEN
    shapes = {"W": (rows, 3), "R": (rows, HIDDEN), "B": (2 * rows,)}
    return {
        prefix + name: random.standard_normal((directions, *shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def check(
    nodes: list[tuple[str, list[str], dict[str, Any]]],
    held: dict[str, Array],
    given: dict[str, Array],
) -> tuple[str, oi.Package]:
    """Nodes with as many results as there may be, against ONNX Runtime; gives text and package."""
    helper = onnx.helper
    made, results = [], list[str]()
    for place, (op, inputs, settings) in enumerate(nodes):
        names = [f"y{place}{part}" for part in ("", "_h", "_c")[: 3 if op == "LSTM" else 2]]
        made.append(helper.make_node(op, inputs, names, hidden_size=HIDDEN, **settings))
        results += names
    x = np.random.default_rng(2).standard_normal((4, 2, 3)).astype(np.float32)
    feeds = {"x": x, **given}
    infos = [helper.make_tensor_value_info(n, 1, one.shape) for n, one in feeds.items()]
    ends = [helper.make_tensor_value_info(name, 1, None) for name in results]
    kept = [onnx.numpy_helper.from_array(one, name) for name, one in held.items()]
    graph = helper.make_graph(made, "layers", infos, ends, kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = dict(zip(results, session.run(None, feeds)))
    program, package = oi.from_onnx(model)
    for executor in (
        oi.Simulator(program, package).make_executor(),
        oi.compile(program, package).make_executor(),
    ):
        found = executor.run(**feeds)
        for name, want in wanted.items():
            np.testing.assert_allclose(np.asarray(found[name]), want, rtol=1e-5, atol=1e-6)
    return str(program), package


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", list(GATES))
def test_weights_of_the_file_are_stored_in_order(op: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    settings = {"direction": direction} | ({"linear_before_reset": 1} if op == "GRU" else {})
    held = weights(op, directions)
    text, package = check([(op, ["x", "W", "R", "B"], settings)], held, {})
    assert "concat" not in text
    assert "slice" not in text
    order = "ifgo" if op == "LSTM" else "rzn"
    names = {f"W.{order}", f"R.{order}", f"B.{order}_ih", f"B.{order}_hh"}
    assert names <= {*package.tensors}
    assert not {*held} & {*package.tensors}


@pytest.mark.parametrize("op", list(GATES))
def test_weights_that_a_run_gives(op: str) -> None:
    settings = {"linear_before_reset": 1} if op == "GRU" else {}
    text, _ = check(
        [(op, ["x", "w", "r", "b"], settings)],
        {},
        {name.lower(): one for name, one in weights(op, 1).items()},
    )
    assert "concat" in text


def test_weights_that_two_layers_share() -> None:
    """Also where another tensor has the name that one in order would get."""
    held = weights("LSTM", 1)
    other = {"W.ifgo": held["W"] * 2}
    nodes: list[tuple[str, list[str], dict[str, Any]]] = [
        ("LSTM", ["x", "W", "R", "B"], {}),
        ("LSTM", ["x", "W", "R"], {"direction": "reverse"}),
        ("LSTM", ["x", "W.ifgo", "R", "B"], {}),
    ]
    _, package = check(nodes, held | other, {})
    assert {"W.ifgo_", "W.ifgo.ifgo"} <= {*package.tensors}
