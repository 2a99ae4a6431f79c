"""Loads the handlers of all families; each enters its own into the table."""

from openinfer.compiler.importers.onnx import (
    activations,
    attention,
    contrib,
    contrib_experts,
    contrib_fused,
    contrib_gather,
    contrib_quantised,
    control,
    deformable,
    elementwise,
    features,
    grouped_attention,
    indexing,
    layout,
    make,
    normalise,
    products,
    quantised,
    recurrent,
    reduce,
    resize,
    sampling,
    sequences,
    signal,
    training,
    windows,
)
from openinfer.compiler.importers.onnx.node import HANDLERS

FAMILIES = (
    *(activations, attention, contrib, contrib_experts, contrib_fused, contrib_gather),
    *(contrib_quantised, control, deformable, elementwise, features, grouped_attention),
    *(indexing, layout, make, normalise, products, quantised, recurrent, reduce, resize),
    *(sampling, sequences, signal, training, windows),
)

__all__ = ["FAMILIES", "HANDLERS"]
