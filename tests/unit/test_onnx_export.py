"""Exported programs: the checker of ONNX takes them, and ONNX Runtime gives the simulator's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.exporters.onnx import graph as onnx_graph
from openinfer.compiler.exporters.onnx.calls import HANDLERS
from openinfer.compiler.exporters.onnx.export import export_onnx
from openinfer.compiler.exporters.onnx.graph import Exported
from openinfer.compiler.op_examples import example_of
from openinfer.dialects import opset
from openinfer.runtime.errors import UnsupportedError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"


def exported(text: str | oi.Graph, package: Any = None, **sizes: int) -> Exported:
    program = oi.graph(text) if isinstance(text, str) else text
    return export_onnx(program.module, package, sizes=sizes, file="program")


def example(name: str) -> tuple[oi.Graph, oi.Package]:
    return oi.graph_file(EXAMPLES / f"{name}.oi"), oi.open_model(EXAMPLES / f"{name}.oinf")


def feeds_of(model: Exported, seed: int, size: int = 3) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for value in model.inputs:
        shape = [dim.evaluate(dict.fromkeys(dim.names, size)) for dim in value.dims]
        if value.dtype in ("f32", "f64", "f16"):
            numbers = random.uniform(0.05, 0.95, shape)
            feeds[value.name] = numbers.astype(f"float{value.dtype[1:]}")
        elif value.dtype == "bool":
            feeds[value.name] = random.integers(0, 2, shape).astype(bool)
        else:
            kind = {"i": "int", "u": "uint"}[value.dtype[0]] + value.dtype[1:]
            feeds[value.name] = random.integers(0, 2, shape).astype(kind)
    return feeds


def agree(
    text: str | oi.Graph, model: Exported, package: Any = None, *, size: int = 3, rtol: float = 2e-5
) -> None:
    proto = model.proto()
    onnx.checker.check_model(proto, full_check=True)
    feeds = feeds_of(model, 7, size)
    program = oi.graph(text) if isinstance(text, str) else text
    executor = oi.Simulator(program, package).make_executor()
    executor.insert(**feeds)
    executor.step()
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for value, have in zip(model.outputs, session.run(None, feeds)):
        want = np.asarray(executor.fetch(value.name))
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=rtol, atol=2e-6, err_msg=value.name)


@pytest.mark.parametrize("name", opset.names())
def test_an_example_of_each_op(name: str) -> None:
    """It has a form and gives what the simulator gives, or the refusal names it."""
    example = example_of(name)
    assert example is not None
    try:
        model = exported(example.program)
    except UnsupportedError as error:
        refusal = error
    else:
        assert name in HANDLERS
        agree(example.program, model)
        return
    assert refusal.code == "OI1558"
    assert f"op {name}: " in str(refusal)


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual_mlp", "vit"])
def test_examples(name: str) -> None:
    program, package = example(name)
    model = exported(program, package)
    agree(program, model, package)
    agree(program, model, package, size=1)
    assert any("W" in tensor or "weight" in tensor for tensor in model.tensors)


def test_minilm() -> None:
    """With its real weights, where they are installed; names are those of the file."""
    weights = pytest.importorskip("examples.minilm.weights")
    try:
        path = weights.find_weights()
    except oi.PackageError as error:
        pytest.skip(str(error))
    program, package = oi.graph_file(EXAMPLES / "minilm" / "minilm.oi"), oi.open_model(path)
    model = exported(program, package)
    name = "encoder.layer.5.attention.self.query.weight"
    assert model.tensors[name].shape == (384, 384)
    agree(program, model, package, size=9)


@pytest.mark.parametrize("name", ["mlp", "cnn", "vit"])
def test_there_and_back(name: str) -> None:
    program, package = example(name)
    model = exported(program, package)
    again, weights = oi.from_onnx(model.proto())
    feeds = feeds_of(model, 3)
    with (
        oi.Simulator(program, package).make_executor() as first,
        oi.Simulator(again, weights).make_executor() as second,
    ):
        want, have = first.run(**feeds), second.run(**feeds)
    assert want.keys() == have.keys()
    for result, value in want.items():
        np.testing.assert_allclose(
            np.asarray(have[result]), np.asarray(value), rtol=1e-5, atol=1e-6
        )


ATTENTION = """
dynamic {{ q: f32[B, L, 16]; k: f32[B, T, {width}]; v: f32[B, T, {width}]; seen: bool[B, 1, 1, T]; }}
block entry {{
    a = op attention(q, k, v, seen, heads=4, kv_heads={groups}{settings});
    return a;
}}
"""


@pytest.mark.parametrize(
    ("groups", "settings"),
    [
        (4, ""),
        (4, ", causal=true"),
        (2, ", window=2, softcap=3.0"),
        (1, ", causal=true, scale=0.3"),
    ],
)
def test_attention(groups: int, settings: str) -> None:
    text = ATTENTION.format(width=4 * groups, groups=groups, settings=settings)
    agree(text, exported(text), size=5)


@pytest.mark.parametrize(
    "use",
    [
        "rope(x, p, base=100.0)",
        "rope(x, interleaved=true)",
        'rope(x, p, layout="blhd", dims=4)',
        "rope(x3, heads=2)",
        "rope(x3, c, c, heads=2)",
    ],
)
def test_rotary_positions(use: str) -> None:
    text = f"""
    dynamic {{ x: f32[B, L, L, 8]; x3: f32[B, L, 16]; p: i64[L]; c: f32[L, 3]; }}
    block entry {{ y = op {use}; return y; }}
    """
    agree(text, exported(text), size=4)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["lstm", "gru"])
def test_recurrent_layers(op: str, direction: str) -> None:
    lead = "2, " if direction == "bidirectional" else ""
    gates = 4 if op == "lstm" else 3
    c0, c = ("c0, ", ", c") if op == "lstm" else ("", "")
    batch_first = ", batch_first=true" if direction == "reverse" else ""
    biases = "" if direction == "forward" else ", b1, b2"
    text = f"""
    dynamic {{
        x: f32[T, B, 4]; h0: f32[{lead}{"T" if batch_first else "B"}, 5];
        c0: f32[{lead}{"T" if batch_first else "B"}, 5];
        w: f32[{lead}{5 * gates}, 4]; r: f32[{lead}{5 * gates}, 5];
        b1: f32[{lead}{5 * gates}]; b2: f32[{lead}{5 * gates}];
    }}
    block entry {{
        y, h{c} = op {op}(x, h0, {c0}w, r{biases}, direction="{direction}"{batch_first});
        return y, h{c};
    }}
    """
    agree(text, exported(text), size=3)


SIZES = """
dynamic { x: f32[B, L, 6]; }
block entry {
    flat = op reshape(x, shape=[B*L, 6]);
    half = op slice(x, axis=1, start=L/2, stop=L);
    places = op iota(shape=[max(L, 2), 3], axis=0, start=B);
    wide = op expand(x, shape=[2, B, L, 6]);
    tail = op slice(x, axes=[0, 2], starts=[0, -2], stops=[1, 6], steps=[1, 1]);
    return flat, half, places, wide, tail;
}
"""


def test_sizes_that_inputs_fix() -> None:
    model = exported(SIZES)
    for size in (2, 5):
        agree(SIZES, model, size=size)
    assert [str(dim) for dim in model.inputs[0].dims] == ["B", "L", "6"]
    fixed = exported(SIZES, B=4, L=4)
    assert [node.op_type for node in fixed.nodes].count("Shape") == 0
    agree(SIZES, fixed, size=4)


BLOCKS = """
dynamic { x: f32[B, 4]; }
volatile { last: f32[B, 4]; }
constant { two: f32 @init(2.0); }
block entry {
    h = op mul(x, two);
    loop twice (i in 0..3) {
        scope "inner" { h = op add(h, x); }
        branch more;
    }
    transfer h >> last;
    y = op relu(h);
    return y, h, x, last;
}
block more { op mul(h, 0.5) >> h; return; }
"""


def test_loops_blocks_and_results_of_one_value() -> None:
    text = BLOCKS.replace("h = op mul(x, two)", "assign h: f32[B, 4]; op mul(x, two) >> h")
    text = text.replace("h = op add(h, x)", "op add(h, x) >> h")
    model = exported(text)
    agree(text, model)
    assert [value.name for value in model.outputs] == ["y", "h", "x", "last"]
    assert any(node.name.startswith("twice.2/inner") for node in model.nodes)


def test_all_that_has_no_form_is_said_at_once() -> None:
    text = """
    dynamic { x: f32[2, 3]; k: i64; }
    persistent { n: i64; }
    block entry { y = op sort(x); return y; }
    """
    with pytest.raises(UnsupportedError) as caught:
        exported(text)
    assert caught.value.code == "OI1558"
    assert ":3:" in str(caught.value)
    assert "n is kept from step to step" in str(caught.value)
    text = """
    dynamic { x: f32[2, 3]; k: i64; }
    block entry {
        loop more (i in 0..3) { y = op sort(x); z = op argsort(x); }
        loop some (i in 0..k) { w = op relu(x); }
        return y;
    }
    """
    with pytest.raises(UnsupportedError) as caught:
        exported(text)
    message = str(caught.value)
    assert "3 times: " in message
    assert message.count("op sort") == message.count("op argsort") == 1
    assert "a loop to k" in message


def test_many_weights_lie_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_graph, "OUTSIDE", 1000)
    model = exported(*example("mlp"))
    files = model.write(tmp_path / "mlp.onnx")
    assert [file.name for file in files] == ["mlp.onnx", "mlp.onnx.data"]
    assert files[0].stat().st_size < 4000
    onnx.checker.check_model(str(files[0]))
    feeds = feeds_of(model, 1)
    outside, inside = (
        runtime.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, feeds)
        for source in (str(files[0]), model.proto().SerializeToString())
    )
    np.testing.assert_array_equal(outside[0], inside[0])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openinfer.compiler.tools.openinfer import main

    out = tmp_path / "mlp.onnx"
    assert main(["export", str(EXAMPLES / "mlp.oi"), "-o", str(out), "--json"]) == 0
    assert '"form": "onnx"' in capsys.readouterr().out
    found = onnx.load(out)
    assert {entry.name for entry in found.graph.initializer} >= {"W1", "b1", "W2", "b2", "W3", "b3"}
    assert [value.name for value in found.graph.output] == ["y"]
    decoder = ["export", str(EXAMPLES / "decoder.oi"), "-o", str(tmp_path / "decoder.onnx")]
    assert main(decoder) != 0
    assert "OI1558" in capsys.readouterr().err
    assert not (tmp_path / "decoder.onnx").exists()
    assert main(["export", str(EXAMPLES / "mlp.oi"), "--to", "onnx"]) != 0
