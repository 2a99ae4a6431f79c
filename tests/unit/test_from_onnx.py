"""ONNX models become programs: what models with open sizes, functions and wrong parts become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.lowering.graph.imports.provenance import provenance_of

onnx = pytest.importorskip("onnx", reason="onnx is not installed (make oracle)")
Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(7)


def drawn(*shape: int) -> Array:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def model_of(text: str, **weights: Array) -> Any:
    """A model written as ONNX's text, with weights."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21, "local" : 1]> {text}'
    )
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(one, name) for name, one in weights.items()
    )
    return model


def run(model: Any, executor: str = "simulator", **feeds: Array) -> dict[str, Array]:
    graph, package = oi.from_onnx(model)
    made = oi.Simulator(graph, package) if executor == "simulator" else oi.compile(graph, package)
    with made.make_executor() as runs:
        return {name: np.asarray(one) for name, one in runs.run(**feeds).items()}


MLP = """mlp (float[batch, 8] x) => (float[batch, 3] y) {
    h = Gemm<transB = 1>(x, w0, b0)
    a = Relu(h)
    y = Gemm<transB = 1>(a, w1, b1)
}"""


@pytest.mark.parametrize("executor", ["simulator", "cpu"])
@pytest.mark.parametrize("batch", [1, 5])
def test_a_perceptron(executor: str, batch: int) -> None:
    w0, b0, w1, b1 = drawn(4, 8), drawn(4), drawn(3, 4), drawn(3)
    x = drawn(batch, 8)
    found = run(model_of(MLP, w0=w0, b0=b0, w1=w1, b1=b1), executor, x=x)
    np.testing.assert_allclose(
        found["y"], np.maximum(x @ w0.T + b0, 0) @ w1.T + b1, rtol=1e-5, atol=1e-6
    )


SHAPES = """shapes (float[B, L, 12] x) => (float[B, 3, L, 4] y, int64[2] s) {
    dims = Shape(x)
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    axis = Constant<value = int64[1] {0}>()
    b = Gather(dims, zero)
    l = Gather(dims, one)
    b1 = Unsqueeze(b, axis)
    l1 = Unsqueeze(l, axis)
    heads = Constant<value = int64[2] {3, -1}>()
    to = Concat<axis = 0>(b1, l1, heads)
    split = Reshape(x, to)
    y = Transpose<perm = [0, 2, 1, 3]>(split)
    twice = Add(l1, l1)
    s = Concat<axis = 0>(b1, twice)
}"""


def test_shapes_are_computed_while_reading() -> None:
    graph, _ = oi.from_onnx(model_of(SHAPES))
    text = str(graph)
    assert "shape=[B, L, 3, 4]" in text
    assert "gather" not in text
    for shape in ((1, 2, 12), (3, 5, 12)):
        x = drawn(*shape)
        found = run(model_of(SHAPES), x=x)
        np.testing.assert_array_equal(found["y"], x.reshape(*shape[:2], 3, 4).transpose(0, 2, 1, 3))
        np.testing.assert_array_equal(found["s"], [shape[0], 2 * shape[1]])


FUNCTION = """calls (float[N, 4] x) => (float[N, 4] y) {
    h = local.scaled<by = 3.0>(x)
    y = local.scaled(h)
}
<domain: "local", opset_import: ["" : 21]>
scaled <by: float = 2.0>(x) => (y) {
    k = Constant<value_float: float = @by>()
    y = Mul(x, k)
}"""


def test_functions_are_put_in_and_named() -> None:
    x = drawn(2, 4)
    model = model_of(FUNCTION)
    for place, node in enumerate(model.graph.node):
        node.name = f"part.{place}"
    np.testing.assert_allclose(run(model, x=x)["y"], x * 6, rtol=1e-6)
    from openinfer.compiler.importers.onnx.reader import read_model

    module = read_model(model).imported.module
    modules = [provenance_of(op).module for op in module.walk() if provenance_of(op).call == "Mul"]
    assert modules[0] == "part.0"
    assert modules[-1] == "part.1"


BRANCH = """chooses (bool c, float[N] x) => (float[N] y) {
    y = If(c) <
        then_branch = yes () => (float[N] a) { a = Neg(x) },
        else_branch = no () => (float[N] b) { k = Constant<value_float: float = 2.0>() b = Mul(x, k) }
    >
}"""


@pytest.mark.parametrize("executor", ["simulator", "cpu"])
def test_a_condition_that_a_run_knows_is_a_branch(executor: str) -> None:
    x = drawn(3)
    for condition, factor in ((True, -1), (False, 2)):
        found = run(model_of(BRANCH), executor, c=np.array(condition), x=x)
        np.testing.assert_allclose(found["y"], x * factor, rtol=1e-6)


MANY = """many (float[4] x, float[4] w) => (float[4] y) {
    one = Constant<value = int64 {1000}>()
    go = Constant<value = int64 {1}>()
    yes = Cast<to = 9>(go)
    y = Loop(one, yes, x) <
        body = round (int64 i, bool c, float[4] h) => (bool d, float[4] k) { d = Identity(c) k = Mul(h, w) }
    >
}"""


def test_many_rounds_stay_a_loop() -> None:
    graph, _ = oi.from_onnx(model_of(MANY))
    assert "in 0..1000" in str(graph)
    x, w = drawn(4), np.full(4, 0.999, np.float32)
    np.testing.assert_allclose(run(model_of(MANY), x=x, w=w)["y"], x * 0.999**1000, rtol=1e-3)


SCAN = """scan (float[3] h, float[N, 3, T] x) => (float[3] end, float[N, 3, T] y) {
    e = Constant<value = float[1] {0.5}>()
    end, y = Scan<num_scan_inputs = 1, scan_input_axes = [2], scan_input_directions = [1],
        scan_output_axes = [2], scan_output_directions = [1], body = step
        (float[3] s, float[N, 3] row) => (float[3] t, float[N, 3] o) {
            o = Add(row, s)
            u = Mul(s, e)
            m = ReduceMean<keepdims = 0>(row)
            t = Add(u, m)
        }>(h, x)
}"""


@pytest.mark.parametrize("executor", ["simulator", "cpu"])
def test_a_scan_along_an_open_axis_is_a_loop(executor: str) -> None:
    graph, _ = oi.from_onnx(model_of(SCAN))
    assert "in 0..T" in str(graph)
    for count, length in ((2, 5), (1, 1)):
        h, x = drawn(3), drawn(count, 3, length)
        found = run(model_of(SCAN), executor, h=h, x=x)
        state, want = h, np.empty_like(x)
        for place in reversed(range(length)):
            want[:, :, place] = x[:, :, place] + state
            state = 0.5 * state + x[:, :, place].mean()
        np.testing.assert_allclose(found["y"], want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["end"], state, rtol=1e-5, atol=1e-6)


def test_sizes_that_are_equal_if_divisions_come_out_even() -> None:
    model = model_of(
        "m (float[1, 2, H] x) => (float[1, 4, H] y) {"
        "  half = MaxPool<kernel_shape = [2], strides = [2]>(x)"
        "  two = Constant<value = int64[3] {1, 1, 2}>()"
        "  whole = Tile(half, two)"
        "  y = Concat<axis = 1>(x, whole)"
        "}"
    )
    x = drawn(1, 2, 6)
    half = x.reshape(1, 2, 3, 2).max(-1)
    want = np.concatenate([x, np.tile(half, (1, 1, 2))], 1)
    np.testing.assert_array_equal(run(model, x=x)["y"], want)
    with pytest.raises(oi.OpenInferError):
        run(model, x=drawn(1, 2, 7))


def test_a_tile_by_a_size() -> None:
    model = model_of(
        "m (float[2, 3] x, float[N] like) => (float[A, 3] y) {"
        "  one = Constant<value = int64[1] {1}>()"
        "  n = Shape(like)"
        "  counts = Concat<axis = 0>(n, one)"
        "  y = Tile(x, counts)"
        "}"
    )
    x = drawn(2, 3)
    np.testing.assert_array_equal(run(model, x=x, like=drawn(4))["y"], np.tile(x, (4, 1)))


WRONG = """wrong (float[N, 4] x) => (float[N, 4] y) {
    a = Foo(x)
    b = NonZero(x)
    c = Softmax<axis = 7>(x)
    d = Foo(x)
    y = Relu(x)
}"""


def test_everything_that_is_refused_is_told_at_once() -> None:
    with pytest.raises(oi.ProgramError) as caught:
        oi.from_onnx(model_of(WRONG))
    codes = [one.code for one in caught.value.diagnostics]
    assert codes == ["OI1522", "OI1525", "OI1526"]
    assert "Foo is not supported, 2 times, at a, d" in str(caught.value)


def test_an_attribute_that_is_not_taken_is_refused() -> None:
    model = model_of(
        "m (float[1, 1, 4, 4] x) => (float[1, 1, 3, 3] y)"
        "{ y = MaxPool<kernel_shape = [2, 2], storage_order = 1>(x) }"
    )
    with pytest.raises(oi.ProgramError, match=r"OI1523.*storage_order=1"):
        oi.from_onnx(model)


def test_a_range_that_begins_at_a_size() -> None:
    text = """m (float[L] x) => (int64[a] y) <int64 step = {-1}> {
        last = Size(x)
        end = Neg(last)
        y = Range(last, end, step)
    }"""
    for length in (3, 4):
        want = np.arange(length, -length, -1)
        np.testing.assert_array_equal(run(model_of(text), x=drawn(length))["y"], want)


def test_a_session_makes_a_program_for_each_value_that_shapes_follow_from() -> None:
    from openinfer.onnx import InferenceSession

    model = model_of("m (float[6] x, int64[2] to) => (float[a, b] y) { y = Reshape(x, to) }")
    with pytest.raises(oi.ProgramError, match=r"OI1525.*content of to"):
        oi.from_onnx(model)
    session = InferenceSession(model)
    x = drawn(6)
    for shape in ([2, 3], [3, -1], [2, 3]):
        (y,) = session.run(["y"], {"x": x, "to": np.array(shape)})
        np.testing.assert_array_equal(y, x.reshape(shape))
