"""What constants come to, by the definition of right: a program of its own, on the simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Value
from openinfer.compiler.importers.onnx.items import Array, numpy_dtype
from openinfer.lowering.graph.imports.tensors import FOLD_LIMIT
from openinfer.runtime.dtypes import DTYPES


def simulated(write: Callable[[GraphWriter], Value]) -> Array | None:
    """The value that a program without inputs gives; None where it is larger than `FOLD_LIMIT` bytes."""
    from openinfer.compiler.api import Simulator, graph
    from openinfer.compiler.frontend.printer import print_program

    g = GraphWriter(["result"])
    value = write(g)
    shape = value.shape
    if (
        shape is None
        or DTYPES[value.dtype].bits * int(np.prod([*shape, 1], dtype=object)) > 8 * FOLD_LIMIT
    ):
        return None
    imported = g.finish([("result", value)])
    executor = Simulator(graph(print_program(imported.module)), imported.tensors).make_executor()
    return np.asarray(executor.run()["result"]).astype(numpy_dtype(value.dtype)).reshape(shape)
