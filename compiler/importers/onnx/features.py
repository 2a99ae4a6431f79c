"""Operators of `ai.onnx.ml` that prepare numbers for a model."""

from __future__ import annotations

import numpy as np

from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.refusals import DAMAGED, Refusal

DOMAIN = "ai.onnx.ml"


@operator("Binarizer", domain=DOMAIN)
def binarizer(node: Node) -> Result:
    x = node.x()
    above = node.g.op("gt", x, node.float("threshold", 0.0))
    return node.g.op("cast", above, to=x.dtype)


@operator("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(node: Node) -> Result:
    """Elements of the last axis; those of a vector are one row."""
    g, x = node.g, node.x(0)
    places = g.op("reshape", node.x(1), shape=[-1])
    if x.rank == 1:
        x = g.op("unsqueeze", x, axes=[0])
    return g.op("gather", x, places, axis=x.rank - 1)


@operator("LabelEncoder", domain=DOMAIN)
def label_encoder(node: Node) -> Result:
    """A number for each number that is in a list, another one for all others."""
    g, x = node.g, node.x()
    keys = node.ints("keys_int64s") or node.floats("keys_floats")
    values = node.ints("values_int64s") or node.floats("values_floats")
    whole = node.has("values_int64s")
    default = node.int("default_int64", -1) if whole else node.float("default_float", -0.0)
    node.ignore("default_int64", "default_float", "default_string")
    node.need(keys is not None and values is not None, "labels that are no lists of numbers")
    assert keys is not None
    assert values is not None
    if len(keys) != len(values) or not keys:
        raise Refusal(DAMAGED, f"LabelEncoder has {len(keys)} keys and {len(values)} values")
    dtype = "i64" if whole else "f32"
    table = node.const(np.array([default, *values]), dtype, "labels")
    same = g.op("eq", g.op("unsqueeze", x, axes=[x.rank]), node.const(keys, x.dtype, "keys"))
    found = g.op("mul", g.op("cast", same, to="i64"), g.op("iota", shape=[len(keys)], dtype="i64"))
    found = g.op("sum_axis", found, axes=[-1])
    some = g.op("any", same, axes=[-1])
    return g.op("gather", table, g.op("where", some, g.op("add", found, 1), 0))
