"""Loads the handlers of all families; each enters its own into the table."""

from openinfer.compiler.importers.onnx import (
    activations,
    contrib,
    control,
    elementwise,
    indexing,
    layout,
    make,
    normalise,
    products,
    quantised,
    recurrent,
    reduce,
    resize,
    windows,
)
from openinfer.compiler.importers.onnx.node import HANDLERS

FAMILIES = (
    *(activations, contrib, control, elementwise, indexing, layout, make, normalise),
    *(products, quantised, recurrent, reduce, resize, windows),
)

__all__ = ["FAMILIES", "HANDLERS"]
