"""Operators of which ONNX's own tests show few forms, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.lowering.graph.imports.forms_of_constants import form_of_content
from openinfer.runtime.errors import OpenInferError, ProgramError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(44)


def f32(*shape: int) -> Array:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def model_of(
    op: str,
    inputs: dict[str, Array],
    types: tuple[int, ...] = (1,),
    domain: str = "",
    **settings: Any,
) -> Any:
    """A node with these inputs, those whose names are capitals as initializers."""
    helper = onnx.helper
    results = [f"y{place}" for place in range(len(types))]
    node = helper.make_node(op, list(inputs), results, domain=domain, **settings)
    kind = helper.np_dtype_to_tensor_dtype
    infos = [
        helper.make_tensor_value_info(name, kind(one.dtype), one.shape)
        for name, one in inputs.items()
        if name.islower()
    ]
    weights = [onnx.numpy_helper.from_array(a, n) for n, a in inputs.items() if n.isupper()]
    ends = [helper.make_tensor_value_info(n, t, None) for n, t in zip(results, types)]
    graph = helper.make_graph([node], "one", infos, ends, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def agree(op: str, inputs: dict[str, Array], **settings: Any) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = model_of(op, inputs, **settings)
    feeds = {name: one for name, one in inputs.items() if name.islower()}
    providers = ["CPUExecutionProvider"]
    wanted = runtime.InferenceSession(model.SerializeToString(), providers=providers).run(
        None, feeds
    )
    graph, package = oi.from_onnx(model)
    with oi.Simulator(graph, package).make_executor() as executor:
        found = executor.run(**feeds)
    for place, want in enumerate(wanted):
        one = np.asarray(found[f"y{place}"])
        assert one.dtype == want.dtype
        np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-5)


def test_transposed_convolutions_of_volumes() -> None:
    volume = f32(2, 4, 3, 2, 4)
    agree("ConvTranspose", {"x": volume, "W": f32(4, 5, 2, 3, 2), "B": f32(5)})
    settings = {"strides": [2, 1, 3], "pads": [1, 0, 2, 0, 1, 1], "output_padding": [1, 0, 2]}
    agree("ConvTranspose", {"x": volume, "W": f32(4, 5, 2, 3, 2)}, **settings)
    agree("ConvTranspose", {"x": volume, "W": f32(4, 3, 2, 2, 2)}, group=2, dilations=[1, 2, 1])


@pytest.mark.parametrize("order", [0, 1])
def test_places_of_the_largest_elements(order: int) -> None:
    types = (1, 7)
    image = f32(2, 3, 7, 6)
    settings: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 2], "storage_order": order}
    agree("MaxPool", {"x": image}, types=types, **settings)
    settings |= {"pads": [1, 0, 1, 1], "ceil_mode": 1}
    agree("MaxPool", {"x": image}, types=types, **settings)
    if order == 0:
        settings = {"kernel_shape": [2, 2, 2], "dilations": [2, 1, 1]}
        agree("MaxPool", {"x": f32(1, 2, 4, 5, 3)}, types=types, **settings)
        agree("MaxPool", {"x": f32(1, 2, 9)}, types=types, kernel_shape=[3])


def test_numbers_at_their_limits() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.5, -3.0], np.float32)
    agree("Sign", {"x": x})
    agree("ThresholdedRelu", {"x": x})
    agree("Shrink", {"x": x}, lambd=1.0, bias=0.5)
    agree("HardSigmoid", {"x": x})


@pytest.mark.parametrize("where", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("mode", ["floor", "round_prefer_ceil"])
def test_places_between_two_elements(where: str, mode: str) -> None:
    """`0.5 / 0.2` is 2.5 in f32, where the scale is given, and a little less in f64."""
    inputs = {"x": f32(1, 1, 5, 6), "R": np.zeros(0, np.float32)}
    inputs["S"] = np.array([1, 1, 0.2, 0.6], np.float32)
    agree("Resize", inputs, coordinate_transformation_mode=where, nearest_mode=mode)


def test_labels() -> None:
    lists = {"keys_int64s": [3, 1, 7], "values_floats": [0.5, -2.0, 9.0], "default_float": 4.0}
    given = np.array([[1, 2, 3], [7, 7, -1]], np.int64)
    agree("LabelEncoder", {"x": given}, domain="ai.onnx.ml", **lists)
    lists = {"keys_floats": [0.5, 1.5], "values_int64s": [10, 20], "default_int64": -3}
    given = np.array([1.5, 0.5, 0.25], np.float32)
    agree("LabelEncoder", {"x": given}, types=(7,), domain="ai.onnx.ml", **lists)
    with pytest.raises(ProgramError, match="OI1523"):
        oi.from_onnx(model_of("LabelEncoder", {"x": given}, domain="ai.onnx.ml"))


def test_dropout_keeps_a_part_of_the_elements() -> None:
    x = np.ones((64, 64), np.float32)
    inputs = {"x": x, "R": np.array(0.25, np.float32), "T": np.array(True)}
    graph, package = oi.from_onnx(model_of("Dropout", inputs, types=(1, 9)))
    with oi.Simulator(graph, package).make_executor() as executor:
        found = executor.run(x=x)
    y, kept = np.asarray(found["y0"]), np.asarray(found["y1"])
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(y, np.where(kept, np.float32(1 / 0.75), 0), rtol=1e-6)


def test_windows_of_unknown_length_have_no_places() -> None:
    model = model_of("MaxPool", {"x": f32(1, 2, 4, 4)}, types=(1, 7), kernel_shape=[2, 2])
    model.graph.input[0].type.tensor_type.shape.dim[3].dim_param = "W"
    with pytest.raises(ProgramError, match="axes of known length"):
        oi.from_onnx(model)


SEQUENCES = """sequences (float[B, 6] x) => (float[B, 6] y, float[2, B, 2] z, int64 n) {
    axis = Constant<value = int64[1] {0}>()
    two = Constant<value = int64 {2}>()
    one = Constant<value = int64 {1}>()
    last = Constant<value = int64 {-1}>()
    parts = SplitToSequence<axis = 1>(x, two)
    first = SequenceAt(parts, one)
    end = SequenceAt(parts, last)
    pair = SequenceConstruct(first, end)
    z = ConcatFromSequence<axis = 0, new_axis = 1>(pair)
    none = SequenceEmpty()
    some = SequenceInsert(none, end)
    more = SequenceInsert(some, first, last)
    all = SequenceInsert(more, end, one)
    fewer = SequenceErase(all, last)
    back = SequenceInsert(fewer, first)
    n = SequenceLength(back)
    y = ConcatFromSequence<axis = 1>(back)
}"""


def test_sequences_are_lists_while_a_model_is_read() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {SEQUENCES}')
    x = f32(3, 6)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    graph, package = oi.from_onnx(model)
    with oi.Simulator(graph, package).make_executor() as executor:
        found = executor.run(x=x)
    for name, want in zip(("y", "z", "n"), session.run(None, {"x": x})):
        np.testing.assert_array_equal(np.asarray(found[name]), want)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("s = SequenceConstruct(x, x) y = Relu(s)", "is a sequence where a tensor is needed"),
        ("y = SequenceAt(x, i)", "takes a sequence"),
        ("s = SequenceConstruct(x, x) y = SequenceAt(s, i)", "at 5 of a sequence of 2"),
        ("s = SequenceEmpty() y = ConcatFromSequence<axis = 0>(s)", "of no tensors"),
    ],
)
def test_sequences_that_are_refused(body: str, reason: str) -> None:
    text = (
        f"bad (float[2, 3] x) => (float[2, 3] y) {{ i = Constant<value = int64 {{5}}>() {body} }}"
    )
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 17]> {text}')
    with pytest.raises(ProgramError, match=reason):
        oi.from_onnx(model)


def test_a_hostile_window_is_refused_at_once() -> None:
    """Found by fuzzing: each channel of the window was a slice of its own."""
    h = onnx.helper
    graph = h.make_graph(
        [h.make_node("LRN", ["x"], ["y"], size=2**31)],
        "g",
        [h.make_tensor_value_info("x", 1, [1, 5, 2, 2])],
        [h.make_tensor_value_info("y", 1, None)],
    )
    with pytest.raises(OpenInferError, match="LRN with size=2147483648 is not supported"):
        oi.from_onnx(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)]))


def test_the_largest_integers_are_no_line() -> None:
    """Found by fuzzing: their differences do not fit into 64 bits."""
    assert form_of_content(np.array([2**62, -(2**63), 0, 7])) is None
    assert form_of_content(np.array([3, 5, 7])) is not None
