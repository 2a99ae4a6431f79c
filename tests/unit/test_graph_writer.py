"""What readers of foreign models write runs as it is, and says where it comes from."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import NameLoc

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.graph_writer import GraphWriter
from openinfer.dialects.graph import OpOp
from openinfer.dialects.ops.base import OpError
from openinfer.lowering.graph.imports.provenance import Provenance, provenance_of

STEPS = np.arange(1, 5, dtype=np.float32)
QUERY = Provenance("layer.0.query", "Linear", "q", "aten.linear", "m.py", 12)


def test_a_written_program_runs() -> None:
    g = GraphWriter(reserved=["x", "y", "sum"])
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 3), dtype=np.float32)
    x = g.input("x", "f32", ["B", 3])
    total = g.state("total", "f32", [4], "total", np.full(4, 2, np.float32))
    with g.at(QUERY):
        y = g.op("linear", x, g.weight("layer.0.query.weight", weights, "f32", [4, 3]))
    y = g.op("mul", y, 2)
    carried = g.copy(y)
    with g.loop(3):
        g.assign_to(carried, g.op("add", carried, g.constant(STEPS)))
    summed = g.op("add", g.read_state(total), g.op("sum_axis", carried, axes=[0]))
    g.write_state(summed, total)
    imported = g.finish([("y", carried), ("sum", summed)])
    (product,) = [
        op for op in imported.module.walk() if isinstance(op, OpOp) and op.op_name.data == "linear"
    ]
    assert provenance_of(product) == QUERY
    assert isinstance(product.location, NameLoc)

    value = rng.standard_normal((2, 3), dtype=np.float32)
    expected = 2 * (value @ weights.T) + 3 * STEPS
    graph = oi.graph(print_program(imported.module))
    for executor in (
        oi.Simulator(graph, imported.tensors).make_executor(),
        oi.compile(graph, imported.tensors).make_executor(),
    ):
        want = np.full(4, 2, np.float32)
        for _ in range(2):
            executor.insert(x=value)
            executor.step()
            want = want + expected.sum(0)
            np.testing.assert_allclose(executor.fetch("y"), expected, rtol=1e-5)
            np.testing.assert_allclose(executor.fetch("sum"), want, rtol=1e-5)


def test_an_op_that_takes_no_such_operands_says_so() -> None:
    g = GraphWriter()
    x = g.input("x", "f32", [2, 3])
    with pytest.raises(OpError, match="inner dimensions"):
        g.op("matmul", x, x)
