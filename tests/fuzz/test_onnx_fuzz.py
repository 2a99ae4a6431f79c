"""Damaged ONNX files: bytes changed, cut out and put in. Each is refused with an error of ours, or read."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np
import pytest

from openinfer.compiler.importers.onnx.model_file import load_model
from openinfer.runtime.errors import OpenInferError, PackageError, UnsupportedError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

CASES = 1500
MEMORY = 16 << 20
"""Far above what a file of a few kilobytes needs, far below what a damaged count could ask for."""


def sample() -> bytes:
    """Graphs in attributes, functions, tensors of several dtypes inside and outside of the graph."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    value = helper.make_tensor_value_info
    then = helper.make_graph(
        [helper.make_node("Relu", ["h"], ["t"])], "then", [], [value("t", 1, None)]
    )
    constant = helper.make_node(
        "Constant", [], ["c"], value=numpy_helper.from_array(np.ones(3, np.int8), "c")
    )
    nodes = [
        constant,
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("If", ["flag"], ["r"], then_branch=then, else_branch=then),
        helper.make_node("Twice", ["r"], ["y"], domain="own"),
        helper.make_node("Conv", ["y", "k"], ["z"], pads=[1, 1, 1, 1], auto_pad="NOTSET"),
    ]
    tensors = [
        numpy_helper.from_array(np.zeros((40, 40), np.float32), "w"),
        helper.make_tensor("k", 16, [2], [1.0, 2.0]),
        helper.make_tensor("i", 22, [3], [1, 2, 3]),
        helper.make_tensor("f", 1, [2], [1.0, 2.0]),
        onnx.TensorProto(
            name="e",
            data_type=1,
            dims=[2],
            data_location=1,
            external_data=[onnx.StringStringEntryProto(key="location", value="e.bin")],
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "main",
        [value("x", 1, ["B", 40]), value("flag", 9, [])],
        [value("z", 1, None)],
        tensors,
    )
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], body, opsets)
    model = helper.make_model(graph, opset_imports=opsets, functions=[twice], ir_version=10)
    return model.SerializeToString()


def damage(data: bytes, random_: random.Random) -> bytes:
    """A few changes; those of single bytes hit lengths, numbers and texts alike."""
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 5))):
        at = random_.randrange(len(changed))
        match random_.randrange(5):
            case 0:
                changed[at] ^= 1 << random_.randrange(8)
            case 1:
                changed[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del changed[at : at + random_.choice((1, 2, 8, 100))]
            case 3:
                other = random_.randrange(len(changed))
                changed[at:at] = changed[other : other + random_.choice((1, 8, 40))]
            case _:
                changed[at : at + 9] = b"\xff" * 9
        if not changed:
            return b""
    return bytes(changed)


def read_all(data: bytes) -> Any:
    model = load_model(data)
    for tensor in model.proto.graph.initializer:
        if tensor.data_location != 1:
            model.tensor(tensor)
    return model


def test_damaged_files() -> None:
    data = sample()
    read_all(data)
    random_ = random.Random(16)
    read = 0
    tracemalloc.start()
    try:
        for case in range(CASES):
            damaged = damage(data, random_)
            try:
                read_all(damaged)
                read += 1
            except (PackageError, UnsupportedError) as error:
                if not error.code.startswith("OI155"):
                    pytest.fail(f"case {case}: {error}")
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
    assert CASES // 20 < read < CASES, "the damage is too small, or too large, to say anything"


def test_every_cut() -> None:
    data = sample()
    for stop in range(0, len(data), 3):
        with pytest.raises(PackageError) as caught:
            read_all(data[:stop])
        assert caught.value.code.startswith("OI155")


def test_nodes_that_contradict_their_operators() -> None:
    """Inputs that are gone or others, numbers that no attribute has: each is read, or a refusal."""
    from openinfer.compiler.importers.onnx.reader import read_model

    random_ = random.Random(21)
    texts = (
        "Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, k)",
        "Concat<axis = 1>(x, x)",
        "Reshape(x, s)",
        "Slice(x, s, s, s)",
        "Pad(x, s, v)",
        "Split<axis = 1, num_outputs = 2>(x)",
        "Gather<axis = 1>(x, s)",
        "LSTM<hidden_size = 2>(w, w, w)",
        "Transpose<perm = [3, 2, 1, 0]>(x)",
        "Scan<num_scan_inputs = 1, body = b (float[4, 8, 8] r) => (float[4, 8, 8] t) {t = Neg(r)}>(x)",
        "ScatterND(x, s, v)",
    )
    weights = "<int64[4] s = {0, 1, 2, 1}, float v = {1}, float[1, 2, 3] w = {1, 2, 3, 4, 5, 6}>"
    numbers = (0, -1, 7, 1 << 31, -(1 << 63), (1 << 63) - 1)
    read = 0
    for case in range(400):
        text = texts[case % len(texts)]
        model = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21]> '
            f"m (float[2, 4, 8, 8] x, float[4, 4, 3, 3] k) => (float[A, B] y) {weights} {{ y = {text} }}"
        )
        (node,) = model.graph.node
        attributes = [one for one in node.attribute if one.ints or one.type == 2]
        match random_.randrange(4):
            case 0:
                node.input[random_.randrange(len(node.input))] = random_.choice("xksvw")
            case 1:
                del node.input[random_.randrange(len(node.input)) :]
            case 2 if attributes:
                one = random_.choice(attributes)
                one.i = random_.choice(numbers)
                one.ints[:] = [random_.choice(numbers) for _ in one.ints]
            case _:
                size = random_.choice(model.graph.input[0].type.tensor_type.shape.dim)
                size.dim_value = random_.choice(numbers)
        try:
            read_model(model.SerializeToString())
            read += 1
        except OpenInferError:
            pass
    assert 20 < read < 380
